/*
** One request, as its owner sees it: what is asked for, and what has come of the answer. It is
** started and freed with client.h. A request belongs to one thread, its owner's.
*/
#ifndef MP_HTTP_REQUEST_H
#define MP_HTTP_REQUEST_H

#include "base/buffer.h"

typedef struct mp_http_request mp_http_request;

/* Why a request failed, as far as a program may want to tell failures apart. */
typedef enum mp_http_failure {
  MP_HTTP_NO_FAILURE,
  MP_HTTP_ADDRESS,  /* not a URL of http or https */
  MP_HTTP_RESOLVE,  /* the name of the host, or of the proxy, has no address */
  MP_HTTP_CONNECT,  /* no connection could be made, or it could not be secured */
  MP_HTTP_TLS,      /* the certificate of the other side was refused */
  MP_HTTP_TIMEOUT,  /* one of the three times of mp_http_options has passed */
  MP_HTTP_TRANSFER, /* the connection broke, or what came over it is not HTTP */
  MP_HTTP_LIMIT,    /* more header bytes than a client should accept */
  MP_HTTP_NO_MEMORY,
  MP_HTTP_CLOSED,      /* the client was closed, or cannot be used any more */
  MP_HTTP_REDIRECT,    /* of a page alone: it is not told where to */
  MP_HTTP_UNSUPPORTED, /* of a page alone: a request that it cannot send */
} mp_http_failure;

/* Everything is copied. Times are in milliseconds, 0 for none. */
typedef struct mp_http_options {
  const char *url;
  const char *method;
  const char *const *headers; /* "Name: value", ends with NULL */
  const moonpad_string *body; /* its pieces, which are sent as one; NULL: none */
  size_t body_count;
  const char *ca_file; /* NULL: the system's */
  long timeout;        /* of the whole request */
  long connect_timeout;
  long idle_timeout; /* without a byte sent or received, while the owner reads */
  size_t max_unread; /* bytes; the transfer pauses while more than this waits to be read */
  /* Over a connection of its own: where one that was used before closes, libcurl sends again. */
  bool is_sent_once;
} mp_http_options;

/* 0 until all headers of the final answer have arrived. */
long mp_http_status(mp_http_request *request);
/*
** How many seconds the final answer asks to wait, in Retry-After: 0 where it asks for nothing, less
** where it names a time that has passed. Once there is a status.
*/
int64_t mp_http_retry_after(const mp_http_request *request);
/* The headers of the final answer, once there is a status: name, NUL, value, NUL, name, ... */
moonpad_string mp_http_headers(mp_http_request *request);

/* What has arrived and has not been consumed yet. Valid until it is consumed. */
moonpad_string mp_http_unread(mp_http_request *request);
void mp_http_consume(mp_http_request *request);

/* Has the transfer ended? What is unread can still be read. */
bool mp_http_is_done(mp_http_request *request);
/*
** Of a transfer that has ended. The message holds no credentials; valid as long as the request.
*/
mp_http_failure mp_http_failure_of(mp_http_request *request, const char **message);
/*
** Where the answer of a transfer that has ended redirects to: an absolute URL, or NULL. Valid as
** long as the request.
*/
const char *mp_http_redirect(mp_http_request *request);

#endif
