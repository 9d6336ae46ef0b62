/* One request: what libcurl is told, and what its callbacks keep. */
#include "http/request.h"

#include <stdio.h>

/* As much as any server has reason to send; libcurl limits single lines only. */
#define MAX_HEADER_BYTES ((size_t)256 * 1024)
/* Memory above this is given back when what it held has been read. */
#define KEPT_CAPACITY ((size_t)64 * 1024)

/* ---- What libcurl calls ---- */

static void note_activity(mp_http_request *request) {
  if (request->client != NULL) request->client->activity++;
}

static size_t take_body(char *data, size_t size, size_t count, void *context) {
  mp_http_request *request = context;
  size_t length = size * count;
  if (request->unread.length != 0 && request->unread.length + length > request->max_unread) {
    request->is_paused = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  mp_buffer_add(&request->unread, data, length);
  if (request->unread.failed) {
    request->failure = MP_HTTP_NO_MEMORY;
    return length == 0 ? 1 : 0;
  }
  note_activity(request);
  return length;
}

static size_t take_header(char *data, size_t size, size_t count, void *context) {
  mp_http_request *request = context;
  size_t length = size * count;
  request->header_bytes += length;
  if (request->header_bytes > MAX_HEADER_BYTES) {
    request->failure = MP_HTTP_LIMIT;
    return 0;
  }
  bool is_end = length == 0 || data[0] == '\r' || data[0] == '\n';
  long status = 0;
  curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
  /* Answers below 200 announce another one. */
  if (is_end && status >= 200) {
    request->has_headers = true;
    note_activity(request);
  }
  return length;
}

/* ---- Making it ---- */

static CURLcode set_method(CURL *easy, const mp_http_options *options) {
  CURLcode code = CURLE_OK;
  if (options->body != NULL) {
    code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)options->body_length);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, options->body);
  }
  if (strcmp(options->method, "HEAD") == 0) return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, options->method);
  return code;
}

/* libcurl speaks of speed: less than a byte a second, for so many seconds. */
static long idle_seconds(long milliseconds) {
  return milliseconds <= 0 ? 0 : (milliseconds + 999) / 1000;
}

static void set_times(CURL *easy, const mp_http_options *options) {
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, options->timeout);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, options->connect_timeout);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, idle_seconds(options->idle_timeout));
#if LIBCURL_VERSION_NUM >= 0x075700
  /* Breaking off a request must not wait for a name server. */
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

/* Redirections are the caller's: libcurl would hand every header but Authorization and Cookie on to any host. */
static CURLcode set_safety(CURL *easy, const mp_http_options *options) {
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  if (code == CURLE_OK && options->ca_file != NULL) code = curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
  return code;
}

static void set_callbacks(mp_http_request *request) {
  CURL *easy = request->easy;
  curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->message);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
}

static bool configure(mp_http_request *request, const mp_http_options *options) {
  CURL *easy = request->easy;
  set_callbacks(request);
  set_times(easy, options);
  return curl_easy_setopt(easy, CURLOPT_URL, options->url) == CURLE_OK && set_method(easy, options) == CURLE_OK &&
         set_safety(easy, options) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_USERAGENT, "moonpad/" MOONPAD_VERSION) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers) == CURLE_OK;
}

mp_http_request *mp_http_request_new(mp_env *env, const mp_http_options *options) {
  mp_http_request *request = mp_allocate_zeroed(env, sizeof *request);
  if (request == NULL) {
    curl_slist_free_all(options->headers);
    return NULL;
  }
  request->env = mp_env_retain(env);
  request->headers = options->headers;
  request->max_unread = options->max_unread;
  mp_buffer_init(&request->unread, env);
  request->easy = curl_easy_init();
  if (request->easy != NULL && configure(request, options)) return request;
  mp_http_request_free(request);
  return NULL;
}

void mp_http_request_free(mp_http_request *request) {
  if (request == NULL) return;
  mp_http_detach(request);
  if (request->easy != NULL) curl_easy_cleanup(request->easy);
  curl_slist_free_all(request->headers);
  mp_buffer_free(&request->unread);
  mp_env *env = request->env;
  mp_release(env, request);
  mp_env_release(env);
}

/* ---- Its end ---- */

static mp_http_failure failure_of(CURLcode result) {
  switch (result) {
  case CURLE_OK:
    return MP_HTTP_NO_FAILURE;
  case CURLE_URL_MALFORMAT:
  case CURLE_UNSUPPORTED_PROTOCOL:
    return MP_HTTP_ADDRESS;
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_RESOLVE_PROXY:
    return MP_HTTP_RESOLVE;
  case CURLE_COULDNT_CONNECT:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_PROXY:
    return MP_HTTP_CONNECT;
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_INVALIDCERTSTATUS:
    return MP_HTTP_TLS;
  case CURLE_OPERATION_TIMEDOUT:
    return MP_HTTP_TIMEOUT;
  case CURLE_OUT_OF_MEMORY:
    return MP_HTTP_NO_MEMORY;
  default:
    return MP_HTTP_TRANSFER;
  }
}

static bool ends_user_info(char byte) {
  return strchr(" \t\"'/(", byte) != NULL;
}

/* libcurl quotes a proxy that it does not understand, password and all: nothing in front of an @ is told. */
static void hide_user_info(char *message) {
  for (char *at = strchr(message, '@'); at != NULL; at = strchr(at + 1, '@')) {
    char *start = at;
    while (start > message && !ends_user_info(start[-1])) start--;
    memset(start, '*', (size_t)(at - start));
  }
}

static void explain(mp_http_request *request, CURLcode result) {
  const char *told = NULL;
  if (request->failure == MP_HTTP_LIMIT) told = "the server sent more than 256 KiB of headers";
  if (request->failure == MP_HTTP_NO_MEMORY) told = "out of memory";
  if (told == NULL && request->message[0] == '\0') told = curl_easy_strerror(result);
  if (told != NULL) snprintf(request->message, sizeof request->message, "%s", told);
  hide_user_info(request->message);
}

void mp_http_request_end(mp_http_request *request, CURLcode result) {
  request->is_done = true;
  note_activity(request);
  if (result == CURLE_OK) return;
  if (request->failure == MP_HTTP_NO_FAILURE) request->failure = failure_of(result);
  explain(request, result);
}

/* ---- Reading ---- */

long mp_http_status(const mp_http_request *request) {
  long status = 0;
  if (request->has_headers) curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

struct curl_header *mp_http_next_header(mp_http_request *request, struct curl_header *previous) {
  return request->has_headers ? curl_easy_nextheader(request->easy, CURLH_HEADER, -1, previous) : NULL;
}

const char *mp_http_redirect(mp_http_request *request) {
  char *url = NULL;
  if (request->has_headers) curl_easy_getinfo(request->easy, CURLINFO_REDIRECT_URL, &url);
  return url;
}

moonpad_string mp_http_unread(const mp_http_request *request) {
  return mp_buffer_text(&request->unread);
}

void mp_http_consume(mp_http_request *request) {
  if (request->unread.capacity > KEPT_CAPACITY) {
    mp_buffer_free(&request->unread);
  } else {
    mp_buffer_clear(&request->unread);
  }
  if (!request->is_paused || request->client == NULL) return;
  request->is_paused = false;
  /* It may call back at once with what it had kept. A failure shows up as the transfer's end. */
  (void)curl_easy_pause(request->easy, CURLPAUSE_CONT);
}

bool mp_http_is_done(const mp_http_request *request) {
  return request->is_done;
}

mp_http_failure mp_http_failure_of(const mp_http_request *request, const char **message) {
  if (!request->is_done) return MP_HTTP_NO_FAILURE;
  *message = request->message;
  return request->failure;
}
