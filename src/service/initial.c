/* Reading a JSON object of state. */
#include "service/initial.h"

#include "base/error.h"
#include "core/event.h"
#include "core/json.h"

static moonpad_status add_entry(moonpad_service *service, mp_initial_state *initial, moonpad_string key,
                                moonpad_string value, moonpad_error *error) {
  moonpad_status status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  if (!mp_reserve(initial->env, (void **)&initial->entries, &initial->capacity, sizeof *initial->entries,
                  initial->count + 1)) {
    return mp_no_memory(error);
  }
  mp_initial_entry entry = {mp_key_new(initial->env, key), mp_scope_of(key), NULL};
  if (value.data != NULL) entry.value = mp_value_from_own_json(initial->env, value);
  if (entry.key == NULL || (value.data != NULL && entry.value == NULL)) {
    mp_key_release(initial->env, entry.key);
    mp_value_release(initial->env, entry.value);
    return mp_no_memory(error);
  }
  initial->entries[initial->count++] = entry;
  return mp_check_value_size(service, key, entry.value, error);
}

moonpad_status mp_initial_check_total(const moonpad_service *service, const mp_initial_state *initial,
                                      moonpad_error *error) {
  size_t bytes = 0;
  for (size_t i = 0; i < initial->count; i++) {
    const mp_initial_entry *entry = &initial->entries[i];
    if (entry->scope == MP_SCOPE_SESSION) bytes += entry->key->length + mp_value_size(entry->value);
  }
  return mp_check_state_size(service, bytes, error);
}

static moonpad_status read_members(moonpad_service *service, moonpad_string object, mp_initial_state *initial,
                                   mp_buffer *scratch, moonpad_error *error) {
  mp_members members = mp_members_of(object);
  moonpad_string literal, value, key;
  while (mp_members_next(&members, &literal, &value)) {
    if (!mp_literal_text(literal, scratch, &key)) return mp_no_memory(error);
    moonpad_status status = add_entry(service, initial, key, value, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_initial_read(moonpad_service *service, moonpad_string state, mp_initial_state *initial,
                               moonpad_error *error) {
  memset(initial, 0, sizeof *initial);
  initial->env = service->env;
  if (state.length == 0) return MOONPAD_OK;
  mp_buffer compact, scratch;
  mp_buffer_init(&compact, service->env);
  mp_buffer_init(&scratch, service->env);
  moonpad_type type;
  moonpad_status status = mp_json_compact(service->env, state, MOONPAD_MAX_DEPTH + 1, "state", &compact, &type, error);
  if (status == MOONPAD_OK && type != MOONPAD_OBJECT) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state: must be an object");
  }
  if (status == MOONPAD_OK) status = read_members(service, mp_buffer_text(&compact), initial, &scratch, error);
  mp_buffer_free(&compact);
  mp_buffer_free(&scratch);
  if (status != MOONPAD_OK) mp_initial_free(initial);
  return status;
}

static moonpad_status read_list(moonpad_service *service, moonpad_string list, mp_initial_state *initial,
                                mp_buffer *scratch, moonpad_error *error) {
  static const moonpad_string no_value = {NULL, 0};
  mp_items items = mp_items_of(list);
  moonpad_string item, key;
  while (mp_items_next(&items, &item)) {
    if (item.data[0] != '"') return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "removed: must be an array of strings");
    if (!mp_literal_text(mp_literal_inside(item), scratch, &key)) return mp_no_memory(error);
    moonpad_status status = add_entry(service, initial, key, no_value, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_initial_read_removed(moonpad_service *service, moonpad_string removed, mp_initial_state *initial,
                                       moonpad_error *error) {
  if (removed.length == 0) return MOONPAD_OK;
  mp_buffer compact, scratch;
  mp_buffer_init(&compact, service->env);
  mp_buffer_init(&scratch, service->env);
  moonpad_type type;
  moonpad_status status = mp_json_compact(service->env, removed, 1, "removed", &compact, &type, error);
  if (status == MOONPAD_OK && type != MOONPAD_ARRAY) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "removed: must be an array of strings");
  }
  if (status == MOONPAD_OK) status = read_list(service, mp_buffer_text(&compact), initial, &scratch, error);
  mp_buffer_free(&compact);
  mp_buffer_free(&scratch);
  return status;
}

void mp_initial_free(mp_initial_state *initial) {
  for (size_t i = 0; i < initial->count; i++) {
    mp_key_release(initial->env, initial->entries[i].key);
    mp_value_release(initial->env, initial->entries[i].value);
  }
  mp_release(initial->env, initial->entries);
  initial->entries = NULL;
  initial->count = initial->capacity = 0;
}

bool mp_initial_touches(const mp_initial_state *initial, mp_scope scope) {
  for (size_t i = 0; i < initial->count; i++) {
    if (initial->entries[i].scope == scope) return true;
  }
  return false;
}
