/* Event cursors, for exports and for callers that ask the store on another thread. */
#ifndef MP_SERVICE_SESSION_CURSOR_H
#define MP_SERVICE_SESSION_CURSOR_H

#include "service/session/session.h"

/* A cursor over the stored events of these revisions. NULL when out of memory. */
moonpad_event_cursor *mp_event_cursor_new(const moonpad_session *session, int64_t first, int64_t last);
/* Errors: closed. */
moonpad_status mp_event_cursor_check(const moonpad_event_cursor *cursor, moonpad_error *error);
/*
** Can it give its next event, or say that there is none, without asking the store? If not, `load`
** asks.
*/
bool mp_event_cursor_is_ready(const moonpad_event_cursor *cursor);
moonpad_status mp_event_cursor_load(moonpad_event_cursor *cursor, moonpad_error *error);

#endif
