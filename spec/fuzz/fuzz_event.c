/*
** Events: any text is appended as an event. Either nothing has changed, or there is one event
** more, which holds what was given, whose delta the session shows, which is read back as it was
** returned, and which may come a second time. Now and then SQLite has its turn.
*/
#include "core/event_draft.h"
#include "core/json_compact.h"
#include "core/json_trusted.h"
#include "fuzz.h"

#define EVENTS_PER_SERVICE 500
#define EVENT_DEPTH        136 /* a value of the full depth, and what is around it */
#define SQLITE_EVERY       16
#define STATE_EVERY        8

/* A session of one store. */
typedef struct fixture {
  const char *url;
  mp_env *env;
  moonpad_service *service;
  moonpad_session *session;
  unsigned number; /* of events that were tried */
} fixture;

static moonpad_session_name name_of(void) {
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("user"), moonpad_text("s")};
  return name;
}

/* Everything anew: user and app state would grow. */
static void renew(fixture *self) {
  moonpad_session_name name = name_of();
  moonpad_session_free(self->session);
  moonpad_service_release(self->service);
  HOLDS(moonpad_open(moonpad_text(self->url), NULL, &self->service, NULL) == MOONPAD_OK);
  HOLDS(moonpad_create_session(self->service, &name, moonpad_text("{\"kept\":[1]}"), &self->session, NULL) ==
        MOONPAD_OK);
}

static size_t event_count(moonpad_session *session) {
  size_t count = 0;
  HOLDS(moonpad_session_event_count(session, &count, NULL) == MOONPAD_OK);
  return count;
}

/* ---- What was given is in what is stored ---- */

static bool is_one_of(moonpad_string key, const char *const *names) {
  for (; *names != NULL; names++) {
    if (same_text(key, moonpad_text(*names))) return true;
  }
  return false;
}

static bool is_null(moonpad_string value) {
  return value.data[0] == 'n';
}

/* Null stands for absent in the fields that moonpad knows; in others it is kept. */
static void expect_kept(moonpad_string given, moonpad_string stored, const char *const *apart) {
  mp_members members = mp_members_of(given);
  moonpad_string key, value, found_key, found;
  while (mp_members_next(&members, &key, &value)) {
    if (is_one_of(key, apart)) continue;
    mp_members there = mp_members_of(stored);
    bool is_kept = false;
    while (!is_kept && mp_members_next(&there, &found_key, &found)) {
      is_kept = same_text(key, found_key) && same_text(value, found);
    }
    if (!is_kept && !is_null(value)) broken("lost: %.*s", (int)key.length, key.data);
  }
}

static bool find_object(moonpad_string in, const char *name, moonpad_string *object) {
  return mp_member_find(in, name, object) && object->data[0] == '{';
}

static bool removes(fixture *self, moonpad_string event, moonpad_string key) {
  moonpad_string list;
  if (!mp_member_find(event, "removedStateKeys", &list) || list.data[0] != '[') return false;
  mp_buffer scratch;
  mp_items items = mp_items_of(list);
  moonpad_string literal, found;
  bool is_there = false;
  mp_buffer_init(&scratch, self->env);
  while (mp_items_next(&items, &literal)) {
    HOLDS(mp_literal_text(mp_literal_inside(literal), &scratch, &found));
    is_there = is_there || same_text(found, key);
  }
  mp_buffer_free(&scratch);
  return is_there;
}

static void expect_in_state(fixture *self, moonpad_session *session, moonpad_string key, moonpad_string expected) {
  moonpad_value value;
  mp_buffer written;
  mp_buffer_init(&written, self->env);
  HOLDS(moonpad_session_read(session, key, moonpad_text(""), &value, NULL) == MOONPAD_OK);
  if (expected.data == NULL) {
    HOLDS(value.type == MOONPAD_ABSENT);
  } else {
    mp_value_write_borrowed(&written, &value);
    HOLDS(same_text(mp_buffer_text(&written), expected));
  }
  mp_buffer_free(&written);
}

static bool is_temporary(moonpad_string key) {
  return key.length >= 5 && memcmp(key.data, "temp:", 5) == 0;
}

/*
** The session object shows the delta, and so does a fresh look; what is temporary is
** stored nowhere.
*/
static void expect_delta(fixture *self, moonpad_string given, moonpad_string stored, moonpad_session *fresh) {
  moonpad_string actions, delta, literal, value, key, found = {NULL, 0}, absent = {NULL, 0};
  if (!find_object(given, "actions", &actions) || !find_object(actions, "stateDelta", &delta)) return;
  mp_buffer scratch;
  mp_buffer_init(&scratch, self->env);
  mp_members members = mp_members_of(delta);
  while (mp_members_next(&members, &literal, &value)) {
    HOLDS(mp_literal_text(literal, &scratch, &key));
    moonpad_string expected = removes(self, given, key) ? absent : value;
    expect_in_state(self, self->session, key, expected);
    if (fresh != NULL) expect_in_state(self, fresh, key, is_temporary(key) ? absent : expected);
  }
  bool has_delta = find_object(stored, "actions", &actions) && find_object(actions, "stateDelta", &found);
  members = mp_members_of(found);
  while (has_delta && mp_members_next(&members, &literal, &value)) HOLDS(!is_temporary(literal));
  mp_buffer_free(&scratch);
}

static void expect_what_was_given(fixture *self, moonpad_string text, const moonpad_event *stored) {
  static const char *const apart[] = {"id",       "timestamp", "invocationId", "actions", "removedStateKeys",
                                      "revision", NULL};
  static const char *const actions_apart[] = {"stateDelta", NULL};
  mp_buffer compact;
  moonpad_type type;
  moonpad_session *fresh = NULL;
  moonpad_session_name name = name_of();
  mp_buffer_init(&compact, self->env);
  HOLDS(mp_json_compact(self->env, text, EVENT_DEPTH, NULL, &compact, &type, NULL) == MOONPAD_OK);
  moonpad_string given = mp_buffer_text(&compact), json = moonpad_event_json(stored), actions, kept = {"{}", 2};
  expect_kept(given, json, apart);
  if (find_object(given, "actions", &actions)) {
    find_object(json, "actions", &kept);
    expect_kept(actions, kept, actions_apart);
  }
  if (self->number % STATE_EVERY == 0) {
    HOLDS(moonpad_get_session(self->service, &name, NULL, &fresh, NULL) == MOONPAD_OK);
    HOLDS(moonpad_session_revision(fresh) == moonpad_event_revision(stored));
  }
  expect_delta(self, given, json, fresh);
  moonpad_session_free(fresh);
  mp_buffer_free(&compact);
}

/* ---- Appending ---- */

static void expect_same_again(fixture *self, moonpad_string event, const moonpad_event *stored) {
  moonpad_event *again;
  moonpad_error error = {MOONPAD_OK, ""};
  int64_t revision = moonpad_session_revision(self->session);
  moonpad_status status = moonpad_append_event(self->session, event, &again, &error);
  if (status != MOONPAD_OK) broken("the same event again: %s", error.message);
  HOLDS(same_text(moonpad_event_json(again), moonpad_event_json(stored)));
  HOLDS(moonpad_session_revision(self->session) == revision);
  moonpad_event_free(again);
}

/* Was its id given? Only then may the text itself come again. */
static bool has_own_id(moonpad_string given, const moonpad_event *stored) {
  moonpad_string id = moonpad_event_id(stored);
  moonpad_buffer scratch = {0};
  moonpad_value value;
  bool is_own = moonpad_json_read(given, moonpad_text("id"), &scratch, &value, NULL) == MOONPAD_OK &&
                value.type == MOONPAD_STRING && same_text(value.as.text, id);
  moonpad_buffer_free(&scratch);
  return is_own;
}

static void expect_stored(fixture *self, moonpad_string given, const moonpad_event *stored, int64_t revision,
                          size_t count) {
  if (moonpad_event_revision(stored) <= revision) { /* partial (0), or here already */
    HOLDS(moonpad_session_revision(self->session) == revision && event_count(self->session) == count);
    return;
  }
  moonpad_event *found;
  HOLDS(moonpad_session_revision(self->session) == revision + 1 && event_count(self->session) == count + 1);
  HOLDS(moonpad_session_event(self->session, count, &found, NULL) == MOONPAD_OK);
  HOLDS(same_text(moonpad_event_json(found), moonpad_event_json(stored)));
  moonpad_event_free(found);
  expect_what_was_given(self, given, stored);
  expect_same_again(self, moonpad_event_json(stored), stored);
  if (has_own_id(given, stored)) expect_same_again(self, given, stored);
}

static moonpad_buffer state_of(moonpad_session *session) {
  moonpad_buffer state;
  HOLDS(moonpad_session_state(session, &state, NULL) == MOONPAD_OK);
  return state;
}

static void expect_unchanged(fixture *self, const moonpad_buffer *before, int64_t revision, size_t count) {
  HOLDS(moonpad_session_revision(self->session) == revision && event_count(self->session) == count);
  if (before->data == NULL) return;
  moonpad_buffer after = state_of(self->session);
  HOLDS(before->length == after.length && memcmp(before->data, after.data, after.length) == 0);
  moonpad_buffer_free(&after);
}

static void try_event(fixture *self, moonpad_string given) {
  moonpad_error error = {MOONPAD_OK, ""};
  if (self->number++ % EVENTS_PER_SERVICE == 0) renew(self);
  int64_t revision = moonpad_session_revision(self->session);
  size_t count = event_count(self->session);
  moonpad_buffer before = {0};
  if (self->number % STATE_EVERY == 0) before = state_of(self->session);
  moonpad_event *stored = NULL;
  moonpad_status status = moonpad_append_event(self->session, given, &stored, &error);
  if (status == MOONPAD_OK) {
    expect_stored(self, given, stored, revision, count);
    moonpad_event_free(stored);
  } else {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_ALREADY_EXISTS);
    HOLDS(stored == NULL);
    expect_unchanged(self, &before, revision, count);
  }
  moonpad_buffer_free(&before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fixture memory = {.url = "memory:"}, sqlite = {.url = "sqlite::memory:"};
  static unsigned number;
  if (memory.env == NULL) memory.env = sqlite.env = mp_env_new(NULL);
  try_event(&memory, input_text(data, size));
  if (number++ % SQLITE_EVERY == 0) try_event(&sqlite, input_text(data, size));
  return 0;
}
