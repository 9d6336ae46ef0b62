/* Rewinding in two steps, for a caller that takes the first one on another thread. */
#ifndef MP_SERVICE_HISTORY_REWIND_H
#define MP_SERVICE_HISTORY_REWIND_H

#include "service/session/session.h"

/* How far back. */
typedef struct mp_rewind_target {
  moonpad_string invocation; /* to before this invocation; data NULL: see `revision` */
  int64_t revision;          /* to after this revision */
} mp_rewind_target;

/*
** Somebody else may append between the two steps. Where that changed a key of the delta, the second
** one fails with `conflict`, and both are repeated, so many times at most.
*/
#define MP_REWIND_ATTEMPTS 8

/*
** The first step: asks the store and writes the event that restores the earlier state (its delta:
** write_difference in rewind.c). The second step is mp_append_now with *expected_revision. Of the
** session object only its names and ids are used, so mp_session_reference will do; its asynchronous
** appends must be done. Any thread. Errors: not_found (no such invocation or revision, or it was
** trimmed); invalid_argument (an invocation id that is no UTF-8); those of the store.
*/
moonpad_status mp_rewind_read(const moonpad_session *session, const mp_rewind_target *target, mp_buffer *event,
                              int64_t *expected_revision, moonpad_error *error);

/*
** Finds the first event of an invocation that is stored. Of the session object its names and ids
** are used only, as above. Any thread. Errors: not_found (no such event);
** invalid_argument (an invocation id that is no UTF-8); those of the store.
*/
moonpad_status mp_find_invocation(const moonpad_session *session, moonpad_string invocation, int64_t *revision,
                                  moonpad_error *error);

#endif
