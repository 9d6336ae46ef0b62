/*
** What the owner of a client, the client's thread and its requests share: the lock, the count of
** what has happened and the descriptor that tells of it. Counted, so that a request may outlive its
** client.
*/
#ifndef MP_HTTP_CLIENT_STATE_H
#define MP_HTTP_CLIENT_STATE_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "base/env.h"
#include "base/platform.h"
#include "base/wakeup.h"

#if LIBCURL_VERSION_NUM < 0x075500
#error "moonpad's HTTP client needs libcurl 7.85 or later"
#endif
#if !MP_HAS_THREADS
#error "moonpad's HTTP client needs threads"
#endif

typedef struct mp_http_client mp_http_client;

struct mp_http_client {
  atomic_uint references; /* the owner's, and one for each request */
  mp_env *env;
  CURLM *multi;
  unsigned long process; /* that made it */
  mp_thread thread;
  mp_mutex lock;                   /* guards the next four, and fields of requests that say so */
  mp_wakeup news;                  /* `activity` has changed */
  uint64_t activity;               /* see mp_http_activity */
  bool is_closing;                 /* the thread is to end */
  struct mp_http_request *queued;  /* started by the owner, not taken by the thread yet */
  struct mp_http_request *running; /* private to the thread */
};

/* Counts something that the owner may want to know, and wakes the owner. With the lock held. */
void mp_http_note(mp_http_client *client);
/* The last reference frees the memory. The thread has ended by then. */
void mp_http_client_release(mp_http_client *client);

#endif
