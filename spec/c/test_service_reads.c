/*
** What a call reads of a history, shown on a file whose old events cannot be read any more: a call
** that succeeds has not read them.
*/
#include "service_support.h"

#include <stdio.h>

#include "sqlite_support.h"

#define EVENTS 40

static moonpad_session *with_events(host *self, const char *id) {
  moonpad_session *session = host_create(self, id, "{\"first\":0}");
  for (int i = 1; i <= EVENTS; i++) {
    char event[256];
    snprintf(
        event, sizeof event,
        "{\"author\":\"user\",\"invocationId\":\"i%d\",\"timestamp\":%d.5,\"content\":{\"parts\":[{\"text\":\"%d\"}]},"
        "\"actions\":{\"stateDelta\":{\"k%d\":%d}}}",
        i, 1000 + i, i, i % 4, i);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  return session;
}

/*
** Spoils the text of the first `count` events of every session; what else the file says of
** them stays.
*/
static void spoil(host *self, int count) {
  char sql[128];
  snprintf(sql, sizeof sql, "UPDATE events SET event = 'spoilt' WHERE (position & 0x3FFFFFFFF) <= %d", count);
  sql_run(self->url + sizeof "sqlite:" - 1, sql);
}

static void test_the_text_of_spoilt_events_is_not_to_be_had(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self, "s");
  moonpad_event *event;
  spoil(self, EVENTS / 2);
  FAILS(MOONPAD_CORRUPT, moonpad_session_event(session, 0, &event, &failure));
  OK(moonpad_session_event(session, EVENTS - 1, &event, &failure));
  moonpad_event_free(event);
  moonpad_session_free(session);
}

static void test_a_timestamp_is_found_without_text(void **state) {
  host *self = *state;
  moonpad_session_free(with_events(self, "s"));
  spoil(self, EVENTS - 3);
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  options.has_after_timestamp = true;
  options.after_timestamp = 1000 + EVENTS - 2 + 0.5;
  moonpad_session_name name = host_name("s");
  moonpad_session *session;
  OK(moonpad_get_session(self->service, &name, &options, &session, &failure));
  assert_int_equal(host_event_count(session), 3);
  moonpad_event *event;
  OK(moonpad_session_event(session, 0, &event, &failure));
  assert_string_equal(host_in_event(event, "content.parts[1].text"), "38");
  moonpad_event_free(event);
  moonpad_session_free(session);
}

static void test_a_list_reads_no_events(void **state) {
  host *self = *state;
  moonpad_session_free(with_events(self, "s"));
  moonpad_session_free(with_events(self, "t"));
  spoil(self, EVENTS);
  moonpad_session_list *list;
  OK(moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 2);
  STATE(moonpad_session_list_at(list, 1), "{\"first\":0,\"k0\":40,\"k1\":37,\"k2\":38,\"k3\":39}");
  moonpad_session_list_free(list);
}

/* Back to the last event that wrote what has changed since, and no further. */
static void test_a_rewind_reads_what_it_restores(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self, "s");
  spoil(self, EVENTS - 7);
  /* k2, k3, k0: before of the events 34 to 36 */
  OK(moonpad_rewind(session, T("i38"), NULL, &failure));
  STATE(session, "{\"first\":0,\"k0\":36,\"k1\":37,\"k2\":34,\"k3\":35}");
  FAILS(MOONPAD_CORRUPT, moonpad_rewind(session, T("i20"), NULL, &failure));
  moonpad_session_free(session);
}

static void test_a_fork_of_the_newest_replays_nothing(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self, "s"), *fork;
  spoil(self, EVENTS);
  OK(moonpad_fork(session, EVENTS, T("fork"), &fork, &failure));
  STATE(fork, "{\"first\":0,\"k0\":40,\"k1\":37,\"k2\":38,\"k3\":39}");
  assert_int_equal(moonpad_session_conversation_count(fork), EVENTS);
  assert_true(moonpad_session_last_update_time(fork) == 1000 + EVENTS + 0.5);
  moonpad_session_free(fork);
  FAILS(MOONPAD_CORRUPT, moonpad_fork(session, EVENTS - 1, T("other"), &fork, &failure));
  moonpad_session_free(session);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, host_setup_file, host_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_FILE(test_the_text_of_spoilt_events_is_not_to_be_had),
      ON_FILE(test_a_timestamp_is_found_without_text),
      ON_FILE(test_a_list_reads_no_events),
      ON_FILE(test_a_rewind_reads_what_it_restores),
      ON_FILE(test_a_fork_of_the_newest_replays_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
