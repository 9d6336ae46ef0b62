/* What a transaction on the memory store reads and writes. */
#include "base/error.h"
#include "store/memory_log.h"

/* ---- reading ---- */

static void session_facts(const mp_memory_session *session, mp_facts *facts) {
  const mp_memory_user *user = session->user;
  facts->row = mp_memory_session_row(session);
  facts->forgotten[MP_SCOPE_SESSION] = session->forgotten;
  facts->forgotten[MP_SCOPE_USER] = user->forgotten;
  facts->forgotten[MP_SCOPE_APP] = user->app->forgotten;
  facts->touched[MP_SCOPE_SESSION] = session->touched;
  facts->touched[MP_SCOPE_USER] = user->touched;
  facts->touched[MP_SCOPE_APP] = user->app->touched;
}

static moonpad_status find_session(mp_tx *tx, const moonpad_session_name *name, mp_facts *facts, moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  moonpad_string text;
  if (!mp_memory_data_name(data, name->app_name, &name->user_id, &name->session_id, &text)) return mp_no_memory(error);
  mp_memory_session *session = mp_memory_data_session(data, text);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  session_facts(session, facts);
  return MOONPAD_OK;
}

static moonpad_status load_session(mp_tx *tx, int64_t id, mp_facts *facts, moonpad_error *error) {
  (void)error;
  mp_memory_session *session = mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  session_facts(session, facts);
  return MOONPAD_OK;
}

/* The keys of a scope, or NULL when it is not there. */
static mp_memory_keys *keys_of(mp_tx *tx, mp_scope scope, int64_t id) {
  return mp_memory_data_scope(&mp_memory_store_of(tx)->data, scope, id).keys;
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
  return keys == NULL ? MOONPAD_OK : mp_memory_keys_each(keys, scope, since, each, context, error);
}

static const mp_memory_session *session_at(mp_tx *tx, const mp_place *place) {
  return mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, place->session);
}

static moonpad_status each_base_key(mp_tx *tx, const mp_place *place, mp_each_state each, void *context,
                                    moonpad_error *error) {
  const mp_memory_session *session = session_at(tx, place);
  if (session == NULL) return MOONPAD_OK;
  return mp_walk_end(mp_memory_keys_each(&session->base_keys, MP_SCOPE_SESSION, MP_EVERY_KEY, each, context, error));
}

static moonpad_status find_event(mp_tx *tx, int64_t id, moonpad_string event_id, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const mp_memory_session *session = mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  return mp_memory_events_find(&session->events, event_id, each, context, error);
}

static moonpad_status each_event(mp_tx *tx, const mp_place *place, const mp_event_query *query, mp_each_event each,
                                 void *context, moonpad_error *error) {
  const mp_memory_session *session = session_at(tx, place);
  return session == NULL ? MOONPAD_OK : mp_memory_events_each(&session->events, query, each, context, error);
}

static moonpad_status find_invocation(mp_tx *tx, const mp_place *place, moonpad_string invocation, int64_t *revision,
                                      moonpad_error *error) {
  (void)error;
  const mp_memory_session *session = session_at(tx, place);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  return mp_memory_events_find_invocation(&session->events, invocation, revision);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  return mp_memory_list(&mp_memory_store_of(tx)->data, query, each, context, error);
}

/* ---- writing ---- */

/* Finds an app, or makes it. */
static moonpad_status need_app(mp_tx *tx, moonpad_string name, mp_memory_app **app, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  *app = mp_memory_data_app(&store->data, name);
  if (*app != NULL) return MOONPAD_OK;
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  *app = mp_memory_data_make_app(&store->data, name);
  if (*app == NULL) return mp_no_memory(error);
  mp_memory_add_step(store, MP_STEP_APP)->was.app = *app;
  return MOONPAD_OK;
}

/*
** Finds a user by its composed name, or makes it, and its app, of which the name is `app_length`
** bytes long.
*/
static moonpad_status need_user(mp_tx *tx, moonpad_string name, size_t app_length, mp_memory_user **user,
                                moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  *user = mp_memory_data_user(&store->data, name);
  if (*user != NULL) return MOONPAD_OK;
  mp_memory_app *app;
  moonpad_string app_name = {name.data, app_length};
  moonpad_status status = need_app(tx, app_name, &app, error);
  if (status == MOONPAD_OK) status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  *user = mp_memory_data_make_user(&store->data, app, name);
  if (*user == NULL) return mp_no_memory(error);
  mp_memory_add_step(store, MP_STEP_USER)->was.user = *user;
  return MOONPAD_OK;
}

static void user_facts(const mp_memory_user *user, mp_facts *facts) {
  facts->row.user = user->id;
  facts->row.user_revision = user->revision;
  facts->forgotten[MP_SCOPE_USER] = user->forgotten;
  facts->touched[MP_SCOPE_USER] = user->touched;
}

static void app_facts(const mp_memory_app *app, mp_facts *facts) {
  facts->row.app = app->id;
  facts->row.app_revision = app->revision;
  facts->forgotten[MP_SCOPE_APP] = app->forgotten;
  facts->touched[MP_SCOPE_APP] = app->touched;
}

static moonpad_status find_shared(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                  mp_facts *facts, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  size_t mark = store->step_count;
  moonpad_string name;
  mp_memory_user *user = NULL;
  mp_memory_app *app = NULL;
  moonpad_status status = MOONPAD_OK;
  if (!mp_memory_data_name(&store->data, app_name, user_id, NULL, &name)) return mp_no_memory(error);
  if (user_id != NULL) {
    user = mp_memory_data_user(&store->data, name);
    if (user == NULL && create) status = need_user(tx, name, app_name.length, &user, error);
  } else {
    app = mp_memory_data_app(&store->data, name);
    if (app == NULL && create) status = need_app(tx, name, &app, error);
  }
  if (status != MOONPAD_OK) {
    mp_memory_undo_steps(store, mark);
    return status;
  }
  if (user != NULL) user_facts(user, facts);
  if (app != NULL) app_facts(app, facts);
  return user == NULL && app == NULL ? MOONPAD_NOT_FOUND : MOONPAD_OK;
}

/* May leave a new user or app behind when it fails: the caller undoes them. */
static moonpad_status make_session(mp_tx *tx, const moonpad_session_name *name, moonpad_string text, double create_time,
                                   mp_memory_session **session, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_user *user;
  moonpad_string user_name = {text.data, name->app_name.length + 1 + name->user_id.length};
  moonpad_status status = need_user(tx, user_name, name->app_name.length, &user, error);
  if (status == MOONPAD_OK) status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *replaced;
  *session = mp_memory_data_make_session(&store->data, user, text, create_time, &replaced);
  if (*session == NULL) return mp_no_memory(error);
  mp_memory_step *made = mp_memory_add_step(store, MP_STEP_SESSION);
  made->was.made.session = *session;
  made->was.made.replaced = replaced;
  return MOONPAD_OK;
}

static moonpad_status create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                     mp_session_row *row, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_string text;
  if (!mp_memory_data_name(&store->data, name->app_name, &name->user_id, &name->session_id, &text)) {
    return mp_no_memory(error);
  }
  if (mp_memory_data_session(&store->data, text) != NULL) return MOONPAD_ALREADY_EXISTS;
  size_t mark = store->step_count;
  mp_memory_session *session;
  moonpad_status status = make_session(tx, name, text, create_time, &session, error);
  if (status != MOONPAD_OK) {
    mp_memory_undo_steps(store, mark);
    return status;
  }
  *row = mp_memory_session_row(session);
  return MOONPAD_OK;
}

/* Writes into `keys`; its step's place is sure. */
static moonpad_status put_key(mp_memory_store *store, mp_memory_keys *keys, mp_key *shared, const mp_key_write *write,
                              moonpad_error *error) {
  mp_memory_step *written = &store->steps[store->step_count];
  if (!mp_memory_keys_write(keys, write->key, shared, write->value, write->revision, &written->was.key)) {
    return mp_no_memory(error);
  }
  mp_memory_add_step(store, MP_STEP_KEY);
  return MOONPAD_OK;
}

static moonpad_status write_key(mp_tx *tx, int64_t id, const mp_key_write *write, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_keys *keys = keys_of(tx, write->scope, id);
  return keys == NULL ? MOONPAD_NOT_FOUND : put_key(mp_memory_store_of(tx), keys, NULL, write, error);
}

static moonpad_status write_base_key(mp_tx *tx, int64_t id, const mp_key_write *write, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_session *session = mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  /* The text of a key that is in the current state as well, which is the rule, is held once. */
  const mp_memory_key *current = mp_memory_keys_find(&session->keys, write->key);
  mp_key *shared = current == NULL ? NULL : current->key;
  mp_key_write base = *write;
  base.revision = 0;
  return put_key(mp_memory_store_of(tx), &session->base_keys, shared, &base, error);
}

static moonpad_status append_event(mp_tx *tx, int64_t id, const mp_event_row *row, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  status = mp_memory_events_append(store->env, &session->events, row, error);
  if (status == MOONPAD_OK) mp_memory_add_step(store, MP_STEP_EVENT)->was.session = session;
  return status;
}

static moonpad_status set_revision(mp_tx *tx, mp_scope scope, int64_t id, int64_t revision, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  int64_t *place = mp_memory_data_scope(&store->data, scope, id).revision;
  if (place == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_step *changed = mp_memory_add_step(store, MP_STEP_REVISION);
  changed->was.revision.place = place;
  changed->was.revision.before = *place;
  *place = revision;
  return MOONPAD_OK;
}

static moonpad_status update_session(mp_tx *tx, const mp_session_row *row, double touched, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, row->id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_step *updated = mp_memory_add_step(store, MP_STEP_UPDATE);
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
  if (touched != 0) session->touched = touched;
  return MOONPAD_OK;
}

static moonpad_status update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
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
  mp_touch touch = {.place = {.user = row->user, .app = row->app}, .heads = shared, .time = batch->touched};
  return mp_memory_touch(tx, &touch, 1, error);
}

const mp_parts mp_memory_parts = {
    .find_session = find_session,
    .load_session = load_session,
    .find_shared = find_shared,
    .read_key = read_key,
    .each_key = each_key,
    .find_event = find_event,
    .each_session = each_session,
    .write_key = write_key,
    .write_base_key = write_base_key,
    .append_event = append_event,
    .update_heads = update_heads,
};

const mp_tx_ops mp_memory_tx_ops = {
    .size = sizeof(mp_tx_ops),
    .look = mp_parts_look,
    .each_listed = mp_parts_each_listed,
    .each_event = each_event,
    .find_invocation = find_invocation,
    .each_base_key = each_base_key,
    .create_session = create_session,
    .remove_session = mp_memory_remove_session,
    .remove_user = mp_memory_remove_user,
    .apply = mp_parts_apply,
    .copy_history = mp_parts_copy_history,
    .trim = mp_memory_trim,
    .purge = mp_memory_purge,
    .touch = mp_memory_touch,
    .sweep = mp_memory_sweep,
    .claim_token = mp_memory_claim_token,
};
