/*
** Appends of a step of a run, which only the Lua binding makes (service/binding/): nothing is
** shown of one before it is stored, whatever happens meanwhile.
*/
#include "needs_threads.h"
#include "step_support.h"

/* ---- While it is under way ---- */

typedef struct under_way {
  moonpad_session *session;
  moonpad_changes *changes;
  mp_job *job;
  told got;
} under_way;

/* Of a session object whose append will fail, somebody else has changed what it writes. */
static void begin_one(host *self, under_way *one, bool fails) {
  memset(one, 0, sizeof *one);
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  one->session = host_create(self, "s", "{\"k\":1,\"t\":{\"a\":1}}");
  one->changes = begin_changes(one->session);
  set_number(one->changes, "k", 2);
  set_text(one->changes, "t", "a", "2");
  set_number(one->changes, "temp:k", 2);
  if (fails) {
    moonpad_session *theirs = host_get(self, "s");
    host_append(theirs, "{\"k\":7}");
    moonpad_session_free(theirs);
  }
  one->job = step_append(one->session, one->changes, plain_event, &one->got);
}

static void expect_shown(const under_way *one, const char *expected) {
  moonpad_changes *view = begin_changes(one->session);
  char *text = NULL;
  size_t length;
  FILE *to = open_memstream(&text, &length);
  print_all(to, view);
  fclose(to);
  expect_text((moonpad_string){text, length - 1}, expected, __LINE__);
  free(text);
  moonpad_changes_free(view);
}

static const char before_it[] = "{\"k\":1,\"t\":{\"a\":1}}";
static const char after_it[] = "{\"k\":2,\"t\":{\"a\":\"2\"},\"temp:k\":2}";

static void expect_outcome(const under_way *one, bool fails) {
  expect_shown(one, fails ? before_it : after_it);
  assert_int_equal(moonpad_session_revision(one->session), fails ? 0 : 1);
  if (one->changes == NULL) return;
  assert_int_equal(moonpad_changes_pending(one->changes), fails);
  assert_int_equal(changed(one->changes, "k", "").as.integer, 2);
  assert_true(is_writable(one->changes));
}

static void free_one(under_way *one) {
  moonpad_changes_free(one->changes);
  moonpad_session_free(one->session);
}

static void test_nothing_is_shown_before_it_is_stored(void **state) {
  host *self = *state;
  for (int fails = 0; fails < 2; fails++) {
    under_way one;
    begin_one(self, &one, fails);
    moonpad_value two = moonpad_integer(2);
    for (int i = 0; i < 2; i++) {
      expect_shown(&one, before_it);
      assert_int_equal(moonpad_session_revision(one.session), 0);
      assert_int_equal(host_event_count(one.session), 0);
      assert_true(moonpad_changes_pending(one.changes));
      /* It takes no writes meanwhile, of whatever kind. */
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(one.changes, T("k"), T(""), &two, &failure));
      assert_non_null(strstr(failure.message, "its event is being stored"));
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(one.changes, T("t"), T("a"), &two, &failure));
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_remove(one.changes, T("more"), T(""), &failure));
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(one.changes, T("k"), &two, &failure));
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_append(one.changes, T("list"), &two, &failure));
      assert_int_equal(changed(one.changes, "k", "").as.integer, 2);
      assert_int_equal(changed(one.changes, "t", "a").type, MOONPAD_STRING);
      /* Done or not, a poll does not take it. */
      assert_int_equal(moonpad_poll(self->service, i == 0 ? 0 : TIMEOUT_MS), 0);
    }
    assert_int_equal(one.got.done, 0);
    step_wait(self, one.job);
    assert_int_equal(one.got.done, 1);
    assert_int_equal(one.got.status, fails ? MOONPAD_CONFLICT : MOONPAD_OK);
    expect_outcome(&one, fails);
    STORED(self, "s", fails ? "{\"k\":7,\"t\":{\"a\":1}}" : "{\"k\":2,\"t\":{\"a\":\"2\"}}");
    free_one(&one);
  }
}

/* Other change sets go on, and what they hold is measured as after an append that waits. */
static void test_other_change_sets_are_written_meanwhile(void **state) {
  host *self = *state;
  under_way one;
  begin_one(self, &one, false);
  moonpad_changes *other = begin_changes(one.session), *reader = begin_changes(one.session);
  set_number(other, "k", 5);
  set_number(other, "more", 5);
  assert_int_equal(changed(reader, "k", "").as.integer, 1);
  step_wait(self, one.job);
  assert_int_equal(changed(reader, "k", "").as.integer, 2);
  assert_int_equal(changed(other, "k", "").as.integer, 5);
  OK(moonpad_changes_commit(other, T(plain_event), NULL, &failure));
  STORED(self, "s", "{\"k\":5,\"more\":5,\"t\":{\"a\":\"2\"}}");
  moonpad_changes_free(other);
  moonpad_changes_free(reader);
  free_one(&one);
}

typedef void (*meanwhile)(host *self, under_way *one);

static void append_meanwhile(host *self, under_way *one) {
  (void)self;
  host_append(one->session, "{\"more\":1}");
}

static void append_async_meanwhile(host *self, under_way *one) {
  static const char event[] = "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"more\":1}}}";
  OK(moonpad_append_event_async(one->session, T(event), NULL, NULL, &failure));
  assert_int_equal(moonpad_session_revision(one->session), 1);
  while (moonpad_poll(self->service, TIMEOUT_MS) == 0) continue;
}

static void append_when_stored_meanwhile(host *self, under_way *one) {
  static const char event[] = "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"more\":1}}}";
  told got = {0};
  step_wait(self, step_append(one->session, NULL, event, &got));
  assert_int_equal(got.status, MOONPAD_OK);
  assert_int_equal(got.revision, 2);
  assert_int_equal(one->got.done, 1); /* it has been told of, as it was before */
  one->job = NULL;
}

static void commit_async_meanwhile(host *self, under_way *one) {
  OK(moonpad_changes_commit_async(one->changes, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"more\":1}}}"), NULL,
                                  NULL, &failure));
  while (moonpad_poll(self->service, TIMEOUT_MS) == 0) continue;
}

static void commit_meanwhile(host *self, under_way *one) {
  (void)self;
  OK(moonpad_changes_commit(one->changes, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"more\":1}}}"), NULL,
                            &failure));
}

static void refresh_meanwhile(host *self, under_way *one) {
  OK(moonpad_refresh(one->session, &failure));
  assert_int_equal(moonpad_session_revision(one->session), 1);
  moonpad_session *theirs = host_get(self, "s");
  host_append(theirs, "{\"more\":1}");
  moonpad_session_free(theirs);
  OK(moonpad_refresh(one->session, &failure));
}

static void rewind_meanwhile(host *self, under_way *one) {
  (void)self;
  OK(moonpad_rewind_to_revision(one->session, 1, NULL, &failure));
  assert_int_equal(moonpad_session_revision(one->session), 2);
  host_append(one->session, "{\"more\":1}");
}

static void look_back_meanwhile(host *self, under_way *one) {
  (void)self;
  moonpad_buffer json = {0};
  OK(moonpad_state_at(one->session, 1, &json, &failure));
  GIVES(json, "{\"k\":2,\"t\":{\"a\":\"2\"}}");
  assert_int_equal(moonpad_session_revision(one->session), 1);
  host_append(one->session, "{\"more\":1}");
}

static const meanwhile calls[] = {append_meanwhile,       append_async_meanwhile, append_when_stored_meanwhile,
                                  commit_async_meanwhile, commit_meanwhile,       refresh_meanwhile,
                                  rewind_meanwhile,       look_back_meanwhile};

static void test_other_calls_wait_for_it(void **state) {
  host *self = *state;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    under_way one;
    begin_one(self, &one, false);
    calls[i](self, &one);
    expect_shown(&one, "{\"k\":2,\"more\":1,\"t\":{\"a\":\"2\"},\"temp:k\":2}");
    assert_false(moonpad_changes_pending(one.changes));
    assert_true(is_writable(one.changes));
    if (one.job != NULL) {
      assert_int_equal(one.got.done, 0);
      assert_true(mp_job_poll(one.job));
    }
    assert_int_equal(one.got.done, 1);
    assert_int_equal(one.got.revision, 1);
    free_one(&one);
  }
}

/* What is pending on the object itself is not stored twice, and not lost. */
static void test_an_update_waits_for_what_is_being_stored(void **state) {
  host *self = *state;
  for (int i = 0; i < 4; i++) {
    bool fails = i % 2 == 1, is_async = i >= 2, queued = true;
    under_way one;
    begin_one(self, &one, fails);
    step_wait(self, one.job);
    moonpad_changes *own = NULL;
    told got = {0};
    OK(moonpad_session_changes(one.session, &own, &failure));
    if (fails) set_number(own, "k", 3);
    set_number(own, "l", 3);
    mp_job *job = step_append(one.session, own, plain_event, &got);
    if (is_async) {
      OK(moonpad_update_session_async(one.session, NULL, NULL, &queued, &failure));
      assert_int_equal(queued, fails);
      while (queued && moonpad_poll(self->service, TIMEOUT_MS) == 0) continue;
    } else {
      moonpad_status status = moonpad_update_session(one.session, NULL, &failure);
      assert_int_equal(status, fails ? MOONPAD_CONFLICT : MOONPAD_OK);
    }
    assert_true(mp_job_poll(job));
    assert_int_equal(got.status, fails ? MOONPAD_CONFLICT : MOONPAD_OK);
    moonpad_session *stored = host_get(self, "s");
    assert_int_equal(moonpad_session_revision(stored), fails ? 1 : 2);
    moonpad_session_free(stored);
    free_one(&one);
  }
}

static void free_changes(host *self, under_way *one) {
  (void)self;
  moonpad_changes_free(one->changes);
  one->changes = NULL;
}

static void end_changes(host *self, under_way *one) {
  (void)self;
  char *reason = strdup("over");
  mp_changes_end(one->changes, reason);
  assert_false(moonpad_changes_pending(one->changes));
  mp_changes_end(one->changes, "its run has ended");
  free(reason);
}

static void discard_changes(host *self, under_way *one) {
  (void)self;
  moonpad_changes_discard(one->changes);
}

/* Whatever becomes of the change set, the append goes on without it. */
static void test_the_change_set_goes_meanwhile(void **state) {
  host *self = *state;
  static const meanwhile ends[] = {free_changes, end_changes, discard_changes};
  for (int i = 0; i < 6; i++) {
    bool fails = i % 2 == 1;
    under_way one;
    begin_one(self, &one, fails);
    ends[i / 2](self, &one);
    step_wait(self, one.job);
    assert_int_equal(one.got.status, fails ? MOONPAD_CONFLICT : MOONPAD_OK);
    expect_shown(&one, fails ? before_it : after_it);
    if (one.changes != NULL) {
      assert_false(moonpad_changes_pending(one.changes));
      assert_int_equal(is_writable(one.changes), ends[i / 2] == discard_changes);
    }
    free_one(&one);
  }
}

/* What others read is no fresher for it: a run's append is not the object's own. */
static void test_the_own_change_set_stays_as_old_as_it_is(void **state) {
  host *self = *state;
  under_way one;
  for (int freed = 0; freed < 2; freed++) {
    begin_one(self, &one, false);
    step_wait(self, one.job);
    moonpad_session *theirs = host_get(self, "s");
    assert_int_equal(host_read(one.session, "t", "a").type, MOONPAD_STRING);
    host_append(theirs, "{\"t\":9}");
    moonpad_session_free(theirs);
    told got = {0};
    set_number(one.changes, "k", 3);
    mp_job *job = step_append(one.session, one.changes, plain_event, &got);
    if (freed) free_changes(self, &one);
    step_wait(self, job);
    assert_int_equal(got.status, MOONPAD_OK);
    moonpad_changes *own = NULL;
    OK(moonpad_session_changes(one.session, &own, &failure));
    set_number(own, "t", 4);
    FAILS(MOONPAD_CONFLICT, moonpad_update_session(one.session, NULL, &failure));
    free_one(&one);
  }
}

static void test_the_session_object_goes_meanwhile(void **state) {
  host *self = *state;
  for (int i = 0; i < 8; i++) {
    bool fails = i % 2 == 1, abandons = i / 2 % 2 == 1, first = i >= 4;
    under_way one;
    begin_one(self, &one, fails);
    if (abandons && first) mp_job_abandon(one.job);
    moonpad_session_free(one.session);
    if (abandons && !first) mp_job_abandon(one.job);
    moonpad_value two = moonpad_integer(2);
    FAILS(MOONPAD_CLOSED, moonpad_changes_set(one.changes, T("k"), T(""), &two, &failure));
    assert_false(moonpad_changes_pending(one.changes));
    if (abandons) {
      assert_int_equal(moonpad_poll(self->service, 0), 0);
    } else {
      assert_true(mp_job_poll(one.job));
      assert_int_equal(one.got.status, fails ? MOONPAD_CONFLICT : MOONPAD_OK);
      assert_null(one.got.session);
    }
    assert_int_equal(one.got.done, !abandons);
    assert_int_equal(one.got.dropped, abandons);
    STORED(self, "s", fails ? "{\"k\":7,\"t\":{\"a\":1}}" : "{\"k\":2,\"t\":{\"a\":\"2\"}}");
    moonpad_changes_free(one.changes);
  }
}

/* ---- Nobody waits for it any more ---- */

static void test_one_that_is_abandoned_is_finished(void **state) {
  host *self = *state;
  int fd;
  OK(moonpad_fd(self->service, &fd, &failure));
  for (int i = 0; i < 4; i++) {
    bool fails = i % 2 == 1, is_done = i >= 2;
    int warnings = self->warnings;
    under_way one;
    begin_one(self, &one, fails);
    if (is_done) mp_session_drain(one.session);
    assert_int_equal(one.got.dropped, 0);
    mp_job_abandon(one.job);
    if (is_done) assert_int_equal(one.got.dropped, 1);
    mp_session_drain(one.session);
    assert_true(mp_session_try_drain(one.session));
    expect_outcome(&one, fails);
    assert_false(is_readable(fd, 0));
    assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 0);
    assert_int_equal(one.got.dropped, 1);
    assert_int_equal(one.got.done, 0);
    assert_int_equal(self->warnings, warnings + fails);
    free_one(&one);
  }
}

/* It stands before another one of its session object: that one is told of, this one is not. */
static void test_one_that_is_abandoned_is_dropped_by_the_next(void **state) {
  host *self = *state;
  told got = {0};
  under_way one;
  begin_one(self, &one, false);
  mp_job_abandon(one.job);
  mp_job *next = step_append(one.session, NULL, plain_event, &got);
  mp_session_drain(one.session);
  assert_true(mp_job_poll(next));
  assert_int_equal(one.got.dropped, 1);
  assert_int_equal(one.got.done, 0);
  assert_int_equal(got.done, 1);
  assert_int_equal(got.revision, 2);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 0);
  free_one(&one);
}

typedef struct holder {
  moonpad_service *service;
  moonpad_session *session;
  int dropped;
} holder;

static void release_all(void *context) {
  holder *held = context;
  held->dropped++;
  moonpad_session_free(held->session);
  moonpad_service_release(held->service);
}

static void test_the_last_one_is_abandoned(void **state) {
  host *self = *state;
  static const mp_append_watch releasing = {NULL, release_all};
  holder held = {self->service, host_create(self, "s", ""), 0};
  mp_async_way way = {.when_stored = true, .watch = &releasing, .context = &held};
  mp_job *job;
  OK(mp_append_later(held.session, &(mp_append_request){.event = T(plain_event)}, &way, &job, &failure));
  mp_session_drain(held.session);
  mp_job_abandon(job);
  assert_int_equal(held.dropped, 1);
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

/* ---- The service goes ---- */

static void test_closing_finishes_it(void **state) {
  host *self = *state;
  under_way one;
  begin_one(self, &one, false);
  moonpad_service_close(self->service);
  assert_true(mp_session_try_drain(one.session));
  expect_outcome(&one, false);
  assert_true(mp_job_poll(one.job));
  assert_int_equal(one.got.status, MOONPAD_OK);
  told got = {0};
  mp_job *job;
  set_number(one.changes, "k", 3);
  FAILS(MOONPAD_CLOSED, step_try_append(one.session, one.changes, plain_event, &got, &job));
  assert_null(job);
  assert_true(moonpad_changes_pending(one.changes));
  assert_true(is_writable(one.changes));
  free_one(&one);
}

static void test_one_that_nobody_asks_for_goes_with_the_service(void **state) {
  host *self = *state;
  under_way one;
  begin_one(self, &one, true);
  int warnings = self->warnings;
  free_one(&one);
  moonpad_service_release(self->service);
  assert_int_equal(one.got.done, 0);
  assert_int_equal(one.got.dropped, 1);
  assert_int_equal(self->warnings, warnings + 1);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

/* ---- While the store is stopped ---- */

static void test_it_is_looked_for_without_waiting(void **state) {
  NEEDS_THREADS();
  host *self = *state;
  thread_gate gate;
  for (int abandons = 0; abandons < 2; abandons++) {
    under_way one;
    int fd;
    OK(moonpad_fd(self->service, &fd, &failure));
    gate_arm(&gate, self, NULL);
    begin_one(self, &one, false);
    gate_wait(&gate);
    assert_false(mp_session_try_drain(one.session));
    assert_false(mp_job_poll(one.job));
    assert_false(is_readable(fd, 0));
    if (abandons) mp_job_abandon(one.job);
    expect_shown(&one, before_it);
    assert_int_equal(moonpad_poll(self->service, 0), 0);
    assert_int_equal(one.got.dropped, 0);
    gate_open(&gate);
    while (!mp_session_try_drain(one.session)) moonpad_poll(self->service, TIMEOUT_MS);
    gate_free(&gate);
    expect_outcome(&one, false);
    assert_int_equal(is_readable(fd, 0), !abandons);
    if (!abandons) assert_true(mp_job_poll(one.job));
    assert_false(is_readable(fd, 0));
    moonpad_poll(self->service, 0);
    assert_int_equal(one.got.dropped, abandons);
    assert_int_equal(one.got.done, !abandons);
    free_one(&one);
  }
}

#define ON_EACH(test) ON_EVERY_STORE(test), ON_STORE(test, "slow:5:memory:")

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EACH(test_nothing_is_shown_before_it_is_stored),
      ON_EACH(test_other_change_sets_are_written_meanwhile),
      ON_EACH(test_other_calls_wait_for_it),
      ON_EACH(test_an_update_waits_for_what_is_being_stored),
      ON_EACH(test_the_change_set_goes_meanwhile),
      ON_EACH(test_the_own_change_set_stays_as_old_as_it_is),
      ON_EACH(test_the_session_object_goes_meanwhile),
      ON_EACH(test_one_that_is_abandoned_is_finished),
      ON_EACH(test_one_that_is_abandoned_is_dropped_by_the_next),
      ON_EACH(test_the_last_one_is_abandoned),
      ON_EACH(test_closing_finishes_it),
      ON_EACH(test_one_that_nobody_asks_for_goes_with_the_service),
      ON_OTHER_THREADS(test_it_is_looked_for_without_waiting),
  };
  return HOST_RUN(tests);
}
