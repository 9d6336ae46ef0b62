/* What a client, its thread and its requests know of each other. */
#ifndef MP_HTTP_REQUEST_H
#define MP_HTTP_REQUEST_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "http/client.h"

#if LIBCURL_VERSION_NUM < 0x075500
#error "moonpad's HTTP client needs libcurl 7.85 or later"
#endif

struct mp_http_client {
  atomic_uint references; /* the owner's, and one for each request */
  mp_env *env;
  CURLM *multi;
  pid_t process;
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows, and the fields of requests that say so */
  pthread_cond_t changed;
  uint64_t activity;
  bool is_closing;
  mp_http_request *queued; /* for the thread to begin with */

  mp_http_request *running; /* the thread's own list */
};

struct mp_http_request {
  mp_http_client *client;
  mp_http_request *previous; /* in `queued` (one way only) or `running` */
  mp_http_request *next;
  CURL *easy; /* the thread's, until `is_done` */
  struct curl_slist *headers_sent;
  size_t max_unread;
  mp_buffer taken; /* what the owner is reading; the owner's */
  size_t header_bytes;
  mp_http_failure cause; /* what a callback has found wrong; the thread's */

  /* Guarded by the client's lock. */
  mp_buffer unread;
  bool is_paused;
  bool may_resume;
  bool is_abandoned; /* its owner has let go: the thread frees it */
  bool is_done;      /* the thread has let go: what follows does not change any more */
  long status;
  mp_buffer headers;
  mp_http_failure failure;
  char message[CURL_ERROR_SIZE];
};

/* Makes the request with its easy handle. NULL when out of memory. */
mp_http_request *mp_http_request_new(mp_http_client *client, const mp_http_options *options);
/* Nobody else knows it any more. */
void mp_http_request_destroy(mp_http_request *request);
/* Notes how the transfer ended. The handle is out of the multi handle. With the lock held. */
void mp_http_request_end(mp_http_request *request, mp_http_failure failure, const char *message);
/* The same for libcurl's results. */
mp_http_failure mp_http_judge(CURLcode result);

void mp_http_client_release(mp_http_client *client);
/* Tells the owner that something has happened. With the lock held. */
void mp_http_note(mp_http_client *client);

#endif
