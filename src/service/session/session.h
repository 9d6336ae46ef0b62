/*
** A session object: what it holds of a stored session. The view is a map of all keys, prefixes
** in place; it changes by the object's own appends and by refresh only. One thread at a time.
*/
#ifndef MP_SERVICE_SESSION_SESSION_H
#define MP_SERVICE_SESSION_SESSION_H

#include "core/entries.h"
#include "service/service.h"
#include "service/session/own_writes.h"

/*
** A key of the view, in one piece of memory with it. Entries stay at their address until the
** session object is freed.
*/
typedef struct mp_view_entry {
  mp_key *key; /* with prefix */
  mp_scope scope;
  mp_value *value; /* that it shows; NULL: absent */
  /* in flight: what is known to be stored, while it shows what they will store; NULL: absent */
  mp_value *stored;
  int64_t revision; /* of its scope, at its last known change */
  /* that it takes in the session's own state, its key included; 0 in other scopes */
  size_t bytes;
  unsigned in_flight; /* asynchronous appends that wrote it and are not applied yet */
  bool stale;         /* within mp_view_apply: not gathered again */
  mp_own_writes own;  /* its journal: whoever stores the object's appends uses it (own_writes.h) */
} mp_view_entry;

typedef struct mp_page mp_page;

struct moonpad_session {
  moonpad_service *service;
  mp_env *env;
  mp_key *app_name;
  mp_key *user_id;
  mp_key *id;
  mp_session_row row; /* what the object holds: its revisions are the ones its view shows */
  mp_map view;
  size_t state_bytes;    /* of the session scope, keys included */
  moonpad_changes *own;  /* the object's own change set, made when first used */
  moonpad_changes *sets; /* all change sets over this object */

  /*
  ** events that it shows: `chosen` (only where after_timestamp was given), then first_event
  ** .. row.revision
  */
  int64_t first_event;
  int64_t recent;      /* for a filter not yet applied: the last n, or MOONPAD_ALL_EVENTS */
  bool filter_pending; /* after_timestamp is to be applied to the events up to filter_revision */
  double after_timestamp;
  int64_t filter_revision;
  int64_t *chosen;
  size_t chosen_count;
  mp_page *page;

  mp_key **conflicts;
  size_t conflict_count;

  mp_buffer spare; /* memory for the next event that is appended */

  struct mp_failure *failure; /* of asynchronous appends; NULL: there have been none */
  size_t jobs_in_flight;      /* not applied yet */
  bool has_failed;            /* one of them, so that those behind it fail as well */
  struct mp_job *first_job;   /* those that no poll has told of yet, in order */
  struct mp_job *last_job;
  /* One is under way that is shown only once it is stored. */
  bool has_unshown;
  /* The change set whose writes that one stores; NULL: none, or it has been freed since. */
  moonpad_changes *frozen;
  moonpad_queue *queue; /* counted: where they are told; NULL: in the service's own */
};

/*
** Keys of the three stored scopes gathered inside a transaction, to be put into a view after it. It
** does not move.
*/
typedef struct mp_changed_keys {
  mp_entries found;
  /* that it is for, where nobody uses it meanwhile: its entries are made at once; else NULL */
  mp_map *view;
  unsigned whole; /* heads of which every key is here: what else the view has of them is removed */
} mp_changed_keys;
void mp_changed_keys_init(mp_changed_keys *changed, mp_env *env);
void mp_changed_keys_clear(mp_changed_keys *changed);
void mp_changed_keys_free(mp_changed_keys *changed);
/* An mp_each_state; the context is the changed. */
moonpad_status mp_changed_keys_add_row(void *changed, const mp_state_row *row, moonpad_error *error);
void mp_changed_keys_note_whole(mp_changed_keys *changed, const mp_facts *facts);
/*
** A look at a session that gathers what changed since the revisions in `held` (NULL: everything).
*/
mp_look mp_look_at(const mp_session_ref *place, const mp_session_row *held, mp_changed_keys *changed);
/* Looks; notes what is whole. The changed is cleared before. */
moonpad_status mp_look_for_changed_keys(mp_tx *tx, mp_look *look, mp_changed_keys *changed, mp_facts *facts,
                                        moonpad_error *error);
mp_session_ref mp_session_ref_of_row(const moonpad_session_name *name, const mp_session_row *row);
mp_session_ref mp_session_ref_of(const moonpad_session *session);
/* An object for a row, with an empty view. NULL when out of memory. */
moonpad_session *mp_session_new(moonpad_service *service, const moonpad_session_name *name, const mp_session_row *row);
/*
** A session object that a transaction has just stored the row of: replaces *session, an
** earlier attempt's.
*/
moonpad_status mp_session_make_stored(moonpad_service *service, const moonpad_session_name *name, mp_tx *tx,
                                      const mp_session_row *row, moonpad_session **session, moonpad_error *error);
moonpad_session_name mp_session_names(const moonpad_session *session);
/*
** An object of its own for the same stored session, with an empty view: for a thread that
** asks the store what needs no more than whose it is, while the other object is used. NULL when
** out of memory.
*/
moonpad_session *mp_session_reference(const moonpad_session *session);

/* The view's entry, made (absent) when there is none; NULL when out of memory. */
mp_view_entry *mp_view_touch(mp_map *view, mp_env *env, moonpad_string key);
/* that is not there */
mp_view_entry *mp_view_add(mp_map *view, mp_env *env, moonpad_string key, uint64_t hash);
static inline mp_view_entry *mp_view_touch_hashed(mp_map *view, mp_env *env, moonpad_string key, uint64_t hash) {
  mp_view_entry *entry = mp_map_get_hashed(view, key.data, key.length, hash);
  return entry != NULL ? entry : mp_view_add(view, env, key, hash);
}
/* What is stored there, which the view shows unless appends are under way that wrote it. */
void mp_view_set(moonpad_session *session, mp_view_entry *entry, mp_value *value, int64_t revision);
/* The same with the caller's own reference to the value. */
void mp_view_move(moonpad_session *session, mp_view_entry *entry, mp_value *value, int64_t revision);
/*
** Shows what an append will store, over what is stored; takes the reference. `settle` once that
** append is over.
*/
void mp_view_expect(moonpad_session *session, mp_view_entry *entry, mp_value *value);
void mp_view_expect_done(moonpad_session *session, mp_view_entry *entry);
/* Shows what is stored again: the appends under way that wrote it are going to fail. */
void mp_view_expect_nothing(moonpad_session *session, mp_view_entry *entry);
void mp_view_free(mp_map *view, mp_env *env);

/* The revision that the object holds for a scope. */
static inline int64_t mp_snapshot_revision(const moonpad_session *session, mp_scope scope) {
  switch (scope) {
  case MP_SCOPE_SESSION:
    return session->row.revision;
  case MP_SCOPE_USER:
    return session->row.user_revision;
  case MP_SCOPE_APP:
    return session->row.app_revision;
  default: /* temp: lives in the session object alone, and changes when an event is appended */
    return session->row.revision;
  }
}
static inline int64_t mp_row_revision(const mp_session_row *row, mp_scope scope) {
  switch (scope) {
  case MP_SCOPE_SESSION:
    return row->revision;
  case MP_SCOPE_USER:
    return row->user_revision;
  case MP_SCOPE_APP:
    return row->app_revision;
  default:
    return row->revision;
  }
}

bool mp_equal_values(const mp_value *a, const mp_value *b);
/* Makes the view show them. `reserve` first (may fail), then `apply` (cannot). */
bool mp_view_reserve(moonpad_session *session, const mp_changed_keys *changed);
void mp_view_apply(moonpad_session *session, const mp_changed_keys *changed, const mp_session_row *row);

/*
** Waits until the asynchronous appends of this object are done, and applies them. Their callbacks
** stay for moonpad_poll.
*/
void mp_session_drain(moonpad_session *session);
/*
** The same, but does not apply them, for the object is about to be freed: callbacks will get no
** session.
*/
void mp_session_detach_appends(moonpad_session *session);
/*
** Applies those that are done, in order, and waits for none. True: none is under way any more.
*/
bool mp_session_try_drain(moonpad_session *session);
/*
** The same where nobody waits for them (mp_job_abandon). `is_awaited`: somebody waits for their
** end all the same, so that the descriptor of the queue is readable from then on until this is
** called again.
*/
bool mp_session_drain_abandoned(moonpad_session *session, bool is_awaited);
/* Before it is asked what is pending: as long as that is being stored, nobody knows. */
static inline void mp_session_drain_unshown(moonpad_session *session) {
  if (session->has_unshown) mp_session_drain(session);
}
/*
** Is an asynchronous append to begin only when those before it are done? Those behind one that
** failed fail with it: this one is not to be one of them, for the object shows what is stored. And
** one that is shown only when it is stored is under way alone.
*/
static inline bool mp_session_queues_nothing(const moonpad_session *session) {
  return session->has_failed || session->has_unshown;
}

/*
** A refresh in steps, for whoever asks the store on another thread, while the session object may
** be used: `begin` on its thread once it is settled, `read` on any, then `apply` on its own again
** where the answer still fits what the object holds. `end` in any case. It does not move, and the
** names of the session object stay.
*/
typedef struct mp_refreshing {
  moonpad_service *service;
  mp_session_ref place;
  mp_session_row held;
  mp_session_row row;
  mp_changed_keys changes;
} mp_refreshing;
void mp_refresh_begin(mp_refreshing *refresh, const moonpad_session *session);
moonpad_status mp_refresh_read(mp_refreshing *refresh, moonpad_error *error);
bool mp_refresh_fits(const mp_refreshing *refresh, const moonpad_session *session);
moonpad_status mp_refresh_apply(mp_refreshing *refresh, moonpad_session *session, moonpad_error *error);
void mp_refresh_end(mp_refreshing *refresh);

/*
** The keys of the last conflict, for moonpad_session_conflict_key: takes the references and
** the array.
*/
void mp_session_keep_conflicts(moonpad_session *session, mp_key **keys, size_t count);
/* Error `conflict`; %s in the message is where the keys go. */
moonpad_status mp_fail_in_conflict(mp_key *const *keys, size_t count, const char *message, moonpad_error *error);

/* The object's own change set, for the Lua state proxy. NULL when out of memory. */
moonpad_changes *mp_session_own_changes(moonpad_session *session);

/*
** What the strings point to lies behind it, in the same block; of one that is lent it
** lies elsewhere.
*/
struct moonpad_event {
  mp_env *env;
  int64_t revision;
  double timestamp;
  moonpad_string id;
  moonpad_string json;
};
/* A stored event from its row. NULL when out of memory. */
moonpad_event *mp_event_new(mp_env *env, moonpad_string json, moonpad_string id, int64_t revision, double timestamp);

/*
** As moonpad_session_event, without an object for the caller: the text is borrowed until anything
** else is done with the session object; data NULL: there are not as many events.
*/
moonpad_status mp_session_event_text(moonpad_session *session, size_t index, moonpad_string *json, int64_t *revision,
                                     moonpad_error *error);

/* Can it be told without asking the store? `index` SIZE_MAX: how many there are. */
bool mp_session_event_is_ready(moonpad_session *session, size_t index);

/*
** What has to be read of a stored session first: what the after_timestamp filter lets through,
** or a page of events. `begin` on the thread of the session object, `run` on any, `end` on its own
** again. `apart`: the object may be used meanwhile, so the page is one of its own. The names of the
** object are to stay. Afterwards more may have to be read.
*/
typedef struct mp_event_read {
  moonpad_service *service;
  mp_session_ref place;
  int64_t revision; /* that is wanted; 0: the filter */
  int64_t first;
  int64_t last;
  mp_page *page;
  double after_timestamp;
  int64_t *chosen;
  size_t chosen_count;
  size_t chosen_capacity;
} mp_event_read;
moonpad_status mp_event_read_begin(mp_event_read *read, moonpad_session *session, size_t index, bool apart,
                                   moonpad_error *error);
moonpad_status mp_event_read_run(mp_event_read *read, moonpad_error *error);
/* Ended twice, it does nothing more. */
void mp_event_read_end(mp_event_read *read, moonpad_session *session, bool is_read);

/* Room for so many events; NULL when out of memory. */
mp_page *mp_page_new(mp_env *env, size_t capacity);
void mp_page_free(mp_env *env, mp_page *page);
/* Fills it with the events of a stored session from one revision to another. */
moonpad_status mp_page_read(mp_page *page, mp_tx *tx, const mp_session_ref *session, int64_t first, int64_t last,
                            moonpad_error *error);
/* An mp_each_event that adds to a page; the context is the page. */
moonpad_status mp_page_add(void *page, const mp_event_row *row, moonpad_error *error);
void mp_page_clear(mp_page *page);
/*
** From now on it takes events of so many bytes at most (one event at least) and leaves out those
** after them.
*/
void mp_page_limit(mp_page *page, size_t most);
size_t mp_page_count(const mp_page *page);
size_t mp_page_capacity(const mp_page *page);
/*
** The event of that revision, lent until the page is filled again or freed; false: it is not there.
*/
bool mp_page_borrow(const mp_page *page, int64_t revision, moonpad_event *event);

/* A cursor over all that is stored of a session in these revisions. NULL when out of memory. */
moonpad_event_cursor *mp_event_cursor_new(const moonpad_session *session, int64_t first, int64_t last);
/* May it be read? */
moonpad_status mp_event_cursor_check(const moonpad_event_cursor *cursor, moonpad_error *error);
/*
** Can it tell its next event, or that there is none, without asking the store? Else `load` makes
** it so.
*/
bool mp_event_cursor_is_ready(const moonpad_event_cursor *cursor);
moonpad_status mp_event_cursor_load(moonpad_event_cursor *cursor, moonpad_error *error);

#endif
