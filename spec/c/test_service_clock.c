/*
** The host's clock: a time that is none is refused where it is asked for, whatever else it gives
** is believed.
*/
#include <math.h>
#include <stdio.h>

#include "service_support.h"

static void note_nothing(void *context, moonpad_session *session, const moonpad_event *event,
                         const moonpad_error *error) {
  (void)context, (void)session, (void)event, (void)error;
}

/*
** A time that is none is refused by the call that asked for it, and nothing of that call is stored.
*/
static void test_a_clock_must_give_a_time(void **state) {
  static const struct {
    double time;
    const char *message;
  } wrong[] = {
      {(double)NAN, "the clock gives nan: a time is a finite number of seconds since 1970"},
      {(double)INFINITY, "the clock gives inf: a time is a finite number of seconds since 1970"},
      {-(double)INFINITY, "the clock gives -inf: a time is a finite number of seconds since 1970"},
      {-0.001, "the clock gives -0.001: a time is a finite number of seconds since 1970"},
      {-1e300, "the clock gives -1e+300: a time is a finite number of seconds since 1970"},
  };
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":0}"), *other = NULL;
  OK(moonpad_append_event(session, T("{\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"k\":1}}}"), NULL,
                          &failure));
  moonpad_changes *changes = NULL, *own = NULL;
  moonpad_event *event = NULL;
  moonpad_session_name name = host_name("other");
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_session_changes(session, &own, &failure));
  set_json(changes, "k", "", "[2]");
  set_json(own, "k", "", "[3]");
#define ASKS(call)                                                                                                     \
  FAILS(MOONPAD_INVALID_ARGUMENT, call);                                                                               \
  assert_string_equal(failure.message, wrong[i].message)
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    self->now = wrong[i].time;
    ASKS(moonpad_create_session(self->service, &name, T(""), &other, &failure));
    ASKS(moonpad_fork(session, 0, T("other"), &other, &failure));
    assert_null(other);
    ASKS(moonpad_append_event(session, T("{}"), &event, &failure));
    ASKS(moonpad_append_event(session, T("{\"id\":\"e\"}"), &event, &failure));
    ASKS(moonpad_append_event(session, T("{\"timestamp\":5}"), &event, &failure));
    ASKS(moonpad_append_event_async(session, T("{}"), note_nothing, NULL, &failure));
    ASKS(moonpad_changes_commit(changes, T("{}"), &event, &failure));
    ASKS(moonpad_changes_commit_async(changes, T("{}"), note_nothing, NULL, &failure));
    ASKS(moonpad_update_session(session, &event, &failure));
    ASKS(moonpad_rewind(session, T("i1"), &event, &failure));
    ASKS(moonpad_rewind_to_revision(session, 0, &event, &failure));
    assert_null(event);
    assert_int_equal(moonpad_session_revision(session), 1 + (int64_t)i);
    assert_true(moonpad_changes_pending(changes) && moonpad_changes_pending(own));
    /* Whoever brings the time asks no clock; reading asks none either. */
    char given[128];
    snprintf(given, sizeof given, "{\"id\":\"given %zu\",\"timestamp\":%zu}", i, i);
    OK(moonpad_append_event(session, T(given), NULL, &failure));
    FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &other, &failure));
    OK(moonpad_refresh(session, &failure));
  }
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  self->now = 0;
  OK(moonpad_update_session(session, &event, &failure));
  assert_true(moonpad_event_timestamp(event) == 0);
  moonpad_event_free(event);
  STORED(self, "s", "{\"k\":[3]}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_a_clock_that_goes_back_is_believed(void **state) {
  static const double times[] = {2000, 1000, 0, 1e18, 3000.5};
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    moonpad_event *event = NULL;
    self->now = times[i];
    OK(moonpad_append_event(session, T("{}"), &event, &failure));
    assert_true(moonpad_event_timestamp(event) == times[i]);
    assert_true(moonpad_session_last_update_time(session) == times[i]);
    moonpad_event_free(event);
  }
  assert_int_equal(host_event_count(session), sizeof times / sizeof times[0]);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_clock_must_give_a_time),
      ON_EVERY_STORE(test_a_clock_that_goes_back_is_believed),
  };
  return HOST_RUN(tests);
}
