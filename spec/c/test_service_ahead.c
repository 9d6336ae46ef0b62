/*
** Session objects that are ahead of their store, because it has lost events (contract 2): their
** next append or refresh brings them to what is stored, the log is told, and what was pending is
** held to the rules of conflicts.
*/
#include <stdio.h>

#include "set_back.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- a session of which the last two events are lost ---- */

typedef struct lost {
  host *self;
  moonpad_session *session; /* knows of revision 4; the store is at 2 */
} lost;

static const char kept_state[] =
    "{\"app:a\":0,\"app:same\":0,\"gone\":1,\"k\":1,\"list\":[1],\"map\":{\"a\":{\"b\":1}},\"same\":1,\"user:same\":0,"
    "\"user:u\":0}";

static void lose(lost *all, host *self) {
  all->self = self;
  all->session = host_create(self, "s",
                             "{\"k\":0,\"gone\":1,\"same\":1,\"list\":[1],\"map\":{\"a\":{\"b\":1}},"
                             "\"user:u\":0,\"user:same\":0,\"app:a\":0,\"app:same\":0}");
  host_append(all->session, "{\"k\":1}");
  host_append(all->session, "{}");
  set_back_keep(self);
  host_append(all->session, "{\"k\":7,\"new\":7,\"list\":[7],\"map\":{\"a\":{\"b\":7}},\"user:u\":7,\"user:new\":7}");
  OK(moonpad_append_event(
      all->session,
      T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"app:a\":7,\"gone\":null}},\"removedStateKeys\":[\"gone\"]}"),
      NULL, &failure));
  assert_int_equal(moonpad_session_revision(all->session), 4);
  set_back(self);
  assert_int_equal(self->warnings, 0);
}

/* The object shows what is stored: state, revision and every event. */
static void expect_as_stored(host *self, moonpad_session *session, const char *id) {
  moonpad_session *stored = host_get(self, id);
  moonpad_buffer json = {0};
  OK(moonpad_session_state(stored, &json, &failure));
  STATE(session, json.data);
  moonpad_buffer_free(&json);
  assert_int_equal(moonpad_session_revision(session), moonpad_session_revision(stored));
  size_t count = host_event_count(session);
  assert_int_equal(count, host_event_count(stored));
  for (size_t i = 0; i < count; i++) {
    moonpad_event *shown = NULL, *there = NULL;
    OK(moonpad_session_event(session, i, &shown, &failure));
    OK(moonpad_session_event(stored, i, &there, &failure));
    assert_string_equal(moonpad_event_json(shown).data, moonpad_event_json(there).data);
    moonpad_event_free(shown);
    moonpad_event_free(there);
  }
  moonpad_session_free(stored);
}

/* The log was told once. */
static void end_lost(lost *all, int64_t revision) {
  assert_int_equal(moonpad_session_revision(all->session), revision);
  expect_as_stored(all->self, all->session, "s");
  assert_int_equal(all->self->warnings, 1);
  assert_string_equal(all->self->last_said,
                      "session \"s\" of user \"u\" in app \"app\": the store is at revision 2, this object was at 4; "
                      "the state of its user: the store is at revision 1, this object was at 2; the state of its app: "
                      "the store is at revision 1, this object was at 2: a failover has lost events, or a backup was "
                      "restored; the object shows what is stored");
  moonpad_session_free(all->session);
}

static void test_an_append_brings_it_back(void **state) {
  lost all;
  lose(&all, *state);
  host_append(all.session, "{\"more\":1}");
  STATE(all.session, "{\"app:a\":0,\"app:same\":0,\"gone\":1,\"k\":1,\"list\":[1],\"map\":{\"a\":{\"b\":1}},\"more\":1,"
                     "\"same\":1,\"user:same\":0,\"user:u\":0}");
  end_lost(&all, 3);
}

static void test_a_refresh_brings_it_back(void **state) {
  lost all;
  lose(&all, *state);
  assert_int_equal(host_event_count(all.session), 4);
  OK(moonpad_refresh(all.session, &failure));
  STATE(all.session, kept_state);
  host_append(all.session, "{\"k\":2}");
  end_lost(&all, 3);
}

static void test_a_rewind_brings_it_back(void **state) {
  lost all;
  lose(&all, *state);
  OK(moonpad_rewind_to_revision(all.session, 0, NULL, &failure));
  assert_int_equal(host_read(all.session, "k", "").as.integer, 0);
  end_lost(&all, 3);
}

/* ---- what is pending ---- */

static moonpad_changes *own_changes(moonpad_session *session) {
  moonpad_changes *changes = NULL;
  OK(moonpad_session_changes(session, &changes, &failure));
  return changes;
}

static void add(moonpad_changes *changes, const char *key) {
  moonpad_value one = moonpad_integer(1);
  OK(moonpad_changes_increment(changes, T(key), &one, &failure));
}

static void add_item(moonpad_changes *changes, const char *key) {
  moonpad_value nine = moonpad_integer(9);
  OK(moonpad_changes_append(changes, T(key), &nine, &failure));
}

static void set(moonpad_changes *changes, const char *key, const char *path) {
  moonpad_value nine = moonpad_integer(9);
  OK(moonpad_changes_set(changes, T(key), T(path), &nine, &failure));
}

static void read_key(moonpad_changes *changes, const char *key) {
  (void)changed(changes, key, "");
}

static void test_what_is_added_is_added_to_what_is_stored(void **state) {
  lost all;
  lose(&all, *state);
  moonpad_changes *changes = own_changes(all.session);
  add(changes, "k");
  add(changes, "new");
  add(changes, "user:u");
  add(changes, "app:a");
  add_item(changes, "list");
  OK(moonpad_update_session(all.session, NULL, &failure));
  STATE(all.session,
        "{\"app:a\":1,\"app:same\":0,\"gone\":1,\"k\":2,\"list\":[1,9],\"map\":{\"a\":{\"b\":1}},\"new\":1,"
        "\"same\":1,\"user:same\":0,\"user:u\":1}");
  end_lost(&all, 3);
}

static void test_writes_of_what_is_as_it_was_go_through(void **state) {
  lost all;
  lose(&all, *state);
  moonpad_changes *changes = own_changes(all.session);
  read_key(changes, "same");
  set(changes, "same", "");
  read_key(changes, "user:same");
  set(changes, "user:same", "");
  set(changes, "never", "");
  set(changes, "user:u", ""); /* not read: the last writer wins */
  set(changes, "app:a", "");
  OK(moonpad_update_session(all.session, NULL, &failure));
  STATE(all.session,
        "{\"app:a\":9,\"app:same\":0,\"gone\":1,\"k\":1,\"list\":[1],\"map\":{\"a\":{\"b\":1}},\"never\":9,"
        "\"same\":9,\"user:same\":9,\"user:u\":9}");
  end_lost(&all, 3);
}

typedef void write_pending(moonpad_changes *changes);

static void set_k(moonpad_changes *changes) {
  set(changes, "k", "");
}
static void set_new(moonpad_changes *changes) {
  set(changes, "new", "");
}
static void set_gone(moonpad_changes *changes) {
  set(changes, "gone", "");
}
static void set_inside(moonpad_changes *changes) {
  set(changes, "map", "a.b");
}
static void set_read_user(moonpad_changes *changes) {
  read_key(changes, "user:u");
  set(changes, "user:u", "");
}
static void set_read_new_user(moonpad_changes *changes) {
  read_key(changes, "user:new");
  set(changes, "user:new", "");
}
static void set_read_app(moonpad_changes *changes) {
  read_key(changes, "app:a");
  set(changes, "app:a", "");
}

static const struct {
  const char *key;
  write_pending *write;
} overtaken[] = {{"k", set_k},           {"new", set_new},          {"gone", set_gone},
                 {"map", set_inside},    {"user:u", set_read_user}, {"user:new", set_read_new_user},
                 {"app:a", set_read_app}};

/* What was read is not what is stored: that conflicts, until a refresh has shown what is. */
static void expect_conflict(moonpad_session *session, moonpad_changes *changes, const char *key) {
  FAILS(MOONPAD_CONFLICT, moonpad_changes_commit(changes, T("{\"author\":\"a\"}"), NULL, &failure));
  assert_int_equal(moonpad_session_conflict_count(session), 1);
  SAYS(moonpad_session_conflict_key(session, 0), key);
  assert_true(moonpad_changes_pending(changes));
}

/* Each in a store of its own; the state is the URL. */
static void test_writes_of_what_is_lost_conflict(void **state) {
  for (size_t i = 0; i < COUNT(overtaken); i++) {
    void *fresh;
    lost all;
    host_setup(&fresh, *state);
    lose(&all, fresh);
    moonpad_changes *changes = own_changes(all.session);
    overtaken[i].write(changes);
    expect_conflict(all.session, changes, overtaken[i].key);
    assert_int_equal(moonpad_session_revision(all.session), 4);
    OK(moonpad_refresh(all.session, &failure));
    assert_true(moonpad_changes_pending(changes));
    OK(moonpad_update_session(all.session, NULL, &failure));
    end_lost(&all, 3);
    host_teardown(&fresh);
  }
}

/* Pending in a change set while another append brings the object back. */
static void test_what_stays_pending_keeps_to_the_rules(void **state) {
  lost all;
  lose(&all, *state);
  moonpad_changes *one, *two, *three;
  OK(moonpad_changes_begin(all.session, &one, &failure));
  OK(moonpad_changes_begin(all.session, &two, &failure));
  OK(moonpad_changes_begin(all.session, &three, &failure));
  set(one, "k", "");
  set(two, "same", "");
  add(two, "k");
  (void)changed(three, "new", "");
  set(three, "new", "");
  host_append(all.session, "{\"more\":1}");
  expect_conflict(all.session, one, "k");
  expect_conflict(all.session, three, "new");
  OK(moonpad_changes_commit(two, T("{\"author\":\"a\"}"), NULL, &failure));
  assert_int_equal(host_read(all.session, "k", "").as.integer, 2);
  OK(moonpad_refresh(all.session, &failure));
  OK(moonpad_changes_commit(one, T("{\"author\":\"a\"}"), NULL, &failure));
  OK(moonpad_changes_commit(three, T("{\"author\":\"a\"}"), NULL, &failure));
  moonpad_changes_free(one);
  moonpad_changes_free(two);
  moonpad_changes_free(three);
  end_lost(&all, 6);
}

/* A delta by hand is compared with what the object shows. */
static void test_deltas_by_hand(void **state) {
  lost all;
  lose(&all, *state);
  FAILS(MOONPAD_CONFLICT,
        moonpad_append_event(all.session, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":9}}}"), NULL,
                             &failure));
  host_append(all.session, "{\"same\":9,\"app:a\":9}");
  host_append(all.session, "{\"k\":9}");
  end_lost(&all, 4);
}

/* ---- what the object takes for its own ---- */

/* Others write at the revisions at which the lost writes stood: these are theirs. */
static void test_lost_writes_are_nobodys(void **state) {
  lost all;
  lose(&all, *state);
  moonpad_session *theirs = host_get(all.self, "s");
  moonpad_changes *changes;
  OK(moonpad_changes_begin(all.session, &changes, &failure));
  OK(moonpad_refresh(all.session, &failure));
  set(changes, "k", "");
  host_append(theirs, "{\"k\":100}"); /* revision 3, as the lost one */
  expect_conflict(all.session, changes, "k");
  moonpad_changes_free(changes);
  moonpad_session_free(theirs);
  OK(moonpad_refresh(all.session, &failure));
  end_lost(&all, 3);
}

/* Others have gone on, but not so far that it could not be seen. */
static void test_others_have_gone_on(void **state) {
  lost all;
  lose(&all, *state);
  moonpad_session *theirs = host_get(all.self, "s");
  host_append(theirs, "{\"k\":100,\"theirs\":1,\"gone\":null}");
  moonpad_session_free(theirs);
  host_append(all.session, "{\"mine\":1}");
  assert_int_equal(all.self->warnings, 1);
  assert_int_equal(moonpad_session_revision(all.session), 4);
  expect_as_stored(all.self, all.session, "s");
  moonpad_session_free(all.session);
}

/* ---- asynchronous appends ---- */

typedef struct answers {
  int done, conflicts;
} answers;

static void note_answer(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  answers *all = context;
  (void)session, (void)event;
  all->done++;
  if (error == NULL) return;
  if (error->code != MOONPAD_CONFLICT) fail_msg("%s", error->message);
  all->conflicts++;
}

static void wait_for(host *self, const answers *all, int count) {
  while (all->done < count) assert_true(moonpad_poll(self->service, TIMEOUT_MS) > 0);
}

static void test_asynchronous_appends_bring_it_back(void **state) {
  lost all;
  answers got = {0};
  lose(&all, *state);
  for (int i = 1; i <= 4; i++) {
    char delta[64];
    snprintf(delta, sizeof delta, "{\"n\":%d,\"same\":%d,\"user:u\":%d}", i, i, i);
    host_append_async(all.session, delta, note_answer, &got);
  }
  add(own_changes(all.session), "k");
  bool queued;
  OK(moonpad_update_session_async(all.session, note_answer, &got, &queued, &failure));
  wait_for(all.self, &got, 5);
  assert_int_equal(got.conflicts, 0);
  STATE(all.session, "{\"app:a\":0,\"app:same\":0,\"gone\":1,\"k\":2,\"list\":[1],\"map\":{\"a\":{\"b\":1}},\"n\":4,"
                     "\"same\":4,\"user:same\":0,\"user:u\":4}");
  host_append(all.session, "{\"k\":9}");
  end_lost(&all, 8);
}

/* The first is stored at the revision that the others were prepared with. */
static void test_those_behind_are_ahead_as_well(void **state) {
  lost all;
  answers got = {0};
  lose(&all, *state);
  host_append_async(all.session, "{\"n\":1}", note_answer, &got);
  host_append_async(all.session, "{\"n\":2}", note_answer, &got);
  host_append_async(all.session, "{\"k\":9}", note_answer, &got);
  wait_for(all.self, &got, 3);
  assert_int_equal(got.conflicts, 1);
  STATE(all.session, "{\"app:a\":0,\"app:same\":0,\"gone\":1,\"k\":1,\"list\":[1],\"map\":{\"a\":{\"b\":1}},\"n\":2,"
                     "\"same\":1,\"user:same\":0,\"user:u\":0}");
  end_lost(&all, 4);
}

/* ---- events ---- */

static moonpad_session *get_with(host *self, int64_t recent, double after) {
  moonpad_get_options options;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_get_options_init(&options);
  options.num_recent_events = recent;
  options.has_after_timestamp = after >= 0;
  options.after_timestamp = after;
  OK(moonpad_get_session(self->service, &name, &options, &session, &failure));
  return session;
}

static void expect_events(moonpad_session *session, const char *expected) {
  char shown[256] = "";
  for (size_t i = 0; i < host_event_count(session); i++) {
    moonpad_event *event = NULL;
    OK(moonpad_session_event(session, i, &event, &failure));
    strcat(shown, host_in_event(event, "id"));
    moonpad_event_free(event);
  }
  assert_string_equal(shown, expected);
}

static void append_event(moonpad_session *session, const char *id, int time) {
  char event[128];
  snprintf(event, sizeof event, "{\"id\":\"%s\",\"author\":\"a\",\"timestamp\":%d}", id, time);
  OK(moonpad_append_event(session, T(event), NULL, &failure));
}

static void test_no_window_shows_a_lost_event(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_event(session, "a", 1);
  append_event(session, "b", 2);
  append_event(session, "c", 3);
  set_back_keep(self);
  append_event(session, "d", 4);
  append_event(session, "e", 5);
  moonpad_session *all[] = {get_with(self, MOONPAD_ALL_EVENTS, -1), get_with(self, 1, -1), get_with(self, 3, -1),
                            get_with(self, MOONPAD_ALL_EVENTS, 3),  get_with(self, 2, 1),  get_with(self, 0, -1),
                            get_with(self, MOONPAD_ALL_EVENTS, 5)};
  static const char *const before[] = {"abcde", "e", "cde", "cde", "de", "", "e"};
  static const char *const after[] = {"abc", "", "c", "c", "bc", "", ""};
  for (size_t i = 0; i < COUNT(all); i++) expect_events(all[i], before[i]);
  set_back(self);
  for (size_t i = 0; i < COUNT(all); i++) {
    OK(moonpad_refresh(all[i], &failure));
    expect_events(all[i], after[i]);
  }
  append_event(all[0], "f", 6);
  for (size_t i = 0; i < COUNT(all); i++) {
    char expected[16];
    OK(moonpad_refresh(all[i], &failure));
    snprintf(expected, sizeof expected, "%sf", after[i]);
    expect_events(all[i], expected);
    moonpad_session_free(all[i]);
  }
  assert_int_equal(self->warnings, (int)COUNT(all));
  moonpad_session_free(session);
}

/* ---- the user or the app alone ---- */

static void test_a_user_and_an_app_alone(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}"), *other = host_create(self, "other", "{}");
  host_append(other, "{\"user:u\":1,\"app:a\":1}");
  OK(moonpad_refresh(session, &failure));
  host_append(session, "{\"k\":2}");
  set_back_keep(self);
  host_append(other, "{\"user:u\":2,\"app:a\":2,\"app:new\":2}");
  OK(moonpad_refresh(session, &failure));
  STATE(session, "{\"app:a\":2,\"app:new\":2,\"k\":2,\"user:u\":2}");
  set_back(self);
  moonpad_changes *changes = own_changes(session);
  read_key(changes, "app:a");
  set(changes, "app:a", "");
  expect_conflict(session, changes, "app:a");
  moonpad_changes_discard(changes);
  add(changes, "user:u");
  OK(moonpad_update_session(session, NULL, &failure));
  STATE(session, "{\"app:a\":1,\"k\":2,\"user:u\":2}");
  expect_as_stored(self, session, "s");
  assert_int_equal(self->warnings, 1);
  assert_non_null(strstr(self->last_said, "the state of its app: the store is at revision 1, this object was at 2"));
  assert_null(strstr(self->last_said, "\": the store is at"));
  moonpad_session_free(session);
  moonpad_session_free(other);
}

#define SET_BACK(test)                                                                                                 \
  ON_STORE(test, "sqlite:FILE"), ON_STORE(test, "slow:0:sqlite:FILE"), ON_STORE(test, "postgresql:"),                  \
      ON_STORE(test, "mysql:"), ON_STORE(test, "redis:")

#define WITH(test, url)                                                                                                \
  { #test " on " url, test, NULL, NULL, (void *)(url) }

int main(void) {
  const struct CMUnitTest tests[] = {
      SET_BACK(test_an_append_brings_it_back),
      SET_BACK(test_a_refresh_brings_it_back),
      SET_BACK(test_a_rewind_brings_it_back),
      SET_BACK(test_what_is_added_is_added_to_what_is_stored),
      SET_BACK(test_writes_of_what_is_as_it_was_go_through),
      WITH(test_writes_of_what_is_lost_conflict, "sqlite:FILE"),
      WITH(test_writes_of_what_is_lost_conflict, "slow:0:sqlite:FILE"),
      WITH(test_writes_of_what_is_lost_conflict, "postgresql:"),
      WITH(test_writes_of_what_is_lost_conflict, "mysql:"),
      WITH(test_writes_of_what_is_lost_conflict, "redis:"),
      SET_BACK(test_what_stays_pending_keeps_to_the_rules),
      SET_BACK(test_deltas_by_hand),
      SET_BACK(test_lost_writes_are_nobodys),
      SET_BACK(test_others_have_gone_on),
      SET_BACK(test_asynchronous_appends_bring_it_back),
      SET_BACK(test_those_behind_are_ahead_as_well),
      SET_BACK(test_no_window_shows_a_lost_event),
      SET_BACK(test_a_user_and_an_app_alone),
  };
  return HOST_RUN(tests);
}
