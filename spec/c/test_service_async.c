/* The public C API call by call, on every store: appends that do not wait. */
#include "service_support.h"

#include <stdio.h>

/* ---- Asynchronous appends ---- */

typedef struct completion {
  int order[16];
  int64_t revisions[16];
  moonpad_status statuses[16];
  char conflicts[16][16]; /* the first key of each */
  int count;
  pthread_t thread;
} completion;

typedef struct request {
  completion *done;
  moonpad_session *session;
  int number;
} request;

static void complete(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  request *asked = context;
  completion *done = asked->done;
  assert_ptr_equal(session, asked->session);
  if (error == NULL) {
    assert_non_null(event);
  } else {
    assert_null(event);
    assert_int_not_equal(error->code, MOONPAD_OK);
  }
  done->order[done->count] = asked->number;
  done->revisions[done->count] = event != NULL ? moonpad_event_revision(event) : -1;
  done->statuses[done->count] = error != NULL ? error->code : MOONPAD_OK;
  moonpad_string key = session == NULL ? T("") : moonpad_session_conflict_key(session, 0);
  snprintf(done->conflicts[done->count], sizeof done->conflicts[0], "%.*s", (int)key.length, key.data);
  done->count++;
  done->thread = pthread_self();
}

static void poll_until(host *self, completion *done, int count) {
  while (done->count < count && moonpad_poll(self->service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(done->count, count);
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  assert_int_equal(done->count, count);
}

static void append_async(request *asked, const char *delta) {
  host_append_async(asked->session, delta, complete, asked);
}

static void test_async_appends_complete_in_order(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  request asked[10];
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  for (int i = 0; i < 10; i++) {
    asked[i] = (request){&done, session, i};
    char delta[64];
    snprintf(delta, sizeof delta, "{\"k\":%d,\"user:k\":%d,\"temp:t\":%d}", i, i, i);
    append_async(&asked[i], delta);
    /* The object changes at once, its revision on completion. */
    assert_int_equal(host_read(session, "k", "").as.integer, i);
    assert_int_equal(host_read(session, "temp:t", "").as.integer, i);
    assert_int_equal(moonpad_session_revision(session), 0);
  }
  assert_int_equal(done.count, 0);
  poll_until(self, &done, 10);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(done.order[i], i);
    assert_int_equal(done.statuses[i], MOONPAD_OK);
    assert_int_equal(done.revisions[i], i + 1);
  }
  assert_true(pthread_equal(done.thread, pthread_self()));
  assert_int_equal(moonpad_session_revision(session), 10);
  assert_int_equal(host_event_count(session), 10);
  STATE(session, "{\"k\":9,\"temp:t\":9,\"user:k\":9}");
  STORED(self, "s", "{\"k\":9,\"user:k\":9}");
  moonpad_session_free(session);
}

static void test_async_failure_fails_those_behind_it(void **state) {
  host *self = *state;
  completion done = {.count = 0}, other_done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "{\"k\":\"old\"}"), *theirs = host_get(self, "s"),
                  *other = host_create(self, "other", "");
  host_append(theirs, "{\"k\":\"theirs\",\"more\":1}");
  request asked[4];
  static const char *const deltas[] = {"{\"fine\":1}", "{\"k\":\"mine\",\"user:k\":1,\"temp:t\":1}", "{\"behind\":1}",
                                       "{\"behind\":2,\"k\":\"again\"}"};
  for (int i = 0; i < 4; i++) {
    asked[i] = (request){&done, session, i};
    append_async(&asked[i], deltas[i]);
  }
  request elsewhere = {&other_done, other, 0};
  append_async(&elsewhere, "{\"k\":\"other\"}");
  while (done.count < 4 || other_done.count < 1) assert_true(moonpad_poll(self->service, TIMEOUT_MS) > 0);
  for (int i = 0; i < 4; i++) assert_int_equal(done.order[i], i);
  assert_int_equal(done.statuses[0], MOONPAD_OK);
  assert_int_equal(done.statuses[1], MOONPAD_CONFLICT);
  assert_string_equal(done.conflicts[0], "");
  assert_string_equal(done.conflicts[1], "k");
  assert_int_not_equal(done.statuses[2], MOONPAD_OK);
  assert_int_not_equal(done.statuses[3], MOONPAD_OK);
  /* The other session is not concerned. */
  assert_int_equal(other_done.statuses[0], MOONPAD_OK);
  /* The object is as stored. */
  STORED(self, "s", "{\"fine\":1,\"k\":\"theirs\",\"more\":1}");
  STATE(session, "{\"fine\":1,\"k\":\"theirs\",\"more\":1}");
  assert_int_equal(moonpad_session_revision(session), 2);
  assert_int_equal(host_event_count(session), 2);
  /* And can be used again, both ways. */
  host_append(session, "{\"k\":\"mine\"}");
  append_async(&asked[0], "{\"k\":\"mine again\"}");
  poll_until(self, &done, 5);
  assert_int_equal(done.statuses[4], MOONPAD_OK);
  STORED(self, "s", "{\"fine\":1,\"k\":\"mine again\",\"more\":1}");
  moonpad_session_free(other);
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

static void test_async_append_to_a_deleted_session(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append_async(&asked[0], "{\"k\":1}");
  append_async(&asked[1], "{\"k\":2}");
  poll_until(self, &done, 2);
  assert_int_equal(done.statuses[0], MOONPAD_NOT_FOUND);
  assert_int_not_equal(done.statuses[1], MOONPAD_OK);
  STATE(session, "{}");
  moonpad_session_free(session);
}

static void test_async_refuses_a_malformed_event_at_once(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  request asked = {&done, session, 0};
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_append_event_async(session, T("{\"author\":7}"), complete, &asked, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_append_event_async(session, T("nonsense"), complete, &asked, &failure));
  append_async(&asked, "{\"k\":1}");
  poll_until(self, &done, 1);
  assert_int_equal(done.revisions[0], 1);
  moonpad_session_free(session);
}

static void test_async_and_sync_appends_keep_their_order(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append_async(&asked[0], "{\"k\":1}");
  moonpad_event *event = NULL;
  OK(moonpad_append_event(session, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":2}}}"), &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 2);
  moonpad_event_free(event);
  append_async(&asked[1], "{\"k\":3}");
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(host_read(session, "k", "").as.integer, 3);
  poll_until(self, &done, 2);
  assert_int_equal(done.revisions[0], 1);
  assert_int_equal(done.revisions[1], 3);
  STORED(self, "s", "{\"k\":3}");
  moonpad_session_free(session);
}

static void test_async_commit_of_a_change_set(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "{\"n\":1,\"k\":\"old\"}"), *theirs = host_get(self, "s");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value five = moonpad_integer(5);
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  host_append(theirs, "{\"n\":100}");
  OK(moonpad_changes_increment(changes, T("n"), &five, &failure));
  OK(moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), complete, &asked[0], &failure));
  assert_false(moonpad_changes_pending(changes));
  assert_int_equal(changed(changes, "n", "").as.integer, 6);
  poll_until(self, &done, 1);
  assert_int_equal(done.statuses[0], MOONPAD_OK);
  assert_int_equal(changed(changes, "n", "").as.integer, 105);
  OK(moonpad_refresh(theirs, &failure));
  host_append(theirs, "{\"k\":\"theirs\"}");
  set_json(changes, "k", "", "[\"mine\"]");
  OK(moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), complete, &asked[1], &failure));
  assert_false(moonpad_changes_pending(changes));
  poll_until(self, &done, 2);
  assert_int_equal(done.statuses[1], MOONPAD_CONFLICT);
  assert_false(moonpad_changes_pending(changes));
  SAYS(changed(changes, "k", "").as.text, "theirs");
  moonpad_changes_free(changes);
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

static void test_async_failure_without_callback_is_logged(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_session_name name = host_name("s");
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_int_equal(moonpad_session_revision(session), 1);
  assert_int_equal(self->warnings, 0);
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_true(self->warnings > 0);
  assert_int_equal(self->last_warning, MOONPAD_NOT_FOUND);
  moonpad_session_free(session);
}

static void test_close_and_free_wait_for_asynchronous_appends(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *freed = host_create(self, "freed", ""), *kept = host_create(self, "kept", "");
  request asked[10];
  for (int i = 0; i < 5; i++) OK(moonpad_append_event_async(freed, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  moonpad_session_free(freed);
  moonpad_session *again = host_get(self, "freed");
  assert_int_equal(moonpad_session_revision(again), 5);
  moonpad_session_free(again);
  for (int i = 0; i < 10; i++) {
    asked[i] = (request){&done, kept, i};
    append_async(&asked[i], "{\"k\":1}");
  }
  moonpad_service_close(self->service);
  while (done.count < 10 && moonpad_poll(self->service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(done.count, 10);
  for (int i = 0; i < 10; i++) assert_int_equal(done.statuses[i], MOONPAD_OK);
  moonpad_session_free(kept);
  if (self->folder[0] == '\0') return;
  host_reopen(self);
  kept = host_get(self, "kept");
  assert_int_equal(moonpad_session_revision(kept), 10);
  moonpad_session_free(kept);
}

/* ---- Callbacks that append anew ---- */

typedef struct chain {
  moonpad_session *session;
  int called;
} chain;

/* The next one is done before this one returns. */
static void append_next(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  chain *self = context;
  assert_ptr_equal(session, self->session);
  assert_non_null(event);
  assert_null(error);
  if (++self->called == 20) return;
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), append_next, self, &failure));
  OK(moonpad_refresh(session, &failure));
}

static void test_a_poll_calls_what_was_done_when_it_began(void **state) {
  host *self = *state;
  chain chained = {host_create(self, "s", ""), 0};
  OK(moonpad_append_event_async(chained.session, T("{\"author\":\"a\"}"), append_next, &chained, &failure));
  for (int polls = 1; polls <= 20; polls++) {
    assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
    assert_int_equal(chained.called, polls);
  }
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  assert_int_equal(moonpad_session_revision(chained.session), 20);
  moonpad_session_free(chained.session);
}

/* ---- When everything is released ---- */

/* *asked belongs to a session object that is freed before it is told. */
static void append_and_free(request *asked, int count) {
  for (int i = 0; i < count; i++) append_async(&asked[i], "{\"k\":1}");
  moonpad_session_free(asked[0].session);
  for (int i = 0; i < count; i++) asked[i].session = NULL;
}

static void test_what_was_not_polled_is_polled_after_closing(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append_and_free(asked, 2);
  moonpad_service_close(self->service);
  poll_until(self, &done, 2);
  for (int i = 0; i < 2; i++) assert_int_equal(done.revisions[i], i + 1);
}

static void test_what_was_never_polled_is_dropped_without_a_callback(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  for (int closes = 0; closes < 2; closes++) {
    moonpad_session *session = host_create(self, closes ? "closed" : "released", "");
    request asked[3] = {{&done, session, 0}, {&done, session, 1}, {&done, session, 2}};
    append_and_free(asked, 3);
    if (closes) moonpad_service_close(self->service);
    host_reopen(self);
    assert_int_equal(moonpad_poll(self->service, 0), 0);
    assert_int_equal(done.count, 0);
    assert_int_equal(self->warnings, 0);
    if (self->folder[0] == '\0') continue;
    session = host_get(self, closes ? "closed" : "released");
    assert_int_equal(moonpad_session_revision(session), 3);
    moonpad_session_free(session);
  }
}

static void test_a_failed_append_that_is_dropped_is_logged(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  moonpad_session_name name = host_name("s");
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  append_and_free(asked, 2);
  moonpad_service_release(self->service);
  assert_int_equal(done.count, 0);
  assert_int_equal(self->warnings, 2);
  assert_int_equal(self->last_warning, MOONPAD_NOT_FOUND);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

static void test_a_completion_needs_no_memory(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = host_create(self, "s", "");
  request asked = {&done, session, 0};
  append_async(&asked, "{\"k\":[1]}");
  moonpad_session *other = host_create(self, "other", ""); /* both are done when this one is */
  OK(moonpad_append_event_async(other, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  OK(moonpad_refresh(other, &failure));
  self->allowed = 0;
  size_t polled = moonpad_poll(self->service, 0);
  self->allowed = -1;
  assert_int_equal(polled, 2);
  assert_int_equal(done.count, 1);
  assert_int_equal(done.revisions[0], 1);
  STATE(session, "{\"k\":[1]}");
  moonpad_session_free(other);
  moonpad_session_free(session);
}

typedef struct last_one {
  moonpad_service *service;
  moonpad_session *session;
  int called;
} last_one;

static void release_all(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  last_one *held = context;
  assert_ptr_equal(session, held->session);
  assert_non_null(event);
  assert_null(error);
  held->called++;
  moonpad_session_free(held->session);
  held->session = NULL;
  moonpad_service_release(held->service);
  held->service = NULL;
  assert_int_equal(moonpad_event_revision(event), held->called);
}

/* The second one is told of, too, by the poll under way, which is the last to hold the service. */
static void test_a_callback_releases_the_service(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  last_one held = {self->service, host_create(self, "s", ""), 0};
  moonpad_session *other = host_create(self, "other", "");
  OK(moonpad_append_event_async(held.session, T("{\"author\":\"a\"}"), release_all, &held, &failure));
  request asked = {&done, other, 0};
  append_and_free(&asked, 1);
  OK(moonpad_refresh(held.session, &failure));
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 2);
  assert_int_equal(held.called, 1);
  assert_int_equal(done.count, 1);
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

/* ---- What the object shows afterwards is what is stored ---- */

typedef struct appending_again {
  moonpad_session *session;
  int called;
} appending_again;

static void append_again(void *context, moonpad_session *session, const moonpad_event *event,
                         const moonpad_error *error) {
  appending_again *again = context;
  (void)event;
  assert_ptr_equal(session, again->session);
  if (again->called++ > 0) return;
  assert_non_null(error);
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"q\":55,\"temp:q\":55}}}"),
                                append_again, again, &failure));
}

/* An append that is handed in while others fail behind one that failed is not one of these. */
static void test_an_append_after_a_failure_is_stored(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":0,\"q\":1}"), *other = host_get(self, "s");
  appending_again again = {session, 0};
  host_append(other, "{\"k\":1}");
  static const char *const events[] = {"{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":2}}}",
                                       "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"q\":3}}}"};
  OK(moonpad_append_event_async(session, T(events[0]), append_again, &again, &failure));
  OK(moonpad_append_event_async(session, T(events[1]), append_again, &again, &failure));
  while (again.called < 3) moonpad_poll(self->service, TIMEOUT_MS);
  OK(moonpad_refresh(session, &failure));
  STATE(session, "{\"k\":1,\"q\":55,\"temp:q\":55}");
  STORED(self, "s", "{\"k\":1,\"q\":55}");
  moonpad_session_free(session);
  moonpad_session_free(other);
}

static void test_an_event_that_was_stored_before_changes_nothing(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  static const char event[] =
      "{\"id\":\"e\",\"author\":\"a\",\"timestamp\":7,\"invocationId\":\"i\",\"actions\":{\"stateDelta\":{\"k\":1}}}";
  moonpad_session *session = host_create(self, "s", "");
  OK(moonpad_append_event(session, T(event), NULL, &failure));
  host_append(session, "{\"k\":2}");
  request asked = {&done, session, 0};
  OK(moonpad_append_event_async(session, T(event), complete, &asked, &failure));
  poll_until(self, &done, 1);
  assert_int_equal(done.statuses[0], MOONPAD_OK);
  STATE(session, "{\"k\":2}");
  moonpad_session_free(session);
}

static bool read_full_header(void *context, moonpad_string *line) {
  bool *was_read = context;
  *line = T("{\"moonpadSession\":1,\"appName\":\"app\",\"userId\":\"u\",\"sessionId\":\"full\",\"createTime\":1.0,"
            "\"baseRevision\":17179869183,\"revision\":17179869183,\"conversationCount\":0,\"baseState\":{}}");
  bool is_first = !*was_read;
  *was_read = true;
  return is_first;
}

/* A session that counts no further: the store finds out when the keys have been written. */
static void test_what_the_store_refuses_is_not_half_stored(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *full, *session = host_create(self, "s", "");
  bool was_read = false;
  OK(moonpad_import_session(self->service, NULL, read_full_header, &was_read, &full, &failure));
  request asked[] = {{&done, full, 0}, {&done, session, 1}};
  append_async(&asked[0], "{\"k\":7,\"user:k\":7}");
  append_async(&asked[1], "{\"k\":8}");
  poll_until(self, &done, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(done.statuses[i], done.order[i] == 0 ? MOONPAD_LIMIT : MOONPAD_OK);
  }
  STORED(self, "full", "{}");
  STORED(self, "s", "{\"k\":8}");
  moonpad_session_free(full);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_async_appends_complete_in_order),
      ON_EVERY_STORE(test_an_append_after_a_failure_is_stored),
      ON_EVERY_STORE(test_an_event_that_was_stored_before_changes_nothing),
      ON_EVERY_STORE(test_what_the_store_refuses_is_not_half_stored),
      ON_EVERY_STORE(test_async_failure_fails_those_behind_it),
      ON_EVERY_STORE(test_async_append_to_a_deleted_session),
      ON_EVERY_STORE(test_async_refuses_a_malformed_event_at_once),
      ON_EVERY_STORE(test_async_and_sync_appends_keep_their_order),
      ON_EVERY_STORE(test_async_commit_of_a_change_set),
      ON_EVERY_STORE(test_async_failure_without_callback_is_logged),
      ON_EVERY_STORE(test_close_and_free_wait_for_asynchronous_appends),
      ON_EVERY_STORE(test_what_was_not_polled_is_polled_after_closing),
      ON_EVERY_STORE(test_what_was_never_polled_is_dropped_without_a_callback),
      ON_EVERY_STORE(test_a_failed_append_that_is_dropped_is_logged),
      ON_EVERY_STORE(test_a_poll_calls_what_was_done_when_it_began),
      ON_EVERY_STORE(test_a_completion_needs_no_memory),
      ON_EVERY_STORE(test_a_callback_releases_the_service),
  };
  return HOST_RUN(tests);
}
