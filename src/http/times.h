/*
** How long a transfer may take. libcurl would watch over this too, but it takes a mean of the speed
** for "nothing comes", which notices seconds later, and does not watch transfers that wait for the
** connection of another one.
**
** All of this is for the client's thread only.
*/
#ifndef MP_HTTP_TIMES_H
#define MP_HTTP_TIMES_H

#include <curl/curl.h>
#include <stdbool.h>

/* Seconds; points in time are those of mp_monotonic. */
typedef struct mp_http_times {
  double timeout; /* of the whole transfer; this and the next two: 0 for none */
  double connect_timeout;
  double idle_timeout;
  double begin;
  double last_byte;  /* sent or received; 0: there is no connection yet */
  curl_off_t bytes;  /* sent and received so far */
  bool waits_for_us; /* nothing is to come: the transfer is paused */
} mp_http_times;

/* To be called when the transfer begins; when it is connected, and after each pause. */
void mp_http_times_begin(mp_http_times *times);
void mp_http_times_go_on(mp_http_times *times);
/* Notices what has been sent and received by now. */
void mp_http_times_note(mp_http_times *times, CURL *easy);

/* When the transfer has to be ended, as things are; HUGE_VAL: never. */
double mp_http_times_deadline(const mp_http_times *times);
/* Why, in a text of `size` bytes. */
void mp_http_times_explain(const mp_http_times *times, char *text, size_t size);

#endif
