/* Opening and freeing. */
#include "base/error.h"
#include "store/memory/memory.h"

static void free_store(mp_store *base) {
  mp_memory_store *store = (mp_memory_store *)base;
  mp_env *env = store->env;
  mp_memory_data_free(&store->data);
  mp_memory_tokens_free(&store->tokens);
  mp_release(env, store->steps);
  mp_mutex_destroy(&store->mutex);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .size = sizeof(mp_store_ops),
    .write = mp_memory_write,
    .read = mp_memory_read,
    .close = mp_memory_close,
    .free = free_store,
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
  if (!mp_mutex_init(&opened->mutex)) {
    mp_release(env, opened);
    return mp_no_memory(error);
  }
  opened->base.ops = &store_ops;
  opened->base.in_memory = true;
  opened->env = mp_env_retain(env);
  mp_memory_tokens_init(&opened->tokens, env);
  mp_memory_data_init(&opened->data, env);
  *store = &opened->base;
  return MOONPAD_OK;
}
