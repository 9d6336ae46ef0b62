/*
** The public C API call by call, on every store: times to live, sweeping, trimming, how many
** sessions a user may have (contract 5). What of it Lua sees is in spec/expiry_spec.lua,
** trimming_spec.lua, quota_spec.lua.
*/
#include <math.h>
#include <stdio.h>

#include "service_support.h"

#define MESSAGE                                                                                                        \
  "{\"author\":\"user\",\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"actions\":{\"stateDelta\":{\"n\":1}}}"

/* Does the store of this test sweep and trim? The smallest one does not. */
static bool keeps_house(const host *self) {
  return strncmp(self->url, "example:", strlen("example:")) != 0;
}

static void expect_swept(const moonpad_swept *swept, int64_t sessions, int64_t users, int64_t apps, int64_t events) {
  assert_int_equal(swept->sessions, sessions);
  assert_int_equal(swept->users, users);
  assert_int_equal(swept->apps, apps);
  assert_int_equal(swept->events, events);
}

static void append(moonpad_session *session, const char *event) {
  OK(moonpad_append_event(session, T(event), NULL, &failure));
}

static void test_options_are_checked(void **state) {
  (void)state;
  const double wrong[] = {-1, -0.001, NAN, INFINITY};
  moonpad_service *service = NULL;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    for (int field = 0; field < 5; field++) {
      moonpad_options options;
      moonpad_options_init(&options);
      double *const fields[] = {&options.session_ttl_seconds, &options.user_ttl_seconds, &options.app_ttl_seconds,
                                &options.sweep_interval_seconds, &options.event_ttl_seconds};
      *fields[field] = wrong[i];
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
      assert_non_null(strstr(failure.message, "Seconds"));
    }
  }
  moonpad_options options;
  moonpad_options_init(&options);
  options.max_events = -1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
  options.max_events = 0;
  options.max_sessions_per_user = -1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
  options.max_sessions_per_user = 0;
  options.on_max_sessions = (moonpad_on_max_sessions)2;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
}

static void test_a_sweep_counts_what_it_frees(void **state) {
  host *self = *state;
  moonpad_swept swept = {7, 7, 7, 7};
  OK(moonpad_sweep(self->service, &swept, &failure));
  expect_swept(&swept, 0, 0, 0, 0);
  self->options.session_ttl_seconds = self->options.user_ttl_seconds = 100;
  self->options.app_ttl_seconds = 200;
  self->options.event_ttl_seconds = 30;
  host_reopen(self);
  if (!keeps_house(self)) {
    FAILS(MOONPAD_UNSUPPORTED, moonpad_sweep(self->service, &swept, &failure));
    return;
  }
  moonpad_session *session = host_create(self, "s", "{\"user:u\":1,\"app:a\":1}");
  append(session, MESSAGE);
  self->now += 31;
  moonpad_session *other = host_create(self, "t", "");
  append(other, MESSAGE);
  append(other, MESSAGE);
  self->now += 31;
  OK(moonpad_sweep(self->service, &swept, &failure));
  expect_swept(&swept, 0, 0, 0, 1); /* the newest turn of each stays */
  self->now += 101;
  OK(moonpad_sweep(self->service, NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_refresh(session, &failure));
  self->now += 201;
  OK(moonpad_sweep(self->service, &swept, &failure));
  expect_swept(&swept, 0, 0, 1, 0);
  moonpad_session_free(session);
  moonpad_session_free(other);
  moonpad_service_close(self->service);
  FAILS(MOONPAD_CLOSED, moonpad_sweep(self->service, &swept, &failure));
  expect_swept(&swept, 0, 0, 0, 0);
}

/* What a slice has freed stays freed; another sweep frees the rest, and nothing is half. */
static void test_a_sweep_without_memory(void **state) {
  host *self = *state;
  if (!keeps_house(self)) skip();
  self->options.session_ttl_seconds = self->options.user_ttl_seconds = self->options.app_ttl_seconds = 100;
  self->options.event_ttl_seconds = 10;
  host_reopen(self);
  bool has_failed = true;
  for (long allowed = 0; has_failed; allowed++) {
    moonpad_session_free(host_create(self, "old", "{\"user:u\":1,\"app:a\":1}"));
    self->now += 101;
    moonpad_session *live = host_create(self, "live", "");
    for (int i = 0; i < 5; i++) append(live, MESSAGE);
    self->now += 11;
    append(live, MESSAGE);
    self->now += 11;
    moonpad_swept swept, rest;
    self->allowed = allowed;
    moonpad_status status = moonpad_sweep(self->service, &swept, &failure);
    has_failed = self->allowed == 0;
    self->allowed = -1;
    if (status != MOONPAD_OK) assert_int_equal(status, MOONPAD_NO_MEMORY);
    OK(moonpad_sweep(self->service, &rest, &failure));
    /* The append has trimmed what was older than the newest turn. */
    expect_swept(&rest, 1 - swept.sessions, 0, 0, 0);
    moonpad_buffer json = {0};
    OK(moonpad_state_at(live, 5, &json, &failure));
    GIVES(json, "{\"n\":1}");
    moonpad_session_free(live);
    moonpad_session_name name = host_name("live");
    OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  }
}

/* By itself, on a thread of the service, while others write. */
static void test_a_sweep_every_so_often(void **state) {
  host *self = *state;
  if (!keeps_house(self)) skip();
  self->options.session_ttl_seconds = 100;
  self->options.sweep_interval_seconds = 0.001;
  host_reopen(self);
  moonpad_session *live = host_create(self, "live", "");
  for (int i = 0; i < 200; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    moonpad_session_free(host_create(self, id, "{\"user:u\":1}"));
    append(live, MESSAGE);
  }
  moonpad_session_free(live);
  /* Closing ends the thread, whatever it is about. */
  host_reopen(self);
  host_reopen(self);
}

static void test_a_renewal_is_stored_at_close(void **state) {
  host *self = *state;
  if (!keeps_house(self)) skip();
  self->options.session_ttl_seconds = 100;
  host_reopen(self);
  moonpad_session_free(host_create(self, "s", ""));
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  for (int i = 0; i < 5; i++) {
    self->now += 60;
    OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
    moonpad_session_free(session);
    if (strstr(self->url, "memory:") == NULL) host_reopen(self);
  }
  self->now += 101;
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &session, &failure));
}

static void test_a_store_that_cannot_trim_says_so(void **state) {
  host *self = *state;
  self->options.max_events = 2;
  host_reopen(self);
  moonpad_session *session = host_create(self, "s", "");
  append(session, MESSAGE);
  append(session, MESSAGE);
  moonpad_status status = moonpad_append_event(session, T(MESSAGE), NULL, &failure);
  assert_int_equal(status, keeps_house(self) ? MOONPAD_OK : MOONPAD_UNSUPPORTED);
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(moonpad_session_revision(session), keeps_house(self) ? 3 : 2);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options_are_checked),        ON_EVERY_STORE(test_a_sweep_counts_what_it_frees),
      ON_EVERY_STORE(test_a_sweep_without_memory),       ON_EVERY_STORE(test_a_sweep_every_so_often),
      ON_EVERY_STORE(test_a_renewal_is_stored_at_close), ON_EVERY_STORE(test_a_store_that_cannot_trim_says_so),
  };
  return HOST_RUN(tests);
}
