/*
** Galera: three nodes of MariaDB that all may be written to, in one cluster for all of these tests.
** What is written on one is certified on all before it is acknowledged, and applied there a little
** later.
*/
#include <semaphore.h>
#include <stdio.h>

#include "base/platform.h"
#include "mysql_support.h"
#include "server_faults.h"
#include "server_support.h"

#define NODES 3

typedef struct cluster {
  own_server server;
  int ports[NODES];
} cluster;

static cluster nodes;

static int start_cluster(void **state) {
  (void)state;
  own_server_make(&nodes.server, "spec/servers/galera.sh", "start", "");
  char *port = nodes.server.url;
  for (int i = 0; i < NODES; i++) {
    port = linked_port_in(port);
    nodes.ports[i] = atoi(port);
  }
  return 0;
}

static int end_cluster(void **state) {
  (void)state;
  own_server_end(&nodes.server);
  return 0;
}

/* ---- URLs ---- */

/* Nodes count from 1. The URL has them in this order; a 0 is none. */
static const char *url_of(char url[256], const char *database, int first, int second, int third) {
  const int order[NODES] = {first, second, third};
  size_t length = (size_t)snprintf(url, 256, "mysql://moonpad:secret@");
  for (int i = 0; i < NODES && order[i] != 0; i++) {
    length +=
        (size_t)snprintf(url + length, 256 - length, "%s127.0.0.1:%d", i == 0 ? "" : ",", nodes.ports[order[i] - 1]);
  }
  snprintf(url + length, 256 - length, "/%s", database);
  return url;
}

/* An empty database. */
static void make_database(char database[64]) {
  static int number;
  char sql[128];
  snprintf(database, 64, "test_galera_%d", ++number);
  snprintf(sql, sizeof sql, "1 'CREATE DATABASE %s'", database);
  own_server_run(&nodes.server, "sql", sql);
}

static long number_on(int node, const char *sql) {
  char url[256];
  return mysql_number(strchr(url_of(url, "moonpad", node, 0, 0), ':') + 1, sql);
}

static void open_on(const char *database, int first, int second, int third, moonpad_service **service) {
  char url[256];
  OK(faults_open(url_of(url, database, first, second, third), service));
}

/* ---- eight writers ---- */

static void test_writers_on_one_node(void **state) {
  (void)state;
  char database[64];
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  make_database(database);
  open_on(database, 1, 2, 3, &service);
  writers_start(writers, service, &ends);
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
}

static long refused_commits(void) {
  static const char sql[] = "SELECT SUM(variable_value) FROM information_schema.global_status"
                            " WHERE variable_name IN ('wsrep_local_cert_failures', 'wsrep_local_bf_aborts')";
  return number_on(1, sql) + number_on(2, sql);
}

/* All count up one row, so the nodes refuse each other's commits. A third node sees it all. */
static void test_writers_on_two_nodes(void **state) {
  (void)state;
  char database[64];
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *first = NULL, *second = NULL, *third = NULL;
  make_database(database);
  open_on(database, 1, 2, 3, &first);
  open_on(database, 2, 3, 1, &second);
  long before = refused_commits();
  writers_start_on(writers, first, second, &ends);
  writers_go_on(writers);
  WAIT_UNTIL(refused_commits() > before);
  atomic_store(&ends, true);
  writers_join(writers);
  open_on(database, 3, 1, 2, &third);
  writers_check(writers, third);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  print_message("%ld commits refused\n", refused_commits() - before);
  moonpad_service_release(third);
  moonpad_service_release(second);
  moonpad_service_release(first);
}

#define EACH 100

/* A writer of the one session, through a service of its own. */
static void *write_on_session(void *service) {
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = moonpad_get_session(service, &name, NULL, &session, &error);
  for (int i = 0; i < EACH && status == MOONPAD_OK; i++) {
    moonpad_changes *changes = NULL;
    moonpad_value one = moonpad_integer(1);
    moonpad_session_changes(session, &changes, &error);
    moonpad_changes_increment(changes, T("n"), &one, &error);
    status = moonpad_update_session(session, NULL, &error);
  }
  if (status != MOONPAD_OK) print_message("%s\n", error.message);
  moonpad_session_free(session);
  return NULL;
}

/* Two writers of one session: each of its revisions is one event. */
static void test_one_session_on_two_nodes(void **state) {
  (void)state;
  char database[64];
  pthread_t thread;
  moonpad_service *first = NULL, *second = NULL, *third = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  make_database(database);
  open_on(database, 1, 2, 3, &first);
  OK(moonpad_create_session(first, &name, T("{\"n\":0}"), &session, &failure));
  open_on(database, 2, 3, 1, &second);
  pthread_create(&thread, NULL, write_on_session, first);
  write_on_session(second);
  pthread_join(thread, NULL);
  moonpad_session_free(session);
  open_on(database, 3, 1, 2, &third);
  OK(moonpad_get_session(third, &name, NULL, &session, &failure));
  STATE(session, "{\"n\":200}");
  assert_int_equal(moonpad_session_revision(session), 2 * EACH);
  assert_int_equal(host_event_count(session), 2 * EACH);
  moonpad_session_free(session);
  moonpad_service_release(third);
  moonpad_service_release(second);
  moonpad_service_release(first);
}

static void test_tables_are_made_once(void **state) {
  (void)state;
  char database[64], url[256], sql[128];
  make_database(database);
  faults_open_by_many(url_of(url, database, 1, 2, 3));
  snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM %s.moonpad_meta", database);
  assert_int_equal(number_on(1, sql), 1);
}

/* ---- from node to node ---- */

/* A connection to node 1 is lost at each round trip, with its answer or before it has got there. */
static void test_what_is_lost_takes_effect_once_on_another_node(void **state) {
  (void)state;
  linked scene;
  char url[256], more[64];
  url_of(url, "moonpad", 1, 0, 0);
  setenv("MOONPAD_TEST_MYSQL", url, 1);
  linked_open(&scene, "mysql:", "");
  char *port = linked_port_in(scene.self->url), *behind = port + strspn(port, "0123456789");
  snprintf(more, sizeof more, ",127.0.0.1:%d%s", nodes.ports[1], behind);
  memcpy(behind, more, strlen(more) + 1);
  scene.breaks_for_good = true;
  faults_lose_each_round_trip(&scene);
  linked_close(&scene);
}

/* ---- a node that is behind ---- */

/* A node that is held back applies nothing that comes from others, until it is let go. */
typedef struct held_back {
  int node;
  pthread_t lock, key;
  sem_t is_asked;
} held_back;

static void *hold_lock(void *context) {
  const held_back *held = context;
  char sql[128];
  snprintf(sql, sizeof sql, "%d 'FLUSH TABLES WITH READ LOCK; SELECT SLEEP(%d)' >/dev/null || true", held->node,
           TIMEOUT_SECONDS);
  own_server_run(&nodes.server, "sql", sql);
  return NULL;
}

/*
** Lets it go a little after it was asked: whoever does not wait for it, sees what was there before.
*/
static void *let_go(void *context) {
  held_back *held = context;
  char sql[256];
  snprintf(
      sql, sizeof sql,
      "%d \"SET SESSION wsrep_sync_wait = 0; SELECT CONCAT('KILL ', id) INTO @kill FROM information_schema.processlist"
      " WHERE info LIKE 'SELECT SLEEP(%%'; EXECUTE IMMEDIATE @kill\"",
      held->node);
  while (sem_wait(&held->is_asked) != 0) continue;
  mp_sleep(1);
  own_server_run(&nodes.server, "sql", sql);
  return NULL;
}

static void hold_back(held_back *held, int node) {
  static const char sql[] = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(%'";
  held->node = node;
  assert_int_equal(sem_init(&held->is_asked, 0, 0), 0);
  assert_int_equal(pthread_create(&held->lock, NULL, hold_lock, held), 0);
  WAIT_UNTIL(number_on(node, sql) > 0);
  assert_int_equal(pthread_create(&held->key, NULL, let_go, held), 0);
}

/* Right before the node is asked for what it does not have yet. */
static void release_soon(held_back *held) {
  sem_post(&held->is_asked);
}

static void end_hold(held_back *held) {
  pthread_join(held->lock, NULL);
  pthread_join(held->key, NULL);
  sem_destroy(&held->is_asked);
}

/* Its first look at another node waits until that has what was acknowledged before. */
static void test_a_service_sees_its_own_writes_on_another_node(void **state) {
  (void)state;
  char database[64], url[256];
  held_back held;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  test_link *link = link_open(nodes.ports[0]);
  make_database(database);
  snprintf(url, sizeof url, "mysql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/%s", link_port(link), nodes.ports[1],
           database);
  OK(faults_open(url, &service));
  OK(moonpad_create_session(service, &name, T("{\"k\":1}"), &session, &failure));
  hold_back(&held, 2);
  host_append(session, "{\"k\":2}");
  link_break_for_good(link, LINK_CUT_REQUEST, 1);
  moonpad_session *other = NULL;
  release_soon(&held);
  OK(moonpad_get_session(service, &name, NULL, &other, &failure));
  assert_true(link_has_broken(link));
  STATE(other, "{\"k\":2}");
  moonpad_session_free(other);
  end_hold(&held);
  moonpad_session_free(session);
  moonpad_service_release(service);
  link_close(link);
}

/*
** With wsrep_sync_wait = 1 in a server's settings what is acknowledged on one node is seen on
** another by every refresh, without it a little later.
*/
static void test_two_services_on_two_nodes(void **state) {
  (void)state;
  char database[64];
  held_back held;
  moonpad_service *first = NULL, *second = NULL;
  moonpad_session *session = NULL, *seen = NULL;
  moonpad_session_name name = host_name("s");
  make_database(database);
  own_server_run(&nodes.server, "sql", "2 'SET GLOBAL wsrep_sync_wait = 1'");
  open_on(database, 1, 2, 3, &first);
  OK(moonpad_create_session(first, &name, T("{\"k\":1}"), &session, &failure));
  open_on(database, 2, 3, 1, &second);
  OK(moonpad_get_session(second, &name, NULL, &seen, &failure));
  hold_back(&held, 2);
  host_append(session, "{\"k\":2}");
  release_soon(&held);
  OK(moonpad_refresh(seen, &failure));
  STATE(seen, "{\"k\":2}");
  end_hold(&held);
  own_server_run(&nodes.server, "sql", "2 'SET GLOBAL wsrep_sync_wait = 0'");
  moonpad_session_free(seen);
  moonpad_session_free(session);
  moonpad_service_release(second);
  moonpad_service_release(first);
}

/* ---- a node that is no part of the cluster ---- */

static void test_an_isolated_node_is_not_used(void **state) {
  (void)state;
  char database[64], url[256], sql[160];
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  make_database(database);
  open_on(database, 1, 2, 3, &service);
  writers_start(writers, service, &ends);
  writers_go_on(writers);
  own_server_run(&nodes.server, "isolate", "1");
  faults_refuse(url_of(url, database, 1, 0, 0), MOONPAD_BUSY, "not part of its cluster");
  writers_go_on(writers);
  /* A service stays where it is, although the first node is back. */
  own_server_run(&nodes.server, "rejoin", "1");
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '%s'", database);
  assert_int_equal(number_on(1, sql), 0);
  assert_true(number_on(2, sql) > 0);
  moonpad_service_release(service);
}

/* ---- a node that dies: the last test, with two nodes left ---- */

static void test_a_killed_node_loses_nothing(void **state) {
  (void)state;
  char database[64];
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  make_database(database);
  open_on(database, 1, 2, 3, &service);
  writers_start(writers, service, &ends);
  writers_go_on(writers);
  own_server_run(&nodes.server, "kill", "1");
  double killed = mp_monotonic();
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("after");
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  print_message("goes on after %.1f s\n", mp_monotonic() - killed);
  moonpad_session_free(session);
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writers_on_one_node),
      cmocka_unit_test(test_writers_on_two_nodes),
      cmocka_unit_test(test_one_session_on_two_nodes),
      cmocka_unit_test(test_tables_are_made_once),
      cmocka_unit_test(test_what_is_lost_takes_effect_once_on_another_node),
      cmocka_unit_test(test_a_service_sees_its_own_writes_on_another_node),
      cmocka_unit_test(test_two_services_on_two_nodes),
      cmocka_unit_test(test_an_isolated_node_is_not_used),
      cmocka_unit_test(test_a_killed_node_loses_nothing),
  };
  return cmocka_run_group_tests_name("galera", tests, start_cluster, end_cluster);
}
