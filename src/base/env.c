/* The hooks of a host; the system's functions stand in for those that it did not give. */
#include "base/env.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/multiply.h"
#include "base/number.h"
#include "base/platform.h"

/*
** Random bytes are fetched in bulk, because a system call for each id would cost more than the id
** itself. The pool is a page that the kernel wipes in a forked child, which otherwise would give
** out the same ids as its parent. So it cannot come from the host's allocator, and if the kernel
** cannot wipe it there is no pool.
*/
#define PAGE_BYTES 4096
#define POOL_BYTES (PAGE_BYTES - 16)

typedef struct random_pool {
  uint64_t unused; /* the number of unused bytes, which are the last ones of `bytes` */
  unsigned char bytes[POOL_BYTES];
} random_pool;

struct mp_env {
  atomic_uint references;
  moonpad_allocator allocator;
  moonpad_clock_function clock;
  void *clock_context;
  void (*release_clock)(void *context); /* NULL: the host's own */
  moonpad_random_function random;
  void *random_context;
  moonpad_log_function log;
  void *log_context;
  mp_mutex pool_lock;
  random_pool *pool; /* NULL before the first use, or if there is none */
  uint64_t draws;
};

static void *system_allocate(void *context, size_t size) {
  (void)context;
  return malloc(size);
}

static void *system_resize(void *context, void *block, size_t size) {
  (void)context;
  return realloc(block, size);
}

static void system_release(void *context, void *block) {
  (void)context;
  free(block);
}

mp_env *mp_env_new(const moonpad_options *options) {
  moonpad_allocator allocator = {system_allocate, system_resize, system_release, NULL};
  if (options != NULL && options->allocator != NULL) allocator = *options->allocator;
  mp_env *env = allocator.allocate(allocator.context, sizeof *env);
  if (env == NULL) return NULL;
  memset(env, 0, sizeof *env);
  atomic_init(&env->references, 1);
  if (!mp_mutex_init(&env->pool_lock)) {
    allocator.release(allocator.context, env);
    return NULL;
  }
  env->allocator = allocator;
  if (options != NULL) {
    env->clock = options->clock;
    env->clock_context = options->clock_context;
    env->random = options->random;
    env->random_context = options->random_context;
    env->log = options->log;
    env->log_context = options->log_context;
  }
  return env;
}

mp_env *mp_env_retain(mp_env *env) {
  if (env != NULL) atomic_fetch_add_explicit(&env->references, 1, memory_order_relaxed);
  return env;
}

void mp_env_release(mp_env *env) {
  if (env == NULL || atomic_fetch_sub_explicit(&env->references, 1, memory_order_acq_rel) != 1) return;
  if (env->pool != NULL) mp_unmap(env->pool, PAGE_BYTES);
  if (env->release_clock != NULL) env->release_clock(env->clock_context);
  mp_mutex_destroy(&env->pool_lock);
  /* A copy, because `env` is freed. */
  moonpad_allocator allocator = env->allocator;
  allocator.release(allocator.context, env);
}

void *mp_allocate(mp_env *env, size_t size) {
  return env->allocator.allocate(env->allocator.context, size == 0 ? 1 : size);
}

void *mp_allocate_zeroed(mp_env *env, size_t size) {
  void *block = mp_allocate(env, size);
  if (block != NULL) memset(block, 0, size);
  return block;
}

void *mp_resize(mp_env *env, void *block, size_t size) {
  return env->allocator.resize(env->allocator.context, block, size == 0 ? 1 : size);
}

void mp_release(mp_env *env, void *block) {
  if (block != NULL) env->allocator.release(env->allocator.context, block);
}

bool mp_reserve(mp_env *env, void **items, size_t *capacity, size_t item_size, size_t needed) {
  if (needed <= *capacity) return true;
  size_t wanted = *capacity < 8 ? 8 : *capacity;
  while (wanted < needed) {
    if (wanted > SIZE_MAX / 2) return false;
    wanted *= 2;
  }
  if (wanted > SIZE_MAX / item_size) return false;
  void *grown = mp_resize(env, *items, wanted * item_size);
  if (grown == NULL) return false;
  *items = grown;
  *capacity = wanted;
  return true;
}

bool mp_reserve_beyond(mp_env *env, void **items, const void *inline_items, size_t *capacity, size_t item_size,
                       size_t needed) {
  if (*items != inline_items) return mp_reserve(env, items, capacity, item_size, needed);
  void *grown = NULL;
  size_t grown_capacity = 0;
  if (!mp_reserve(env, &grown, &grown_capacity, item_size, needed)) return false;
  memcpy(grown, inline_items, *capacity * item_size);
  *items = grown;
  *capacity = grown_capacity;
  return true;
}

void *mp_context_of_clock(const mp_env *env, double (*clock)(void *context)) {
  return env->clock == clock ? env->clock_context : NULL;
}

void mp_release_with_clock(mp_env *env, void (*release)(void *context)) {
  env->release_clock = release;
}

moonpad_status mp_now(mp_env *env, double *now, moonpad_error *error) {
  *now = env->clock != NULL ? env->clock(env->clock_context) : mp_system_time();
  if (isfinite(*now) && *now >= 0) return MOONPAD_OK;
  char text[MP_NUMBER_BYTES + 1] = "nan";
  if (isfinite(*now)) {
    text[mp_format_float(*now, text)] = '\0';
  } else if (!isnan(*now)) {
    strcpy(text, *now > 0 ? "inf" : "-inf");
  }
  *now = 0;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the clock gives %s: a time is a finite number of seconds since 1970",
                 text);
}

/*
** The last resort without any random source: ids that differ, made of time, process, address and a
** count.
*/
static void fill_from_clock(unsigned char bytes[16], const void *where, uint64_t count) {
  uint64_t seed = (uint64_t)(mp_system_time() * 1e6) ^ (uint64_t)(mp_monotonic() * 1e9) << 20;
  seed ^= (uint64_t)(uintptr_t)where ^ (uint64_t)mp_this_process() << 32 ^ count * UINT64_C(0x9E3779B97F4A7C15);
  for (size_t i = 0; i < 2; i++) {
    seed = mp_mix(seed ^ UINT64_C(0xA0761D6478BD642F), UINT64_C(0xE7037ED1A0B428DB) + i);
    memcpy(bytes + i * 8, &seed, 8);
  }
}

static bool draw_from_pool(random_pool *pool, unsigned char *bytes, size_t count) {
  if (pool->unused < count) {
    pool->unused = 0;
    if (!mp_system_random(pool->bytes, POOL_BYTES)) return false;
    pool->unused = POOL_BYTES;
  }
  unsigned char *next = pool->bytes + (POOL_BYTES - pool->unused);
  memcpy(bytes, next, count);
  /* Ids that were given out do not stay in memory. */
  memset(next, 0, count);
  pool->unused -= count;
  return true;
}

static void draw(mp_env *env, unsigned char *bytes, size_t count) {
  mp_mutex_lock(&env->pool_lock);
  if (env->draws++ == 0) env->pool = mp_map_wiped_on_fork(PAGE_BYTES);
  bool drawn = env->pool != NULL ? draw_from_pool(env->pool, bytes, count) : mp_system_random(bytes, count);
  if (!drawn) {
    unsigned char made_up[16];
    fill_from_clock(made_up, env, env->draws);
    memcpy(bytes, made_up, count);
  }
  mp_mutex_unlock(&env->pool_lock);
}

void mp_random_bytes(mp_env *env, unsigned char *bytes, size_t count) {
  if (env->random == NULL) {
    draw(env, bytes, count);
    return;
  }
  unsigned char given[16];
  env->random(env->random_context, given);
  memcpy(bytes, given, count);
}

void mp_random(mp_env *env, unsigned char bytes[16]) {
  mp_random_bytes(env, bytes, 16);
}

void mp_log(mp_env *env, moonpad_status status, const char *message) {
  if (env->log != NULL) env->log(env->log_context, status, message);
}
