/*
** State given as one JSON object: the initial state of a session, or an update of user or
** app state.
*/
#ifndef MP_SERVICE_SHARED_STATE_INPUT_H
#define MP_SERVICE_SHARED_STATE_INPUT_H

#include "core/entries.h"
#include "service/service.h"

/*
** Adds an entry for each member of an object, under its key as given and without a revision;
** empty text gives none. What has been added is the caller's to free, on failure too.
*/
moonpad_status mp_initial_read(moonpad_service *service, moonpad_string state, mp_entries *entries,
                               moonpad_error *error);
/* Adds removals for the strings of a JSON array (or empty text). */
moonpad_status mp_initial_read_removed(moonpad_service *service, moonpad_string removed, mp_entries *entries,
                                       moonpad_error *error);

#endif
