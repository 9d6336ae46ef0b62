/* The scripts that the server runs, from the files in scripts. */
#include "store/redis/scripts.h"

#include <string.h>

#include "store/redis/redis.h"

/* Of transactions: what the sessions' store has, before and behind the parts of other stores. */
static const char *const before[] = {mp_redis_lua_pages,     mp_redis_lua_places, mp_redis_lua_writes,
                                     mp_redis_lua_questions, mp_redis_lua_store,  NULL};
static const char *const behind[] = {mp_redis_lua_run, NULL};

static size_t length_of(const char *const *parts) {
  size_t length = 0;
  for (size_t i = 0; parts[i] != NULL; i++) length += strlen(parts[i]);
  return length;
}

/* Returns where it ends. */
static char *join(char *end, const char *const *parts) {
  for (size_t i = 0; parts[i] != NULL; i++) end = stpcpy(end, parts[i]);
  return end;
}

char *mp_redis_build_transaction_script(mp_env *env, const char *const *more) {
  char *script = mp_allocate(env, length_of(before) + length_of(more) + length_of(behind) + 1);
  if (script != NULL) join(join(join(script, before), more), behind);
  return script;
}

const char *mp_redis_script(const mp_redis *store, mp_redis_script_id id) {
  switch (id) {
  case MP_REDIS_APPEND:
    return mp_redis_lua_append;
  case MP_REDIS_TRANSACTION:
    return store->transaction_script;
  case MP_REDIS_FIND_COMMIT:
    return mp_redis_lua_find_commit;
  default:
    return mp_redis_lua_register_app;
  }
}
