/* Rewinding in two steps, for whoever does the first one on another thread. */
#ifndef MP_SERVICE_HISTORY_HISTORY_H
#define MP_SERVICE_HISTORY_HISTORY_H

#include "service/session/session.h"

/* How far back. */
typedef struct mp_rewind_target {
  moonpad_string invocation; /* to before it; data NULL: to after `revision` */
  int64_t revision;
} mp_rewind_target;

/*
** Somebody else may append between the steps: the second one then says `conflict`, and both are
** done again.
*/
#define MP_REWIND_ATTEMPTS 8

/*
** Asks the store, and writes the event that takes the session back:
** mp_append_event_expecting with *expected_revision appends it. Uses nothing of the session
** object but whose it is (mp_session_reference). Its asynchronous appends are done. Errors:
** not_found, and those of the store.
*/
moonpad_status mp_rewind_read(const moonpad_session *session, const mp_rewind_target *target, mp_buffer *event,
                              int64_t *expected_revision, moonpad_error *error);

#endif
