/*
** Session objects: what a caller holds of a stored session. One thread at a time.
**
** Belongs here: the object's life and names, the state it shows (view.h), its events (event.h,
** events.h, cursor.h), its appends in flight; creating, getting, listing, refreshing and deleting
** sessions.
** Does not belong here: pending writes (changes/), what an append is and when it conflicts
** (append/), earlier states (history/).
** Arrows: session/ uses the service, the store and core; changes/, append/, history/ and shared/
** use session/. What they must learn they register: mp_view.will_change, mp_session_hooks. The view
** calls back because a change set keeps the value that a tool call still sees, before another one
** is shown (changes/versions.c).
*/
#ifndef MP_SERVICE_SESSION_SESSION_H
#define MP_SERVICE_SESSION_SESSION_H

#include "service/expiry/trim.h"
#include "service/session/changed_keys.h"
#include "service/session/in_flight.h"
#include "service/session/page.h"

/* Calls for what lies over the session object: its change sets (changes/life.c). */
typedef struct mp_session_hooks {
  /* It has taken in what others stored (mp_refresh_apply). */
  void (*refreshed)(moonpad_session *session);
  /* It was ahead of the store in these scopes (ahead.h); `stored` is what the store had then. */
  void (*taken_back)(moonpad_session *session, unsigned scopes, const mp_session_row *stored);
  /* It is about to be freed. Its appends are done. */
  void (*freeing)(moonpad_session *session);
} mp_session_hooks;

struct moonpad_session {
  moonpad_service *service;
  mp_env *env;
  mp_key *app_name;
  mp_key *user_id;
  mp_key *id;
  /* The snapshot: its revisions are the ones that the view shows. */
  mp_session_row row;
  /* Changes by the object's own appends and by refresh only. */
  mp_view view;

  /* NULL: it has had no change set. */
  const mp_session_hooks *hooks;
  /* Its own change set, made when first used; NULL: not yet. */
  moonpad_changes *own;
  /* All change sets over this object. */
  moonpad_changes *sets;

  /*
  ** The events that it shows: those in `chosen` (revisions, only where after_timestamp was given),
  ** then first_event .. row.revision.
  */
  int64_t first_event;
  int64_t *chosen;
  size_t chosen_count;
  /* The filter has not been applied yet to the events up to filter_revision. */
  bool filter_pending;
  double after_timestamp;
  int64_t filter_revision;
  /* Of that filter: the last n events, or MOONPAD_ALL_EVENTS. */
  int64_t recent;
  /* Events read last; NULL: none. */
  mp_page *page;

  /* The keys of the last conflict, counted. */
  mp_key **conflicts;
  size_t conflict_count;

  /* Its oldest turns, for appends that trim. */
  mp_known_turns turns;

  /* An entry of the view has is_taken_back. */
  bool has_taken_back;

  /* Memory for the next event that is appended. */
  mp_buffer scratch;

  mp_in_flight_queue in_flight;
};

/* An object for a row, with an empty view. NULL when out of memory. */
moonpad_session *mp_session_new(moonpad_service *service, const moonpad_session_name *name, const mp_session_row *row);
/* The same, showing `state`: its view, which must be set, becomes the object's. */
moonpad_session *mp_session_new_with(moonpad_service *service, const moonpad_session_name *name,
                                     const mp_session_row *row, const mp_changed_keys *state);
/*
** An object for a session whose row this transaction has just stored. Replaces *session, which an
** earlier attempt of the transaction made.
*/
moonpad_status mp_session_make_stored(moonpad_service *service, const moonpad_session_name *name, mp_tx *tx,
                                      const mp_session_row *row, moonpad_session **session, moonpad_error *error);
/*
** Another object for the same stored session, with an empty view: for a thread that asks the store
** and needs the session's names and ids only, while the first object is used. NULL when out of
** memory.
*/
moonpad_session *mp_session_reference(const moonpad_session *session);

/* Borrowed from the session object. */
moonpad_session_name mp_session_names(const moonpad_session *session);
mp_session_ref mp_session_ref_of(const moonpad_session *session);
/* The revision of a scope in the object's snapshot. */
static inline int64_t mp_snapshot_revision(const moonpad_session *session, mp_scope scope) {
  return mp_row_revision(&session->row, scope);
}

/* For moonpad_session_conflict_key: takes over the references and the array. */
void mp_session_keep_conflicts(moonpad_session *session, mp_key **keys, size_t count);
/* Error `conflict`; %s in the message is where the keys go. */
moonpad_status mp_fail_in_conflict(mp_key *const *keys, size_t count, const char *message, moonpad_error *error);

/* ---- appends in flight (in_flight.h) ---- */

static inline void mp_session_drain(moonpad_session *session) {
  mp_in_flight_drain(&session->in_flight);
}
static inline bool mp_session_try_drain(moonpad_session *session) {
  return mp_in_flight_try_drain(&session->in_flight);
}
static inline bool mp_session_drain_abandoned(moonpad_session *session, bool is_awaited) {
  return mp_in_flight_drain_abandoned(&session->in_flight, is_awaited);
}
/*
** Before asking what is pending. An unshown append is one whose outcome is shown only once it is
** stored (a stepped run's): until then its writes are pending, and may be stored already.
*/
static inline void mp_session_drain_unshown(moonpad_session *session) {
  if (session->in_flight.has_unshown) mp_session_drain(session);
}
/*
** Must the next append wait until those before it are done? Yes after a failed one, as long as
** others are in flight, with which it would fail; and while an unshown one is in flight.
*/
static inline bool mp_session_queues_nothing(const moonpad_session *session) {
  return session->in_flight.has_failed || session->in_flight.has_unshown;
}

#endif
