/*
** State that a caller gives as JSON: the initial state of a session, or an update of user or app
** state. Here, below both, because they check it alike (contract 1.1, 1.2, 5).
*/
#ifndef MP_SERVICE_STATE_INPUT_H
#define MP_SERVICE_STATE_INPUT_H

#include "core/entries.h"
#include "service/service.h"

/*
** Adds one entry for each member of a JSON object: the key as written, the value, revision 0. Empty
** text adds none. Keys are checked, and values are measured against maxValueBytes. Entries that
** have been added are the caller's to free, on failure as well. Errors: invalid_argument, limit,
** no_memory.
*/
moonpad_status mp_read_state(moonpad_service *service, moonpad_string state, mp_entries *entries, moonpad_error *error);
/* The same for removed keys: one entry without a value for each string of a JSON array. */
moonpad_status mp_read_removed_keys(moonpad_service *service, moonpad_string removed, mp_entries *entries,
                                    moonpad_error *error);

#endif
