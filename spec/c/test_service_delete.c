/*
** The public C API call by call, on every store: deleting sessions, and users with all that
** they have.
*/
#include "service_support.h"

static void test_a_deleted_session_is_gone(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"user:u\":1}");
  moonpad_session_name name = host_name("s");
  bool existed = false;
  OK(moonpad_delete_session(self->service, &name, &existed, &failure));
  assert_true(existed);
  OK(moonpad_delete_session(self->service, &name, &existed, &failure));
  assert_false(existed);
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  moonpad_session *again = host_create(self, "s", "");
  FAILS(MOONPAD_NOT_FOUND, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_refresh(session, &failure));
  STATE(again, "{\"user:u\":1}");
  moonpad_session_free(again);
  moonpad_session_free(session);
}

static void test_deleting_a_user_removes_sessions_and_user_state(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1,\"user:u\":1,\"app:a\":1}"), *other = NULL;
  moonpad_session_free(host_create(self, "t", ""));
  moonpad_session_name name = host_name("s");
  name.user_id = T("v");
  OK(moonpad_create_session(self->service, &name, T("{\"user:u\":2}"), &other, &failure));
  int64_t sessions = -1;
  OK(moonpad_delete_user(self->service, T("app"), T("u"), &sessions, &failure));
  assert_int_equal(sessions, 2);
  FAILS(MOONPAD_NOT_FOUND, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_refresh(session, &failure));
  moonpad_session_free(session);
  OK(moonpad_refresh(other, &failure));
  STATE(other, "{\"app:a\":1,\"user:u\":2}");
  moonpad_session_free(other);
  moonpad_buffer json = {0};
  OK(moonpad_get_user_state(self->service, T("app"), T("u"), &json, &failure));
  GIVES(json, "{}");

  OK(moonpad_delete_user(self->service, T("app"), T("u"), &sessions, &failure));
  assert_int_equal(sessions, 0);
  OK(moonpad_delete_user(self->service, T("app"), T("nobody"), NULL, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_delete_user(self->service, T("app"), T(""), &sessions, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_delete_user(self->service, T(""), T("u"), &sessions, &failure));
  session = host_create(self, "s", "{\"user:new\":1}");
  STATE(session, "{\"app:a\":1,\"user:new\":1}");
  host_append(session, "{\"user:new\":2}");
  STORED(self, "s", "{\"app:a\":1,\"user:new\":2}");
  moonpad_session_free(session);
  moonpad_service_close(self->service);
  FAILS(MOONPAD_CLOSED, moonpad_delete_user(self->service, T("app"), T("u"), &sessions, &failure));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_deleted_session_is_gone),
      ON_EVERY_STORE(test_deleting_a_user_removes_sessions_and_user_state),
  };
  return HOST_RUN(tests);
}
