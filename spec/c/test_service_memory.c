/*
** Every allocation of the calls that change something fails once, on every store: nothing leaks,
** nothing is half done.
*/
#include "service_support.h"

/* ---- Out of memory: each allocation of each call fails once ---- */

typedef moonpad_status (*attempt)(host *self, moonpad_session *session, moonpad_changes *changes);

static moonpad_status try_append(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  moonpad_event *event = NULL;
  moonpad_status status =
      moonpad_append_event(session,
                           T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[1,{\"x\":2}],\"user:u\":\"text\","
                             "\"temp:t\":1,\"gone\":null}},\"removedStateKeys\":[\"gone\"]}"),
                           &event, &failure);
  /* Stored, yet without memory for the answer, is success without an event object. */
  assert_true(status == MOONPAD_OK || event == NULL);
  moonpad_event_free(event);
  return status;
}

static moonpad_status try_commit(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)session;
  return moonpad_changes_commit(changes, T("{\"author\":\"a\"}"), NULL, &failure);
}

static moonpad_status try_create(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_name name = host_name("new");
  moonpad_session *made = NULL;
  moonpad_status status =
      moonpad_create_session(self->service, &name, T("{\"k\":[1],\"user:v\":1,\"app:a\":{}}"), &made, &failure);
  assert_true((status == MOONPAD_OK) == (made != NULL));
  moonpad_session_free(made);
  return status;
}

static moonpad_status try_get(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_name name = host_name("s");
  moonpad_session *got = NULL;
  moonpad_buffer json = {0};
  moonpad_event *event = NULL;
  moonpad_status status = moonpad_get_session(self->service, &name, NULL, &got, &failure);
  if (status == MOONPAD_OK) status = moonpad_session_state(got, &json, &failure);
  if (status == MOONPAD_OK) status = moonpad_session_event(got, 0, &event, &failure);
  moonpad_event_free(event);
  moonpad_buffer_free(&json);
  moonpad_session_free(got);
  return status;
}

static moonpad_status try_fork(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  moonpad_session *fork = NULL;
  moonpad_status status = moonpad_fork(session, 1, T("fork"), &fork, &failure);
  moonpad_session_free(fork);
  return status;
}

static moonpad_status try_rewind(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  return moonpad_rewind(session, T("i1"), NULL, &failure);
}

static moonpad_status try_increment(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_value one = moonpad_integer(1), result;
  return moonpad_increment_user_state(self->service, T("app"), T("u"), T("n"), &one, &result, &failure);
}

static moonpad_status try_list(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_list *list = NULL;
  moonpad_status status = moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure);
  moonpad_session_list_free(list);
  return status;
}

static void test_every_call_survives_out_of_memory(void **state) {
  host *self = *state;
  static const attempt attempts[] = {try_append, try_commit, try_create,    try_get,
                                     try_fork,   try_rewind, try_increment, try_list};
  moonpad_session *session = host_create(self, "s", "{\"k\":0,\"gone\":1,\"o\":{\"a\":[1]}}");
  OK(moonpad_append_event(
      session, T("{\"author\":\"a\",\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"j\":1}}}"), NULL, &failure));
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    moonpad_changes *changes = NULL;
    moonpad_value one = moonpad_integer(1);
    OK(moonpad_changes_begin(session, &changes, &failure));
    set_json(changes, "o", "a[2]", "{\"deep\":[true]}");
    OK(moonpad_changes_increment(changes, T("user:n"), &one, &failure));
    moonpad_buffer before = {0}, after = {0};
    OK(moonpad_session_state(session, &before, &failure));
    int64_t revision = moonpad_session_revision(session);
    moonpad_status status = MOONPAD_NO_MEMORY;
    long allowed = 0;
    for (; status != MOONPAD_OK; allowed++) {
      if (allowed > 20000) fail_msg("attempt %zu never succeeds", i);
      long alive = self->alive;
      self->allowed = allowed;
      status = attempts[i](self, session, changes);
      self->allowed = -1;
      if (status == MOONPAD_OK) break;
      if (status != MOONPAD_NO_MEMORY)
        fail_msg("attempt %zu, allocation %ld: %s: %s", i, allowed, moonpad_status_name(status), failure.message);
      assert_int_equal(moonpad_session_revision(session), revision);
      OK(moonpad_session_state(session, &after, &failure));
      GIVES(after, before.data);
      assert_true(moonpad_changes_pending(changes));
      /* Caches may grow, but not with every failure. */
      if (self->alive > alive + 64)
        fail_msg("attempt %zu, allocation %ld: %ld blocks leaked", i, allowed, self->alive - alive);
    }
    assert_true(allowed > 0);
    moonpad_buffer_free(&before);
    moonpad_changes_free(changes);
  }
  /* Each attempt has happened exactly once. */
  moonpad_session *stored = host_get(self, "s");
  assert_int_equal(moonpad_session_revision(stored), 4);
  assert_int_equal(host_event_count(stored), 4);
  assert_int_equal(host_read(stored, "user:n", "").as.integer, 2);
  moonpad_session_free(stored);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_every_call_survives_out_of_memory),
  };
  return HOST_RUN(tests);
}
