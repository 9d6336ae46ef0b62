/* What a transaction on the memory store reads and writes. */
#include "base/error.h"
#include "store/memory/log.h"

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

static mp_memory_session *session_by_id(mp_tx *tx, int64_t id) {
  return mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
}

static moonpad_status find_session(mp_tx *tx, const mp_session_ref *place, mp_facts *facts, moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  const moonpad_session_name *name = &place->name;
  const mp_memory_session *session;
  moonpad_string text;
  if (place->session != 0) {
    session = mp_memory_data_session_by_id(data, place->session);
  } else {
    if (!mp_memory_data_name(data, name->app_name, &name->user_id, &name->session_id, &text)) {
      return mp_no_memory(error);
    }
    session = mp_memory_data_session(data, text);
  }
  if (session == NULL) return MOONPAD_NOT_FOUND;
  session_facts(session, facts);
  return MOONPAD_OK;
}

/* NULL: it is not there. */
static mp_memory_keys *keys_of(mp_tx *tx, mp_owner owner) {
  if (!owner.is_base) return mp_memory_data_scope(&mp_memory_store_of(tx)->data, owner.scope, owner.id).keys;
  mp_memory_session *session = session_by_id(tx, owner.id);
  return session == NULL ? NULL : &session->base_keys;
}

static moonpad_status read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error) {
  (void)error;
  const mp_memory_keys *keys = keys_of(tx, (mp_owner){.id = id, .scope = wanted->scope});
  const mp_memory_key *entry = keys == NULL ? NULL : mp_memory_keys_find(keys, wanted->key);
  if (entry == NULL) return MOONPAD_OK;
  wanted->value = mp_value_retain(entry->value);
  wanted->revision = entry->revision;
  return MOONPAD_OK;
}

static moonpad_status each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  const mp_memory_keys *keys = keys_of(tx, owner);
  return keys == NULL ? MOONPAD_OK : mp_memory_keys_each(keys, owner.scope, since, each, context, error);
}

static moonpad_status each_event(mp_tx *tx, int64_t id, const mp_event_query *query, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const mp_memory_session *session = session_by_id(tx, id);
  return session == NULL ? MOONPAD_OK : mp_memory_events_each(&session->events, query, each, context, error);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  return mp_memory_list(&mp_memory_store_of(tx)->data, query, each, context, error);
}

/* ---- writing ---- */

static moonpad_status find_app(mp_tx *tx, moonpad_string name, bool create, mp_head *head, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_app *app = mp_memory_data_app(&store->data, name);
  if (app == NULL) {
    moonpad_status status = create ? mp_memory_reserve_step(tx, error) : MOONPAD_NOT_FOUND;
    if (status != MOONPAD_OK) return status;
    app = mp_memory_data_make_app(&store->data, name);
    if (app == NULL) return mp_no_memory(error);
    mp_memory_add_step(store, MP_STEP_APP)->was.app = app;
  }
  *head = (mp_head){app->id, app->revision, app->forgotten, app->touched};
  return MOONPAD_OK;
}

static moonpad_status make_user(mp_tx *tx, mp_memory_app *app, moonpad_string name, mp_memory_user **user,
                                moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_user *replaced;
  *user = mp_memory_data_make_user(&store->data, app, name, &replaced);
  if (*user == NULL) return mp_no_memory(error);
  mp_memory_step *made = mp_memory_add_step(store, MP_STEP_USER);
  made->was.user.user = *user;
  made->was.user.replaced = replaced;
  return MOONPAD_OK;
}

static moonpad_status find_user(mp_tx *tx, int64_t app_id, moonpad_string user_id, bool create, mp_head *head,
                                moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  mp_memory_app *app = mp_memory_data_app_by_id(data, app_id);
  moonpad_string name;
  if (app == NULL) return MOONPAD_NOT_FOUND;
  if (!mp_memory_data_name(data, mp_key_text(app->name), &user_id, NULL, &name)) return mp_no_memory(error);
  mp_memory_user *user = mp_memory_data_user(data, name);
  if (user == NULL) {
    moonpad_status status = create ? make_user(tx, app, name, &user, error) : MOONPAD_NOT_FOUND;
    if (status != MOONPAD_OK) return status;
  }
  *head = (mp_head){user->id, user->revision, user->forgotten, user->touched};
  return MOONPAD_OK;
}

static moonpad_status find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                  mp_head *head, moonpad_error *error) {
  return scope == MP_SCOPE_USER ? find_user(tx, app, name, create, head, error)
                                : find_app(tx, name, create, head, error);
}

static moonpad_status insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_user *user = mp_memory_data_user_by_id(&store->data, row->user);
  moonpad_string name;
  if (user == NULL) return MOONPAD_NOT_FOUND;
  if (!mp_memory_data_name(&store->data, mp_key_text(user->name), &session_id, NULL, &name)) return mp_no_memory(error);
  if (mp_memory_data_session(&store->data, name) != NULL) return MOONPAD_ALREADY_EXISTS;
  mp_memory_session *replaced;
  mp_memory_session *session = mp_memory_data_make_session(&store->data, user, name, row, &replaced);
  if (session == NULL) return mp_no_memory(error);
  row->id = session->row.id;
  mp_memory_step *made = mp_memory_add_step(store, MP_STEP_SESSION);
  made->was.made.session = session;
  made->was.made.replaced = replaced;
  return MOONPAD_OK;
}

static moonpad_status write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_keys *keys = keys_of(tx, owner);
  if (keys == NULL) return MOONPAD_NOT_FOUND;
  mp_key *shared = NULL;
  /* the text of a key that is in the current state as well, which is the rule, is held once */
  if (owner.is_base) {
    const mp_memory_key *current = mp_memory_keys_find(&session_by_id(tx, owner.id)->keys, write->key);
    shared = current == NULL ? NULL : current->key;
  }
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_step *written = &store->steps[store->step_count]; /* its place is sure */
  if (!mp_memory_keys_write(keys, write->key, shared, write->value, write->revision, &written->was.key)) {
    return mp_no_memory(error);
  }
  mp_memory_add_step(store, MP_STEP_KEY);
  return MOONPAD_OK;
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
  mp_touch touch = {.ref = {.user = row->user, .app = row->app}, .heads = shared, .time = batch->touched};
  return mp_memory_touch(tx, &touch, 1, error);
}

const mp_parts mp_memory_parts = {
    .find_session = find_session,
    .find_shared = find_shared,
    .insert_session = insert_session,
    .remove = mp_memory_remove,
    .update_heads = update_heads,
    .each_session = each_session,
    .read_key = read_key,
    .each_key = each_key,
    .write_key = write_key,
    .append_event = append_event,
    .each_event = each_event,
};

const mp_tx_ops mp_memory_tx_ops = {
    .size = sizeof(mp_tx_ops),
    .look = mp_parts_look,
    .each_listed = mp_parts_each_listed,
    .each_event = mp_parts_each_event,
    .find_invocation = mp_parts_find_invocation,
    .each_base_key = mp_parts_each_base_key,
    .create_session = mp_parts_create_session,
    .remove_session = mp_parts_remove_session,
    .remove_user = mp_parts_remove_user,
    .apply = mp_parts_apply,
    .copy_history = mp_parts_copy_history,
    .trim = mp_memory_trim,
    .purge = mp_memory_purge,
    .touch = mp_memory_touch,
    .sweep = mp_memory_sweep,
    .claim_token = mp_memory_claim_token,
};
