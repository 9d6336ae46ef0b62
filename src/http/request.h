/* What a client and its requests know of each other. */
#ifndef MP_HTTP_REQUEST_H
#define MP_HTTP_REQUEST_H

#include "http/client.h"

struct mp_http_client {
  CURLM *multi;
  mp_env *env;
  mp_http_request *first; /* of those whose transfer is under way */
  size_t active;
  uint64_t activity;
};

struct mp_http_request {
  mp_http_client *client; /* NULL once the transfer is over */
  mp_http_request *previous;
  mp_http_request *next;
  mp_env *env;
  CURL *easy;
  struct curl_slist *headers;
  mp_buffer unread;
  size_t max_unread;
  size_t header_bytes;
  bool has_headers;
  bool is_paused;
  bool is_done;
  mp_http_failure failure;
  char message[CURL_ERROR_SIZE];
};

/* Makes the request with its easy handle, without a client. NULL when out of memory. */
mp_http_request *mp_http_request_new(mp_env *env, const mp_http_options *options);
/* Notes how the transfer ended. */
void mp_http_request_end(mp_http_request *request, CURLcode result);
/* Takes the request out of its client: no transfer is under way any more. */
void mp_http_detach(mp_http_request *request);

#endif
