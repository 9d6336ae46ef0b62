/*
** A refresh in steps, for a caller that asks the store on another thread while the session object
** may be used.
*/
#ifndef MP_SERVICE_SESSION_REFRESH_H
#define MP_SERVICE_SESSION_REFRESH_H

#include "service/session/session.h"

/* It does not move. It borrows the names of the session object. */
typedef struct mp_refreshing {
  moonpad_service *service;
  mp_session_ref ref;
  mp_expiry expiry;
  /* What the object held at `begin`. */
  mp_session_row snapshot;
  /* What is stored. */
  mp_session_row row;
  mp_changed_keys changes;
} mp_refreshing;

/* On the thread of the session object, whose appends are done. */
void mp_refresh_begin(mp_refreshing *refresh, const moonpad_session *session);
/* On any thread. Errors: not_found, and those of the store. */
moonpad_status mp_refresh_read(mp_refreshing *refresh, moonpad_error *error);
/* On the object's thread again: does the object still hold what it held at `begin`? */
bool mp_refresh_fits(const mp_refreshing *refresh, const moonpad_session *session);
/* Then it takes in what was read. Errors: no_memory; nothing has changed then. */
moonpad_status mp_refresh_apply(mp_refreshing *refresh, moonpad_session *session, moonpad_error *error);
/* In any case. */
void mp_refresh_end(mp_refreshing *refresh);

#endif
