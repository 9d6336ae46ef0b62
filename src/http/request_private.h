/* A request as its client's thread sees it. */
#ifndef MP_HTTP_REQUEST_PRIVATE_H
#define MP_HTTP_REQUEST_PRIVATE_H

#include "http/client_state.h"
#include "http/request.h"
#include "http/times.h"

struct mp_http_request {
  mp_http_client *client;    /* counted */
  mp_http_request *next;     /* in the client's `queued` or `running` */
  mp_http_request *previous; /* in `running` only */
  CURL *easy;                /* the thread's until `is_done`, then the owner's */
  struct curl_slist *headers_sent;
  char *body; /* to be sent; NULL: none, or an empty one */
  size_t max_unread;
  mp_buffer taken;       /* the owner's: what it is reading */
  size_t header_bytes;   /* the thread's: received so far */
  mp_http_times times;   /* the thread's */
  mp_http_failure cause; /* the thread's: why a callback has ended the transfer */

  /* Guarded by the client's lock. */
  mp_buffer unread;  /* the body that has arrived and has not been moved to `taken` */
  bool is_paused;    /* the transfer waits until the owner has read */
  bool may_resume;   /* the owner has read: the thread is to go on */
  bool is_abandoned; /* the owner has freed it: the thread destroys it */
  bool is_done;      /* the transfer has ended: the thread does not use it any more */
  long status;
  mp_buffer headers;
  curl_off_t retry_after;
  mp_http_failure failure;
  char message[CURL_ERROR_SIZE];
};

/* Makes the request and its easy handle. NULL: out of memory. */
mp_http_request *mp_http_request_new(mp_http_client *client, const mp_http_options *options);
/* Nobody else may know the request any more. */
void mp_http_request_destroy(mp_http_request *request);
/* Notes how the transfer ended. The easy handle has left the multi handle. With the lock held. */
void mp_http_request_end(mp_http_request *request, mp_http_failure failure, const char *message);
/* What kind of failure a result of libcurl is. */
mp_http_failure mp_http_failure_of_result(CURLcode result);

#endif
