/*
** What the memory store holds: apps, their users, their sessions. Finds, creates and removes them.
** A deleted user or session stays, marked, until its transaction has ended.
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
  double touched;    /* as in mp_facts */
  mp_key *name;      /* app */
  mp_memory_keys keys;
  struct mp_memory_user *users; /* the newest first */
} mp_memory_app;

typedef struct mp_memory_user {
  int64_t id;
  int64_t revision;
  int64_t forgotten;
  double touched;
  mp_memory_app *app;
  mp_key *name; /* app NUL user */
  mp_memory_keys keys;
  struct mp_memory_user *previous; /* in the list of its app */
  struct mp_memory_user *next;
  struct mp_memory_session *sessions; /* the newest first */
  bool deleted;                       /* by the transaction that runs */
} mp_memory_user;

typedef struct mp_memory_session {
  mp_session_row row; /* without user_revision and app_revision: those are in user and app */
  int64_t forgotten;
  double touched;
  mp_memory_user *user;
  mp_key *name; /* app NUL user NUL session */
  mp_memory_keys keys;
  mp_memory_keys base_keys;
  mp_memory_events events;
  struct mp_memory_session *previous; /* in the list of its user */
  struct mp_memory_session *next;
  bool deleted; /* by the transaction that runs */
} mp_memory_session;

typedef struct mp_memory_data {
  mp_env *env;     /* borrowed */
  mp_map apps;     /* name -> mp_memory_app */
  mp_map users;    /* name -> mp_memory_user */
  mp_map sessions; /* name -> mp_memory_session */
  mp_memory_slots app_slots;
  mp_memory_slots user_slots;
  mp_memory_slots session_slots;
  mp_buffer name; /* what mp_memory_data_compose_name returned last */
} mp_memory_data;

void mp_memory_data_init(mp_memory_data *data, mp_env *env);
void mp_memory_data_free(mp_memory_data *data);

/*
** Composes the name under which an app (user and session NULL), a user (session NULL) or a session
** is found. *name is borrowed until the next call. False when out of memory.
*/
bool mp_memory_data_compose_name(mp_memory_data *data, moonpad_string app, const moonpad_string *user,
                                 const moonpad_string *session, moonpad_string *name);
moonpad_string mp_memory_user_id(const mp_memory_user *user);
moonpad_string mp_memory_session_id(const mp_memory_session *session);

/* Finds by composed name. NULL: there is none, or it is deleted. */
mp_memory_app *mp_memory_data_find_app(const mp_memory_data *data, moonpad_string name);
mp_memory_user *mp_memory_data_find_user(const mp_memory_data *data, moonpad_string name);
mp_memory_session *mp_memory_data_find_session(const mp_memory_data *data, moonpad_string name);

/* Finds by internal id. NULL: there is none, or it is deleted. */
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

/* Create what does not exist yet. NULL when out of memory: nothing has changed. */
mp_memory_app *mp_memory_data_create_app(mp_memory_data *data, moonpad_string name);
/* *replaced: the deleted user or session that had the name, or NULL. */
mp_memory_user *mp_memory_data_create_user(mp_memory_data *data, mp_memory_app *app, moonpad_string name,
                                           mp_memory_user **replaced);
mp_memory_session *mp_memory_data_create_session(mp_memory_data *data, mp_memory_user *user, moonpad_string name,
                                                 const mp_session_row *row, mp_memory_session **replaced);

/* Undo a creation; the last one first. Cannot fail. */
void mp_memory_data_undo_create_app(mp_memory_data *data, mp_memory_app *app);
void mp_memory_data_undo_create_user(mp_memory_data *data, mp_memory_user *user, mp_memory_user *replaced);
void mp_memory_data_undo_create_session(mp_memory_data *data, mp_memory_session *session, mp_memory_session *replaced);

/* Removes a deleted user, whose sessions have been removed, and frees it. Cannot fail. */
void mp_memory_data_remove_user(mp_memory_data *data, mp_memory_user *user);
/* Removes a deleted session; the caller frees it with mp_memory_session_free. Cannot fail. */
void mp_memory_data_remove_session(mp_memory_data *data, mp_memory_session *session);
void mp_memory_session_free(mp_env *env, mp_memory_session *session);

/* Where the members of a session's, a user's or an app's head are. keys NULL: it does not exist. */
typedef struct mp_memory_head {
  mp_memory_keys *keys;
  int64_t *revision;
  int64_t *forgotten;
  double *touched;
} mp_memory_head;
mp_memory_head mp_memory_data_head(const mp_memory_data *data, mp_scope scope, int64_t id);
/* The keys of a head, or of a session's base state. NULL: it does not exist. */
mp_memory_keys *mp_memory_data_keys(const mp_memory_data *data, mp_scope scope, int64_t id, bool is_base);

/* The row with the revisions of its user and app. */
static inline mp_session_row mp_memory_session_row(const mp_memory_session *session) {
  mp_session_row row = session->row;
  row.user_revision = session->user->revision;
  row.app_revision = session->user->app->revision;
  return row;
}

#endif
