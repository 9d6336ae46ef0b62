/* What a transaction writes. Each step is noted in the undo log. */
#include "base/error.h"
#include "store/memory/log.h"

static mp_memory_session *session_by_id(mp_tx *tx, int64_t id) {
  return mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
}

static moonpad_status find_app(mp_tx *tx, moonpad_string name, bool create, mp_head *head, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_app *app = mp_memory_data_find_app(&store->data, name);
  if (app == NULL) {
    moonpad_status status = create ? mp_memory_log_reserve(tx, error) : MOONPAD_NOT_FOUND;
    if (status != MOONPAD_OK) return status;
    app = mp_memory_data_create_app(&store->data, name);
    if (app == NULL) return mp_no_memory(error);
    mp_memory_log_add(store, MP_STEP_CREATE_APP)->was.app = app;
  }
  *head = (mp_head){app->id, app->revision, app->forgotten, app->touched};
  return MOONPAD_OK;
}

static moonpad_status create_user(mp_tx *tx, mp_memory_app *app, moonpad_string name, mp_memory_user **user,
                                  moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_user *replaced;
  *user = mp_memory_data_create_user(&store->data, app, name, &replaced);
  if (*user == NULL) return mp_no_memory(error);
  mp_memory_step *added = mp_memory_log_add(store, MP_STEP_CREATE_USER);
  added->was.user.user = *user;
  added->was.user.replaced = replaced;
  return MOONPAD_OK;
}

static moonpad_status find_user(mp_tx *tx, int64_t app_id, moonpad_string user_id, bool create, mp_head *head,
                                moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  mp_memory_app *app = mp_memory_data_app_by_id(data, app_id);
  moonpad_string name;
  if (app == NULL) return MOONPAD_NOT_FOUND;
  if (!mp_memory_data_compose_name(data, mp_key_text(app->name), &user_id, NULL, &name)) return mp_no_memory(error);
  mp_memory_user *user = mp_memory_data_find_user(data, name);
  if (user == NULL) {
    moonpad_status status = create ? create_user(tx, app, name, &user, error) : MOONPAD_NOT_FOUND;
    if (status != MOONPAD_OK) return status;
  }
  *head = (mp_head){user->id, user->revision, user->forgotten, user->touched};
  return MOONPAD_OK;
}

moonpad_status mp_memory_find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                     mp_head *head, moonpad_error *error) {
  return scope == MP_SCOPE_USER ? find_user(tx, app, name, create, head, error)
                                : find_app(tx, name, create, head, error);
}

moonpad_status mp_memory_insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row,
                                        moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_user *user = mp_memory_data_user_by_id(&store->data, row->user);
  moonpad_string name;
  if (user == NULL) return MOONPAD_NOT_FOUND;
  if (!mp_memory_data_compose_name(&store->data, mp_key_text(user->name), &session_id, NULL, &name))
    return mp_no_memory(error);
  if (mp_memory_data_find_session(&store->data, name) != NULL) return MOONPAD_ALREADY_EXISTS;
  mp_memory_session *replaced;
  mp_memory_session *session = mp_memory_data_create_session(&store->data, user, name, row, &replaced);
  if (session == NULL) return mp_no_memory(error);
  row->id = session->row.id;
  mp_memory_step *added = mp_memory_log_add(store, MP_STEP_CREATE_SESSION);
  added->was.created.session = session;
  added->was.created.replaced = replaced;
  return MOONPAD_OK;
}

moonpad_status mp_memory_write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_keys *keys = mp_memory_data_keys(&mp_memory_store_of(tx)->data, owner.scope, owner.id, owner.is_base);
  if (keys == NULL) return MOONPAD_NOT_FOUND;
  mp_key *shared = NULL;
  /*
  ** A key of the base state that is in the current state too, which is the rule, shares its text.
  */
  if (owner.is_base) {
    const mp_memory_key *current = mp_memory_keys_find(&session_by_id(tx, owner.id)->keys, write->key);
    shared = current == NULL ? NULL : current->key;
  }
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_step *written = mp_memory_log_reserved(store);
  if (!mp_memory_keys_write(keys, write->key, shared, write->value, write->revision, &written->was.key)) {
    return mp_no_memory(error);
  }
  mp_memory_log_add(store, MP_STEP_WRITE_KEY);
  return MOONPAD_OK;
}

moonpad_status mp_memory_append_event(mp_tx *tx, int64_t id, const mp_event_row *row, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  status = mp_memory_events_append(store->env, &session->events, row, error);
  if (status == MOONPAD_OK) mp_memory_log_add(store, MP_STEP_APPEND_EVENT)->was.session = session;
  return status;
}

static moonpad_status set_revision(mp_tx *tx, mp_scope scope, int64_t id, int64_t revision, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  int64_t *target = mp_memory_data_head(&store->data, scope, id).revision;
  if (target == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_step *changed = mp_memory_log_add(store, MP_STEP_SET_REVISION);
  changed->was.revision.target = target;
  changed->was.revision.before = *target;
  *target = revision;
  return MOONPAD_OK;
}

static moonpad_status update_session(mp_tx *tx, const mp_session_row *row, double touched, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, row->id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_step *updated = mp_memory_log_add(store, MP_STEP_UPDATE_SESSION);
  updated->was.updated.session = session;
  updated->was.updated.revision = session->row.revision;
  updated->was.updated.base_revision = session->row.base_revision;
  updated->was.updated.conversation_count = session->row.conversation_count;
  updated->was.updated.last_update_time = session->row.last_update_time;
  updated->was.updated.touched = session->touched;
  session->row.revision = row->revision;
  session->row.base_revision = row->base_revision;
  session->row.conversation_count = row->conversation_count;
  session->row.last_update_time = row->last_update_time;
  if (touched > session->touched) session->touched = touched;
  return MOONPAD_OK;
}

moonpad_status mp_memory_update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  const mp_session_row *row = batch->row;
  moonpad_status status = MOONPAD_OK;
  if ((batch->heads & MP_HEAD(MP_SCOPE_USER)) != 0) {
    status = set_revision(tx, MP_SCOPE_USER, row->user, row->user_revision, error);
  }
  if (status == MOONPAD_OK && (batch->heads & MP_HEAD(MP_SCOPE_APP)) != 0) {
    status = set_revision(tx, MP_SCOPE_APP, row->app, row->app_revision, error);
  }
  if (status == MOONPAD_OK && (batch->heads & MP_HEAD(MP_SCOPE_SESSION)) != 0) {
    status = update_session(tx, row, batch->touched, error);
  }
  unsigned shared = batch->heads & (MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP));
  if (status != MOONPAD_OK || shared == 0 || batch->touched == 0) return status;
  mp_touch touch = {.ref = {.user = row->user, .app = row->app}, .heads = shared, .time = batch->touched};
  return mp_memory_touch(tx, &touch, 1, error);
}
