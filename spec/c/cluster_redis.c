/*
** Redis Cluster: apps are spread over its nodes; a node that dies, a slot that moves, a cluster
** that is down. That the contract holds there is what all tests of "redis:" say, which run there,
** too (scripts/check.sh).
*/
#include <stdio.h>

#include "base/platform.h"
#include "server_faults.h"

#define SCRIPT "spec/servers/redis_cluster.sh"
/* A replica takes over soon. A node that a busy machine keeps from answering is not given up. */
#define QUICK   "cluster-node-timeout 5000"
#define PATIENT "cluster-node-timeout 60000" /* none takes over */
#define APPS    24

/* The URL with one more option. */
static const char *url_with(const own_server *server, const char *option) {
  static char url[300];
  snprintf(url, sizeof url, "%s?%s", server->url, option);
  return url;
}

/* What one of the nodes answers. */
static long ask_node(const own_server *server, int node, const char *command) {
  char line[200];
  snprintf(line, sizeof line, "%s run %s %d %s", server->script, server->folder, node, command);
  FILE *pipe = popen(line, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  pclose(pipe);
  return atol(line);
}

static moonpad_session_name named(int app, char text[16]) {
  snprintf(text, 16, "app%d", app);
  return (moonpad_session_name){moonpad_text(text), T("u"), T("s")};
}

/* Appends to many apps go out together, and each is stored where its app is. */
static void test_apps_are_spread_over_the_nodes(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *sessions[APPS], *again = NULL;
  char text[16];
  own_server_make(&server, SCRIPT, "start", PATIENT);
  OK(faults_open(server.url, &service));
  for (int i = 0; i < APPS; i++) {
    moonpad_session_name name = named(i, text);
    OK(moonpad_create_session(service, &name, T("{\"app:n\":0}"), &sessions[i], &failure));
  }
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < APPS; i++) {
      OK(moonpad_append_event_async(sessions[i], T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1}}}"), NULL,
                                    NULL, &failure));
    }
  }
  for (int i = 0; i < APPS; i++) {
    moonpad_session_name name = named(i, text);
    OK(moonpad_refresh(sessions[i], &failure));
    moonpad_session_free(sessions[i]);
    OK(moonpad_get_session(service, &name, NULL, &again, &failure));
    assert_int_equal(moonpad_session_revision(again), 20);
    assert_int_equal(host_event_count(again), 20);
    moonpad_session_free(again);
  }
  for (int node = 1; node <= 3; node++) assert_true(ask_node(&server, node, "dbsize") > 10);
  moonpad_service_release(service);
  own_server_end(&server);
}

/*
** Twice: the second time the node of the URL that was asked first may be the one that is gone.
** Nothing is lost, because each call waits for the replica.
*/
static void test_a_node_that_dies_loses_nothing(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", QUICK);
  OK(faults_open(url_with(&server, "replicas=1"), &service));
  writers_start(writers, service, &ends);
  for (int i = 0; i < 2; i++) {
    writers_go_on(writers);
    own_server_run(&server, "failover", "app");
    own_server_run(&server, "again", "");
    own_server_run(&server, "wait", "");
  }
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* A service knows the other nodes when the only one of its URL is gone. */
static void test_nodes_are_learned(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  char url[300], command[300];
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", QUICK);
  snprintf(command, sizeof command, "%s holder %s app", SCRIPT, server.folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(command, sizeof command, pipe));
  pclose(pipe);
  /* The host of that number alone. */
  const char *address = strchr(server.url, '@') + 1;
  for (int node = 1; node < atoi(command); node++) address = strchr(address, ',') + 1;
  int length = snprintf(url, sizeof url, "redis+cluster://:secret@%.*s", (int)strcspn(address, ","), address);
  /* What its replica does not have yet would be lost with it. */
  strcpy(url + length, "?replicas=1");
  OK(faults_open(url, &service));
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  moonpad_session_free(session);
  moonpad_service_release(service);
  url[length] = '\0';
  OK(faults_open(url, &service));
  OK(moonpad_get_session(service, &name, NULL, &session, &failure));
  own_server_run(&server, "kill", "app");
  host_append(session, "{\"k\":1}");
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_an_app_that_moves_is_followed(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", PATIENT);
  OK(faults_open(server.url, &service));
  writers_start(writers, service, &ends);
  for (int i = 0; i < 3; i++) {
    writers_go_on(writers);
    own_server_run(&server, "move", "app begin");
    mp_sleep(0.1);
    own_server_run(&server, "move", "app end");
  }
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* Half of its keys are here, half there: nobody sees that, and nothing is stored by halves. */
static void test_an_app_that_is_on_its_way_is_busy(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL, *other = NULL;
  moonpad_session_name name = host_name("s"), second = host_name("t");
  own_server_make(&server, SCRIPT, "start", PATIENT);
  faults_open_hasty(server.url, 200, &service);
  OK(moonpad_create_session(service, &name, T("{\"k\":1,\"user:k\":1,\"app:k\":1}"), &session, &failure));
  host_append(session, "{\"k\":2,\"user:k\":2,\"app:k\":2}");
  own_server_run(&server, "move", "app begin");
  const char *event = "{\"id\":\"e\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":3,\"user:k\":3,\"app:k\":3}}}";
  FAILS(MOONPAD_BUSY, moonpad_append_event(session, moonpad_text(event), NULL, &failure));
  faults_say("on its way to another node");
  FAILS(MOONPAD_BUSY, moonpad_get_session(service, &name, NULL, &other, &failure));
  FAILS(MOONPAD_BUSY, moonpad_create_session(service, &second, T("{\"user:x\":1}"), &other, &failure));
  FAILS(MOONPAD_BUSY, moonpad_update_user_state(service, T("app"), T("u"), T("{\"x\":1}"), T("[]"), &failure));
  own_server_run(&server, "move", "app end");
  /* It may take the service more than once to come to the other node in so little time. */
  WAIT_UNTIL(moonpad_append_event(session, moonpad_text(event), NULL, &failure) == MOONPAD_OK);
  OK(moonpad_get_session(service, &name, NULL, &other, &failure));
  assert_int_equal(moonpad_session_revision(other), 2);
  assert_int_equal(host_event_count(other), 2);
  STATE(other, "{\"app:k\":3,\"k\":3,\"user:k\":3}");
  moonpad_session_free(other);
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(service, &second, NULL, &other, &failure));
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_a_cluster_that_is_down_is_told_and_found_again(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL, *second = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", QUICK);
  faults_open_hasty(server.url, 300, &service);
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  own_server_run(&server, "kill", "app all");
  FAILS(MOONPAD_STORAGE, moonpad_append_event(session, T("{\"author\":\"a\",\"id\":\"e\"}"), NULL, &failure));
  FAILS(MOONPAD_STORAGE, faults_open_within(server.url, 100, &second));
  own_server_run(&server, "again", "");
  own_server_run(&server, "wait", "");
  WAIT_UNTIL(moonpad_append_event(session, T("{\"author\":\"a\",\"id\":\"e\"}"), NULL, &failure) == MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* Each kind of server is told which URL it needs. */
static void test_the_wrong_scheme_is_told(void **state) {
  (void)state;
  own_server cluster, single;
  moonpad_service *service = NULL;
  char url[300];
  own_server_make(&cluster, SCRIPT, "start", PATIENT);
  own_server_make(&single, "spec/servers/redis.sh", "start", "");
  snprintf(url, sizeof url, "redis:%s", strchr(cluster.url, ':') + 1);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  faults_say("redis+cluster://");
  snprintf(url, sizeof url, "redis+cluster:%.*s", (int)(strrchr(single.url, '/') - strchr(single.url, ':') - 1),
           strchr(single.url, ':') + 1);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  faults_say("no node of a cluster: write redis://");
  snprintf(url, sizeof url, "redis+cluster://:s3cr3t@%s", strchr(cluster.url, '@') + 1);
  FAILS(MOONPAD_STORAGE, faults_open(url, &service));
  faults_say("refuses the user or the password");
  assert_null(strstr(failure.message, "s3cr3t"));
  OK(faults_open(url_with(&cluster, "shard=app"), &service));
  moonpad_service_release(service);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url_with(&cluster, "shard=user"), &service));
  own_server_end(&single);
  own_server_end(&cluster);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_apps_are_spread_over_the_nodes),
      cmocka_unit_test(test_a_node_that_dies_loses_nothing),
      cmocka_unit_test(test_nodes_are_learned),
      cmocka_unit_test(test_an_app_that_moves_is_followed),
      cmocka_unit_test(test_an_app_that_is_on_its_way_is_busy),
      cmocka_unit_test(test_a_cluster_that_is_down_is_told_and_found_again),
      cmocka_unit_test(test_the_wrong_scheme_is_told),
  };
  return HOST_RUN(tests);
}
