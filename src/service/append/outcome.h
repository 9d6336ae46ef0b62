/* What has become of an append, for those that began it and do not see how it went. */
#ifndef MP_SERVICE_APPEND_OUTCOME_H
#define MP_SERVICE_APPEND_OUTCOME_H

#include "base/buffer.h"
#include "base/map.h"

/* An append under way: append.h. */
typedef struct mp_append mp_append;

/* The stored event, for the caller. NULL: there was no memory for it, or for its text. */
moonpad_event *mp_append_event(const mp_append *append);

/*
** The event that a refused asynchronous append was to store, written as stored events are.
** Increments and appends are added to what the session object showed before (previous_value). The
** object must still exist. Without memory it writes nothing.
*/
void mp_append_write_refused(const mp_append *append, mp_buffer *out);

/* Moves the keys of a conflict to the caller, who frees the array. NULL: there are none. */
mp_key **mp_append_take_conflicts(mp_append *append, size_t *count);
/* The environment of a failed append, not counted: what its keys are to be released in. */
mp_env *mp_append_env(const mp_append *append);

#endif
