/* Reading an event that a caller gave (contract 2.1, 3): checking it and taking it apart. */
#ifndef MP_CORE_EVENT_READ_H
#define MP_CORE_EVENT_READ_H

#include "core/event_draft.h"

/*
** Reads an event into `draft`. `is_trusted`: the text comes from this library's own encoder, so it
** is valid canonical JSON and only checked for being an event. The draft borrows from `json`, which
** must stay unchanged as long as the draft is used. The caller frees the draft with
** mp_event_draft_free; on failure there is nothing to free. Errors: invalid_argument naming the
** path, no_memory.
*/
moonpad_status mp_event_draft_read(mp_env *env, moonpad_string json, bool is_trusted, mp_event_draft *draft,
                                   moonpad_error *error);

#endif
