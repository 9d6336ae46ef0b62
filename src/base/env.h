/*
** src/base: what a C program needs and the C library lacks. Memory, byte buffers, maps, numbers,
** UTF-8, UUIDs, errors, option structs.
** Belongs here: helpers that would be just as useful in another program.
** Does not belong here: anything that knows events, state keys, JSON, stores or Lua.
** Arrows: base includes moonpad.h (for its plain types), nothing else. All others include base.
**
** This file: the hooks that the host gave a service (allocator, clock, random source, log). Counted
** and immutable. Whatever the service makes keeps a reference, so a value may outlive the service.
*/
#ifndef MP_BASE_ENV_H
#define MP_BASE_ENV_H

#include "moonpad.h"

typedef struct mp_env mp_env;

/* Copies the hooks of `options` (NULL: the system's). NULL when out of memory. */
mp_env *mp_env_new(const moonpad_options *options);
mp_env *mp_env_retain(mp_env *env);
void mp_env_release(mp_env *env);

/* NULL when out of memory. Size 0 counts as 1. */
void *mp_allocate(mp_env *env, size_t size);
void *mp_allocate_zeroed(mp_env *env, size_t size);
void *mp_resize(mp_env *env, void *block, size_t size);
void mp_release(mp_env *env, void *block);

/*
** Grows an array of *capacity items so that `needed` fit (doubling, at least 8). False when out of
** memory or when the size overflows: the array is then unchanged.
*/
bool mp_reserve(mp_env *env, void **items, size_t *capacity, size_t item_size, size_t needed);
/* The same for an array that starts as `inline_items`, a member of its struct. */
bool mp_reserve_beyond(mp_env *env, void **items, const void *inline_items, size_t *capacity, size_t item_size,
                       size_t needed);

/* Seconds since 1970. Errors: invalid_argument if the host's clock gives no such time. */
moonpad_status mp_now(mp_env *env, double *now, moonpad_error *error);
/* The context of the host's clock if that is `clock`, else NULL. */
void *mp_context_of_clock(const mp_env *env, double (*clock)(void *context));
/* The context of the host's clock goes with `env`: `release` is called then, on any thread. */
void mp_release_with_clock(mp_env *env, void (*release)(void *context));
void mp_random(mp_env *env, unsigned char bytes[16]);
/* `count` is at most 16. */
void mp_random_bytes(mp_env *env, unsigned char *bytes, size_t count);
void mp_log(mp_env *env, moonpad_status status, const char *message);

#endif
