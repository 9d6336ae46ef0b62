/* One request: what libcurl is told, what its callbacks store, and what the owner reads. */
#include "http/request_private.h"

#include <stdio.h>
#include <stdlib.h>

/* More than any server has reason to send. libcurl limits single lines only. */
#define MAX_HEADER_BYTES ((size_t)256 * 1024)
/* A larger buffer is freed once its contents have been read. */
#define KEPT_CAPACITY ((size_t)64 * 1024)

/* ---- Callbacks of libcurl, on the client's thread ---- */

static size_t take_body(char *data, size_t size, size_t count, void *context) {
  mp_http_request *request = context;
  size_t length = size * count;
  mp_mutex_lock(&request->client->lock);
  bool is_full = request->unread.length != 0 && request->unread.length + length > request->max_unread;
  if (is_full) {
    request->is_paused = true;
  } else {
    mp_buffer_add(&request->unread, data, length);
    mp_http_note(request->client);
  }
  bool has_failed = request->unread.failed;
  mp_mutex_unlock(&request->client->lock);
  if (is_full) {
    request->times.waits_for_us = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  if (!has_failed) return length;
  request->cause = MP_HTTP_NO_MEMORY;
  return CURL_WRITEFUNC_ERROR;
}

/* The owner must not use the easy handle while the transfer is under way: it gets a copy. */
static bool copy_headers(mp_http_request *request) {
  struct curl_header *header = NULL;
  while ((header = curl_easy_nextheader(request->easy, CURLH_HEADER, -1, header)) != NULL) {
    mp_buffer_add(&request->headers, header->name, strlen(header->name) + 1);
    mp_buffer_add(&request->headers, header->value, strlen(header->value) + 1);
  }
  return !request->headers.failed;
}

static bool end_headers(mp_http_request *request, long status) {
  mp_mutex_lock(&request->client->lock);
  /* Trailers may follow the body. */
  bool is_new = request->status == 0;
  bool is_copied = !is_new || copy_headers(request);
  if (is_new) curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &request->retry_after);
  if (is_copied) request->status = status;
  mp_http_note(request->client);
  mp_mutex_unlock(&request->client->lock);
  return is_copied;
}

static size_t take_header(char *data, size_t size, size_t count, void *context) {
  mp_http_request *request = context;
  size_t length = size * count;
  request->header_bytes += length;
  if (request->header_bytes > MAX_HEADER_BYTES) {
    request->cause = MP_HTTP_LIMIT;
    return CURL_WRITEFUNC_ERROR;
  }
  bool is_end = length == 0 || data[0] == '\r' || data[0] == '\n';
  long status = 0;
  curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
  /* A status below 200 announces another answer. */
  if (!is_end || status < 200 || end_headers(request, status)) return length;
  request->cause = MP_HTTP_NO_MEMORY;
  return CURL_WRITEFUNC_ERROR;
}

/* The connection is there, and the request is about to be sent. */
static int take_connection(void *context, char *ip, char *local_ip, int port, int local_port) {
  mp_http_request *request = context;
  (void)ip, (void)local_ip, (void)port, (void)local_port;
  mp_http_times_go_on(&request->times);
  return CURL_PREREQFUNC_OK;
}

/* ---- Making it ---- */

static size_t body_length(const mp_http_options *options) {
  size_t length = 0;
  for (size_t i = 0; i < options->body_count; i++) length += options->body[i].length;
  return length;
}

/* False: out of memory. */
static bool copy_body(mp_http_request *request, const mp_http_options *options, size_t length) {
  if (length == 0) return true;
  request->body = mp_allocate(request->client->env, length);
  if (request->body == NULL) return false;
  char *end = request->body;
  for (size_t i = 0; i < options->body_count; i++) {
    moonpad_string piece = options->body[i];
    if (piece.length != 0) memcpy(end, piece.data, piece.length);
    end += piece.length;
  }
  return true;
}

static CURLcode set_body(mp_http_request *request, const mp_http_options *options) {
  size_t length = body_length(options);
  if (!copy_body(request, options, length)) return CURLE_OUT_OF_MEMORY;
  CURLcode code = curl_easy_setopt(request->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
  if (code != CURLE_OK) return code;
  return curl_easy_setopt(request->easy, CURLOPT_POSTFIELDS, length == 0 ? "" : request->body);
}

static CURLcode set_method(mp_http_request *request, const mp_http_options *options) {
  CURL *easy = request->easy;
  CURLcode code = options->body != NULL ? set_body(request, options) : CURLE_OK;
  if (strcmp(options->method, "HEAD") == 0) return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, options->method);
  return code;
}

/* libcurl, too, is told the time for connecting: it shares it out among the addresses of a host. */
static void set_times(mp_http_request *request, const mp_http_options *options) {
  CURL *easy = request->easy;
  request->times.timeout = (double)options->timeout * 1e-3;
  request->times.connect_timeout = (double)options->connect_timeout * 1e-3;
  request->times.idle_timeout = (double)options->idle_timeout * 1e-3;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, options->connect_timeout);
#if LIBCURL_VERSION_NUM >= 0x075700
  /* Freeing a request must not wait for a name server. */
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

static CURLcode set_authorities(CURL *easy, const char *ca_file) {
  if (ca_file != NULL) return curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
  const curl_version_info_data *library = curl_version_info(CURLVERSION_NOW);
  /* With a folder set as well, libcurl would load the file again for each connection. */
  bool has_file = library != NULL && library->age >= CURLVERSION_SEVENTH && library->cainfo != NULL;
  return has_file ? curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) : CURLE_OK;
}

/*
** Redirects are left to the caller: libcurl would send every header but Authorization and Cookie to
** whatever host it is redirected to.
*/
static CURLcode set_safety(CURL *easy, const mp_http_options *options) {
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  return code == CURLE_OK ? set_authorities(easy, options->ca_file) : code;
}

/*
** Whether a server speaks HTTP/2 is known once a connection to it is secured: requests that begin
** together wait for that, and share the connection where it does. Without TLS it would be known
** with the first answer only, and there is no HTTP/2.
*/
static CURLcode set_sharing(CURL *easy, const char *url) {
  if (!curl_strnequal(url, "https:", 6)) return CURLE_OK;
  return curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
}

static CURLcode set_connection(CURL *easy, const mp_http_options *options) {
  return options->is_sent_once ? curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L) : set_sharing(easy, options->url);
}

static void set_callbacks(mp_http_request *request) {
  CURL *easy = request->easy;
  curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->message);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, take_connection);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, request);
}

static bool set_headers(mp_http_request *request, const char *const *headers) {
  for (; *headers != NULL; headers++) {
    struct curl_slist *grown = curl_slist_append(request->headers_sent, *headers);
    if (grown == NULL) return false;
    request->headers_sent = grown;
  }
  return curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers_sent) == CURLE_OK;
}

static bool configure(mp_http_request *request, const mp_http_options *options) {
  CURL *easy = request->easy;
  set_callbacks(request);
  set_times(request, options);
  return curl_easy_setopt(easy, CURLOPT_URL, options->url) == CURLE_OK && set_method(request, options) == CURLE_OK &&
         set_safety(easy, options) == CURLE_OK && set_connection(easy, options) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_USERAGENT, "moonpad/" MOONPAD_VERSION) == CURLE_OK &&
         set_headers(request, options->headers);
}

mp_http_request *mp_http_request_new(mp_http_client *client, const mp_http_options *options) {
  mp_http_request *request = mp_allocate_zeroed(client->env, sizeof *request);
  if (request == NULL) return NULL;
  atomic_fetch_add(&client->references, 1);
  request->client = client;
  request->max_unread = options->max_unread;
  mp_buffer_init(&request->unread, client->env);
  mp_buffer_init(&request->taken, client->env);
  mp_buffer_init(&request->headers, client->env);
  request->easy = curl_easy_init();
  if (request->easy != NULL && configure(request, options)) return request;
  mp_http_request_destroy(request);
  return NULL;
}

void mp_http_request_destroy(mp_http_request *request) {
  mp_http_client *client = request->client;
  if (request->easy != NULL) curl_easy_cleanup(request->easy);
  curl_slist_free_all(request->headers_sent);
  mp_release(client->env, request->body);
  mp_buffer_free(&request->unread);
  mp_buffer_free(&request->taken);
  mp_buffer_free(&request->headers);
  mp_release(client->env, request);
  mp_http_client_release(client);
}

/* ---- Its end ---- */

mp_http_failure mp_http_failure_of_result(CURLcode result) {
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
#if LIBCURL_VERSION_NUM >= 0x080600
  case CURLE_TOO_LARGE:
    return MP_HTTP_LIMIT;
#endif
  default:
    return MP_HTTP_TRANSFER;
  }
}

static bool ends_user_info(char byte) {
  return strchr(" \t\"'/(", byte) != NULL;
}

/*
** libcurl quotes a proxy URL that it cannot parse, password and all. So everything in front of an @
** is hidden.
*/
static void hide_user_info(char *message) {
  for (char *at = strchr(message, '@'); at != NULL; at = strchr(at + 1, '@')) {
    char *start = at;
    while (start > message && !ends_user_info(start[-1])) start--;
    memset(start, '*', (size_t)(at - start));
  }
}

/*
** libcurl before 8.6 reports a line of headers or trailers that is too long as "out of memory". It
** was such a line if the request had been sent and there is memory enough for one.
*/
static bool is_line_too_large(const mp_http_request *request, mp_http_failure failure) {
  if (failure == MP_HTTP_LIMIT) return true;
  bool is_of_chunks = failure == MP_HTTP_TRANSFER && strstr(request->message, "Out of memory") != NULL;
  if (failure != MP_HTTP_NO_MEMORY && !is_of_chunks) return false;
  long sent = 0;
  curl_easy_getinfo(request->easy, CURLINFO_REQUEST_SIZE, &sent);
  void *probe = sent > 0 ? malloc(MAX_HEADER_BYTES) : NULL;
  free(probe);
  return probe != NULL;
}

void mp_http_request_end(mp_http_request *request, mp_http_failure failure, const char *message) {
  if (request->cause != MP_HTTP_NO_FAILURE) {
    failure = request->cause;
    if (failure == MP_HTTP_LIMIT) message = "the server sent more than 256 KiB of headers";
  } else if (is_line_too_large(request, failure)) {
    failure = MP_HTTP_LIMIT;
    message = "the server sent a header line that is too large";
  }
  if (failure == MP_HTTP_NO_MEMORY) message = "out of memory";
  /* `message` is then what libcurl knows beyond the name of the error. */
  bool is_told = request->message[0] != '\0' && failure != MP_HTTP_LIMIT && failure != MP_HTTP_NO_MEMORY &&
                 failure != MP_HTTP_CLOSED;
  if (!is_told) snprintf(request->message, sizeof request->message, "%s", message);
  hide_user_info(request->message);
  request->failure = failure;
  request->is_done = true;
  mp_http_note(request->client);
}

/* ---- What the owner asks ---- */

long mp_http_status(mp_http_request *request) {
  mp_mutex_lock(&request->client->lock);
  long status = request->status;
  mp_mutex_unlock(&request->client->lock);
  return status;
}

int64_t mp_http_retry_after(const mp_http_request *request) {
  return request->retry_after;
}

moonpad_string mp_http_headers(mp_http_request *request) {
  return mp_buffer_text(&request->headers);
}

bool mp_http_is_done(mp_http_request *request) {
  mp_mutex_lock(&request->client->lock);
  bool is_done = request->is_done;
  mp_mutex_unlock(&request->client->lock);
  return is_done;
}

mp_http_failure mp_http_failure_of(mp_http_request *request, const char **message) {
  if (!mp_http_is_done(request)) return MP_HTTP_NO_FAILURE;
  *message = request->message;
  return request->failure;
}

const char *mp_http_redirect(mp_http_request *request) {
  char *url = NULL;
  if (mp_http_is_done(request)) curl_easy_getinfo(request->easy, CURLINFO_REDIRECT_URL, &url);
  return url;
}

/* Moves the bytes, so that the owner reads without the lock. */
static void take_unread(mp_http_request *request) {
  mp_http_client *client = request->client;
  mp_mutex_lock(&client->lock);
  mp_buffer empty = request->taken;
  request->taken = request->unread;
  request->unread = empty;
  bool must_resume = request->is_paused && !request->is_done;
  request->is_paused = false;
  if (must_resume) {
    request->may_resume = true;
    curl_multi_wakeup(client->multi);
  }
  mp_mutex_unlock(&client->lock);
}

moonpad_string mp_http_unread(mp_http_request *request) {
  if (request->taken.length == 0) take_unread(request);
  return mp_buffer_text(&request->taken);
}

void mp_http_consume(mp_http_request *request) {
  if (request->taken.capacity > KEPT_CAPACITY) {
    mp_buffer_free(&request->taken);
  } else {
    mp_buffer_clear(&request->taken);
  }
}
