/* Change sets that are asked and listed: has, keys, delta and state, on every store. */
#include <stdio.h>
#include <string.h>

#include "service_support.h"

/* The keys of a change set, each in angles. */
static const char *keys_of(moonpad_changes *changes) {
  static char text[200];
  moonpad_key_list *keys = NULL;
  size_t length = 0;
  OK(moonpad_changes_keys(changes, &keys, &failure));
  for (size_t i = 0; i < moonpad_key_list_count(keys); i++) {
    moonpad_string key = moonpad_key_list_at(keys, i);
    assert_true(length + key.length + 3 < sizeof text);
    text[length++] = '<';
    memcpy(text + length, key.data, key.length);
    length += key.length;
    text[length++] = '>';
  }
  text[length] = '\0';
  moonpad_key_list_free(keys);
  return text;
}

static bool has(moonpad_changes *changes, const char *key) {
  bool there = false;
  OK(moonpad_changes_has(changes, T(key), &there, &failure));
  return there;
}

#define DELTA(changes, expected, expected_removed)                                                                     \
  do {                                                                                                                 \
    moonpad_buffer delta = {0}, removed = {0};                                                                         \
    OK(moonpad_changes_delta(changes, &delta, &removed, &failure));                                                    \
    GIVES(delta, expected);                                                                                            \
    GIVES(removed, expected_removed);                                                                                  \
  } while (0)

#define SHOWS(changes, expected)                                                                                       \
  do {                                                                                                                 \
    moonpad_buffer merged = {0};                                                                                       \
    OK(moonpad_changes_state(changes, &merged, &failure));                                                             \
    GIVES(merged, expected);                                                                                           \
  } while (0)

static void test_pending_writes_are_asked_and_listed(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(
      self, "s", "{\"n\":1,\"gone\":1,\"null\":null,\"user:u\":\"x\",\"app:a\":[],\"\":0,\"Z\":true,\"\xc3\xa9\":2}");
  moonpad_changes *changes = NULL, *other = NULL;
  moonpad_value two = moonpad_integer(2);
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_begin(session, &other, &failure));
  DELTA(changes, "{}", "[]");
  assert_string_equal(keys_of(changes), "<><Z><app:a><gone><n><null><user:u><\xc3\xa9>");
  OK(moonpad_changes_increment(changes, T("n"), &two, &failure));
  OK(moonpad_changes_append(changes, T("app:a"), &two, &failure));
  OK(moonpad_changes_remove(changes, T("gone"), T(""), &failure));
  OK(moonpad_changes_remove(changes, T("user:u"), T(""), &failure));
  OK(moonpad_changes_remove(changes, T("never"), T(""), &failure));
  OK(moonpad_changes_remove(changes, T("never"), T("a"), &failure));
  OK(moonpad_changes_remove(changes, T("no"), T("a"), &failure));
  set_json(changes, "new", "", "{\"b\": [1.0]}");
  set_json(changes, "temp:t", "", "[]");
  set_json(changes, "temp:u", "", "[]");
  OK(moonpad_changes_remove(changes, T("temp:u"), T(""), &failure));
  assert_string_equal(keys_of(changes), "<><Z><app:a><n><new><null><temp:t><\xc3\xa9>");
  assert_true(has(changes, ""));
  assert_true(has(changes, "null"));
  assert_true(has(changes, "new"));
  assert_true(has(changes, "temp:t"));
  assert_false(has(changes, "gone"));
  assert_false(has(changes, "user:u"));
  assert_false(has(changes, "u"));
  assert_false(has(changes, "never"));
  DELTA(changes, "{\"app:a\":[2],\"n\":3,\"new\":{\"b\":[1.0]},\"temp:t\":[]}",
        "[\"gone\",\"never\",\"temp:u\",\"user:u\"]");
  SHOWS(changes,
        "{\"\":0,\"Z\":true,\"app:a\":[2],\"n\":3,\"new\":{\"b\":[1.0]},\"null\":null,\"temp:t\":[],\"\xc3\xa9\":2}");
  /* Nothing of it is seen beside it, nor stored, and to ask changes nothing. */
  assert_string_equal(keys_of(other), "<><Z><app:a><gone><n><null><user:u><\xc3\xa9>");
  DELTA(other, "{}", "[]");
  assert_false(moonpad_changes_pending(other));
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  DELTA(changes, "{}", "[]");
  assert_string_equal(keys_of(changes), "<><Z><app:a><n><new><null><temp:t><\xc3\xa9>");
  STORED(self, "s", "{\"\":0,\"Z\":true,\"app:a\":[2],\"n\":3,\"new\":{\"b\":[1.0]},\"null\":null,\"\xc3\xa9\":2}");
  moonpad_changes_free(other);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* Who needs no list of removed keys gives no buffer for it. */
static void test_the_removed_keys_of_a_delta_may_be_left_out(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_changes *changes = NULL;
  moonpad_buffer delta = {0};
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_remove(changes, T("k"), T(""), &failure));
  set_json(changes, "l", "", "[1]");
  OK(moonpad_changes_delta(changes, &delta, NULL, &failure));
  GIVES(delta, "{\"l\":[1]}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_keys_of_any_bytes(void **state) {
  host *self = *state;
  static char longest[MOONPAD_MAX_KEY_BYTES + 2];
  memset(longest, 'k', sizeof longest - 1);
  moonpad_string odd = {"a\0b", 3}, most = {longest, MOONPAD_MAX_KEY_BYTES}, too_long = {longest, sizeof longest - 1};
  moonpad_session *session = host_create(self, "s", "{}");
  moonpad_changes *changes = NULL;
  moonpad_key_list *keys = NULL;
  moonpad_value one = moonpad_integer(1);
  bool there = false;
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_keys(changes, &keys, &failure));
  assert_int_equal(moonpad_key_list_count(keys), 0);
  assert_null(moonpad_key_list_at(keys, 0).data);
  moonpad_key_list_free(keys);
  moonpad_key_list_free(NULL);
  OK(moonpad_changes_set(changes, odd, T(""), &one, &failure));
  OK(moonpad_changes_set(changes, most, T(""), &one, &failure));
  OK(moonpad_changes_has(changes, odd, &there, &failure));
  assert_true(there);
  OK(moonpad_changes_has(changes, most, &there, &failure));
  assert_true(there);
  OK(moonpad_changes_has(changes, too_long, &there, &failure));
  assert_false(there);
  OK(moonpad_changes_has(changes, T("\xff"), &there, &failure));
  assert_false(there);
  OK(moonpad_changes_keys(changes, &keys, &failure));
  assert_int_equal(moonpad_key_list_count(keys), 2);
  assert_int_equal(moonpad_key_list_at(keys, 0).length, 3);
  assert_memory_equal(moonpad_key_list_at(keys, 0).data, "a\0b", 3);
  assert_int_equal(moonpad_key_list_at(keys, 1).length, MOONPAD_MAX_KEY_BYTES);
  assert_null(moonpad_key_list_at(keys, 2).data);
  assert_int_equal(moonpad_key_list_at(keys, 2).length, 0);
  moonpad_key_list_free(keys);
  moonpad_changes_discard(changes);
  OK(moonpad_changes_set(changes, odd, T(""), &one, &failure));
  DELTA(changes, "{\"a\\u0000b\":1}", "[]");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* ---- What counts as a read (contract 1.3, 2.2) ---- */

static void ask_has(moonpad_changes *changes) {
  assert_true(has(changes, "user:k"));
}
static void ask_has_not(moonpad_changes *changes) {
  assert_false(has(changes, "user:absent"));
}
static void ask_keys(moonpad_changes *changes) {
  keys_of(changes);
}
static void ask_state(moonpad_changes *changes) {
  moonpad_buffer json = {0};
  OK(moonpad_changes_state(changes, &json, &failure));
  moonpad_buffer_free(&json);
}
static void ask_delta(moonpad_changes *changes) {
  moonpad_buffer json = {0};
  OK(moonpad_changes_delta(changes, &json, NULL, &failure));
  moonpad_buffer_free(&json);
}

/* Somebody else writes the key between the question and an own write of it. */
static moonpad_status write_after(host *self, void (*ask)(moonpad_changes *), const char *key) {
  moonpad_session *session = host_create(self, "", "{\"user:k\":1}");
  moonpad_session *other = host_get(self, moonpad_session_id(session).data);
  char delta[100];
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  ask(changes);
  snprintf(delta, sizeof delta, "{\"%s\":2}", key);
  host_append(other, delta);
  set_json(changes, key, "", "[3]");
  ask_delta(changes);
  moonpad_status status = moonpad_changes_commit(changes, T("{}"), NULL, &failure);
  if (status == MOONPAD_CONFLICT) {
    assert_int_equal(moonpad_session_conflict_count(session), 1);
    SAYS(moonpad_session_conflict_key(session, 0), key);
  }
  moonpad_changes_free(changes);
  moonpad_session_free(other);
  moonpad_session_free(session);
  return status;
}

static void test_what_tells_of_a_key_is_a_read_of_it(void **state) {
  host *self = *state;
  assert_int_equal(write_after(self, ask_has, "user:k"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_has_not, "user:k"), MOONPAD_OK);
  assert_int_equal(write_after(self, ask_has_not, "user:absent"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_keys, "user:k"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_keys, "user:fresh"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_state, "user:k"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_state, "user:missing"), MOONPAD_CONFLICT);
  assert_int_equal(write_after(self, ask_delta, "user:k"), MOONPAD_OK);
}

/* ---- Afterwards ---- */

static void test_of_a_freed_session_they_are_closed(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_changes *changes = NULL;
  moonpad_key_list *keys = NULL, *none = NULL;
  moonpad_buffer delta = {0}, removed = {0}, json = {0};
  bool there = true;
  OK(moonpad_changes_begin(session, &changes, &failure));
  set_json(changes, "l", "", "[1]");
  OK(moonpad_changes_keys(changes, &keys, &failure));
  OK(moonpad_changes_delta(changes, &delta, NULL, &failure));
  moonpad_session_free(session);
  FAILS(MOONPAD_CLOSED, moonpad_changes_has(changes, T("k"), &there, &failure));
  assert_false(there);
  none = keys;
  FAILS(MOONPAD_CLOSED, moonpad_changes_keys(changes, &none, &failure));
  assert_null(none);
  FAILS(MOONPAD_CLOSED, moonpad_changes_delta(changes, &json, &removed, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_changes_state(changes, &json, &failure));
  assert_null(json.data);
  assert_null(removed.data);
  moonpad_changes_free(changes);
  /* What was given before is there as long as whoever has it wants it. */
  moonpad_service_release(self->service);
  assert_int_equal(moonpad_key_list_count(keys), 2);
  SAYS(moonpad_key_list_at(keys, 0), "k");
  SAYS(moonpad_key_list_at(keys, 1), "l");
  moonpad_key_list_free(keys);
  GIVES(delta, "{\"l\":[1]}");
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

/* A closed service takes no writes; what is pending can still be looked at. */
static void test_on_a_closed_service_they_go_on(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  set_json(changes, "l", "", "[1]");
  moonpad_service_close(self->service);
  assert_true(has(changes, "k"));
  assert_string_equal(keys_of(changes), "<k><l>");
  DELTA(changes, "{\"l\":[1]}", "[]");
  SHOWS(changes, "{\"k\":1,\"l\":[1]}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* Others have put a text where a number is to be added: the sum cannot be shown, the key can. */
static void test_what_does_not_fit_any_more_is_told_where_it_is_shown(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"n\":1}");
  moonpad_changes *changes = NULL;
  moonpad_buffer json = {0};
  moonpad_value value = moonpad_integer(1);
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, T("n"), &value, &failure));
  moonpad_session *other = host_get(self, "s");
  host_append(other, "{\"n\":\"text\"}");
  moonpad_session_free(other);
  OK(moonpad_refresh(session, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_get(changes, T("n"), T(""), &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_read(session, T("n"), T(""), &value, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_delta(changes, &json, NULL, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_state(changes, &json, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_state(session, &json, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_render(session, T("{n}"), NULL, &json, &failure));
  assert_null(json.data);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  assert_true(has(changes, "n"));
  assert_string_equal(keys_of(changes), "<n>");
  OK(moonpad_changes_remove(changes, T("n"), T(""), &failure));
  SHOWS(changes, "{}");
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_pending_writes_are_asked_and_listed),
      ON_EVERY_STORE(test_the_removed_keys_of_a_delta_may_be_left_out),
      ON_EVERY_STORE(test_keys_of_any_bytes),
      ON_EVERY_STORE(test_what_tells_of_a_key_is_a_read_of_it),
      ON_EVERY_STORE(test_of_a_freed_session_they_are_closed),
      ON_EVERY_STORE(test_on_a_closed_service_they_go_on),
      ON_EVERY_STORE(test_what_does_not_fit_any_more_is_told_where_it_is_shown),
  };
  return HOST_RUN(tests);
}
