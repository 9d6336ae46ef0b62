/* How long a transfer may take: see times.h. */
#include "http/times.h"

#include <math.h>
#include <stdio.h>

#include "base/platform.h"

void mp_http_times_begin(mp_http_times *times) {
  times->begin = mp_monotonic();
}

void mp_http_times_go_on(mp_http_times *times) {
  times->last_byte = mp_monotonic();
  times->waits_for_us = false;
}

static curl_off_t bytes_of(CURL *easy) {
  curl_off_t sent = 0, received = 0;
  long head_sent = 0, head_received = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &sent);
  curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
  curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &head_sent);
  curl_easy_getinfo(easy, CURLINFO_HEADER_SIZE, &head_received);
  return sent + received + head_sent + head_received;
}

void mp_http_times_note(mp_http_times *times, CURL *easy) {
  curl_off_t bytes = bytes_of(easy);
  if (bytes == times->bytes) return;
  times->bytes = bytes;
  if (times->last_byte > 0) times->last_byte = mp_monotonic();
}

/* ---- Deadlines ---- */

static double after(double start, double seconds) {
  return seconds > 0 ? start + seconds : HUGE_VAL;
}

static double whole_deadline(const mp_http_times *times) {
  return after(times->begin, times->timeout);
}

/* That of what comes next: the connection, or a byte. */
static double next_deadline(const mp_http_times *times) {
  if (times->last_byte <= 0) return after(times->begin, times->connect_timeout);
  return times->waits_for_us ? HUGE_VAL : after(times->last_byte, times->idle_timeout);
}

double mp_http_times_deadline(const mp_http_times *times) {
  return fmin(whole_deadline(times), next_deadline(times));
}

void mp_http_times_explain(const mp_http_times *times, char *text, size_t size) {
  if (whole_deadline(times) <= next_deadline(times)) {
    snprintf(text, size, "timed out: not complete after %.0f ms", times->timeout * 1e3);
  } else if (times->last_byte <= 0) {
    snprintf(text, size, "timed out: no connection after %.0f ms", times->connect_timeout * 1e3);
  } else {
    snprintf(text, size, "timed out: nothing was sent or received for %.0f ms", times->idle_timeout * 1e3);
  }
}
