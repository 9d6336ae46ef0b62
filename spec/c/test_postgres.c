/*
** PostgreSQL and what happens to servers and networks: round trips are counted, answers lost, a
** server killed, a standby promoted. spec/c/link.h stands between where a network has to fail.
*/
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/condition.h"
#include "server_faults.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_round_trips(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "postgresql:", "");
  moonpad_session *session = host_create(scene.self, "s", "{\"n\":1,\"app:n\":1}"), *other = host_get(scene.self, "s");
  moonpad_session_list *list = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_value value, by = moonpad_integer(2);
  moonpad_buffer json = {0};
  bool existed;
  TAKES(1, host_append(session, "{\"k\":1}"));
  TAKES(1, host_append(session, "{\"k\":1,\"user:k\":2,\"app:k\":3}"));
  /* An object that is behind, and others have changed what it adds to. */
  TAKES(1, faults_increment(session, "app:n"));
  TAKES(1, faults_increment(other, "app:n"));
  TAKES(1, faults_increment(session, "n"));
  TAKES(1, faults_increment(other, "user:new"));
  TAKES(1, OK(moonpad_refresh(session, &failure)));
  TAKES(1, moonpad_session_free(host_get(scene.self, "s")));
  TAKES(1, OK(moonpad_list_sessions(scene.self->service, T("app"), NULL, &list, &failure)));
  moonpad_session_list_free(list);
  TAKES(1, OK(moonpad_get_user_state(scene.self->service, T("app"), T("u"), &json, &failure)));
  moonpad_buffer_free(&json);
  /*
  ** What the service decides in a transaction: the questions, and the commit. A session that is
  ** made is looked at, for the keys of its user and app.
  */
  TAKES(2, OK(moonpad_update_user_state(scene.self->service, T("app"), T("u"), T("{\"x\":1}"), T("[]"), &failure)));
  TAKES(2, OK(moonpad_increment_app_state(scene.self->service, T("app"), T("n"), &by, &value, &failure)));
  TAKES(3, moonpad_session_free(host_create(scene.self, "t", "{\"n\":1,\"app:n\":1}")));
  moonpad_session_free(other);
  TAKES(2, OK(moonpad_delete_session(scene.self->service, &name, &existed, &failure)));
  moonpad_session_free(session);
  linked_close(&scene);
}

static void test_what_is_lost_takes_effect_once(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "postgresql:", "");
  faults_lose_each_round_trip(&scene);
  linked_close(&scene);
}

static void test_the_answer_about_a_commit_is_lost_as_well(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "postgresql:", "");
  faults_lose_commit_and_answer(&scene, 2);
  linked_close(&scene);
}

/* ---- a server that says nothing ---- */

static void test_a_silent_server_is_given_up(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "postgresql:", "&connect_timeout=2");
  scene.self->options.busy_timeout_ms = 100;
  host_reopen(scene.self);
  moonpad_session *session = host_create(scene.self, "s", "{}");
  link_break(scene.link, LINK_HANG, 1);
  double started = mp_monotonic();
  FAILS(MOONPAD_STORAGE, moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure));
  if (strstr(failure.message, "may have been stored") == NULL) fail_msg("%s", failure.message);
  assert_true(mp_monotonic() - started < 30);
  link_mend(scene.link);
  OK(moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure));
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
  linked_close(&scene);
}

static void test_an_old_server_is_refused(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "postgresql:", "");
  moonpad_service *service = NULL;
  const char *version = getenv("MOONPAD_TEST_POSTGRESQL_VERSION");
  char text[32], other[32];
  int length = snprintf(text, sizeof text, "server_version%c%.2s", 0, version == NULL ? "15" : version);
  snprintf(other, sizeof other, "server_version%c12", 0);
  link_replace(scene.link, text, other, (size_t)length);
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(scene.self->url), &scene.self->options, &service, &failure));
  assert_non_null(strstr(failure.message, "needs 13"));
  linked_close(&scene);
}

/* ---- a server that dies ---- */

#define SCRIPT "spec/servers/postgresql.sh"

static void test_a_killed_server_loses_nothing(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  OK(faults_open(server.url, 30000, &service));
  writers_start(writers, service, &ends);
  for (int i = 0; i < 3; i++) {
    pause_for(300);
    own_server_run(&server, "kill", "");
    own_server_run(&server, "again", "");
  }
  pause_for(300);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* Both hosts stand in the URL. The standby is synchronous, so it has all that was acknowledged. */
static void test_a_promoted_standby_is_found(void **state) {
  (void)state;
  own_server primary, standby;
  writer writers[WRITERS];
  atomic_bool ends = false;
  char url[600];
  moonpad_service *service = NULL;
  own_server_make(&primary, SCRIPT, "start", "");
  own_server_make(&standby, SCRIPT, "standby", primary.folder);
  snprintf(url, sizeof url, "postgresql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/moonpad?connect_timeout=2",
           atoi(linked_port_in(primary.url)), atoi(linked_port_in(standby.url)));
  OK(faults_open(url, 30000, &service));
  own_server_run(&primary, "synchronous", "");
  writers_start(writers, service, &ends);
  pause_for(500);
  own_server_run(&primary, "kill", "");
  own_server_run(&standby, "promote", "");
  double promoted = mp_monotonic();
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("after");
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  assert_true(mp_monotonic() - promoted < 10);
  moonpad_session_free(session);
  pause_for(500);
  atomic_store(&ends, true);
  writers_check(writers, service);
  moonpad_service_release(service);
  own_server_end(&standby);
  own_server_run(&primary, "again", "");
  own_server_end(&primary);
}

static void test_a_standby_alone_is_read_only(void **state) {
  (void)state;
  own_server primary, standby;
  moonpad_service *service = NULL;
  own_server_make(&primary, SCRIPT, "start", "");
  own_server_make(&standby, SCRIPT, "standby", primary.folder);
  FAILS(MOONPAD_STORAGE, faults_open(standby.url, 100, &service));
  if (strstr(failure.message, "read-only") == NULL) fail_msg("%s", failure.message);
  own_server_end(&standby);
  own_server_end(&primary);
}

/* Two connections are all that the server has for it, and the pool would take eight. */
static void test_a_server_without_free_connections_is_waited_for(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  char url[300];
  moonpad_service *service = NULL, *second = NULL;
  own_server_make(&server, SCRIPT, "start", "max_connections=5 superuser_reserved_connections=3");
  snprintf(url, sizeof url, "%s?pool=8", server.url);
  OK(faults_open(url, 30000, &service));
  writers_start(writers, service, &ends);
  pause_for(500);
  atomic_store(&ends, true);
  writers_check(writers, service);
  /* A shorter time might be over before it is refused, on a machine that is busy. */
  FAILS(MOONPAD_BUSY, faults_open(url, 3000, &second));
  if (strstr(failure.message, "connection slots") == NULL) fail_msg("%s", failure.message);
  moonpad_service_release(service);
  OK(faults_open(url, 5000, &second));
  moonpad_service_release(second);
  own_server_end(&server);
}

/* ---- accounts, processes ---- */

static void test_an_account_without_rights_is_told(void **state) {
  (void)state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_run(&server, "account", "poor");
  snprintf(url, sizeof url, "postgresql://poor:secret@127.0.0.1:%d/moonpad", atoi(linked_port_in(server.url)));
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, 1000, &service));
  if (strstr(failure.message, "may not make") == NULL) fail_msg("%s", failure.message);
  /* The schema is there, and is not for this account. */
  OK(faults_open(server.url, 1000, &service));
  moonpad_service_release(service);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, 1000, &service));
  if (strstr(failure.message, "may not use") == NULL) fail_msg("%s", failure.message);
  own_server_end(&server);
}

static void test_a_forked_child_is_refused(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  pid_t child = fork();
  if (child == 0) {
    moonpad_error error;
    _exit(moonpad_refresh(session, &error) == MOONPAD_CLOSED ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  host_append(session, "{\"k\":1}");
  STATE(session, "{\"k\":1}");
  moonpad_session_free(session);
}

/* Many open it at the same time, when there is no schema yet. */
static void test_a_schema_is_made_once(void **state) {
  host *self = *state;
  char url[300];
  pid_t children[6];
  snprintf(url, sizeof url, "%s_once", self->url);
  for (size_t i = 0; i < COUNT(children); i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    moonpad_service *service = NULL;
    moonpad_status opened = faults_open(url, 20000, &service);
    if (opened != MOONPAD_OK) fprintf(stderr, "%s\n", failure.message);
    if (service != NULL) moonpad_service_release(service);
    _exit(opened == MOONPAD_OK ? 0 : 1);
  }
  for (size_t i = 0; i < COUNT(children); i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  server_forget_url(strchr(url, ':') + 1);
}

#define OWN(test)                                                                                                      \
  { #test " on postgresql:", test, NULL, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      OWN(test_round_trips),
      OWN(test_what_is_lost_takes_effect_once),
      OWN(test_the_answer_about_a_commit_is_lost_as_well),
      OWN(test_a_silent_server_is_given_up),
      OWN(test_an_old_server_is_refused),
      OWN(test_a_killed_server_loses_nothing),
      OWN(test_a_promoted_standby_is_found),
      OWN(test_a_standby_alone_is_read_only),
      OWN(test_a_server_without_free_connections_is_waited_for),
      OWN(test_an_account_without_rights_is_told),
      ON_STORE(test_a_forked_child_is_refused, "postgresql:"),
      ON_STORE(test_a_schema_is_made_once, "postgresql:"),
  };
  return HOST_RUN(tests);
}
