/*
** A store, to be read by who wants one of their own (docs/storage.md). What it keeps is in a
** table of records (example_table.h); here the small questions of store/parts.h are put to that
** table, from which store/parts.c answers whole ones.
*/
#include "example_store.h"

#include "base/error.h"
#include "example_table.h"
#include "store/parts.h"

typedef struct example_store {
  mp_store base; /* first */
  table table;
} example_store;

static table *table_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->data;
}

/* ---- heads: no two have the same id here ---- */

static moonpad_status find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                  mp_head *head, moonpad_error *error) {
  const record *found = (create ? table_need : table_find)(table_of(tx), (enum record_kind)scope, app, name);
  if (found == NULL) return create ? mp_no_memory(error) : MOONPAD_NOT_FOUND;
  *head = (mp_head){.id = found->id, .revision = found->revision};
  return MOONPAD_OK;
}

static moonpad_status find_session(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error) {
  (void)error;
  table *all = table_of(tx);
  int64_t app = table_id(all, APP, 0, ref->name.app_name), user = table_id(all, USER, app, ref->name.user_id);
  const record *session = table_find(all, SESSION, user, ref->name.session_id);
  if (ref->session != 0) session = table_by_id(all, ref->session);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  facts->row = session->session;
  facts->row.user_revision = table_by_id(all, facts->row.user)->revision;
  facts->row.app_revision = table_by_id(all, facts->row.app)->revision;
  return MOONPAD_OK;
}

static moonpad_status insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row, moonpad_error *error) {
  table *all = table_of(tx);
  if (table_find(all, SESSION, row->user, session_id) != NULL) return MOONPAD_ALREADY_EXISTS;
  record *session = table_need(all, SESSION, row->user, session_id);
  if (session == NULL) return mp_no_memory(error);
  row->id = session->id;
  session->session = *row;
  return MOONPAD_OK;
}

static moonpad_status drop(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error) {
  (void)scope, (void)error;
  table_drop(table_of(tx), id);
  return MOONPAD_OK;
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

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  table *all = table_of(tx);
  mp_sorting sorting = {.env = all->env, .query = query};
  int64_t app = table_id(all, APP, 0, query->app_name);
  const record *user, *session;
  for (size_t i = 0; (user = table_next(all, USER, app, false, &i)) != NULL;) {
    for (size_t j = 0; (session = table_next(all, SESSION, user->id, false, &j)) != NULL;) {
      mp_facts facts;
      find_session(tx, &(mp_session_ref){.session = session->id}, &facts, error);
      mp_listed_session listed = {
          .row = facts.row, .user_id = table_text(user->name), .session_id = table_text(session->name)};
      mp_sorting_add(&sorting, &listed);
    }
  }
  return mp_sorting_emit(&sorting, each, context, error);
}

/* ---- keys ---- */

static moonpad_status read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error) {
  (void)error;
  const record *key = table_find(table_of(tx), KEY, id, wanted->key);
  if (key == NULL) return MOONPAD_OK;
  wanted->value = mp_value_retain(key->value);
  wanted->revision = key->revision;
  return MOONPAD_OK;
}

static moonpad_status each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  enum record_kind kind = owner.is_base ? BASE_KEY : KEY;
  moonpad_status status = MOONPAD_OK;
  const record *key;
  size_t at = 0;
  while (status == MOONPAD_OK && (key = table_next(table_of(tx), kind, owner.id, false, &at)) != NULL) {
    mp_state_row row = {owner.scope, table_text(key->name), key->value, key->revision};
    if (since == MP_EVERY_KEY ? row.value != NULL : row.revision > since) status = each(context, &row, error);
  }
  return status;
}

static moonpad_status write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error) {
  record *key = table_need(table_of(tx), owner.is_base ? BASE_KEY : KEY, owner.id, write->key);
  if (key == NULL) return mp_no_memory(error);
  table_set(table_of(tx), &key->value, write->value);
  key->revision = write->revision;
  return MOONPAD_OK;
}

/* ---- events ---- */

static moonpad_status each_event(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                                 void *context, moonpad_error *error) {
  size_t at = query->newest_first ? table_of(tx)->count : 0;
  moonpad_status status = MOONPAD_OK;
  const record *event;
  while (status == MOONPAD_OK && (event = table_next(table_of(tx), EVENT, session, query->newest_first, &at)) != NULL) {
    status = mp_emit_event(event->event, query, each, context, error);
  }
  return status;
}

static moonpad_status append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error) {
  table *all = table_of(tx);
  size_t at = all->count;
  const record *last = table_next(all, EVENT, session, true, &at);
  bool comes_after = last == NULL || row->revision > last->event.revision;
  if (!comes_after || table_find(all, EVENT, session, row->id) != NULL) return MOONPAD_ALREADY_EXISTS;
  record *event = table_need(all, EVENT, session, row->id);
  if (event == NULL) return mp_no_memory(error);
  event->event = *row;
  event->event.id = table_text(event->name);
  bool kept = table_keep(all, &event->value, &event->event.json) &&
              table_keep(all, &event->invocation, &event->event.invocation);
  return kept ? MOONPAD_OK : mp_no_memory(error);
}

static const mp_parts parts = {find_session, find_shared, insert_session, drop,         update_heads, each_session,
                               read_key,     each_key,    write_key,      append_event, each_event};

/* ---- the store ---- */

static moonpad_status transact(mp_store *base, bool writes, mp_tx_function function, void *context,
                               moonpad_error *error) {
  example_store *store = (example_store *)base;
  mp_parts_tx tx = {{&mp_parts_ops}, store->table.env, &parts, &store->table};
  moonpad_status status = table_begin(&store->table, writes, error);
  if (status != MOONPAD_OK) return status;
  status = function(&tx.tx, context, error);
  table_end(&store->table, status == MOONPAD_OK);
  return status;
}

static moonpad_status example_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  return transact(store, true, function, context, error);
}

static moonpad_status example_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  return transact(store, false, function, context, error);
}

static void example_close(mp_store *store) {
  table_close(&((example_store *)store)->table);
}

static void example_free(mp_store *store) {
  mp_env *env = ((example_store *)store)->table.env;
  table_free(&((example_store *)store)->table);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {.size = sizeof store_ops,
                                       .write = example_write,
                                       .read = example_read,
                                       .close = example_close,
                                       .free = example_free};

moonpad_status example_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                  moonpad_error *error) {
  (void)rest, (void)options;
  example_store *opened = mp_allocate_zeroed(env, sizeof *opened);
  *store = (mp_store *)opened;
  if (opened == NULL) return mp_no_memory(error);
  opened->base = (mp_store){.ops = &store_ops, .in_memory = true};
  table_init(&opened->table, mp_env_retain(env));
  return MOONPAD_OK;
}

const struct moonpad_store_opener example_store_opener = {MP_STORE_VERSION, example_store_open};
