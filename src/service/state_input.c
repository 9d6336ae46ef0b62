/* Reading state, and lists of removed keys, from JSON. */
#include "service/state_input.h"

#include "base/error.h"
#include "core/json_compact.h"
#include "core/json_trusted.h"
#include "service/limits.h"

static moonpad_status add_entry(moonpad_service *service, mp_entries *entries, moonpad_string key, moonpad_string value,
                                moonpad_error *error) {
  moonpad_status status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  mp_entry *entry = mp_entries_add_owned(entries, mp_key_new(service->env, key));
  if (entry == NULL) return mp_no_memory(error);
  if (value.data == NULL) return MOONPAD_OK;
  entry->value = mp_value_from_trusted_json(service->env, value);
  return entry->value == NULL ? mp_no_memory(error) : mp_check_value_size(service, key, entry->value, error);
}

static moonpad_status read_members(moonpad_service *service, moonpad_string object, mp_entries *entries,
                                   mp_buffer *scratch, moonpad_error *error) {
  mp_members members = mp_members_of(object);
  moonpad_string literal, value, key;
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && mp_members_next(&members, &literal, &value)) {
    bool made = mp_literal_text(literal, scratch, &key);
    status = made ? add_entry(service, entries, key, value, error) : mp_no_memory(error);
  }
  return status;
}

static moonpad_status read_list(moonpad_service *service, moonpad_string list, mp_entries *entries, mp_buffer *scratch,
                                moonpad_error *error) {
  static const moonpad_string no_value = {NULL, 0};
  mp_items items = mp_items_of(list);
  moonpad_string item, key;
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && mp_items_next(&items, &item)) {
    if (item.data[0] != '"') return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "removed: must be an array of strings");
    bool made = mp_literal_text(mp_literal_inside(item), scratch, &key);
    status = made ? add_entry(service, entries, key, no_value, error) : mp_no_memory(error);
  }
  return status;
}

/* The text is an object of values, or an array of removed keys. */
static moonpad_status read_text(moonpad_service *service, moonpad_string text, bool is_object, mp_entries *entries,
                                moonpad_error *error) {
  if (text.length == 0) return MOONPAD_OK;
  mp_buffer compact, scratch;
  mp_buffer_init(&compact, service->env);
  mp_buffer_init(&scratch, service->env);
  moonpad_type type;
  moonpad_status status = mp_json_compact(service->env, text, is_object ? MOONPAD_MAX_DEPTH + 1 : 1,
                                          is_object ? "state" : "removed", &compact, &type, error);
  if (status == MOONPAD_OK && type != (is_object ? MOONPAD_OBJECT : MOONPAD_ARRAY)) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                     is_object ? "state: must be an object" : "removed: must be an array of strings");
  }
  if (status == MOONPAD_OK) {
    status = (is_object ? read_members : read_list)(service, mp_buffer_text(&compact), entries, &scratch, error);
  }
  mp_buffer_free(&compact);
  mp_buffer_free(&scratch);
  return status;
}

moonpad_status mp_read_state(moonpad_service *service, moonpad_string state, mp_entries *entries,
                             moonpad_error *error) {
  return read_text(service, state, true, entries, error);
}

moonpad_status mp_read_removed_keys(moonpad_service *service, moonpad_string removed, mp_entries *entries,
                                    moonpad_error *error) {
  return read_text(service, removed, false, entries, error);
}
