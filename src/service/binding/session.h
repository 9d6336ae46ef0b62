/*
** A session object.
**
** service/session/session.h: mp_session_reference; of its appends in flight mp_session_drain,
**   mp_session_try_drain, mp_session_drain_abandoned, mp_session_queues_nothing (inline: of
**   service/session/in_flight.h mp_in_flight_drain, mp_in_flight_try_drain,
**   mp_in_flight_drain_abandoned).
** service/session/events.h: mp_session_event_text, mp_session_event_is_ready; mp_event_read,
**   mp_event_read_begin, mp_event_read_run, mp_event_read_end.
** service/session/refresh.h: mp_refreshing, mp_refresh_begin, mp_refresh_read, mp_refresh_fits,
**   mp_refresh_apply, mp_refresh_end.
*/
#ifndef MP_SERVICE_BINDING_SESSION_H
#define MP_SERVICE_BINDING_SESSION_H

#include "service/session/events.h"
#include "service/session/refresh.h"
#include "service/session/session.h"

static inline mp_env *mp_session_env(const moonpad_session *session) {
  return session->env;
}

static inline const moonpad_options *mp_session_options(const moonpad_session *session) {
  return &session->service->options;
}

/* The queue that its asynchronous appends complete in; NULL: the service's own. Borrowed. */
static inline moonpad_queue *mp_session_queue(const moonpad_session *session) {
  return session->in_flight.completions;
}

/* The id of its creation in the store: never that of another one. */
static inline int64_t mp_session_number(const moonpad_session *session) {
  return session->row.id;
}

/* The revision of the first event that it shows, where no time was asked for. */
static inline int64_t mp_session_first_event(const moonpad_session *session) {
  return session->first_event;
}

/* How often the store has been found to have lost events, whose revisions others may have since. */
static inline unsigned mp_session_times_lost(const moonpad_session *session) {
  return atomic_load(&session->service->times_lost);
}

/* About how much memory it takes, for the collector. */
static inline size_t mp_session_memory(const moonpad_session *session) {
  return sizeof *session + 2 * session->view.state_bytes;
}

/* Moves the keys of the last conflict to the caller. NULL: there are none. */
static inline mp_key **mp_session_take_conflicts(moonpad_session *session, size_t *count) {
  *count = session->conflict_count;
  if (session->conflict_count == 0) return NULL;
  mp_key **keys = session->conflicts;
  session->conflicts = NULL;
  session->conflict_count = 0;
  return keys;
}

#endif
