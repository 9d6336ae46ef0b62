/* UUIDs of RFC 9562 as 36 lower-case characters. */
#ifndef MP_BASE_UUID_H
#define MP_BASE_UUID_H

#include "base/env.h"

#define MP_UUID_BYTES 36

void mp_uuid4(mp_env *env, char out[MP_UUID_BYTES]);
/*
** Time-ordered: 48 bits of milliseconds from `now` (seconds), 12 bits of their fraction (RFC 9562,
** 6.2 method 3: ids of one millisecond stay in order, and an index of them grows at its end), then
** random bits.
*/
void mp_uuid7(mp_env *env, double now, char out[MP_UUID_BYTES]);

#endif
