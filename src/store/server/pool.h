/*
** src/store/server: what the stores on servers have in common (remote.h): the pool of connections,
** appends that share a transaction, their own options in a URL, when to try again.
** Does not belong here: anything that knows one server's protocol. Arrows: the stores on servers
** include it; it includes store/, core/ and base/.
**
** This file: the connections of a store. Each is used by one thread at a time. They are opened when
** they are needed, up to a limit.
*/
#ifndef MP_STORE_SERVER_POOL_H
#define MP_STORE_SERVER_POOL_H

#include <sys/types.h>

#include "base/env.h"
#include "base/platform.h"

/* A connection begins with this struct. */
typedef struct mp_pooled {
  struct mp_pooled *next;
} mp_pooled;

typedef struct mp_pool {
  mp_mutex mutex; /* guards what follows */
  mp_condition changed;
  unsigned limit;
  unsigned calls;  /* of the store, under way */
  unsigned taken;  /* by threads */
  unsigned free;   /* open, and nobody's */
  mp_pooled *list; /* of the free ones, the last used first */
  bool closing;
  bool closed;
  pid_t owner; /* the process that may use it */
} mp_pool;

/* False: the system has no condition variable, and there is nothing to destroy. */
bool mp_pool_init(mp_pool *pool, unsigned limit);
void mp_pool_destroy(mp_pool *pool);

/*
** A call of the store begins, and ends with mp_pool_leave. It may take connections again and again
** meanwhile. Errors: closed, also in a forked child.
*/
moonpad_status mp_pool_enter(mp_pool *pool, moonpad_error *error);
void mp_pool_leave(mp_pool *pool);

/*
** Takes a free connection; *connection NULL: none is, the caller may open one. Either way the
** caller ends with mp_pool_give_back. Waits for others up to the time `until` (mp_monotonic).
** Errors: busy; closed.
*/
moonpad_status mp_pool_take(mp_pool *pool, double until, mp_pooled **connection, moonpad_error *error);
/* `connection` NULL: the caller has disconnected it, or opened none. */
void mp_pool_give_back(mp_pool *pool, mp_pooled *connection);
/* Takes all free connections out of the pool, for the caller to disconnect. */
mp_pooled *mp_pool_drain(mp_pool *pool);

/* A store's sleep between two attempts; ends early when the pool is being closed. */
void mp_pool_pause(mp_pool *pool, double seconds);
/* The same for who could open no connection of its own; ends early when one is free. */
void mp_pool_wait_for_free(mp_pool *pool, double seconds);

/*
** Every later call is `closed`. Waits for the end of those under way and returns all connections,
** for the caller to disconnect, then to call mp_pool_closed. A second call waits for that, and is
** NULL.
*/
mp_pooled *mp_pool_close(mp_pool *pool);
void mp_pool_closed(mp_pool *pool);

#endif
