/*
** A store, to be read by who wants one of their own (docs/storage.md). It is in memory, and the
** simplest thing that is right: an array of records. A transaction that writes first puts a copy
** of it aside, which comes back when it fails. Small questions (struct mp_parts) are answered here;
** the functions of store/parts.h make of these answers those to the whole questions that are asked.
*/
#include "example_store.h"

#include <pthread.h>

#include "base/error.h"
#include "base/map.h"
#include "store/parts.h"

enum { NAME, VALUE, INVOCATION, TEXTS };

typedef struct record {
  enum record_kind { APP, USER, SESSION, KEY, BASE_KEY, EVENT } kind;
  int64_t parent; /* what it belongs to: a user to its app, a key to a session, and so on */
  int64_t id;     /* of an app, a user or a session; 0 otherwise */
  int64_t revision;
  mp_session_row row;     /* of a session */
  mp_event_row event;     /* of an event, without its strings */
  mp_value *texts[TEXTS]; /* NAME: or key, or event id; VALUE: of a key (NULL: removed), or JSON */
} record;

typedef struct records {
  record *items; /* in the order in which they were made, so that events are in theirs */
  size_t capacity, count;
  int64_t last_id;
} records;

typedef struct example_store {
  mp_store base;
  mp_env *env;
  pthread_mutex_t mutex; /* held by one transaction at a time */
  bool closed;
  mp_parts_tx tx;
  records all;
} example_store;

/* The one transaction is a part of its store. */
static example_store *store_of(mp_tx *tx) {
  return (example_store *)((char *)tx - offsetof(example_store, tx));
}

/* ---- records ---- */

static moonpad_string text_of(const record *item, int which) {
  return item->texts[which] == NULL ? moonpad_text(NULL) : item->texts[which]->as.as.text;
}

/* NULL: it is not there; with `create`, there is no memory to make it. */
static record *find(mp_tx *tx, enum record_kind kind, int64_t parent, moonpad_string name, bool create) {
  example_store *store = store_of(tx);
  records *all = &store->all;
  for (record *item = all->items; item != all->items + all->count; item++) {
    bool may_be = item->kind == kind && item->parent == parent;
    if (may_be && mp_text_compare(text_of(item, NAME), name) == 0) return item;
  }
  void *items = all->items;
  if (!create || !mp_reserve(store->env, &items, &all->capacity, sizeof(record), all->count + 1)) return NULL;
  all->items = items;
  record *made = &all->items[all->count];
  *made = (record){.kind = kind, .parent = parent, .texts = {mp_value_new_string(store->env, name)}};
  if (made->texts[NAME] == NULL) return NULL;
  if (kind <= SESSION) made->id = ++all->last_id;
  all->count++;
  return made;
}

static record *find_id(mp_tx *tx, int64_t id) {
  const records *all = &store_of(tx)->all;
  for (record *item = all->items; id != 0 && item != all->items + all->count; item++) {
    if (item->id == id) return item;
  }
  return NULL;
}

static void release(mp_env *env, record *item) {
  for (int i = 0; i < TEXTS; i++) mp_value_release(env, item->texts[i]);
}

/* Removes what has this id and what belongs to it. */
static void drop(mp_tx *tx, int64_t id) {
  example_store *store = store_of(tx);
  size_t kept = 0;
  for (size_t i = 0; i < store->all.count; i++) {
    record *item = &store->all.items[i];
    bool stays = item->id != id && item->parent != id;
    if (stays) store->all.items[kept++] = *item;
    if (!stays) release(store->env, item);
  }
  store->all.count = kept;
}

/* ---- parts ---- */

static moonpad_status load_session(mp_tx *tx, int64_t id, mp_facts *facts, moonpad_error *error) {
  (void)error;
  const record *session = find_id(tx, id);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  facts->row = session->row;
  facts->row.user_revision = find_id(tx, session->row.user)->revision;
  facts->row.app_revision = find_id(tx, session->row.app)->revision;
  return MOONPAD_OK;
}

static moonpad_status find_session(mp_tx *tx, const moonpad_session_name *name, mp_facts *facts, moonpad_error *error) {
  const record *app = find(tx, APP, 0, name->app_name, false);
  const record *user = app == NULL ? NULL : find(tx, USER, app->id, name->user_id, false);
  const record *session = user == NULL ? NULL : find(tx, SESSION, user->id, name->session_id, false);
  return session == NULL ? MOONPAD_NOT_FOUND : load_session(tx, session->id, facts, error);
}

static moonpad_status find_shared(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                  mp_facts *facts, moonpad_error *error) {
  const record *head = find(tx, APP, 0, app_name, create);
  if (head != NULL && user_id != NULL) head = find(tx, USER, head->id, *user_id, create);
  if (head == NULL) return create ? mp_no_memory(error) : MOONPAD_NOT_FOUND;
  *(user_id != NULL ? &facts->row.user : &facts->row.app) = head->id;
  *(user_id != NULL ? &facts->row.user_revision : &facts->row.app_revision) = head->revision;
  return MOONPAD_OK;
}

static moonpad_status read_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                               int64_t *revision, moonpad_error *error) {
  (void)scope, (void)error; /* no two heads have the same id here */
  const record *item = find(tx, KEY, id, key, false);
  *value = item == NULL ? NULL : mp_value_retain(item->texts[VALUE]);
  *revision = item == NULL ? 0 : item->revision;
  return MOONPAD_OK;
}

static moonpad_status walk_keys(mp_tx *tx, enum record_kind kind, mp_scope scope, int64_t id, int64_t since,
                                mp_each_state each, void *context, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < store_of(tx)->all.count && status == MOONPAD_OK; i++) {
    const record *item = &store_of(tx)->all.items[i];
    mp_state_row row = {text_of(item, NAME), item->texts[VALUE], item->revision, scope};
    bool wanted = since == MP_EVERY_KEY ? row.value != NULL : row.revision > since;
    if (item->kind == kind && item->parent == id && wanted) status = each(context, &row, error);
  }
  return status;
}

static moonpad_status each_key(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  return walk_keys(tx, KEY, scope, id, since, each, context, error);
}

static moonpad_status give_event(const record *item, bool without_json, mp_each_event each, void *context,
                                 moonpad_error *error) {
  mp_event_row row = item->event;
  row.id = text_of(item, NAME);
  row.json = without_json ? moonpad_text(NULL) : text_of(item, VALUE);
  row.invocation = without_json ? moonpad_text(NULL) : text_of(item, INVOCATION);
  return each(context, &row, error);
}

static moonpad_status find_event(mp_tx *tx, int64_t session, moonpad_string event_id, mp_each_event each, void *context,
                                 moonpad_error *error) {
  const record *item = find(tx, EVENT, session, event_id, false);
  return item == NULL ? MOONPAD_NOT_FOUND : give_event(item, false, each, context, error);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  example_store *store = store_of(tx);
  const record *app = find(tx, APP, 0, query->app_name, false);
  mp_listed_session *listed = mp_allocate(store->env, store->all.count * sizeof *listed);
  if (listed == NULL) return mp_no_memory(error);
  size_t count = 0;
  for (size_t i = 0; app != NULL && i < store->all.count; i++) {
    const record *item = &store->all.items[i];
    mp_facts facts;
    if (item->kind != SESSION || item->row.app != app->id) continue;
    load_session(tx, item->id, &facts, error);
    listed[count++] = (mp_listed_session){facts.row, text_of(find_id(tx, item->parent), NAME), text_of(item, NAME)};
  }
  moonpad_status status = mp_parts_give_listed(listed, count, query, each, context, error);
  mp_release(store->env, listed);
  return status;
}

static moonpad_status write_key(mp_tx *tx, int64_t id, const mp_key_write *write, moonpad_error *error) {
  record *item = find(tx, KEY, id, write->key, true);
  if (item == NULL) return mp_no_memory(error);
  mp_value_release(store_of(tx)->env, item->texts[VALUE]);
  item->texts[VALUE] = mp_value_retain(write->value);
  item->revision = write->revision;
  return MOONPAD_OK;
}

/* Where a key was absent its row may stay, without a value: no walk gives it. */
static moonpad_status write_base_key(mp_tx *tx, int64_t session, const mp_key_write *write, moonpad_error *error) {
  record *item = find(tx, BASE_KEY, session, write->key, true);
  if (item == NULL) return mp_no_memory(error);
  mp_value_release(store_of(tx)->env, item->texts[VALUE]);
  item->texts[VALUE] = mp_value_retain(write->value);
  return MOONPAD_OK;
}

static moonpad_status append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error) {
  const records *all = &store_of(tx)->all;
  for (size_t i = 0; i < all->count; i++) {
    const record *before = &all->items[i];
    if (before->kind != EVENT || before->parent != session) continue;
    bool is_new = row->revision > before->event.revision && mp_text_compare(row->id, text_of(before, NAME)) != 0;
    if (!is_new) return MOONPAD_ALREADY_EXISTS;
  }
  record *item = find(tx, EVENT, session, row->id, true);
  if (item == NULL) return mp_no_memory(error);
  item->event = *row;
  item->texts[VALUE] = mp_value_new_string(store_of(tx)->env, row->json);
  item->texts[INVOCATION] = mp_value_new_string(store_of(tx)->env, row->invocation);
  return item->texts[VALUE] == NULL || item->texts[INVOCATION] == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  (void)error;
  const mp_session_row *row = batch->row;
  if (batch->heads & MP_HEAD(MP_SCOPE_SESSION)) find_id(tx, row->id)->row = *row;
  if (batch->heads & MP_HEAD(MP_SCOPE_USER)) find_id(tx, row->user)->revision = row->user_revision;
  if (batch->heads & MP_HEAD(MP_SCOPE_APP)) find_id(tx, row->app)->revision = row->app_revision;
  return MOONPAD_OK;
}

static const mp_parts parts = {find_session, load_session, find_shared,    read_key,     each_key,    find_event,
                               each_session, write_key,    write_base_key, append_event, update_heads};

/* ---- the other operations ---- */

static moonpad_status each_event(mp_tx *tx, const mp_place *session, const mp_event_query *query, mp_each_event each,
                                 void *context, moonpad_error *error) {
  size_t count = store_of(tx)->all.count; /* what the callback appends is not walked over */
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < count && status == MOONPAD_OK; i++) {
    const record *item = &store_of(tx)->all.items[query->newest_first ? count - 1 - i : i];
    bool wanted = item->kind == EVENT && item->parent == session->session && item->event.revision >= query->first &&
                  item->event.revision <= query->last && (query->kinds == 0 || (item->event.kinds & query->kinds) != 0);
    if (wanted) status = give_event(item, query->without_json, each, context, error);
  }
  return mp_walk_end(status);
}

static moonpad_status each_base_key(mp_tx *tx, const mp_place *session, mp_each_state each, void *context,
                                    moonpad_error *error) {
  return mp_walk_end(walk_keys(tx, BASE_KEY, MP_SCOPE_SESSION, session->session, MP_EVERY_KEY, each, context, error));
}

static moonpad_status create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                     mp_session_row *row, moonpad_error *error) {
  mp_facts facts = {0};
  if (find_session(tx, name, &facts, error) == MOONPAD_OK) return MOONPAD_ALREADY_EXISTS;
  const record *app = find(tx, APP, 0, name->app_name, true);
  int64_t app_id = app == NULL ? 0 : app->id;
  const record *user = app == NULL ? NULL : find(tx, USER, app_id, name->user_id, true);
  record *session = user == NULL ? NULL : find(tx, SESSION, user->id, name->session_id, true);
  if (session == NULL) return mp_no_memory(error);
  session->row = (mp_session_row){.id = session->id, .user = session->parent, .app = app_id};
  session->row.create_time = session->row.last_update_time = create_time;
  moonpad_status status = load_session(tx, session->id, &facts, error);
  *row = facts.row;
  return status;
}

static moonpad_status remove_session(mp_tx *tx, const mp_place *session, moonpad_error *error) {
  (void)error;
  drop(tx, session->session);
  return MOONPAD_OK;
}

static moonpad_status remove_user(mp_tx *tx, const mp_place *user, int64_t *sessions, moonpad_error *error) {
  const records *all = &store_of(tx)->all;
  mp_facts facts = {0};
  moonpad_status status = find_shared(tx, user->name.app_name, &user->name.user_id, false, &facts, error);
  *sessions = 0;
  for (size_t i = all->count; i-- > 0 && status == MOONPAD_OK;) { /* what belongs to a session comes after it */
    if (all->items[i].kind != SESSION || all->items[i].parent != facts.row.user) continue;
    drop(tx, all->items[i].id);
    ++*sessions;
  }
  if (status == MOONPAD_OK) drop(tx, facts.row.user);
  return status;
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

static void free_records(mp_env *env, records *all) {
  for (size_t i = 0; i < all->count; i++) release(env, &all->items[i]);
  mp_release(env, all->items);
}

static moonpad_status copy_records(mp_env *env, const records *all, records *copy, moonpad_error *error) {
  *copy = *all;
  copy->items = mp_allocate(env, all->capacity * sizeof(record));
  if (copy->items == NULL) return mp_no_memory(error);
  for (size_t i = 0; i < all->count; i++) {
    copy->items[i] = all->items[i];
    for (int text = 0; text < TEXTS; text++) mp_value_retain(all->items[i].texts[text]);
  }
  return MOONPAD_OK;
}

static moonpad_status example_write(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  example_store *store = (example_store *)base;
  records before = {0};
  pthread_mutex_lock(&store->mutex);
  moonpad_status status = store->closed ? mp_fail(error, MOONPAD_CLOSED, "the service is closed")
                                        : copy_records(store->env, &store->all, &before, error);
  if (status == MOONPAD_OK) {
    status = function(&store->tx.tx, context, error);
    records dropped = status == MOONPAD_OK ? before : store->all;
    if (status != MOONPAD_OK) store->all = before;
    free_records(store->env, &dropped);
  }
  pthread_mutex_unlock(&store->mutex);
  return status;
}

static moonpad_status example_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  example_store *store = (example_store *)base;
  pthread_mutex_lock(&store->mutex);
  moonpad_status status =
      store->closed ? mp_fail(error, MOONPAD_CLOSED, "the service is closed") : function(&store->tx.tx, context, error);
  pthread_mutex_unlock(&store->mutex);
  return status;
}

static void example_close(mp_store *base) {
  example_store *store = (example_store *)base;
  pthread_mutex_lock(&store->mutex);
  store->closed = true;
  pthread_mutex_unlock(&store->mutex);
}

static void example_free(mp_store *base) {
  example_store *store = (example_store *)base;
  mp_env *env = store->env;
  free_records(env, &store->all);
  pthread_mutex_destroy(&store->mutex);
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
  if (opened == NULL) return mp_no_memory(error);
  opened->base = (mp_store){.ops = &store_ops, .in_memory = true};
  opened->env = mp_env_retain(env);
  opened->tx = (mp_parts_tx){{&tx_ops}, env, &parts};
  pthread_mutex_init(&opened->mutex, NULL);
  return MOONPAD_OK;
}

const struct moonpad_store_opener example_store_opener = {MP_STORE_VERSION, example_store_open};
