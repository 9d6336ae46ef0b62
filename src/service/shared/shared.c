/*
** User and app state, read and changed without a session (contract 2: getUserState, updateAppState,
** incrementState and so on).
**
** Belongs here: the transaction of each of these calls, and the checks of what they are given.
** Does not belong here: how a session sees these keys (session/), or writes them with an event
** (append/).
** Arrows: shared/ uses session/, the service and below; no other folder of src/service uses
** shared/.
*/
#include "base/error.h"
#include "core/operations.h"
#include "service/expiry/expiry.h"
#include "service/limits.h"
#include "service/names.h"
#include "service/session/session.h"
#include "service/state_input.h"

/* Whose state. */
typedef struct shared_scope {
  moonpad_service *service;
  mp_scope scope;
  moonpad_string app_name;
  moonpad_string user_id; /* MP_SCOPE_USER only */
  mp_expiry expiry;
  double now; /* of a call that writes */
} shared_scope;

static shared_scope of_app(moonpad_service *service, moonpad_string app_name) {
  return (shared_scope){.service = service, .scope = MP_SCOPE_APP, .app_name = app_name};
}

static shared_scope of_user(moonpad_service *service, moonpad_string app_name, moonpad_string user_id) {
  return (shared_scope){.service = service, .scope = MP_SCOPE_USER, .app_name = app_name, .user_id = user_id};
}

/* An empty user id is never the app (contract 6). */
static moonpad_status check_names(const shared_scope *shared, moonpad_error *error) {
  moonpad_status status = mp_check_name("appName", shared->app_name, error);
  if (status == MOONPAD_OK && shared->scope == MP_SCOPE_USER) status = mp_check_name("userId", shared->user_id, error);
  return status;
}

/* Asks for the head of that user or app, and for no keys yet. */
static mp_look look_at(const shared_scope *shared, bool create) {
  return (mp_look){
      .ref = {.name = {.app_name = shared->app_name, .user_id = shared->user_id}},
      .heads = MP_HEAD(shared->scope),
      .create = create,
      .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
  };
}

static moonpad_status begin(shared_scope *shared, moonpad_error *error) {
  moonpad_status status = check_names(shared, error);
  mp_session_ref ref = {.name = {.app_name = shared->app_name, .user_id = shared->user_id}};
  if (status != MOONPAD_OK) return status;
  return mp_expiry_begin(&shared->expiry, shared->service, &ref, MP_HEAD(shared->scope), error);
}

/*
** The same for a call that writes. Where nothing lives for a time, a clock that gives none does not
** matter.
*/
static moonpad_status begin_writing(shared_scope *shared, moonpad_error *error) {
  moonpad_status status = begin(shared, error);
  double now;
  if (status == MOONPAD_OK && mp_now(shared->service->env, &now, NULL) == MOONPAD_OK) shared->now = mp_time_of_use(now);
  return status;
}

/* Looks once more where the state had expired and has been removed. */
static moonpad_status look_to_write(shared_scope *shared, mp_tx *tx, mp_look *look, mp_facts *facts,
                                    moonpad_error *error) {
  moonpad_status status = tx->ops->look(tx, look, facts, error);
  if (status != MOONPAD_OK) return status;
  bool removed = false;
  status = mp_expiry_judge(&shared->expiry, facts);
  if (status == MOONPAD_OK) status = mp_expiry_remove_state(&shared->expiry, tx, &removed, error);
  if (status == MOONPAD_OK && !removed) return MOONPAD_OK;
  for (size_t i = 0; i < look->key_count; i++) mp_value_release(shared->service->env, look->keys[i].value);
  if (status == MOONPAD_OK) return tx->ops->look(tx, look, facts, error);
  for (size_t i = 0; i < look->key_count; i++) look->keys[i].value = NULL;
  return status;
}

/* Writes the keys under the head's next revision. */
static moonpad_status store(shared_scope *shared, mp_tx *tx, mp_facts *found, mp_state_row *keys, size_t count,
                            moonpad_error *error) {
  mp_session_row *row = &found->row;
  int64_t revision = shared->scope == MP_SCOPE_USER ? ++row->user_revision : ++row->app_revision;
  for (size_t i = 0; i < count; i++) keys[i].revision = revision;
  moonpad_session_name name = {.app_name = shared->app_name, .user_id = shared->user_id};
  mp_batch batch = {.ref = mp_session_ref_of_row(&name, row),
                    .row = row,
                    .heads = MP_HEAD(shared->scope),
                    .touched = shared->now,
                    .keys = keys,
                    .key_count = count};
  return tx->ops->apply(tx, &batch, error);
}

/* A session reads the key with its prefix, so that must fit, too (contract 1.1). */
static moonpad_status check_length(const shared_scope *shared, moonpad_string key, moonpad_error *error) {
  if (key.length + mp_scope_prefix(shared->scope).length <= MOONPAD_MAX_KEY_BYTES) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: a key is longer than %d bytes with its prefix",
                 mp_quote(key).text, MOONPAD_MAX_KEY_BYTES);
}

/* ---- get ---- */

typedef struct shared_read {
  shared_scope shared;
  mp_changed_keys state;
} shared_read;

static moonpad_status read_in(mp_tx *tx, void *context, moonpad_error *error) {
  shared_read *read = context;
  mp_facts facts;
  mp_look look = look_at(&read->shared, false);
  look.since[read->shared.scope] = MP_EVERY_KEY;
  look.each_state = mp_changed_keys_add_row;
  look.context = &read->state;
  moonpad_status status = mp_look_for_live_keys(tx, &look, &read->shared.expiry, &read->state, &facts, error);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static moonpad_status get_state(shared_scope shared, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  moonpad_service *service = shared.service;
  shared_read read = {.shared = shared};
  moonpad_status status = begin(&read.shared, error);
  if (status != MOONPAD_OK) return status;
  mp_changed_keys_init(&read.state, service->env);
  status = mp_expiry_read(&read.shared.expiry, read_in, &read, error);
  if (status == MOONPAD_OK) {
    mp_expiry_renew(&read.shared.expiry);
    mp_buffer out;
    mp_buffer_init(&out, service->env);
    mp_entries_sort(&read.state.found);
    mp_entries_write(&read.state.found, read.shared.scope, &out);
    status = mp_buffer_hand_over(&out, json, error);
    mp_buffer_free(&out);
  }
  mp_changed_keys_free(&read.state);
  return status;
}

moonpad_status moonpad_get_app_state(moonpad_service *service, moonpad_string app_name, moonpad_buffer *json,
                                     moonpad_error *error) {
  return get_state(of_app(service, app_name), json, error);
}

moonpad_status moonpad_get_user_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                      moonpad_buffer *json, moonpad_error *error) {
  return get_state(of_user(service, app_name, user_id), json, error);
}

/* ---- update ---- */

typedef struct shared_update {
  shared_scope shared;
  mp_entries state;
  mp_state_row *keys;
} shared_update;

static moonpad_status update_in(mp_tx *tx, void *context, moonpad_error *error) {
  shared_update *update = context;
  mp_facts facts;
  mp_look look = look_at(&update->shared, true);
  moonpad_status status = look_to_write(&update->shared, tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  return store(&update->shared, tx, &facts, update->keys, update->state.count, error);
}

static moonpad_status write_update(shared_update *update, moonpad_error *error) {
  moonpad_service *service = update->shared.service;
  update->keys = mp_allocate(service->env, update->state.count * sizeof *update->keys);
  if (update->keys == NULL) return mp_no_memory(error);
  for (size_t i = 0; i < update->state.count; i++) {
    const mp_entry *entry = &update->state.items[i];
    update->keys[i] = (mp_state_row){update->shared.scope, entry->key, entry->value, 0};
  }
  moonpad_status status = mp_expiry_write(&update->shared.expiry, update_in, update, error);
  mp_release(service->env, update->keys);
  return status;
}

static moonpad_status update_state(shared_scope shared, moonpad_string state, moonpad_string removed,
                                   moonpad_error *error) {
  moonpad_service *service = shared.service;
  shared_update update = {.shared = shared};
  moonpad_status status = begin_writing(&update.shared, error);
  if (status != MOONPAD_OK) return status;
  mp_entries_init(&update.state, service->env);
  status = mp_read_state(service, state, &update.state, error);
  if (status == MOONPAD_OK) status = mp_read_removed_keys(service, removed, &update.state, error);
  for (size_t i = 0; status == MOONPAD_OK && i < update.state.count; i++) {
    status = check_length(&update.shared, update.state.items[i].key, error);
  }
  if (status == MOONPAD_OK && update.state.count == 0) {
    status = mp_check_open(service, error);
  } else if (status == MOONPAD_OK) {
    status = write_update(&update, error);
  }
  mp_entries_free(&update.state);
  return status;
}

moonpad_status moonpad_update_app_state(moonpad_service *service, moonpad_string app_name, moonpad_string state,
                                        moonpad_string removed, moonpad_error *error) {
  return update_state(of_app(service, app_name), state, removed, error);
}

moonpad_status moonpad_update_user_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                         moonpad_string state, moonpad_string removed, moonpad_error *error) {
  return update_state(of_user(service, app_name, user_id), state, removed, error);
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
  shared_scope *shared = &increment->shared;
  mp_env *env = shared->service->env;
  mp_value_release(env, increment->result);
  increment->result = NULL;
  mp_facts facts;
  mp_state_row there = {.scope = shared->scope, .key = increment->key};
  mp_look look = look_at(shared, true);
  look.keys = &there;
  look.key_count = 1;
  moonpad_status status = look_to_write(shared, tx, &look, &facts, error);
  if (status == MOONPAD_OK) {
    status = mp_add_number(env, increment->key, there.value, increment->by, &increment->result, error);
  }
  if (status == MOONPAD_OK) status = mp_check_value_size(shared->service, increment->key, increment->result, error);
  mp_value_release(env, there.value);
  mp_state_row write = {shared->scope, increment->key, increment->result, 0};
  return status == MOONPAD_OK ? store(shared, tx, &facts, &write, 1, error) : status;
}

static moonpad_status increment_state(shared_scope shared, moonpad_string key, const moonpad_value *by,
                                      moonpad_value *result, moonpad_error *error) {
  if (result != NULL) result->type = MOONPAD_ABSENT;
  moonpad_service *service = shared.service;
  shared_increment increment = {.shared = shared, .key = key};
  moonpad_status status = begin_writing(&increment.shared, error);
  if (status == MOONPAD_OK) status = mp_check_key(key, error);
  if (status == MOONPAD_OK) status = check_length(&increment.shared, key, error);
  if (status == MOONPAD_OK) status = mp_value_copy_in(service->env, by, "by", &increment.by, error);
  if (status != MOONPAD_OK) return status;
  status = mp_expiry_write(&increment.shared.expiry, increment_in, &increment, error);
  if (status == MOONPAD_OK && result != NULL) *result = increment.result->as;
  mp_value_release(service->env, increment.result);
  mp_value_release(service->env, increment.by);
  return status;
}

moonpad_status moonpad_increment_app_state(moonpad_service *service, moonpad_string app_name, moonpad_string key,
                                           const moonpad_value *by, moonpad_value *result, moonpad_error *error) {
  return increment_state(of_app(service, app_name), key, by, result, error);
}

moonpad_status moonpad_increment_user_state(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                            moonpad_string key, const moonpad_value *by, moonpad_value *result,
                                            moonpad_error *error) {
  return increment_state(of_user(service, app_name, user_id), key, by, result, error);
}
