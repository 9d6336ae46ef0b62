/*
** What the memory store holds: apps, their users, their sessions. Finding, making and unmaking
** them; who may do what when is decided in memory.c.
*/
#ifndef MP_STORE_MEMORY_DATA_H
#define MP_STORE_MEMORY_DATA_H

#include "store/memory/events.h"
#include "store/memory/keys.h"
#include "store/memory/slots.h"

typedef struct mp_memory_app {
  int64_t id;
  int64_t revision;
  int64_t forgotten; /* as in mp_facts */
  double touched;
  mp_key *name; /* app */
  mp_memory_keys keys;
  struct mp_memory_user *users; /* newest first */
} mp_memory_app;

typedef struct mp_memory_user {
  int64_t id;
  int64_t revision;
  int64_t forgotten;
  double touched;
  mp_memory_app *app;
  mp_key *name; /* app NUL user */
  mp_memory_keys keys;
  struct mp_memory_user *previous; /* neighbours at its app */
  struct mp_memory_user *next;
  struct mp_memory_session *sessions;
  bool deleted; /* by the transaction under way */
} mp_memory_user;

typedef struct mp_memory_session {
  mp_session_row row; /* but for user_revision and app_revision, which their owners know */
  int64_t forgotten;
  double touched;
  mp_memory_user *user;
  mp_key *name; /* app NUL user NUL session */
  mp_memory_keys keys;
  mp_memory_keys base_keys;
  mp_memory_events events;
  struct mp_memory_session *previous; /* neighbours at its user */
  struct mp_memory_session *next;
  bool deleted; /* by the transaction under way */
} mp_memory_session;

typedef struct mp_memory_data {
  mp_env *env; /* borrowed */
  mp_map apps;
  mp_map users;
  mp_map sessions;
  mp_memory_slots app_slots;
  mp_memory_slots user_slots;
  mp_memory_slots session_slots;
  mp_buffer name; /* what mp_memory_data_name composed last */
} mp_memory_data;

void mp_memory_data_init(mp_memory_data *data, mp_env *env);
void mp_memory_data_free(mp_memory_data *data);

/*
** The key of an app (user and session NULL), a user (session NULL) or a session. Borrowed until the
** next call. False when out of memory.
*/
bool mp_memory_data_name(mp_memory_data *data, moonpad_string app, const moonpad_string *user,
                         const moonpad_string *session, moonpad_string *name);
moonpad_string mp_memory_user_id(const mp_memory_user *user);
moonpad_string mp_memory_session_id(const mp_memory_session *session);

/* By composed name, or internal id; NULL when there is none, or it is deleted. */
mp_memory_app *mp_memory_data_app(const mp_memory_data *data, moonpad_string name);
mp_memory_user *mp_memory_data_user(const mp_memory_data *data, moonpad_string name);
mp_memory_session *mp_memory_data_session(const mp_memory_data *data, moonpad_string name);
static inline mp_memory_app *mp_memory_data_app_by_id(const mp_memory_data *data, int64_t id) {
  return mp_memory_slots_get(&data->app_slots, id);
}
static inline mp_memory_user *mp_memory_data_user_by_id(const mp_memory_data *data, int64_t id) {
  mp_memory_user *user = mp_memory_slots_get(&data->user_slots, id);
  return user == NULL || user->deleted ? NULL : user;
}
static inline mp_memory_session *mp_memory_data_session_by_id(const mp_memory_data *data, int64_t id) {
  mp_memory_session *session = mp_memory_slots_get(&data->session_slots, id);
  return session == NULL || session->deleted ? NULL : session;
}

/* Make what is not there yet; NULL when out of memory: nothing has changed. */
mp_memory_app *mp_memory_data_make_app(mp_memory_data *data, moonpad_string name);
/* *replaced: the deleted user or session that had the name, or NULL. */
mp_memory_user *mp_memory_data_make_user(mp_memory_data *data, mp_memory_app *app, moonpad_string name,
                                         mp_memory_user **replaced);
mp_memory_session *mp_memory_data_make_session(mp_memory_data *data, mp_memory_user *user, moonpad_string name,
                                               const mp_session_row *row, mp_memory_session **replaced);

/* Undo exactly that, in the reverse order. */
void mp_memory_data_undo_create_app(mp_memory_data *data, mp_memory_app *app);
void mp_memory_data_undo_create_user(mp_memory_data *data, mp_memory_user *user, mp_memory_user *replaced);
void mp_memory_data_undo_create_session(mp_memory_data *data, mp_memory_session *session, mp_memory_session *replaced);

/* Takes a deleted user, whose sessions have been buried, out of everything, and frees it. */
void mp_memory_data_remove_user(mp_memory_data *data, mp_memory_user *user);
/* Takes a deleted session out of everything; it is to be freed. */
void mp_memory_data_remove(mp_memory_data *data, mp_memory_session *session);
void mp_memory_session_free(mp_env *env, mp_memory_session *session);

/*
** The keys of a scope, what its head remembers, where its revision is kept. `keys` NULL: it is
** not there.
*/
typedef struct mp_memory_scope {
  mp_memory_keys *keys;
  int64_t *revision;
  int64_t *forgotten;
  double *touched;
} mp_memory_scope;
mp_memory_scope mp_memory_data_scope(const mp_memory_data *data, mp_scope scope, int64_t id);

/* With the revisions of its user and app. */
static inline mp_session_row mp_memory_session_row(const mp_memory_session *session) {
  mp_session_row row = session->row;
  row.user_revision = session->user->revision;
  row.app_revision = session->user->app->revision;
  return row;
}

/* mp_parts.each_session. Sessions may be deleted meanwhile. */
moonpad_status mp_memory_list(mp_memory_data *data, const mp_list_query *query, mp_each_session each, void *context,
                              moonpad_error *error);

#endif
