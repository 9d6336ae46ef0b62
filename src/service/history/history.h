/*
** history/: what a session was, and going back to it (contract 2: stateAt, fork, rewind, export).
** Belongs here: the state after an earlier revision (replay.h), forks, rewinds, and sessions as
** text.
** Does not belong here: reading single events (session/), how a rewind's event is stored (append/).
** Arrows: uses append/, session/, the service and below; no other folder of src/service uses
** history/. The Lua binding takes rewinds and exports apart, into steps: rewind.h, export.h.
*/
#ifndef MP_SERVICE_HISTORY_HISTORY_H
#define MP_SERVICE_HISTORY_HISTORY_H

#include "service/session/session.h"

/*
** Before the transaction of a call on the history of a session, which uses it. Errors:
** invalid_argument (the clock).
*/
moonpad_status mp_history_begin(mp_expiry *expiry, const moonpad_session *session, moonpad_error *error);
/*
** In it: reads the session's row as it is stored now, and into `changed` (unless NULL) those of the
** session's own keys that changed after revision `since`. Errors: not_found, also when the session
** has expired, or the session object's creation is gone and another one has its name; those of the
** store.
*/
moonpad_status mp_history_look(mp_expiry *expiry, mp_tx *tx, int64_t since, mp_changed_keys *changed,
                               mp_session_row *row, moonpad_error *error);

#endif
