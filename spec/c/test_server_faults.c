/*
** Servers and networks that fail, the same for every server: round trips are counted, and lost; a
** server says nothing, or is killed. spec/c/link.h stands between where a network has to fail.
*/
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "server_faults.h"

static bool is_postgresql(const char *store) {
  return strcmp(store, "postgresql:") == 0;
}

static const char *script_of(const char *store) {
  if (is_postgresql(store)) return "spec/servers/postgresql.sh";
  return strcmp(store, "redis:") == 0 ? "spec/servers/redis.sh" : "spec/servers/mariadb.sh";
}

static void test_round_trips(void **state) {
  linked scene;
  linked_open(&scene, *state, "");
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
  linked scene;
  linked_open(&scene, *state, "");
  faults_lose_each_round_trip(&scene);
  linked_close(&scene);
}

static void test_the_answer_about_a_commit_is_lost_as_well(void **state) {
  linked scene;
  linked_open(&scene, *state, "");
  faults_lose_commit_and_answer(&scene, 2);
  linked_close(&scene);
}

static void test_a_silent_server_is_given_up(void **state) {
  linked scene;
  linked_open(&scene, *state, "");
  moonpad_session_free(host_create(scene.self, "s", "{}"));
  host_reopen_hasty(scene.self, 100);
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  WAIT_UNTIL(moonpad_get_session(scene.self->service, &name, NULL, &session, &failure) == MOONPAD_OK);
  link_break(scene.link, LINK_HANG, 1);
  double started = mp_monotonic();
  FAILS(MOONPAD_STORAGE, moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure));
  faults_say("may have been stored");
  faults_say(strcmp(*state, "mysql:") == 0 ? "Lost connection" : "said nothing for 10 s");
  assert_true(mp_monotonic() - started >= 10);
  link_mend(scene.link);
  /* It may take the service more than once to come to the server again in so little time. */
  WAIT_UNTIL(moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure) == MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
  linked_close(&scene);
}

static void test_a_killed_server_loses_nothing(void **state) {
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  own_server_make(&server, script_of(*state), "start", "");
  OK(faults_open(server.url, &service));
  writers_start(writers, service, &ends);
  for (int i = 0; i < 3; i++) {
    writers_go_on(writers);
    own_server_run(&server, "kill", "");
    own_server_run(&server, "again", "");
  }
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
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

#define OWN(test, store)                                                                                               \
  { #test " on " store, test, NULL, NULL, (void *)(store) }
#define ON_SERVER(store)                                                                                               \
  OWN(test_round_trips, store), OWN(test_what_is_lost_takes_effect_once, store),                                       \
      OWN(test_the_answer_about_a_commit_is_lost_as_well, store), OWN(test_a_silent_server_is_given_up, store),        \
      OWN(test_a_killed_server_loses_nothing, store), ON_STORE(test_a_forked_child_is_refused, store)

int main(void) {
  const struct CMUnitTest tests[] = {ON_SERVER("postgresql:"), ON_SERVER("mysql:"), ON_SERVER("redis:")};
  return HOST_RUN(tests);
}
