/*
** A primary of MariaDB, and a replica that is made the primary when the first one dies. Both stand
** in the URL.
*/
#include <stdio.h>

#include "base/platform.h"
#include "mysql_support.h"
#include "server_faults.h"
#include "server_support.h"

#define SCRIPT "spec/servers/mariadb.sh"

typedef struct pair {
  own_server primary, replica;
  char url[256];
  moonpad_service *service;
} pair;

static void open_pair(pair *servers) {
  own_server_make(&servers->primary, SCRIPT, "primary", "");
  own_server_make(&servers->replica, SCRIPT, "replica", servers->primary.folder);
  snprintf(servers->url, sizeof servers->url, "mysql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/moonpad",
           atoi(linked_port_in(servers->primary.url)), atoi(linked_port_in(servers->replica.url)));
  OK(faults_open(servers->url, &servers->service));
}

static void close_pair(pair *servers) {
  moonpad_service_release(servers->service);
  own_server_end(&servers->replica);
  own_server_end(&servers->primary);
}

static long number_on_replica(const pair *servers, const char *sql) {
  return mysql_number(strchr(servers->replica.url, ':') + 1, sql);
}

/* Until all writers have a session, there as well. */
static void wait_for_sessions(const pair *servers) {
  WAIT_UNTIL(number_on_replica(servers, "SELECT COUNT(*) FROM moonpad_sessions") == WRITERS);
}

static void promote(pair *servers, const writer *writers) {
  own_server_run(&servers->primary, "kill", "");
  own_server_run(&servers->replica, "promote", "");
  double promoted = mp_monotonic();
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("after");
  OK(moonpad_create_session(servers->service, &name, T("{}"), &session, &failure));
  print_message("goes on after %.1f s\n", mp_monotonic() - promoted);
  moonpad_session_free(session);
  writers_go_on(writers);
}

static void expect_read_only(const pair *servers) {
  faults_refuse(servers->replica.url, MOONPAD_STORAGE, "read-only");
}

/* A commit waits until the replica has it, so that has all that was acknowledged. */
static void test_a_promoted_replica_has_all(void **state) {
  (void)state;
  pair servers;
  writer writers[WRITERS];
  atomic_bool ends = false;
  open_pair(&servers);
  expect_read_only(&servers);
  writers_start(writers, servers.service, &ends);
  wait_for_sessions(&servers);
  writers_go_on(writers);
  promote(&servers, writers);
  atomic_store(&ends, true);
  writers_check(writers, servers.service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  close_pair(&servers);
}

/* It has stopped to follow: the last events are missing, whole ones, and everybody goes on. */
static void test_a_promoted_replica_lacks_whole_events(void **state) {
  (void)state;
  pair servers;
  writer writers[WRITERS];
  atomic_bool ends = false;
  open_pair(&servers);
  writers_start(writers, servers.service, &ends);
  wait_for_sessions(&servers);
  own_server_run(&servers.replica, "sql", "'STOP SLAVE IO_THREAD'");
  long known = number_on_replica(&servers, "SELECT COUNT(*) FROM moonpad_events");
  writers_go_on(writers);
  promote(&servers, writers);
  atomic_store(&ends, true);
  writers_check_what_is_left(writers, servers.service);
  assert_true(number_on_replica(&servers, "SELECT COUNT(*) FROM moonpad_events") > known);
  int64_t stored = 0;
  for (int i = 0; i < WRITERS; i++) stored += writers[i].stored;
  assert_true(stored > number_on_replica(&servers, "SELECT COUNT(*) FROM moonpad_events"));
  assert_int_equal(number_on_replica(&servers, "SELECT COUNT(*) FROM moonpad_sessions s WHERE revision <>"
                                               " (SELECT COUNT(*) FROM moonpad_events WHERE session = s.id)"),
                   0);
  close_pair(&servers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_promoted_replica_has_all),
      cmocka_unit_test(test_a_promoted_replica_lacks_whole_events),
  };
  return cmocka_run_group_tests_name("promotion", tests, NULL, NULL);
}
