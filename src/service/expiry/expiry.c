/* What one call knows of expiry. */
#include "service/expiry/expiry.h"

#include "base/error.h"
#include "service/expiry/renewals.h"

#define SHARED_HEADS (MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP))

double mp_time_to_live(const moonpad_service *service, mp_scope scope) {
  const moonpad_options *options = &service->options;
  switch (scope) {
  case MP_SCOPE_SESSION:
    return options->session_ttl_seconds;
  case MP_SCOPE_USER:
    return options->user_ttl_seconds;
  case MP_SCOPE_APP:
    return options->app_ttl_seconds;
  default:
    return 0;
  }
}

moonpad_status mp_expiry_threshold(moonpad_service *service, double *touched_since, moonpad_error *error) {
  double lives = mp_time_to_live(service, MP_SCOPE_SESSION), now;
  *touched_since = 0;
  mp_renewals_store_hidden(service);
  if (lives == 0) return MOONPAD_OK;
  moonpad_status status = mp_now(service->env, &now, error);
  if (status == MOONPAD_OK) *touched_since = now - lives;
  return status;
}

moonpad_status mp_expiry_begin(mp_expiry *expiry, moonpad_service *service, const mp_session_ref *ref, unsigned heads,
                               moonpad_error *error) {
  expiry->service = service;
  expiry->ref = *ref;
  expiry->heads = 0;
  expiry->writes = false;
  expiry->used = expiry->stored = expiry->expired = 0;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (mp_time_to_live(service, (mp_scope)scope) > 0) expiry->heads |= heads & MP_HEAD(scope);
    expiry->noted[scope] = expiry->touched[scope] = 0;
  }
  expiry->is_active = expiry->heads != 0;
  if (!expiry->is_active) return MOONPAD_OK;
  double now;
  moonpad_status status = mp_now(service->env, &now, error);
  if (status != MOONPAD_OK) return status;
  expiry->now = mp_time_of_use(now);
  mp_renewals_find(&service->renewals, expiry);
  return MOONPAD_OK;
}

moonpad_status mp_expiry_read(mp_expiry *expiry, mp_tx_function function, void *context, moonpad_error *error) {
  mp_store *store = expiry->service->store;
  if (expiry->is_active && store->in_memory) return mp_expiry_write(expiry, function, context, error);
  return store->ops->read(store, function, context, error);
}

moonpad_status mp_expiry_write(mp_expiry *expiry, mp_tx_function function, void *context, moonpad_error *error) {
  mp_store *store = expiry->service->store;
  expiry->writes = true;
  return store->ops->write(store, function, context, error);
}

/* When it was last used, as far as anybody knows. */
static double last_use(const mp_expiry *expiry, mp_scope scope) {
  double touched = expiry->touched[scope], noted = expiry->noted[scope];
  return touched > noted ? touched : noted;
}

static bool has_expired(const mp_expiry *expiry, mp_scope scope) {
  if ((expiry->used & MP_HEAD(scope)) == 0) return false;
  return mp_has_expired(last_use(expiry, scope), expiry->now, mp_time_to_live(expiry->service, scope));
}

double mp_expiry_since(const mp_expiry *expiry, mp_scope scope) {
  if (!expiry->is_active || (expiry->heads & MP_HEAD(scope)) == 0) return 0;
  double since = expiry->now - mp_time_to_live(expiry->service, scope);
  return expiry->noted[scope] >= since ? 0 : since;
}

moonpad_status mp_expiry_judge(mp_expiry *expiry, const mp_facts *facts) {
  if (!expiry->is_active) return MOONPAD_OK;
  const mp_session_row *row = &facts->row;
  expiry->ref.session = row->id;
  expiry->ref.user = row->user;
  expiry->ref.app = row->app;
  expiry->stored = expiry->expired = 0;
  expiry->used = expiry->heads;
  if (row->user_revision == 0) expiry->used &= ~MP_HEAD(MP_SCOPE_USER);
  if (row->app_revision == 0) expiry->used &= ~MP_HEAD(MP_SCOPE_APP);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) expiry->touched[scope] = facts->touched[scope];
  if (row->id == 0) expiry->used &= ~MP_HEAD(MP_SCOPE_SESSION);
  /* Of a session it is always known. */
  if (facts->touched[MP_SCOPE_SESSION] == 0) {
    expiry->touched[MP_SCOPE_SESSION] = mp_time_of_use(row->last_update_time);
  }
  if (has_expired(expiry, MP_SCOPE_SESSION)) return MOONPAD_NOT_FOUND;
  if (has_expired(expiry, MP_SCOPE_USER)) expiry->expired |= MP_HEAD(MP_SCOPE_USER);
  if (has_expired(expiry, MP_SCOPE_APP)) expiry->expired |= MP_HEAD(MP_SCOPE_APP);
  return MOONPAD_OK;
}

static moonpad_status look_at(const mp_expiry *expiry, mp_tx *tx, unsigned heads, mp_facts *facts,
                              moonpad_error *error) {
  mp_look look = {.ref = expiry->ref, .heads = heads, .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  return tx->ops->look(tx, &look, facts, error);
}

moonpad_status mp_expiry_look(mp_expiry *expiry, mp_tx *tx, moonpad_error *error) {
  mp_facts facts;
  if (!expiry->is_active) return MOONPAD_OK;
  moonpad_status status = look_at(expiry, tx, MP_ALL_HEADS, &facts, error);
  return status == MOONPAD_OK ? mp_expiry_judge(expiry, &facts) : status;
}

/* ---- state that has expired ---- */

typedef struct removal {
  mp_env *env;
  mp_buffer keys; /* each behind its length */
  size_t count;
} removal;

static moonpad_status note_key(void *context, const mp_state_row *row, moonpad_error *error) {
  removal *remove = context;
  mp_buffer_add(&remove->keys, (const char *)&row->key.length, sizeof row->key.length);
  mp_buffer_add_string(&remove->keys, row->key);
  remove->count++;
  return remove->keys.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void list_tombstones(const removal *remove, mp_scope scope, int64_t revision, mp_state_row *rows) {
  size_t at = 0;
  for (size_t i = 0; i < remove->count; i++) {
    size_t length;
    memcpy(&length, remove->keys.data + at, sizeof length);
    at += sizeof length;
    rows[i] = (mp_state_row){.scope = scope, .key = {remove->keys.data + at, length}, .revision = revision};
    at += length;
  }
}

/* Tombstones, which are purged at once: whoever had read a key sees that the scope has changed. */
static moonpad_status remove_keys(const mp_expiry *expiry, mp_tx *tx, mp_scope scope, const removal *remove,
                                  mp_session_row *row, moonpad_error *error) {
  int64_t revision = scope == MP_SCOPE_USER ? ++row->user_revision : ++row->app_revision;
  mp_session_ref ref = {expiry->ref.name, row->id, row->user, row->app};
  mp_state_row *rows = mp_allocate(remove->env, remove->count * sizeof *rows);
  if (rows == NULL) return mp_no_memory(error);
  list_tombstones(remove, scope, revision, rows);
  mp_batch batch = {.ref = ref,
                    .row = row,
                    .heads = MP_HEAD(scope),
                    .touched = expiry->now,
                    .keys = rows,
                    .key_count = remove->count};
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  mp_release(remove->env, rows);
  bool purges = status == MOONPAD_OK && MP_HAS(mp_tx_ops, tx->ops, purge);
  return purges ? tx->ops->purge(tx, &ref, scope, revision, error) : status;
}

static moonpad_status remove_state_of(mp_expiry *expiry, mp_tx *tx, mp_scope scope, moonpad_error *error) {
  removal remove = {.env = expiry->service->env};
  mp_buffer_init(&remove.keys, remove.env);
  mp_facts facts;
  mp_look look = {.ref = {.name = expiry->ref.name},
                  .heads = MP_HEAD(scope),
                  .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
                  .each_state = note_key,
                  .context = &remove};
  look.since[scope] = MP_EVERY_KEY;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status == MOONPAD_OK && remove.count > 0) status = remove_keys(expiry, tx, scope, &remove, &facts.row, error);
  mp_buffer_free(&remove.keys);
  return status;
}

moonpad_status mp_expiry_remove_state(mp_expiry *expiry, mp_tx *tx, bool *removed, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  *removed = expiry->expired != 0;
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    if ((expiry->expired & MP_HEAD(scope)) != 0) status = remove_state_of(expiry, tx, (mp_scope)scope, error);
  }
  if (*removed) {
    /* It counts as used from now on, as if it had been there. */
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
      if ((expiry->expired & MP_HEAD(scope)) != 0) expiry->noted[scope] = expiry->now;
    }
    expiry->expired = 0;
  }
  return status;
}

/* ---- use ---- */

/* Is it worth storing that it is used now? Every time where a write costs nothing. */
static bool is_due(const mp_expiry *expiry, mp_scope scope) {
  double late = expiry->service->store->in_memory ? 0 : mp_renewal_delay(mp_time_to_live(expiry->service, scope));
  double touched = expiry->touched[scope];
  return touched < expiry->now && (touched == 0 || expiry->now - touched >= late);
}

moonpad_status mp_expiry_touch(mp_expiry *expiry, mp_tx *tx, unsigned heads, moonpad_error *error) {
  if (!expiry->is_active || !expiry->writes || !MP_HAS(mp_tx_ops, tx->ops, touch)) return MOONPAD_OK;
  mp_touch touch = {.ref = expiry->ref, .time = expiry->now};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    bool is_used = (heads & expiry->used & MP_HEAD(scope)) != 0;
    if (is_used && is_due(expiry, (mp_scope)scope)) touch.heads |= MP_HEAD(scope);
  }
  expiry->stored |= touch.heads;
  return touch.heads == 0 ? MOONPAD_OK : tx->ops->touch(tx, &touch, 1, error);
}

void mp_expiry_renew(const mp_expiry *expiry) {
  unsigned heads = expiry->used & ~expiry->stored & ~expiry->expired;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (last_use(expiry, (mp_scope)scope) >= expiry->now) heads &= ~MP_HEAD(scope);
  }
  if (!expiry->is_active || expiry->service->store->in_memory || heads == 0) return;
  mp_renewals_add(&expiry->service->renewals, expiry, heads);
}

/* ---- creating ---- */

/* Removes the session of that name if it has expired; otherwise MOONPAD_ALREADY_EXISTS. */
static moonpad_status remove_expired(mp_expiry *expiry, mp_tx *tx, moonpad_error *error) {
  mp_facts facts;
  moonpad_status status = look_at(expiry, tx, MP_ALL_HEADS, &facts, error);
  if (status != MOONPAD_OK) return status;
  if (mp_expiry_judge(expiry, &facts) == MOONPAD_OK) return MOONPAD_ALREADY_EXISTS;
  expiry->noted[MP_SCOPE_SESSION] = 0;
  return tx->ops->remove_session(tx, &expiry->ref, error);
}

/* The state of a user or an app, of which nothing need exist. */
static moonpad_status check_shared(mp_expiry *expiry, mp_tx *tx, mp_scope scope, mp_facts *both, moonpad_error *error) {
  if ((expiry->heads & MP_HEAD(scope)) == 0) return MOONPAD_OK;
  mp_facts facts;
  moonpad_status status = look_at(expiry, tx, MP_HEAD(scope), &facts, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  both->touched[scope] = facts.touched[scope];
  both->row.user_revision |= facts.row.user_revision;
  both->row.app_revision |= facts.row.app_revision;
  return status;
}

static moonpad_status remove_shared(mp_expiry *expiry, mp_tx *tx, moonpad_error *error) {
  mp_facts facts;
  bool removed;
  memset(&facts, 0, sizeof facts);
  moonpad_status status = check_shared(expiry, tx, MP_SCOPE_USER, &facts, error);
  if (status == MOONPAD_OK) status = check_shared(expiry, tx, MP_SCOPE_APP, &facts, error);
  if (status == MOONPAD_OK) status = mp_expiry_judge(expiry, &facts);
  return status == MOONPAD_OK ? mp_expiry_remove_state(expiry, tx, &removed, error) : status;
}

moonpad_status mp_expiry_create_session(mp_expiry *expiry, mp_tx *tx, double create_time, mp_session_row *row,
                                        moonpad_error *error) {
  const moonpad_session_name *name = &expiry->ref.name;
  expiry->ref = (mp_session_ref){.name = *name};
  moonpad_status status = expiry->is_active ? remove_shared(expiry, tx, error) : MOONPAD_OK;
  if (status == MOONPAD_OK) status = tx->ops->create_session(tx, name, create_time, row, error);
  if (status == MOONPAD_ALREADY_EXISTS && expiry->is_active) {
    status = remove_expired(expiry, tx, error);
    if (status == MOONPAD_OK) status = tx->ops->create_session(tx, name, create_time, row, error);
  }
  if (status != MOONPAD_OK) return status;
  expiry->ref.session = row->id;
  expiry->ref.user = row->user;
  expiry->ref.app = row->app;
  expiry->stored |= MP_HEAD(MP_SCOPE_SESSION);
  return mp_expiry_touch(expiry, tx, SHARED_HEADS, error);
}
