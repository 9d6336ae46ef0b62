/*
** What the Lua binding asks of a service besides moonpad.h (service/binding/), and no C host can:
** change sets that end with their run or belong to no session, calls over a change set, a rewind
** that is read on one thread and appended on another, exports and refreshes in steps. Appends of a
** step are in test_append_*.c, transactions in test_transactions.c.
*/
#include "service_support.h"

#include <stdio.h>

#include "service/binding/append.h"
#include "service/binding/history.h"
#include "service/binding/service.h"
#include "service/binding/session.h"
#include "service/binding/state.h"
#include "slow_store.h"

/* ---- Change sets that cannot be committed ---- */

static void expect_no_commit(moonpad_changes *changes, moonpad_status status, const char *message) {
  moonpad_event *event = (moonpad_event *)1;
  FAILS(status, moonpad_changes_commit(changes, T("{}"), &event, &failure));
  assert_string_equal(failure.message, message);
  assert_null(event);
  FAILS(status, moonpad_changes_commit_async(changes, T("{}"), NULL, NULL, &failure));
  assert_string_equal(failure.message, message);
}

static void test_a_commit_is_refused_in_both_ways(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_changes *ended = NULL, *detached = NULL;
  OK(moonpad_changes_begin(session, &ended, &failure));
  OK(mp_changes_new_detached(mp_service_env(self->service), &detached, &failure));
  mp_changes_end(ended, "its invocation has ended");
  expect_no_commit(ended, MOONPAD_INVALID_ARGUMENT, "this state takes no more writes: its invocation has ended");
  expect_no_commit(detached, MOONPAD_INVALID_ARGUMENT, "this state belongs to no session: it cannot be committed");
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  moonpad_changes_free(detached);
  moonpad_changes_free(ended);
  moonpad_session_free(session);
}

static void test_a_call_is_closed_when_its_session_is_freed(void **state) {
  host *self = *state;
  const char *message = "the session object of this change set has been freed";
  moonpad_session *session = host_create(self, "s", "{\"o\":{}}");
  moonpad_changes *below = NULL, *call = NULL;
  moonpad_value value = moonpad_integer(1);
  OK(moonpad_changes_begin(session, &below, &failure));
  set_json(below, "o", "a", "[1]");
  OK(mp_changes_new_over(below, &call, &failure));
  mp_transaction_begin(call);
  set_json(call, "o", "a[2]", "[2]");
  moonpad_session_free(session);
  assert_false(moonpad_changes_pending(call));
  FAILS(MOONPAD_CLOSED, moonpad_changes_set(call, T("o"), T("a[3]"), &value, &failure));
  assert_string_equal(failure.message, message);
  FAILS(MOONPAD_CLOSED, moonpad_changes_remove(call, T("o"), T(""), &failure));
  FAILS(MOONPAD_CLOSED, moonpad_changes_get(call, T("o"), T("a"), &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  expect_no_commit(call, MOONPAD_CLOSED, message);
  moonpad_changes_free(call);
  expect_no_commit(below, MOONPAD_CLOSED, message);
  moonpad_changes_free(below);
}

/* ---- History ---- */

/* What is asked with an object of its own needs no more of the other one than whose it is. */
static void test_a_reference_asks_for_the_session_object(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":0,\"gone\":[1]}");
  OK(moonpad_append_event(session,
                          T("{\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"k\":1,\"gone\":null}},"
                            "\"removedStateKeys\":[\"gone\"]}"),
                          NULL, &failure));
  moonpad_session *reference = mp_session_reference(session), *other = host_get(self, "s");
  host_append(session, "{\"k\":2}");
  moonpad_buffer json = {0};
  OK(moonpad_state_at(reference, 2, &json, &failure));
  GIVES(json, "{\"k\":2}");

  mp_buffer event;
  mp_buffer_init(&event, mp_session_env(session));
  int64_t expected_revision = 0;
  mp_rewind_target target = {.invocation = T("i1")};
  OK(mp_rewind_read(reference, &target, &event, &expected_revision, &failure));
  assert_int_equal(expected_revision, 2);
  mp_append_request request = {
      .event = mp_buffer_text(&event), .is_trusted = true, .expected_revision = expected_revision};
  moonpad_session_free(session);
  OK(moonpad_refresh(other, &failure));
  OK(mp_append_now(other, &request, NULL, &failure));
  STATE(other, "{\"gone\":[1],\"k\":0}");
  FAILS(MOONPAD_CONFLICT, mp_append_now(other, &request, NULL, &failure));
  target = (mp_rewind_target){.revision = 9};
  FAILS(MOONPAD_NOT_FOUND, mp_rewind_read(reference, &target, &event, &expected_revision, &failure));
  mp_buffer_free(&event);
  moonpad_session_free(reference);
  moonpad_session_free(other);
}

static void test_an_invocation_is_found_by_its_first_event(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", ""), *other = host_create(self, "other", "");
  const char *ids[] = {"a", "b\\n\\u0000\xC3\xA9", "a", "b\\n\\u0000\xC3\xA9"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    char event[64];
    snprintf(event, sizeof event, "{\"invocationId\":\"%s\"}", ids[i]);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  moonpad_session *reference = mp_session_reference(session);
  int64_t revision = 0;
  OK(mp_find_invocation(reference, T("a"), &revision, &failure));
  assert_int_equal(revision, 1);
  OK(mp_find_invocation(reference, (moonpad_string){"b\n\0\xC3\xA9", 5}, &revision, &failure));
  assert_int_equal(revision, 2);
  revision = 9;
  FAILS(MOONPAD_NOT_FOUND, mp_find_invocation(reference, T("c"), &revision, &failure));
  FAILS(MOONPAD_NOT_FOUND, mp_find_invocation(reference, T(""), &revision, &failure));
  FAILS(MOONPAD_NOT_FOUND, mp_find_invocation(other, T("a"), &revision, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_find_invocation(reference, T("\xFF"), &revision, &failure));
  assert_int_equal(revision, 9);
  moonpad_session_free(reference);
  moonpad_session_free(session);
  moonpad_session_free(other);
}

/* ---- Calls in steps: another thread asks the store, while the session object can be used ---- */

typedef struct question {
  moonpad_export *exporting; /* to be loaded, or else: */
  mp_refreshing *refresh;    /* to be read */
  moonpad_status status;
  moonpad_error error;
} question;

static void *ask(void *context) {
  question *self = context;
  self->status = self->exporting != NULL ? mp_export_load(self->exporting, &self->error)
                                         : mp_refresh_read(self->refresh, &self->error);
  return NULL;
}

/* Without threads: here, between two uses of the session object. */
static moonpad_status ask_elsewhere(question asked) {
  pthread_t thread;
  if (MP_HAS_THREADS) {
    assert_int_equal(pthread_create(&thread, NULL, ask, &asked), 0);
    pthread_join(thread, NULL);
  } else {
    ask(&asked);
  }
  failure = asked.error;
  return asked.status;
}

static void expect_id(moonpad_string line, int number) {
  char text[512], id[32];
  assert_true(line.length < sizeof text);
  snprintf(text, sizeof text, "%.*s", (int)line.length, line.data);
  snprintf(id, sizeof id, "\"id\":\"e%d\"", number);
  assert_non_null(strstr(text, id));
}

/* What is ready is answered without the store; a page is loaded elsewhere when it is not. */
static void test_an_export_is_loaded_in_pages(void **state) {
  enum { EVENTS = 60 };
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":0}");
  for (int i = 1; i <= EVENTS; i++) {
    char event[64];
    snprintf(event, sizeof event, "{\"id\":\"e%d\",\"author\":\"a\"}", i);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  moonpad_export *exporting = NULL;
  OK(moonpad_export_open(session, &exporting, &failure));
  moonpad_session_free(session);
  int pages = 0;
  for (int lines = 0; lines <= EVENTS + 1; lines++) {
    moonpad_string line;
    if (!mp_export_is_ready(exporting)) {
      OK(ask_elsewhere((question){.exporting = exporting}));
      assert_true(mp_export_is_ready(exporting));
      pages++;
    }
    long asked = slow_store_round_trips();
    OK(moonpad_export_next(exporting, &line, &failure));
    assert_int_equal(slow_store_round_trips(), asked);
    assert_true((line.data == NULL) == (lines > EVENTS));
    if (lines >= 1 && lines <= EVENTS) expect_id(line, lines);
  }
  assert_in_range(pages, 2, EVENTS / 2);
  moonpad_export_free(exporting);
}

static void test_a_refresh_is_read_elsewhere(void **state) {
  host *self = *state;
  moonpad_session *mine = host_create(self, "s", "{\"k\":0,\"gone\":1}"), *other = host_get(self, "s");
  mp_refreshing refresh;
  OK(moonpad_append_event(other,
                          T("{\"actions\":{\"stateDelta\":{\"k\":1,\"gone\":null,\"user:u\":2}},"
                            "\"removedStateKeys\":[\"gone\"]}"),
                          NULL, &failure));
  mp_refresh_begin(&refresh, mine);
  OK(ask_elsewhere((question){.refresh = &refresh}));
  STATE(mine, "{\"gone\":1,\"k\":0}");
  assert_true(mp_refresh_fits(&refresh, mine));
  OK(mp_refresh_apply(&refresh, mine, &failure));
  mp_refresh_end(&refresh);
  STATE(mine, "{\"k\":1,\"user:u\":2}");
  assert_int_equal(moonpad_session_revision(mine), 1);

  /* What the object appended meanwhile is newer than the answer. */
  mp_refresh_begin(&refresh, mine);
  OK(ask_elsewhere((question){.refresh = &refresh}));
  host_append(mine, "{\"k\":2}");
  assert_false(mp_refresh_fits(&refresh, mine));
  mp_refresh_end(&refresh);
  STATE(mine, "{\"k\":2,\"user:u\":2}");

  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  mp_refresh_begin(&refresh, mine);
  FAILS(MOONPAD_NOT_FOUND, ask_elsewhere((question){.refresh = &refresh}));
  mp_refresh_end(&refresh);
  moonpad_session_free(mine);
  moonpad_session_free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_commit_is_refused_in_both_ways),
      ON_EVERY_STORE(test_a_call_is_closed_when_its_session_is_freed),
      ON_EVERY_STORE(test_a_reference_asks_for_the_session_object),
      ON_EVERY_STORE(test_an_invocation_is_found_by_its_first_event),
      ON_EVERY_STORE(test_an_export_is_loaded_in_pages),
      ON_EVERY_STORE(test_a_refresh_is_read_elsewhere),
  };
  return HOST_RUN(tests);
}
