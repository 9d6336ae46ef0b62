/*
** An HTTP client that never makes its owner wait, on libcurl's multi interface. Knows no Lua.
**
** One thread per client does all the work, because even libcurl's non-blocking calls take their
** time: loading the certificates of a system before the first secured connection takes 50 ms, which
** is three frames of a game. The thread appends to buffers; the owner reads them when it likes.
**
** A client and its requests belong to one thread, their owner's. Closing either first is safe.
*/
#ifndef MP_HTTP_CLIENT_H
#define MP_HTTP_CLIENT_H

#include "base/buffer.h"

typedef struct mp_http_client mp_http_client;
typedef struct mp_http_request mp_http_request;

/* Why a request failed, as far as somebody may want to act on it. */
typedef enum mp_http_failure {
  MP_HTTP_NO_FAILURE,
  MP_HTTP_ADDRESS,  /* not a URL of http or https */
  MP_HTTP_RESOLVE,  /* the name of the host or of the proxy has no address */
  MP_HTTP_CONNECT,  /* no connection, or none that is secured */
  MP_HTTP_TLS,      /* the certificate of the other side was refused */
  MP_HTTP_TIMEOUT,  /* of the whole, of the connection, or for want of any byte */
  MP_HTTP_TRANSFER, /* the connection broke, or what came over it is not HTTP */
  MP_HTTP_LIMIT,    /* more header bytes than a client should take */
  MP_HTTP_NO_MEMORY,
  MP_HTTP_CLOSED /* its client was closed, or cannot be used any more */
} mp_http_failure;

/* All of it is copied. Times in milliseconds, 0 for none. */
typedef struct mp_http_options {
  const char *url;
  const char *method;
  const char *const *headers; /* "Name: value", ends with NULL */
  const char *body;           /* NULL: none */
  size_t body_length;
  const char *ca_file; /* NULL: the system's */
  long timeout;
  long connect_timeout;
  long idle_timeout; /* without any byte coming */
  size_t max_unread; /* the transfer pauses when more than this waits to be read */
} mp_http_options;

/*
** Makes libcurl ready, once in a process: it takes milliseconds, which a first request need not
** spend. False: libcurl cannot be used.
*/
bool mp_http_prepare(void);

/* NULL when there is no memory or no thread to be had, or when libcurl cannot be used. */
mp_http_client *mp_http_client_new(void);
/*
** Ends what is under way (such requests fail with MP_HTTP_CLOSED) and waits for the thread, which
** does not take long.
*/
void mp_http_client_free(mp_http_client *client);

/*
** Counts whatever happens to the requests: a number that has not changed says that nothing is new.
*/
uint64_t mp_http_activity(mp_http_client *client);
/* Sleeps until that number is another one than `seen`, at most that long. */
void mp_http_wait(mp_http_client *client, uint64_t seen, double seconds);

/* NULL with a reason when it cannot begin. */
mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message);
/* A transfer under way is broken off. */
void mp_http_request_free(mp_http_request *request);

/* 0 until all headers of the final answer are there. */
long mp_http_status(mp_http_request *request);
/* The headers of the final answer, once there is a status: name, NUL, value, NUL, and so on. */
moonpad_string mp_http_headers(const mp_http_request *request);

/* What has come in and not been consumed yet. Valid until it is consumed. */
moonpad_string mp_http_unread(mp_http_request *request);
void mp_http_consume(mp_http_request *request);

/* Is the transfer over? What is unread can still be read. */
bool mp_http_is_done(mp_http_request *request);
/*
** Of a transfer that is over. The message tells no credentials, and is valid as long as
** the request.
*/
mp_http_failure mp_http_failure_of(mp_http_request *request, const char **message);
/*
** Where the answer of a transfer that is over redirects to, absolute, or NULL. Valid as long as
** the request.
*/
const char *mp_http_redirect(mp_http_request *request);

#endif
