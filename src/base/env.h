/*
** What a service was given by its host: allocator, clock, random source, log. Counted,
** immutable once made, and shared by everything that the service makes, so that a value may
** outlive the service.
*/
#ifndef MP_BASE_ENV_H
#define MP_BASE_ENV_H

#include "moonpad.h"

typedef struct mp_env mp_env;

/* Takes the hooks out of `options` (NULL: the system's). NULL when out of memory. */
mp_env *mp_env_new(const moonpad_options *options);
mp_env *mp_env_retain(mp_env *env);
void mp_env_release(mp_env *env);

/* NULL when out of memory. Size 0 counts as 1. */
void *mp_allocate(mp_env *env, size_t size);
void *mp_allocate_zeroed(mp_env *env, size_t size);
void *mp_resize(mp_env *env, void *block, size_t size);
void mp_release(mp_env *env, void *block);

/*
** Asks the system to have the whole pages of a block at hand now, rather than one by one as they
** are first written. No more than advice.
*/
void mp_prepare_pages(void *block, size_t size);

/*
** Grows an array of `*capacity` items of `item_size` so that `needed` fit (doubling, at least 8).
** False when out of memory or overflowing: the array is then as it was.
*/
bool mp_reserve(mp_env *env, void **items, size_t *capacity, size_t item_size, size_t needed);
/* The same of an array that begins as `few`, of that capacity, inside of what holds it. */
bool mp_reserve_beyond(mp_env *env, void **items, const void *few, size_t *capacity, size_t item_size, size_t needed);

/* Errors: invalid_argument where the host's clock gives no time since 1970. */
moonpad_status mp_now(mp_env *env, double *now, moonpad_error *error);
void mp_random(mp_env *env, unsigned char bytes[16]);
/* At most 16 bytes: what is not asked for is not paid. */
void mp_random_bytes(mp_env *env, unsigned char *bytes, size_t count);
void mp_log(mp_env *env, moonpad_status status, const char *message);

#endif
