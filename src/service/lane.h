/*
** A lane: the asynchronous appends of one session object, in order. Only the thread that stores
** them uses what is inside; it tells which revisions of a key came from the object's own earlier
** appends, which do not conflict with its later ones.
*/
#ifndef MP_SERVICE_LANE_H
#define MP_SERVICE_LANE_H

#include "service/append.h"

typedef struct mp_lane mp_lane;

mp_lane *mp_lane_new(mp_env *env);
mp_lane *mp_lane_retain(mp_lane *lane);
void mp_lane_release(mp_lane *lane);

/* Was that revision of the key written by this lane? NULL lane: no. */
bool mp_lane_wrote(const mp_lane *lane, const mp_key *key, int64_t revision);

/*
** A transaction that may be undone: what `mp_lane_note` and `mp_lane_fail` tell counts at once, and
** is forgotten by `rewind`, kept by `keep`.
*/
void mp_lane_rewind(mp_lane *lane);
void mp_lane_keep(mp_lane *lane);
/* After an append has written its keys. */
moonpad_status mp_lane_note(mp_lane *lane, const mp_append *append, moonpad_error *error);

/* An append of the lane failed: all behind it fail with the same code. MOONPAD_OK: none has. */
void mp_lane_fail(mp_lane *lane, const moonpad_error *error);
moonpad_status mp_lane_failure(const mp_lane *lane, moonpad_error *error);

#endif
