/*
** Appends of a step of a run, which only the Lua binding makes (service/binding/): what comes of
** them is what comes of an append that waits.
*/
#include "needs_threads.h"
#include "step_support.h"

/* ---- What comes of it is what comes of an append that waits ---- */

typedef struct script {
  const char *name;
  void (*write)(moonpad_changes *changes);
  const char *before; /* an event that is stored before with the same writes; NULL: none */
  /* what somebody else then changes; NULL: nothing; "": the session is deleted */
  const char *theirs;
  const char *event;
  moonpad_status expected;
} script;

static void write_one(moonpad_changes *changes) {
  set_number(changes, "k", 2);
  OK(moonpad_changes_remove(changes, T("old"), T(""), &failure));
}

static void write_in_each_scope(moonpad_changes *changes) {
  set_number(changes, "k", 2);
  set_json(changes, "user:k", "", "{\"a\":[1]}");
  set_text(changes, "app:k", "", "text");
  set_json(changes, "temp:k", "", "[1]");
}

static void write_sums(moonpad_changes *changes) {
  add_number(changes, "n", 5);
  add_number(changes, "user:n", 5);
  add_number(changes, "temp:n", 5);
  add_item(changes, "list", 8);
  add_item(changes, "list", 9);
  add_item(changes, "temp:list", 9);
}

static void write_inside(moonpad_changes *changes) {
  set_text(changes, "prefs", "theme.name", "dark");
}

static void write_what_it_read(moonpad_changes *changes) {
  (void)changed(changes, "user:k", "");
  set_number(changes, "user:k", 2);
}

static void write_blindly(moonpad_changes *changes) {
  set_number(changes, "user:k", 2);
}

static void write_much(moonpad_changes *changes) {
  char text[4001];
  memset(text, 'x', 4000);
  text[4000] = '\0';
  set_text(changes, "k", "", text);
}

static void write_many(moonpad_changes *changes) {
  char key[16];
  for (int i = 0; i < 40; i++) {
    snprintf(key, sizeof key, i % 3 == 0 ? "user:m%d" : "m%d", i);
    set_number(changes, key, i);
  }
}

static void write_nothing(moonpad_changes *changes) {
  (void)changes;
}

static const char given[] = "{\"author\":\"a\",\"id\":\"e\",\"timestamp\":7,\"invocationId\":\"i\"}";
static const char other_content[] = "{\"author\":\"b\",\"id\":\"e\",\"timestamp\":7,\"invocationId\":\"i\"}";
static const char with_delta[] =
    "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":3,\"user:d\":[1],\"temp:d\":1,\"l\":{}}}}";

static const script scripts[] = {
    {"one scope", write_one, NULL, NULL, plain_event, MOONPAD_OK},
    {"each scope", write_in_each_scope, NULL, NULL, plain_event, MOONPAD_OK},
    {"each scope, others' too", write_in_each_scope, NULL, "{\"x\":1,\"user:x\":1,\"app:x\":1}", plain_event,
     MOONPAD_OK},
    {"sums", write_sums, NULL, "{\"n\":100,\"user:n\":100,\"list\":[7]}", plain_event, MOONPAD_OK},
    {"sums alone", write_sums, NULL, NULL, plain_event, MOONPAD_OK},
    {"inside", write_inside, NULL, "{\"x\":1}", plain_event, MOONPAD_OK},
    {"many", write_many, NULL, NULL, plain_event, MOONPAD_OK},
    {"by hand as well", write_one, NULL, NULL, with_delta, MOONPAD_OK},
    {"by hand alone", write_nothing, NULL, "{\"x\":1}", with_delta, MOONPAD_OK},
    {"blind", write_blindly, NULL, "{\"user:k\":7}", plain_event, MOONPAD_OK},
    {"stored before", write_in_each_scope, given, NULL, given, MOONPAD_OK},
    {"stored before, changed since", write_in_each_scope, given, "{\"k\":9,\"user:k\":9}", given, MOONPAD_OK},
    {"another event's id", write_in_each_scope, given, NULL, other_content, MOONPAD_ALREADY_EXISTS},
    {"conflict", write_one, NULL, "{\"k\":7,\"x\":1}", plain_event, MOONPAD_CONFLICT},
    {"conflict inside", write_inside, NULL, "{\"prefs\":{}}", plain_event, MOONPAD_CONFLICT},
    {"conflict by hand", write_nothing, NULL, "{\"k\":7}", with_delta, MOONPAD_CONFLICT},
    {"conflict of what was read", write_what_it_read, NULL, "{\"user:k\":7}", plain_event, MOONPAD_CONFLICT},
    {"a sum that does not fit", write_sums, NULL, "{\"n\":\"text\"}", plain_event, MOONPAD_INVALID_ARGUMENT},
    {"not found", write_in_each_scope, NULL, "", plain_event, MOONPAD_NOT_FOUND},
    {"limit", write_much, NULL, NULL, plain_event, MOONPAD_LIMIT},
};

static void print_object(FILE *to, moonpad_session *session, moonpad_changes *changes) {
  moonpad_changes *view = begin_changes(session);
  print_all(to, view);
  moonpad_changes_free(view);
  fprintf(to, "revision %lld, %zu events, pending %d, ", (long long)moonpad_session_revision(session),
          host_event_count(session), moonpad_changes_pending(changes));
  print_all(to, changes);
}

static void print_last_event(FILE *to, moonpad_session *session) {
  moonpad_event *event = NULL;
  size_t count = host_event_count(session);
  if (count == 0 || moonpad_session_event(session, count - 1, &event, &failure) != MOONPAD_OK) return;
  const char *actions = strstr(moonpad_event_json(event).data, "\"actions\"");
  fprintf(to, "%s\n", actions == NULL ? "no actions" : actions);
  moonpad_event_free(event);
}

/* Whether a later write counts as made after what was stored was seen. */
static void print_later_write(FILE *to, moonpad_changes *changes, const char *key) {
  set_number(changes, key, 77);
  fprintf(to, "%s later: %s\n", key,
          moonpad_status_name(moonpad_changes_commit(changes, T(plain_event), NULL, &failure)));
  moonpad_changes_discard(changes);
}

static moonpad_status append_as(host *self, const script *played, bool when_stored, moonpad_session *session,
                                moonpad_changes *changes, moonpad_changes *looking, char conflict[32]) {
  told got = {0};
  if (when_stored) {
    mp_job *job = step_append(session, changes, played->event, &got);
    look_at_all(looking);
    step_wait(self, job);
    assert_int_equal(got.done, 1);
    assert_ptr_equal(got.session, session);
    strcpy(conflict, got.conflict);
    return got.status;
  }
  look_at_all(looking);
  moonpad_status status = moonpad_changes_commit(changes, T(played->event), NULL, &failure);
  moonpad_string key = moonpad_session_conflict_key(session, 0);
  snprintf(conflict, 32, "%.*s", (int)key.length, key.data);
  return status;
}

/* All that there is to see afterwards. */
static char *play(host *self, const script *played, bool when_stored) {
  static const char first[] = "{\"k\":1,\"old\":1,\"n\":1,\"list\":[1],\"prefs\":{\"theme\":{}},\"user:n\":1}";
  char *text = NULL, conflict[32];
  size_t length;
  FILE *to = open_memstream(&text, &length);
  moonpad_session_name name = {T(when_stored ? "later" : "now"), T(played->name), T("s")};
  moonpad_session *session, *theirs;
  OK(moonpad_create_session(self->service, &name, T(first), &session, &failure));
  moonpad_changes *changes = begin_changes(session), *looking = begin_changes(session),
                  *reading = begin_changes(session);
  (void)changed(reading, "k", "");
  (void)changed(reading, "x", "");
  played->write(changes);
  if (played->before != NULL) {
    OK(moonpad_changes_commit(changes, T(played->before), NULL, &failure));
    played->write(changes);
  }
  OK(moonpad_get_session(self->service, &name, NULL, &theirs, &failure));
  if (played->theirs != NULL && played->theirs[0] == '\0') {
    OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  } else if (played->theirs != NULL) {
    host_append(theirs, played->theirs);
  }
  moonpad_session_free(theirs);
  moonpad_status status = append_as(self, played, when_stored, session, changes, looking, conflict);
  fprintf(to, "%s: %s, %s\n", played->name, moonpad_status_name(status), conflict);
  if (status != played->expected) fail_msg("%s: %s", played->name, moonpad_status_name(status));
  print_object(to, session, changes);
  print_last_event(to, session);
  if (status != MOONPAD_OK) moonpad_changes_discard(changes);
  static const char *const keys[] = {"x", "k", "user:k", "list", "temp:k"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    print_later_write(to, i % 2 == 0 ? reading : looking, keys[i]);
    print_later_write(to, changes, keys[i]);
  }
  print_object(to, session, changes);
  moonpad_session_free(session);
  moonpad_changes_free(changes);
  moonpad_changes_free(looking);
  moonpad_changes_free(reading);
  fclose(to);
  return text;
}

static void test_it_comes_to_the_same_as_one_that_waits(void **state) {
  host *self = *state;
  self->options.max_state_bytes = 4000;
  host_reopen(self);
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    char *now = play(self, &scripts[i], false), *later = play(self, &scripts[i], true);
    if (strcmp(now, later) != 0) fail_msg("%s\nis not\n%s", later, now);
    free(now);
    free(later);
  }
}

static void test_a_delta_may_be_decided_in_sight_of_another_revision(void **state) {
  host *self = *state;
  static const char event[] = "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":3}}}";
  moonpad_session *session = host_create(self, "s", "{\"k\":1}"), *theirs = host_get(self, "s");
  host_append(theirs, "{\"k\":2}");
  for (int64_t expected_revision = 0; expected_revision < 2; expected_revision++) {
    told got = {0};
    mp_job *job;
    mp_append_request request = {.event = T(event), .expected_revision = expected_revision};
    mp_async_way way = {.when_stored = true, .watch = &step_watch, .context = &got};
    OK(mp_append_later(session, &request, &way, &job, &failure));
    step_wait(self, job);
    assert_int_equal(got.status, expected_revision == 0 ? MOONPAD_CONFLICT : MOONPAD_OK);
  }
  STATE(session, "{\"k\":3}");
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

static void test_what_was_refused_is_told(void **state) {
  host *self = *state;
  told got = {0};
  moonpad_session *session = host_create(self, "s", "{\"k\":1,\"n\":1,\"list\":[1]}"), *theirs = host_get(self, "s");
  moonpad_changes *changes = begin_changes(session);
  set_number(changes, "k", 2);
  add_number(changes, "n", 5);
  add_item(changes, "list", 9);
  host_append(theirs, "{\"k\":7,\"n\":100,\"list\":[]}");
  step_wait(self, step_append(session, changes, plain_event, &got));
  assert_int_equal(got.status, MOONPAD_CONFLICT);
  assert_non_null(strstr(got.refused, "\"stateDelta\":{\"k\":2,\"list\":[1,9],\"n\":6}"));
  moonpad_changes_free(changes);
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}
/* ---- Several at a time, and none ---- */

/*
** They wait behind another one, and are stored in one transaction. The one that is refused is so
** alone, wherever it stands.
*/
static void test_several_sessions_in_one_batch(void **state) {
  NEEDS_THREADS();
  host *self = *state;
  for (int bad = 0; bad < 3; bad++) {
    thread_gate gate;
    told first_got = {0}, got[3];
    moonpad_session *sessions[3];
    moonpad_changes *changes[3];
    mp_job *jobs[3];
    static const char *const ids[] = {"a", "b", "c"};
    memset(got, 0, sizeof got);
    moonpad_session *first = host_create(self, "", "");
    for (int i = 0; i < 3; i++) {
      moonpad_session_name name = host_name(ids[i]);
      OK(moonpad_delete_session(self->service, &name, NULL, &failure));
      sessions[i] = host_create(self, ids[i], "{\"k\":1}");
      changes[i] = begin_changes(sessions[i]);
      set_number(changes[i], "k", 2);
      add_number(changes[i], "user:n", 1);
    }
    moonpad_session *theirs = host_get(self, ids[bad]);
    host_append(theirs, "{\"k\":7}");
    moonpad_session_free(theirs);
    gate_arm(&gate, self, NULL);
    mp_job *before = step_append(first, NULL, plain_event, &first_got);
    gate_wait(&gate);
    for (int i = 0; i < 3; i++) jobs[i] = step_append(sessions[i], changes[i], plain_event, &got[i]);
    gate_open(&gate);
    step_wait(self, before);
    for (int i = 2; i >= 0; i--) {
      step_wait(self, jobs[i]);
      assert_int_equal(got[i].status, i == bad ? MOONPAD_CONFLICT : MOONPAD_OK);
      assert_string_equal(got[i].conflict, i == bad ? "k" : "");
      assert_int_equal(moonpad_changes_pending(changes[i]), i == bad);
      assert_int_equal(host_read(sessions[i], "k", "").as.integer, i == bad ? 1 : 2);
    }
    gate_free(&gate);
    OK(moonpad_refresh(first, &failure));
    assert_int_equal(host_read(first, "user:n", "").as.integer, 2 * (bad + 1));
    for (int i = 0; i < 3; i++) {
      moonpad_changes_free(changes[i]);
      moonpad_session_free(sessions[i]);
    }
    moonpad_session_free(first);
  }
}

static void allow(host *self, long allocations) {
  pthread_mutex_lock(&self->lock);
  self->allowed = allocations;
  pthread_mutex_unlock(&self->lock);
}

static void test_what_cannot_begin_leaves_the_change_set_as_it_is(void **state) {
  host *self = *state;
  told got = {0};
  mp_job *job;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_changes *changes = begin_changes(session);
  set_number(changes, "k", 2);
  FAILS(MOONPAD_INVALID_ARGUMENT, step_try_append(session, changes, "nonsense", &got, &job));
  FAILS(MOONPAD_INVALID_ARGUMENT, step_try_append(session, changes, "{\"author\":\"a\",\"partial\":true}", &got, &job));
  mp_async_way way = {.when_stored = true, .watch = &step_watch, .context = &got};
  mp_append_request request = {.event = T(with_delta), .changes = changes, .refuses_shared_keys = true};
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_append_later(session, &request, &way, &job, &failure));
  bool is_stored = false;
  for (long allowed = 0; !is_stored; allowed++) {
    allow(self, allowed);
    moonpad_status status = step_try_append(session, changes, plain_event, &got, &job);
    allow(self, -1);
    assert_true(moonpad_changes_pending(changes));
    is_stored = status == MOONPAD_OK;
    if (!is_stored) FAILS(MOONPAD_NO_MEMORY, status);
    if (!is_stored) set_number(changes, "k", 2);
  }
  step_wait(self, job);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_it_comes_to_the_same_as_one_that_waits),
      ON_EVERY_STORE(test_a_delta_may_be_decided_in_sight_of_another_revision),
      ON_EVERY_STORE(test_what_was_refused_is_told),
      ON_OTHER_THREADS(test_several_sessions_in_one_batch),
      ON_EVERY_STORE(test_what_cannot_begin_leaves_the_change_set_as_it_is),
  };
  return HOST_RUN(tests);
}
