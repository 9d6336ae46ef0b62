/*
** The store "memory:": everything lives in this process and ends with it. One mutex; a transaction
** works on the data itself and notes in a log how to undo each step (memory_log.h).
*/
#include <pthread.h>

#include "base/error.h"
#include "store/memory/log.h"

/* With the mutex held, unless it fails. */
static moonpad_status enter(mp_memory_store *store, moonpad_error *error) {
  pthread_mutex_lock(&store->mutex);
  if (!store->closed) return MOONPAD_OK;
  pthread_mutex_unlock(&store->mutex);
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

static void free_garbage(mp_memory_store *store, mp_memory_session *garbage) {
  while (garbage != NULL) {
    mp_memory_session *next = garbage->next;
    mp_memory_session_free(store->env, garbage);
    garbage = next;
  }
}

static moonpad_status memory_write(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_memory_store *store = (mp_memory_store *)base;
  moonpad_status status = enter(store, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_tx tx = {{{&mp_memory_tx_ops}, store->env, &mp_memory_parts, store}, true};
  status = function(&tx.parts.tx, context, error);
  if (status == MOONPAD_OK) {
    mp_memory_keep_steps(store);
  } else {
    mp_memory_undo_steps(store, 0);
  }
  mp_memory_session *garbage = store->garbage;
  store->garbage = NULL;
  pthread_mutex_unlock(&store->mutex);
  free_garbage(store, garbage);
  return status;
}

static moonpad_status memory_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_memory_store *store = (mp_memory_store *)base;
  moonpad_status status = enter(store, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_tx tx = {{{&mp_memory_tx_ops}, store->env, &mp_memory_parts, store}, false};
  status = function(&tx.parts.tx, context, error);
  pthread_mutex_unlock(&store->mutex);
  return status;
}

static void memory_close(mp_store *base) {
  mp_memory_store *store = (mp_memory_store *)base;
  pthread_mutex_lock(&store->mutex);
  store->closed = true;
  pthread_mutex_unlock(&store->mutex);
}

static void memory_free(mp_store *base) {
  mp_memory_store *store = (mp_memory_store *)base;
  mp_env *env = store->env;
  mp_memory_data_free(&store->data);
  mp_map_free(&store->tokens);
  mp_release(env, store->steps);
  pthread_mutex_destroy(&store->mutex);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .size = sizeof(mp_store_ops),
    .write = memory_write,
    .read = memory_read,
    .close = memory_close,
    .free = memory_free,
};

moonpad_status mp_memory_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error) {
  (void)options;
  *store = NULL;
  if (rest.length != 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "memory:%s: nothing may follow \"memory:\"; for a file use sqlite:PATH", mp_quote(rest).text);
  }
  mp_memory_store *opened = mp_allocate_zeroed(env, sizeof *opened);
  if (opened == NULL) return mp_no_memory(error);
  if (pthread_mutex_init(&opened->mutex, NULL) != 0) {
    mp_release(env, opened);
    return mp_no_memory(error);
  }
  opened->base.ops = &store_ops;
  opened->base.in_memory = true;
  opened->env = mp_env_retain(env);
  mp_map_init(&opened->tokens, env);
  mp_memory_data_init(&opened->data, env);
  *store = &opened->base;
  return MOONPAD_OK;
}
