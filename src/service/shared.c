/* User and app state without a session (contract 2). */
#include <stdlib.h>

#include "base/error.h"
#include "core/json.h"
#include "service/append.h"
#include "service/initial.h"

/* Whose state: of a user, or of an app where the user id is empty. */
typedef struct shared_scope {
  moonpad_service *service;
  mp_scope scope;
  moonpad_string app_name;
  moonpad_string user_id;
} shared_scope;

static moonpad_status check_shared(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                   shared_scope *shared, moonpad_error *error) {
  shared->service = service;
  shared->app_name = app_name;
  shared->user_id = user_id;
  shared->scope = user_id.length == 0 ? MP_SCOPE_APP : MP_SCOPE_USER;
  moonpad_status status = mp_check_name("appName", app_name, error);
  if (status == MOONPAD_OK && user_id.length != 0) status = mp_check_name("userId", user_id, error);
  return status;
}

static moonpad_status find(const shared_scope *shared, mp_tx *tx, bool create, int64_t *id, int64_t *revision,
                           moonpad_error *error) {
  const moonpad_string *user_id = shared->scope == MP_SCOPE_USER ? &shared->user_id : NULL;
  return tx->ops->find_shared(tx, shared->app_name, user_id, create, id, revision, error);
}

/* With its prefix the key must be one that a session can read. */
static moonpad_status check_length(const shared_scope *shared, moonpad_string key, moonpad_error *error) {
  if (key.length + mp_scope_prefix(shared->scope).length <= MOONPAD_MAX_KEY_BYTES) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: a key is longer than %d bytes with its prefix",
                 mp_quote(key).text, MOONPAD_MAX_KEY_BYTES);
}

/* ---- get ---- */

typedef struct shared_read {
  shared_scope shared;
  mp_gathering state;
} shared_read;

static moonpad_status read_in(mp_tx *tx, void *context, moonpad_error *error) {
  shared_read *read = context;
  int64_t id, revision;
  mp_gathering_clear(&read->state);
  moonpad_status status = find(&read->shared, tx, false, &id, &revision, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  return status == MOONPAD_OK ? mp_gather(&read->state, tx, read->shared.scope, id, -1, error) : status;
}

static int compare_gathered(const void *a, const void *b) {
  const mp_gathered_key *x = a;
  const mp_gathered_key *y = b;
  return mp_text_compare(mp_key_text(x->key), mp_key_text(y->key));
}

static void write_gathered(const mp_gathering *state, mp_buffer *out) {
  if (state->count > 1) qsort(state->keys, state->count, sizeof *state->keys, compare_gathered);
  mp_buffer_add_char(out, '{');
  for (size_t i = 0; i < state->count; i++) {
    const mp_gathered_key *gathered = &state->keys[i];
    if (i != 0) mp_buffer_add_char(out, ',');
    mp_json_write_string(out, mp_scope_strip(gathered->scope, mp_key_text(gathered->key)));
    mp_buffer_add_char(out, ':');
    mp_value_write(out, gathered->value);
  }
  mp_buffer_add_char(out, '}');
}

moonpad_status moonpad_get_shared_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                        moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  shared_read read;
  moonpad_status status = check_shared(service, app_name, user_id, &read.shared, error);
  if (status != MOONPAD_OK) return status;
  mp_gathering_init(&read.state, service->env);
  status = service->store->ops->read(service->store, read_in, &read, error);
  if (status == MOONPAD_OK) {
    mp_buffer out;
    mp_buffer_init(&out, service->env);
    write_gathered(&read.state, &out);
    status = mp_buffer_hand_over(&out, json, error);
    mp_buffer_free(&out);
  }
  mp_gathering_free(&read.state);
  return status;
}

/* ---- update ---- */

typedef struct shared_update {
  shared_scope shared;
  mp_initial_state state;
} shared_update;

static moonpad_status update_in(mp_tx *tx, void *context, moonpad_error *error) {
  shared_update *update = context;
  int64_t id, revision;
  moonpad_status status = find(&update->shared, tx, true, &id, &revision, error);
  if (status == MOONPAD_OK) {
    status = tx->ops->set_shared_revision(tx, update->shared.scope, id, ++revision, error);
  }
  for (size_t i = 0; status == MOONPAD_OK && i < update->state.count; i++) {
    const mp_initial_entry *entry = &update->state.entries[i];
    status = tx->ops->write_key(tx, update->shared.scope, id, mp_key_text(entry->key), entry->value, revision, error);
  }
  return status;
}

moonpad_status moonpad_update_shared_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                           moonpad_string state, moonpad_string removed, moonpad_error *error) {
  shared_update update;
  moonpad_status status = check_shared(service, app_name, user_id, &update.shared, error);
  if (status == MOONPAD_OK) status = mp_initial_read(service, state, &update.state, error);
  if (status != MOONPAD_OK) return status;
  status = mp_initial_read_removed(service, removed, &update.state, error);
  for (size_t i = 0; status == MOONPAD_OK && i < update.state.count; i++) {
    status = check_length(&update.shared, mp_key_text(update.state.entries[i].key), error);
  }
  if (status == MOONPAD_OK && update.state.count == 0) {
    status = mp_check_open(service, error);
  } else if (status == MOONPAD_OK) {
    status = service->store->ops->write(service->store, update_in, &update, error);
  }
  mp_initial_free(&update.state);
  return status;
}

/* ---- increment ---- */

typedef struct shared_increment {
  shared_scope shared;
  moonpad_string key;
  mp_value *by;
  mp_value *result;
} shared_increment;

static moonpad_status increment_in(mp_tx *tx, void *context, moonpad_error *error) {
  shared_increment *increment = context;
  mp_env *env = increment->shared.service->env;
  mp_scope scope = increment->shared.scope;
  mp_value_release(env, increment->result);
  increment->result = NULL;
  int64_t id, revision, changed;
  mp_value *there = NULL;
  moonpad_status status = find(&increment->shared, tx, true, &id, &revision, error);
  if (status == MOONPAD_OK) status = tx->ops->read_key(tx, scope, id, increment->key, &there, &changed, error);
  if (status == MOONPAD_OK) {
    status = mp_add_number(env, increment->key, there, increment->by, &increment->result, error);
  }
  if (status == MOONPAD_OK) {
    status = mp_check_value_size(increment->shared.service, increment->key, increment->result, error);
  }
  mp_value_release(env, there);
  if (status == MOONPAD_OK) status = tx->ops->set_shared_revision(tx, scope, id, ++revision, error);
  if (status != MOONPAD_OK) return status;
  return tx->ops->write_key(tx, scope, id, increment->key, increment->result, revision, error);
}

moonpad_status moonpad_increment_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                       moonpad_string key, const moonpad_value *by, moonpad_value *result,
                                       moonpad_error *error) {
  if (result != NULL) result->type = MOONPAD_ABSENT;
  shared_increment increment;
  memset(&increment, 0, sizeof increment);
  increment.key = key;
  moonpad_status status = check_shared(service, app_name, user_id, &increment.shared, error);
  if (status == MOONPAD_OK) status = mp_check_key(key, error);
  if (status == MOONPAD_OK) status = check_length(&increment.shared, key, error);
  if (status == MOONPAD_OK) status = mp_value_copy_in(service->env, by, "by", &increment.by, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, increment_in, &increment, error);
  if (status == MOONPAD_OK && result != NULL) *result = increment.result->as;
  mp_value_release(service->env, increment.result);
  mp_value_release(service->env, increment.by);
  return status;
}
