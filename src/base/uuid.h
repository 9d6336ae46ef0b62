/* UUIDs (RFC 9562) as 36 lower-case characters, without a NUL. */
#ifndef MP_BASE_UUID_H
#define MP_BASE_UUID_H

#include "base/env.h"

#define MP_UUID_BYTES 36

void mp_uuid4(mp_env *env, char out[MP_UUID_BYTES]);
/*
** Ordered by time: 48 bits of milliseconds from `now` (seconds), 12 bits of fraction (RFC 9562, 6.2
** method 3), then random bits. So ids of one millisecond stay in order, and an index of ids grows
** at its end.
*/
void mp_uuid7(mp_env *env, double now, char out[MP_UUID_BYTES]);

#endif
