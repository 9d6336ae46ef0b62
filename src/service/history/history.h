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
** In a transaction: reads the session's row as it is stored now, and into `changed` (unless NULL)
** those of the session's own keys that changed after revision `since`. Errors: not_found, also when
** the session object's creation is gone and another one has its name; those of the store.
*/
moonpad_status mp_history_look(const moonpad_session *session, mp_tx *tx, int64_t since, mp_changed_keys *changed,
                               mp_session_row *row, moonpad_error *error);

#endif
