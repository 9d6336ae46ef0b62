/*
** The events that a session object shows: counted, filtered and read in pages (contract 2,
** session.events).
*/
#ifndef MP_SERVICE_SESSION_EVENTS_H
#define MP_SERVICE_SESSION_EVENTS_H

#include "service/session/session.h"

/*
** As moonpad_session_event, without an object for the caller: the text is borrowed until anything
** else is done with the session object. Its data is NULL when the object does not show so many.
*/
moonpad_status mp_session_event_text(moonpad_session *session, size_t index, moonpad_string *json, int64_t *revision,
                                     moonpad_error *error);

/*
** Can that be answered without asking the store? With `index` SIZE_MAX: can the number of events be
** told?
*/
bool mp_session_event_is_ready(moonpad_session *session, size_t index);

/*
** One read that a look at an event needs: what the after_timestamp filter lets through, or one
** page. After the filter a page may still be missing: ask mp_session_event_is_ready again.
*/
typedef struct mp_event_read {
  moonpad_service *service;
  /* Its names are the session object's. */
  mp_session_ref ref;
  mp_expiry expiry;
  /* The event that is wanted; 0: the filter is to be applied. */
  int64_t revision;
  /* What is read: these revisions. */
  int64_t first;
  int64_t last;
  mp_page *page;
  /* Of the filter, and what it lets through. */
  double after_timestamp;
  int64_t *chosen;
  size_t chosen_count;
  size_t chosen_capacity;
} mp_event_read;

/*
** On the thread of the session object. `apart`: the object may be used meanwhile, so the page is
** not the object's.
*/
moonpad_status mp_event_read_begin(mp_event_read *read, moonpad_session *session, size_t index, bool apart,
                                   moonpad_error *error);
/* On any thread. */
moonpad_status mp_event_read_run(mp_event_read *read, moonpad_error *error);
/* On the object's thread again. `is_read`: `run` has succeeded. Idempotent. */
void mp_event_read_end(mp_event_read *read, moonpad_session *session, bool is_read);

#endif
