/*
** A store, to be read by who wants one of their own (docs/storage.md). What it keeps is in a table of
** records (example_table.h); here the small questions of store/parts.h are put to that table, from
** which store/parts.c answers whole ones.
*/
#include "example_store.h"

#include "base/error.h"
#include "example_table.h"
#include "store/parts.h"

typedef struct example_store {
  mp_store base;
  mp_env *env;
  bool closed;
  mp_parts_tx tx; /* the one transaction that there is at a time */
  table table;
} example_store;

static table *table_of(mp_tx *tx) {
  return &((example_store *)((char *)tx - offsetof(example_store, tx)))->table;
}

/* ---- parts ---- */

static moonpad_status load_session(mp_tx *tx, int64_t id, mp_facts *facts, moonpad_error *error) {
  (void)error;
  const record *session = table_by_id(table_of(tx), id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  facts->row = session->session;
  facts->row.user_revision = table_by_id(table_of(tx), session->session.user)->revision;
  facts->row.app_revision = table_by_id(table_of(tx), session->session.app)->revision;
  return MOONPAD_OK;
}

/* A user, or without user_id an app. NULL: it is not there; with `create`, there is no memory to make it. */
static const record *find_head(table *all, moonpad_string app_name, const moonpad_string *user_id, bool create) {
  const record *app = create ? table_need(all, APP, 0, app_name) : table_find(all, APP, 0, app_name);
  if (app == NULL || user_id == NULL) return app;
  return create ? table_need(all, USER, app->id, *user_id) : table_find(all, USER, app->id, *user_id);
}

static moonpad_status find_shared(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                  mp_facts *facts, moonpad_error *error) {
  const record *head = find_head(table_of(tx), app_name, user_id, create);
  if (head == NULL) return create ? mp_no_memory(error) : MOONPAD_NOT_FOUND;
  *(user_id != NULL ? &facts->row.user : &facts->row.app) = head->id;
  *(user_id != NULL ? &facts->row.user_revision : &facts->row.app_revision) = head->revision;
  return MOONPAD_OK;
}

static moonpad_status find_session(mp_tx *tx, const moonpad_session_name *name, mp_facts *facts, moonpad_error *error) {
  const record *user = find_head(table_of(tx), name->app_name, &name->user_id, false);
  const record *session = user == NULL ? NULL : table_find(table_of(tx), SESSION, user->id, name->session_id);
  return session == NULL ? MOONPAD_NOT_FOUND : load_session(tx, session->id, facts, error);
}

static moonpad_status read_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                               int64_t *revision, moonpad_error *error) {
  (void)scope, (void)error; /* no two heads have the same id here */
  const record *found = table_find(table_of(tx), KEY, id, key);
  *value = found == NULL ? NULL : mp_value_retain(found->value);
  *revision = found == NULL ? 0 : found->revision;
  return MOONPAD_OK;
}

static moonpad_status each_key(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  size_t at = 0;
  for (const record *key; status == MOONPAD_OK && (key = table_next(table_of(tx), KEY, id, &at)) != NULL;) {
    mp_state_row row = {table_text(key->name), key->value, key->revision, scope};
    bool wanted = since == MP_EVERY_KEY ? row.value != NULL : row.revision > since;
    if (wanted) status = each(context, &row, error);
  }
  return status;
}

static moonpad_status give_event(const record *event, bool without_json, mp_each_event each, void *context,
                                 moonpad_error *error) {
  mp_event_row row = event->event;
  row.id = table_text(event->name);
  row.json = table_text(without_json ? NULL : event->value);
  row.invocation = table_text(without_json ? NULL : event->invocation);
  return each(context, &row, error);
}

static moonpad_status find_event(mp_tx *tx, int64_t session, moonpad_string event_id, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const record *event = table_find(table_of(tx), EVENT, session, event_id);
  return event == NULL ? MOONPAD_NOT_FOUND : give_event(event, false, each, context, error);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  const table *all = table_of(tx);
  const record *app = table_find(all, APP, 0, query->app_name);
  mp_listed_session *listed = mp_allocate(all->env, (all->count + 1) * sizeof *listed);
  if (listed == NULL) return mp_no_memory(error);
  size_t count = 0, at = 0;
  for (const record *user; app != NULL && (user = table_next(all, USER, app->id, &at)) != NULL;) {
    size_t next = 0;
    for (const record *session; (session = table_next(all, SESSION, user->id, &next)) != NULL;) {
      mp_facts facts;
      load_session(tx, session->id, &facts, error);
      listed[count++] = (mp_listed_session){facts.row, table_text(user->name), table_text(session->name)};
    }
  }
  moonpad_status status = mp_parts_give_listed(listed, count, query, each, context, error);
  mp_release(all->env, listed);
  return status;
}

static moonpad_status put(mp_tx *tx, enum record_kind kind, int64_t id, const mp_key_write *write,
                          moonpad_error *error) {
  record *key = table_need(table_of(tx), kind, id, write->key);
  if (key == NULL) return mp_no_memory(error);
  table_set(table_of(tx), &key->value, write->value);
  key->revision = write->revision;
  return MOONPAD_OK;
}

static moonpad_status write_key(mp_tx *tx, int64_t id, const mp_key_write *write, moonpad_error *error) {
  return put(tx, KEY, id, write, error);
}

static moonpad_status write_base_key(mp_tx *tx, int64_t session, const mp_key_write *write, moonpad_error *error) {
  return put(tx, BASE_KEY, session, write, error);
}

static moonpad_status append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error) {
  table *all = table_of(tx);
  size_t at = 0;
  for (const record *before; (before = table_next(all, EVENT, session, &at)) != NULL;) {
    if (row->revision <= before->event.revision) return MOONPAD_ALREADY_EXISTS;
  }
  if (table_find(all, EVENT, session, row->id) != NULL) return MOONPAD_ALREADY_EXISTS;
  record *event = table_need(all, EVENT, session, row->id);
  if (event == NULL) return mp_no_memory(error);
  event->event = *row;
  event->value = mp_value_new_string(all->env, row->json);
  event->invocation = mp_value_new_string(all->env, row->invocation);
  return event->value == NULL || event->invocation == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  (void)error;
  const table *all = table_of(tx);
  const mp_session_row *row = batch->row;
  if (batch->heads & MP_HEAD(MP_SCOPE_SESSION)) table_by_id(all, row->id)->session = *row;
  if (batch->heads & MP_HEAD(MP_SCOPE_USER)) table_by_id(all, row->user)->revision = row->user_revision;
  if (batch->heads & MP_HEAD(MP_SCOPE_APP)) table_by_id(all, row->app)->revision = row->app_revision;
  return MOONPAD_OK;
}

static const mp_parts parts = {find_session, load_session, find_shared,    read_key,     each_key,    find_event,
                               each_session, write_key,    write_base_key, append_event, update_heads};

/* ---- what has no parts ---- */

static moonpad_status each_event(mp_tx *tx, const mp_place *session, const mp_event_query *query, mp_each_event each,
                                 void *context, moonpad_error *error) {
  const table *all = table_of(tx);
  size_t count = all->count; /* what the callback appends is not walked over */
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < count && status == MOONPAD_OK; i++) {
    const record *item = &all->records[query->newest_first ? count - 1 - i : i];
    int64_t revision = item->event.revision;
    bool is_its = item->kind == EVENT && item->parent == session->session;
    bool wanted = revision >= query->first && revision <= query->last &&
                  (query->kinds == 0 || (item->event.kinds & query->kinds) != 0);
    if (is_its && wanted) status = give_event(item, query->without_json, each, context, error);
  }
  return mp_walk_end(status);
}

static moonpad_status each_base_key(mp_tx *tx, const mp_place *session, mp_each_state each, void *context,
                                    moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  size_t at = 0;
  for (const record *key; (key = table_next(table_of(tx), BASE_KEY, session->session, &at)) != NULL;) {
    mp_state_row row = {table_text(key->name), key->value, 0, MP_SCOPE_SESSION};
    if (row.value != NULL) status = each(context, &row, error);
    if (status != MOONPAD_OK) break;
  }
  return mp_walk_end(status);
}

static moonpad_status create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                     mp_session_row *row, moonpad_error *error) {
  mp_facts facts = {0};
  if (find_session(tx, name, &facts, error) == MOONPAD_OK) return MOONPAD_ALREADY_EXISTS;
  const record *user = find_head(table_of(tx), name->app_name, &name->user_id, true);
  int64_t app = user == NULL ? 0 : user->parent;
  record *session = user == NULL ? NULL : table_need(table_of(tx), SESSION, user->id, name->session_id);
  if (session == NULL) return mp_no_memory(error);
  session->session = (mp_session_row){.id = session->id, .user = session->parent, .app = app};
  session->session.create_time = session->session.last_update_time = create_time;
  moonpad_status status = load_session(tx, session->id, &facts, error);
  *row = facts.row;
  return status;
}

static moonpad_status remove_session(mp_tx *tx, const mp_place *session, moonpad_error *error) {
  (void)error;
  table_drop(table_of(tx), session->session);
  return MOONPAD_OK;
}

static moonpad_status remove_user(mp_tx *tx, const mp_place *user, int64_t *sessions, moonpad_error *error) {
  (void)error;
  const record *found = find_head(table_of(tx), user->name.app_name, &user->name.user_id, false);
  int64_t id = found == NULL ? 0 : found->id;
  *sessions = 0;
  if (found == NULL) return MOONPAD_NOT_FOUND;
  size_t at = 0;
  for (const record *session; (session = table_next(table_of(tx), SESSION, id, &at)) != NULL; at = 0) {
    table_drop(table_of(tx), session->id);
    ++*sessions;
  }
  table_drop(table_of(tx), id);
  return MOONPAD_OK;
}

static const mp_tx_ops tx_ops = {.size = sizeof tx_ops,
                                 .look = mp_parts_look,
                                 .each_listed = mp_parts_each_listed,
                                 .each_event = each_event,
                                 .find_invocation = mp_parts_find_invocation,
                                 .each_base_key = each_base_key,
                                 .create_session = create_session,
                                 .remove_session = remove_session,
                                 .remove_user = remove_user,
                                 .apply = mp_parts_apply,
                                 .copy_history = mp_parts_copy_history};

/* ---- the store ---- */

static moonpad_status transact(mp_store *base, bool writes, mp_tx_function function, void *context,
                               moonpad_error *error) {
  example_store *store = (example_store *)base;
  if (!table_begin(&store->table, writes)) return mp_no_memory(error);
  moonpad_status status =
      store->closed ? mp_fail(error, MOONPAD_CLOSED, "the service is closed") : function(&store->tx.tx, context, error);
  table_end(&store->table, status == MOONPAD_OK);
  return status;
}

static moonpad_status example_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  return transact(store, true, function, context, error);
}

static moonpad_status example_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  return transact(store, false, function, context, error);
}

static void example_close(mp_store *base) {
  example_store *store = (example_store *)base;
  table_begin(&store->table, false);
  store->closed = true;
  table_end(&store->table, true);
}

static void example_free(mp_store *base) {
  example_store *store = (example_store *)base;
  mp_env *env = store->env;
  table_free(&store->table);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {.size = sizeof store_ops,
                                       .write = example_write,
                                       .try_write = example_write,
                                       .read = example_read,
                                       .close = example_close,
                                       .free = example_free};

moonpad_status example_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                  moonpad_error *error) {
  (void)rest, (void)options;
  example_store *opened = mp_allocate_zeroed(env, sizeof *opened);
  *store = (mp_store *)opened;
  if (opened == NULL || !table_init(&opened->table, env)) return mp_no_memory(error);
  opened->base = (mp_store){.ops = &store_ops, .in_memory = true};
  opened->env = mp_env_retain(env);
  opened->tx = (mp_parts_tx){{&tx_ops}, env, &parts};
  return MOONPAD_OK;
}

const struct moonpad_store_opener example_store_opener = {MP_STORE_VERSION, example_store_open};
