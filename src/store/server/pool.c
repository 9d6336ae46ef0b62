/* The pool of connections of a store. */
#include "store/server/pool.h"

#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"

bool mp_pool_init(mp_pool *pool, unsigned limit) {
  *pool = (mp_pool){.limit = limit, .owner = getpid()};
  if (!mp_condition_init(&pool->changed)) return false;
  mp_mutex_init(&pool->mutex);
  return true;
}

void mp_pool_destroy(mp_pool *pool) {
  mp_condition_destroy(&pool->changed);
  mp_mutex_destroy(&pool->mutex);
}

/* False: the time has come. */
static bool wait_until(mp_pool *pool, double until) {
  if (mp_monotonic() >= until) return false;
  mp_condition_wait_until(&pool->changed, &pool->mutex, until);
  return true;
}

static moonpad_status closed(moonpad_error *error) {
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

static moonpad_status take(mp_pool *pool, double until, mp_pooled **connection, moonpad_error *error) {
  while (!pool->closing && pool->taken >= pool->limit) {
    if (wait_until(pool, until)) continue;
    return mp_fail(error, MOONPAD_BUSY, "all %u connections are in use (the URL's option pool sets how many)",
                   pool->limit);
  }
  if (pool->closing) return closed(error);
  pool->taken++;
  *connection = pool->list;
  if (pool->list == NULL) return MOONPAD_OK;
  pool->list = pool->list->next;
  pool->free--;
  return MOONPAD_OK;
}

moonpad_status mp_pool_enter(mp_pool *pool, moonpad_error *error) {
  if (getpid() != pool->owner) {
    return mp_fail(error, MOONPAD_CLOSED, "the service belongs to the process that opened it, not to a forked child");
  }
  mp_mutex_lock(&pool->mutex);
  bool is_open = !pool->closing;
  if (is_open) pool->calls++;
  mp_mutex_unlock(&pool->mutex);
  return is_open ? MOONPAD_OK : closed(error);
}

void mp_pool_leave(mp_pool *pool) {
  mp_mutex_lock(&pool->mutex);
  pool->calls--;
  if (pool->closing) mp_condition_broadcast(&pool->changed);
  mp_mutex_unlock(&pool->mutex);
}

moonpad_status mp_pool_take(mp_pool *pool, double until, mp_pooled **connection, moonpad_error *error) {
  *connection = NULL;
  mp_mutex_lock(&pool->mutex);
  moonpad_status status = take(pool, until, connection, error);
  mp_mutex_unlock(&pool->mutex);
  return status;
}

void mp_pool_give_back(mp_pool *pool, mp_pooled *connection) {
  mp_mutex_lock(&pool->mutex);
  pool->taken--;
  if (connection != NULL) {
    connection->next = pool->list;
    pool->list = connection;
    pool->free++;
  }
  /* Who sleeps between two attempts (mp_pool_pause) may be waked by this in vain. */
  mp_condition_broadcast(&pool->changed);
  mp_mutex_unlock(&pool->mutex);
}

mp_pooled *mp_pool_drain(mp_pool *pool) {
  mp_mutex_lock(&pool->mutex);
  mp_pooled *list = pool->list;
  pool->list = NULL;
  pool->free = 0;
  mp_mutex_unlock(&pool->mutex);
  return list;
}

void mp_pool_pause(mp_pool *pool, double seconds) {
  double until = mp_monotonic() + seconds;
  mp_mutex_lock(&pool->mutex);
  while (!pool->closing && wait_until(pool, until)) {
  }
  mp_mutex_unlock(&pool->mutex);
}

void mp_pool_wait_for_free(mp_pool *pool, double seconds) {
  double until = mp_monotonic() + seconds;
  mp_mutex_lock(&pool->mutex);
  while (!pool->closing && pool->list == NULL && wait_until(pool, until)) {
  }
  mp_mutex_unlock(&pool->mutex);
}

mp_pooled *mp_pool_close(mp_pool *pool) {
  mp_mutex_lock(&pool->mutex);
  bool first = !pool->closing;
  pool->closing = true;
  mp_condition_broadcast(&pool->changed);
  while (first ? pool->calls > 0 : !pool->closed) mp_condition_wait(&pool->changed, &pool->mutex);
  mp_mutex_unlock(&pool->mutex);
  return first ? mp_pool_drain(pool) : NULL;
}

void mp_pool_closed(mp_pool *pool) {
  mp_mutex_lock(&pool->mutex);
  pool->closed = true;
  mp_condition_broadcast(&pool->changed);
  mp_mutex_unlock(&pool->mutex);
}
