/*
** An HTTP client that never blocks, on libcurl's multi interface. Knows no Lua: libcurl's callbacks append to buffers, which the owner reads when it likes.
**
** A client and its requests belong to one thread. Closing either first is safe.
*/
#ifndef MP_HTTP_CLIENT_H
#define MP_HTTP_CLIENT_H

#include <curl/curl.h>

#include "base/buffer.h"

#if LIBCURL_VERSION_NUM < 0x075500
#error "moonpad's HTTP client needs libcurl 7.85 or later"
#endif

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
  MP_HTTP_CLOSED /* its client was closed */
} mp_http_failure;

/* All of it is copied, but `headers` ("Name: value"), which goes over to the request even when starting it fails. Times in milliseconds, 0 for none. */
typedef struct mp_http_options {
  const char *url;
  const char *method;
  struct curl_slist *headers;
  const char *body; /* NULL: none */
  size_t body_length;
  const char *ca_file; /* NULL: the system's */
  long timeout;
  long connect_timeout;
  long idle_timeout; /* without any byte coming */
  size_t max_unread; /* the transfer pauses when more than this waits to be read */
} mp_http_options;

/* NULL when out of memory, or when libcurl cannot be used. */
mp_http_client *mp_http_client_new(void);
/* Ends what is under way (such requests fail with MP_HTTP_CLOSED). */
void mp_http_client_free(mp_http_client *client);

/* Lets all transfers go on as far as they can at once. False when libcurl fails, with a message. */
bool mp_http_perform(mp_http_client *client, const char **message);
/* Sleeps until a transfer can go on, at most that long. */
bool mp_http_wait(mp_http_client *client, int milliseconds, const char **message);
/* Counts whatever happens to the requests: a number that has not changed says that nothing is new. */
uint64_t mp_http_activity(const mp_http_client *client);
/* How many transfers are under way. */
size_t mp_http_active(const mp_http_client *client);

/* NULL with a reason when it cannot begin. */
mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message);
/* A transfer under way is broken off. */
void mp_http_request_free(mp_http_request *request);

/* 0 until all headers of the final answer are there. */
long mp_http_status(const mp_http_request *request);
/* Walks the headers of the final answer; NULL begins, NULL ends. */
struct curl_header *mp_http_next_header(mp_http_request *request, struct curl_header *previous);
/* Where a redirection leads to, absolute, or NULL. Valid as long as the request. */
const char *mp_http_redirect(mp_http_request *request);

/* What has come in and not been taken yet. */
moonpad_string mp_http_unread(const mp_http_request *request);
/* Takes it; a paused transfer goes on. */
void mp_http_consume(mp_http_request *request);

/* Is the transfer over? What is unread can still be read. */
bool mp_http_is_done(const mp_http_request *request);
/* The message tells no credentials, and is valid as long as the request. */
mp_http_failure mp_http_failure_of(const mp_http_request *request, const char **message);

#endif
