/*
** The store "memory:": everything lives in this process and ends with it. One mutex; a transaction works on the data itself and notes in a log how to
** undo each step. Every step reserves what it needs, its place in the log included, before it changes anything, so undoing cannot fail.
*/
#include <pthread.h>

#include "base/error.h"
#include "store/memory_data.h"

typedef enum step_kind {
  STEP_APP,      /* made an app */
  STEP_USER,     /* made a user */
  STEP_SESSION,  /* made a session */
  STEP_DELETE,   /* deleted a session */
  STEP_UPDATE,   /* changed a session's row */
  STEP_REVISION, /* changed the revision of a user or an app */
  STEP_KEY,      /* wrote a key */
  STEP_EVENT     /* appended an event */
} step_kind;

/* One step of the transaction under way, with what it takes to undo it. */
typedef struct undo_record {
  step_kind kind;
  union {
    mp_memory_app *app;
    mp_memory_user *user;
    mp_memory_session *session; /* STEP_DELETE, STEP_EVENT */
    struct {
      mp_memory_session *session;
      mp_memory_session *replaced;
    } made;
    struct {
      mp_memory_session *session;
      int64_t revision;
      int64_t base_revision;
      int64_t conversation_count;
      double last_update_time;
    } updated;
    struct {
      int64_t *place;
      int64_t before;
    } revision;
    mp_memory_key_undo key;
  } was;
} undo_record;

#define STEPS_KEPT 1024 /* between transactions: beyond it, the log of a large one is given back */

typedef struct memory_store {
  mp_store base;
  mp_env *env;
  pthread_mutex_t mutex; /* guards all that follows */
  bool closed;
  mp_memory_data data;
  undo_record *steps;
  size_t step_capacity;
  size_t step_count;
  mp_memory_session
      *garbage; /* deleted by the transaction under way, chained by `next`: freed when the mutex is not held */
} memory_store;

typedef struct memory_tx {
  mp_tx base;
  memory_store *store;
  bool writing;
} memory_tx;

static memory_store *store_of(mp_tx *tx) {
  return ((memory_tx *)tx)->store;
}

/* ---- the log ---- */

/* The long way of reserve_step. */
static moonpad_status grow_steps(mp_tx *tx, moonpad_error *error) {
  memory_store *store = store_of(tx);
  if (!((memory_tx *)tx)->writing) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "a transaction that reads cannot write");
  }
  void *steps = store->steps;
  if (!mp_reserve(store->env, &steps, &store->step_capacity, sizeof(undo_record), store->step_count + 1)) {
    return mp_no_memory(error);
  }
  store->steps = steps;
  return MOONPAD_OK;
}

/* Makes the next step's place sure; before anything is changed. */
static inline moonpad_status reserve_step(mp_tx *tx, moonpad_error *error) {
  const memory_store *store = store_of(tx);
  bool has_room = ((memory_tx *)tx)->writing && store->step_count < store->step_capacity;
  return has_room ? MOONPAD_OK : grow_steps(tx, error);
}

static undo_record *add_step(memory_store *store, step_kind kind) {
  undo_record *added = &store->steps[store->step_count++];
  added->kind = kind;
  return added;
}

static void undo_step(memory_store *store, undo_record *step) {
  mp_memory_session *session;
  switch (step->kind) {
  case STEP_APP:
    mp_memory_data_unmake_app(&store->data, step->was.app);
    break;
  case STEP_USER:
    mp_memory_data_unmake_user(&store->data, step->was.user);
    break;
  case STEP_SESSION:
    mp_memory_data_unmake_session(&store->data, step->was.made.session, step->was.made.replaced);
    break;
  case STEP_DELETE:
    step->was.session->deleted = false;
    break;
  case STEP_UPDATE:
    session = step->was.updated.session;
    session->row.revision = step->was.updated.revision;
    session->row.base_revision = step->was.updated.base_revision;
    session->row.conversation_count = step->was.updated.conversation_count;
    session->row.last_update_time = step->was.updated.last_update_time;
    break;
  case STEP_REVISION:
    *step->was.revision.place = step->was.revision.before;
    break;
  case STEP_KEY:
    mp_memory_keys_undo(&step->was.key);
    break;
  case STEP_EVENT:
    mp_memory_events_undo(store->env, &step->was.session->events);
    break;
  }
}

/* Undoes the steps from number `first` on. */
static void undo_steps(memory_store *store, size_t first) {
  while (store->step_count > first) undo_step(store, &store->steps[--store->step_count]);
}

static void keep_steps(memory_store *store) {
  for (size_t i = 0; i < store->step_count; i++) {
    undo_record *step = &store->steps[i];
    if (step->kind == STEP_KEY) {
      mp_memory_keys_keep(&step->was.key);
    } else if (step->kind == STEP_DELETE) {
      mp_memory_data_bury(&store->data, step->was.session);
      step->was.session->next = store->garbage;
      store->garbage = step->was.session;
    }
  }
  store->step_count = 0;
}

static void shrink_steps(memory_store *store) {
  if (store->step_capacity <= STEPS_KEPT) return;
  mp_release(store->env, store->steps);
  store->steps = NULL;
  store->step_capacity = 0;
}

/* ---- reading ---- */

static moonpad_status find_session(mp_tx *tx, const moonpad_session_name *name, mp_session_row *row,
                                   moonpad_error *error) {
  mp_memory_data *data = &store_of(tx)->data;
  moonpad_string text;
  if (!mp_memory_data_name(data, name->app_name, &name->user_id, &name->session_id, &text)) return mp_no_memory(error);
  mp_memory_session *session = mp_memory_data_session(data, text);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  *row = mp_memory_session_row(session);
  return MOONPAD_OK;
}

static moonpad_status load_session(mp_tx *tx, int64_t id, mp_session_row *row, moonpad_error *error) {
  (void)error;
  mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  *row = mp_memory_session_row(session);
  return MOONPAD_OK;
}

/* The keys of a scope, or NULL when it is not there. */
static mp_memory_keys *keys_of(mp_tx *tx, mp_scope scope, int64_t id) {
  mp_memory_data *data = &store_of(tx)->data;
  if (scope == MP_SCOPE_SESSION) {
    mp_memory_session *session = mp_memory_data_session_by_id(data, id);
    return session == NULL ? NULL : &session->keys;
  }
  if (scope == MP_SCOPE_USER) {
    mp_memory_user *user = mp_memory_data_user_by_id(data, id);
    return user == NULL ? NULL : &user->keys;
  }
  if (scope == MP_SCOPE_APP) {
    mp_memory_app *app = mp_memory_data_app_by_id(data, id);
    return app == NULL ? NULL : &app->keys;
  }
  return NULL;
}

static moonpad_status read_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                               int64_t *revision, moonpad_error *error) {
  (void)error;
  *value = NULL;
  *revision = 0;
  const mp_memory_keys *keys = keys_of(tx, scope, id);
  const mp_memory_key *entry = keys == NULL ? NULL : mp_memory_keys_find(keys, key);
  if (entry == NULL) return MOONPAD_OK;
  *value = mp_value_retain(entry->value);
  *revision = entry->revision;
  return MOONPAD_OK;
}

static moonpad_status each_key(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  const mp_memory_keys *keys = keys_of(tx, scope, id);
  return keys == NULL ? MOONPAD_OK : mp_memory_keys_each(keys, since, each, context, error);
}

static moonpad_status each_base_key(mp_tx *tx, int64_t id, mp_each_state each, void *context, moonpad_error *error) {
  const mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  return session == NULL ? MOONPAD_OK : mp_memory_keys_each(&session->base_keys, -1, each, context, error);
}

static moonpad_status find_event(mp_tx *tx, int64_t id, moonpad_string event_id, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  return mp_memory_events_find(&session->events, event_id, each, context, error);
}

static moonpad_status each_event(mp_tx *tx, int64_t id, int64_t first, int64_t last, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  return session == NULL ? MOONPAD_OK : mp_memory_events_each(&session->events, first, last, each, context, error);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  return mp_memory_list(&store_of(tx)->data, query, each, context, error);
}

/* ---- writing ---- */

/* Finds an app, or makes it. */
static moonpad_status need_app(mp_tx *tx, moonpad_string name, mp_memory_app **app, moonpad_error *error) {
  memory_store *store = store_of(tx);
  *app = mp_memory_data_app(&store->data, name);
  if (*app != NULL) return MOONPAD_OK;
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  *app = mp_memory_data_make_app(&store->data, name);
  if (*app == NULL) return mp_no_memory(error);
  add_step(store, STEP_APP)->was.app = *app;
  return MOONPAD_OK;
}

/* Finds a user by its composed name, or makes it, and its app, of which the name is `app_length` bytes long. */
static moonpad_status need_user(mp_tx *tx, moonpad_string name, size_t app_length, mp_memory_user **user,
                                moonpad_error *error) {
  memory_store *store = store_of(tx);
  *user = mp_memory_data_user(&store->data, name);
  if (*user != NULL) return MOONPAD_OK;
  mp_memory_app *app;
  moonpad_string app_name = {name.data, app_length};
  moonpad_status status = need_app(tx, app_name, &app, error);
  if (status == MOONPAD_OK) status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  *user = mp_memory_data_make_user(&store->data, app, name);
  if (*user == NULL) return mp_no_memory(error);
  add_step(store, STEP_USER)->was.user = *user;
  return MOONPAD_OK;
}

static moonpad_status find_shared(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                  int64_t *id, int64_t *revision, moonpad_error *error) {
  memory_store *store = store_of(tx);
  size_t mark = store->step_count;
  moonpad_status status = MOONPAD_OK;
  moonpad_string name;
  if (!mp_memory_data_name(&store->data, app_name, user_id, NULL, &name)) return mp_no_memory(error);
  if (user_id != NULL) {
    mp_memory_user *user = mp_memory_data_user(&store->data, name);
    if (user == NULL && create) status = need_user(tx, name, app_name.length, &user, error);
    if (status == MOONPAD_OK && user != NULL) {
      *id = user->id;
      *revision = user->revision;
      return MOONPAD_OK;
    }
  } else {
    mp_memory_app *app = mp_memory_data_app(&store->data, name);
    if (app == NULL && create) status = need_app(tx, name, &app, error);
    if (status == MOONPAD_OK && app != NULL) {
      *id = app->id;
      *revision = app->revision;
      return MOONPAD_OK;
    }
  }
  undo_steps(store, mark);
  return status == MOONPAD_OK ? MOONPAD_NOT_FOUND : status;
}

/* May leave a new user or app behind when it fails: the caller undoes them. */
static moonpad_status make_session(mp_tx *tx, const moonpad_session_name *name, moonpad_string text, double create_time,
                                   mp_memory_session **session, moonpad_error *error) {
  memory_store *store = store_of(tx);
  mp_memory_user *user;
  moonpad_string user_name = {text.data, name->app_name.length + 1 + name->user_id.length};
  moonpad_status status = need_user(tx, user_name, name->app_name.length, &user, error);
  if (status == MOONPAD_OK) status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *replaced;
  *session = mp_memory_data_make_session(&store->data, user, text, create_time, &replaced);
  if (*session == NULL) return mp_no_memory(error);
  undo_record *made = add_step(store, STEP_SESSION);
  made->was.made.session = *session;
  made->was.made.replaced = replaced;
  return MOONPAD_OK;
}

static moonpad_status create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                     mp_session_row *row, moonpad_error *error) {
  memory_store *store = store_of(tx);
  moonpad_string text;
  if (!mp_memory_data_name(&store->data, name->app_name, &name->user_id, &name->session_id, &text)) {
    return mp_no_memory(error);
  }
  if (mp_memory_data_session(&store->data, text) != NULL) return MOONPAD_ALREADY_EXISTS;
  size_t mark = store->step_count;
  mp_memory_session *session;
  moonpad_status status = make_session(tx, name, text, create_time, &session, error);
  if (status != MOONPAD_OK) {
    undo_steps(store, mark);
    return status;
  }
  *row = mp_memory_session_row(session);
  return MOONPAD_OK;
}

static moonpad_status delete_session(mp_tx *tx, int64_t id, moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  session->deleted = true;
  add_step(store_of(tx), STEP_DELETE)->was.session = session;
  return MOONPAD_OK;
}

/* Writes into `keys`; its step's place is sure. */
static moonpad_status put_key(memory_store *store, mp_memory_keys *keys, moonpad_string key, mp_key *shared,
                              mp_value *value, int64_t revision, moonpad_error *error) {
  undo_record *written = &store->steps[store->step_count];
  if (!mp_memory_keys_write(keys, key, shared, value, revision, &written->was.key)) return mp_no_memory(error);
  add_step(store, STEP_KEY);
  return MOONPAD_OK;
}

static moonpad_status write_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value *value,
                                int64_t revision, moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_keys *keys = keys_of(tx, scope, id);
  if (keys == NULL) return MOONPAD_NOT_FOUND;
  return put_key(store_of(tx), keys, key, NULL, value, revision, error);
}

static moonpad_status write_base_key(mp_tx *tx, int64_t id, moonpad_string key, mp_value *value, moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  /* The text of a key that is in the current state as well, which is the rule, is held once. */
  const mp_memory_key *current = mp_memory_keys_find(&session->keys, key);
  mp_key *shared = current == NULL ? NULL : current->key;
  return put_key(store_of(tx), &session->base_keys, key, shared, value, 0, error);
}

static moonpad_status set_shared_revision(mp_tx *tx, mp_scope scope, int64_t id, int64_t revision,
                                          moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_data *data = &store_of(tx)->data;
  mp_memory_user *user = scope == MP_SCOPE_USER ? mp_memory_data_user_by_id(data, id) : NULL;
  mp_memory_app *app = scope == MP_SCOPE_APP ? mp_memory_data_app_by_id(data, id) : NULL;
  if (user == NULL && app == NULL) return MOONPAD_NOT_FOUND;
  int64_t *place = user != NULL ? &user->revision : &app->revision;
  undo_record *changed = add_step(store_of(tx), STEP_REVISION);
  changed->was.revision.place = place;
  changed->was.revision.before = *place;
  *place = revision;
  return MOONPAD_OK;
}

static moonpad_status append_event(mp_tx *tx, int64_t id, const mp_event_row *row, moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  memory_store *store = store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  status = mp_memory_events_append(store->env, &session->events, row, error);
  if (status == MOONPAD_OK) add_step(store, STEP_EVENT)->was.session = session;
  return status;
}

static moonpad_status update_session(mp_tx *tx, const mp_session_row *row, moonpad_error *error) {
  moonpad_status status = reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *session = mp_memory_data_session_by_id(&store_of(tx)->data, row->id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  undo_record *updated = add_step(store_of(tx), STEP_UPDATE);
  updated->was.updated.session = session;
  updated->was.updated.revision = session->row.revision;
  updated->was.updated.base_revision = session->row.base_revision;
  updated->was.updated.conversation_count = session->row.conversation_count;
  updated->was.updated.last_update_time = session->row.last_update_time;
  session->row.revision = row->revision;
  session->row.base_revision = row->base_revision;
  session->row.conversation_count = row->conversation_count;
  session->row.last_update_time = row->last_update_time;
  return MOONPAD_OK;
}

static const mp_tx_ops tx_ops = {
    .find_session = find_session,
    .load_session = load_session,
    .find_shared = find_shared,
    .read_key = read_key,
    .each_key = each_key,
    .each_base_key = each_base_key,
    .find_event = find_event,
    .each_event = each_event,
    .each_session = each_session,
    .create_session = create_session,
    .delete_session = delete_session,
    .write_key = write_key,
    .write_base_key = write_base_key,
    .set_shared_revision = set_shared_revision,
    .append_event = append_event,
    .update_session = update_session,
};

/* ---- the store ---- */

/* With the mutex held, unless it fails. */
static moonpad_status enter(memory_store *store, moonpad_error *error) {
  pthread_mutex_lock(&store->mutex);
  if (!store->closed) return MOONPAD_OK;
  pthread_mutex_unlock(&store->mutex);
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

static void free_garbage(memory_store *store, mp_memory_session *garbage) {
  while (garbage != NULL) {
    mp_memory_session *next = garbage->next;
    mp_memory_session_free(store->env, garbage);
    garbage = next;
  }
}

static moonpad_status memory_write(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  memory_store *store = (memory_store *)base;
  moonpad_status status = enter(store, error);
  if (status != MOONPAD_OK) return status;
  memory_tx tx = {{&tx_ops}, store, true};
  status = function(&tx.base, context, error);
  if (status == MOONPAD_OK) {
    keep_steps(store);
  } else {
    undo_steps(store, 0);
  }
  shrink_steps(store);
  mp_memory_session *garbage = store->garbage;
  store->garbage = NULL;
  pthread_mutex_unlock(&store->mutex);
  free_garbage(store, garbage);
  return status;
}

static moonpad_status memory_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  memory_store *store = (memory_store *)base;
  moonpad_status status = enter(store, error);
  if (status != MOONPAD_OK) return status;
  memory_tx tx = {{&tx_ops}, store, false};
  status = function(&tx.base, context, error);
  pthread_mutex_unlock(&store->mutex);
  return status;
}

static moonpad_status memory_backup(mp_store *base, moonpad_string path, moonpad_error *error) {
  memory_store *store = (memory_store *)base;
  (void)path;
  moonpad_status status = enter(store, error);
  if (status != MOONPAD_OK) return status;
  pthread_mutex_unlock(&store->mutex);
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "memory: has no backup: export its sessions, or use a sqlite: store, which has one");
}

static void memory_close(mp_store *base) {
  memory_store *store = (memory_store *)base;
  pthread_mutex_lock(&store->mutex);
  store->closed = true;
  pthread_mutex_unlock(&store->mutex);
}

static void memory_free(mp_store *base) {
  memory_store *store = (memory_store *)base;
  mp_env *env = store->env;
  mp_memory_data_free(&store->data);
  mp_release(env, store->steps);
  pthread_mutex_destroy(&store->mutex);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .write = memory_write,
    .try_write = memory_write, /* nobody holds the lock for longer than a transaction takes */
    .read = memory_read,
    .backup = memory_backup,
    .close = memory_close,
    .free = memory_free,
};

moonpad_status mp_memory_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error) {
  (void)options;
  *store = NULL;
  if (rest.length != 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "memory:%s: nothing may follow \"memory:\"; for a file use sqlite:PATH", mp_quote(rest).text);
  }
  memory_store *opened = mp_allocate_zeroed(env, sizeof *opened);
  if (opened == NULL) return mp_no_memory(error);
  if (pthread_mutex_init(&opened->mutex, NULL) != 0) {
    mp_release(env, opened);
    return mp_no_memory(error);
  }
  opened->base.ops = &store_ops;
  opened->base.in_memory = true;
  opened->env = mp_env_retain(env);
  mp_memory_data_init(&opened->data, env);
  *store = &opened->base;
  return MOONPAD_OK;
}
