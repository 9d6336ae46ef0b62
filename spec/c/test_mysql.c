/*
** What is MariaDB's own of what happens to servers: hosts, accounts, connections, certificates,
** tables, packets. The rest is in test_server_faults.c.
*/
#include <stdio.h>

#include "base/platform.h"
#include "mysql_support.h"
#include "server_faults.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SCRIPT       "spec/servers/mariadb.sh"

static const char *behind_scheme(const host *self) {
  return strchr(self->url, ':') + 1;
}

/* ---- a server that says nothing, or is too old ---- */

/* What it answers to the question for its version, behind the length of that. */
static void test_an_old_server_is_refused(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "mysql:", "");
  moonpad_service *service = NULL;
  const char *rest = behind_scheme(scene.self);
  int length = (int)mysql_number(rest, "SELECT LENGTH(VERSION())");
  int major = (int)mysql_number(rest, "SELECT SUBSTRING_INDEX(VERSION(), '.', 1)");
  int minor = (int)mysql_number(rest, "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '.', 2), '.', -1)");
  char text[32], other[32];
  int bytes = snprintf(text, sizeof text, "%c%d.%d.", length, major, minor);
  snprintf(other, sizeof other, minor > 9 ? "%c10.05." : "%c10.5.", length);
  link_replace(scene.link, text, other, (size_t)bytes);
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(scene.self->url), &scene.self->options, &service, &failure));
  if (strstr(failure.message, "needs MariaDB 10.6") == NULL) fail_msg("%s", failure.message);
  linked_close(&scene);
}

/* ---- a server that dies ---- */

/* Of two hosts the first is not there, and of two the first may not be written to. */
static void test_the_host_that_can_be_written_to_is_found(void **state) {
  (void)state;
  own_server server, replica;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_make(&replica, SCRIPT, "start", "");
  own_server_run(&replica, "sql", "'SET GLOBAL read_only = 1'");
  int port = atoi(linked_port_in(server.url)), other = atoi(linked_port_in(replica.url));
  snprintf(url, sizeof url, "mysql://moonpad:secret@127.0.0.1:1,127.0.0.1:%d/moonpad", port);
  OK(faults_open(url, &service));
  moonpad_service_release(service);
  snprintf(url, sizeof url, "mysql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/moonpad", other, port);
  OK(faults_open(url, &service));
  moonpad_service_release(service);
  faults_refuse(replica.url, MOONPAD_STORAGE, "read-only");
  own_server_end(&replica);
  own_server_end(&server);
}

/* Two connections are all that the account has, and the pool would take eight. */
static void test_a_server_without_free_connections_is_waited_for(void **state) {
  (void)state;
  own_server server;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_run(&server, "sql", "'ALTER USER moonpad WITH MAX_USER_CONNECTIONS 2'");
  faults_wait_for_a_connection(server.url, "max_user_connections");
  own_server_end(&server);
}

/* ---- accounts ---- */

static void test_an_account_without_rights_is_told(void **state) {
  (void)state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_run(&server, "account", "poor");
  snprintf(url, sizeof url, "mysql://poor:secret@127.0.0.1:%d/moonpad", atoi(linked_port_in(server.url)));
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  assert_non_null(strstr(failure.message, "poor"));
  own_server_run(&server, "sql", "'GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON moonpad.* TO poor'");
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  if (strstr(failure.message, "may not make") == NULL) fail_msg("%s", failure.message);
  /* With what somebody else has made these rights are enough. */
  OK(faults_open(server.url, &service));
  moonpad_service_release(service);
  OK(faults_open(url, &service));
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  OK(moonpad_create_session(service, &name, T("{\"k\":1}"), &session, &failure));
  host_append(session, "{\"k\":2,\"user:k\":2,\"app:k\":2}");
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_a_wrong_password_is_told_without_it(void **state) {
  host *self = *state;
  char url[300], *found;
  moonpad_service *service = NULL;
  strcpy(url, self->url);
  found = strstr(url, "secret");
  assert_non_null(found);
  memcpy(found, "s3cr3t", 6);
  FAILS(MOONPAD_STORAGE, faults_open(url, &service));
  assert_non_null(strstr(failure.message, "Access denied"));
  assert_null(strstr(failure.message, "s3cr3t"));
}

static void test_a_database_that_is_not_there_is_told(void **state) {
  host *self = *state;
  char url[300];
  moonpad_service *service = NULL;
  snprintf(url, sizeof url, "%s_not", self->url);
  FAILS(MOONPAD_STORAGE, faults_open(url, &service));
  assert_non_null(strstr(failure.message, "Unknown database"));
}

/* ---- durability ---- */

static void test_less_durability_is_told_or_refused(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  char url[300];
  own_server_make(&server, SCRIPT, "start", "--innodb-flush-log-at-trx-commit=2");
  OK(faults_open(server.url, &service));
  moonpad_service_release(service);
  snprintf(url, sizeof url, "%s?strict=on", server.url);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  assert_non_null(strstr(failure.message, "innodb_flush_log_at_trx_commit"));
  own_server_end(&server);
}

/* ---- TLS ---- */

static moonpad_status open_with(const own_server *server, const char *name, const char *options) {
  char url[400];
  moonpad_service *service = NULL;
  snprintf(url, sizeof url, "mysql://moonpad:secret@%s:%d/moonpad?%s", name, atoi(linked_port_in((char *)server->url)),
           options);
  moonpad_status status = faults_open(url, &service);
  if (service != NULL) moonpad_service_release(service);
  return status;
}

static void test_certificates_are_verified(void **state) {
  (void)state;
  own_server server;
  char folder[] = "/tmp/moonpad-tls-XXXXXX", options[200];
  assert_non_null(mkdtemp(folder));
  faults_make_certificates(folder);
  snprintf(options, sizeof options, "--require-secure-transport=1 --ssl-cert=%s/cert0.pem --ssl-key=%s/key0.pem",
           folder, folder);
  own_server_make(&server, SCRIPT, "start", options);
  snprintf(options, sizeof options, "ssl=verify-full&ca=%s/cert0.pem", folder);
  OK(open_with(&server, "localhost", options));
  OK(open_with(&server, "localhost", "ssl=on"));
  /* Another name, another certificate, none at all. */
  FAILS(MOONPAD_STORAGE, open_with(&server, "127.0.0.1", options));
  snprintf(options, sizeof options, "ssl=verify-full&ca=%s/cert1.pem", folder);
  FAILS(MOONPAD_STORAGE, open_with(&server, "localhost", options));
  FAILS(MOONPAD_STORAGE, open_with(&server, "localhost", "ssl=off"));
  own_server_end(&server);
  snprintf(options, sizeof options, "rm -rf '%s'", folder);
  assert_int_equal(system(options), 0);
}

/* ---- processes, tables ---- */

/* Many open it at the same time, when there are no tables yet. */
static void test_tables_are_made_once(void **state) {
  host *self = *state;
  char url[300];
  snprintf(url, sizeof url, "%s?prefix=once_", self->url);
  faults_open_by_many(url);
  assert_int_equal(mysql_number(behind_scheme(self), "SELECT COUNT(*) FROM once_meta"), 1);
}

/* What was begun and not finished is finished; what is newer is left alone. */
static void test_tables_are_completed_or_refused(void **state) {
  host *self = *state;
  const char *rest = behind_scheme(self);
  moonpad_service *service = NULL;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_session_free(session);
  mysql_run(rest, "DELETE FROM moonpad_meta; DROP PROCEDURE moonpad_look_1; DROP TABLE moonpad_garbage");
  host_reopen(self);
  session = host_get(self, "s");
  STATE(session, "{\"k\":1}");
  moonpad_session_free(session);
  mysql_run(rest, "UPDATE moonpad_meta SET value = '2'");
  FAILS(MOONPAD_UNSUPPORTED, faults_open(self->url, &service));
  assert_non_null(strstr(failure.message, "newer moonpad: schema 2"));
}

/* ---- what a packet takes ---- */

/* Sets a key to so many bytes. */
static moonpad_status set_bytes(moonpad_session *session, char byte, size_t length) {
  moonpad_changes *changes = NULL;
  char *bytes = malloc(length);
  assert_non_null(bytes);
  memset(bytes, byte, length);
  moonpad_value value = moonpad_string_value((moonpad_string){bytes, length});
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_set(changes, T("k"), (moonpad_string){NULL, 0}, &value, &failure));
  free(bytes);
  moonpad_status status = moonpad_update_session(session, NULL, &failure);
  if (status != MOONPAD_OK) moonpad_changes_discard(changes);
  return status;
}

#define MEGABYTES(n) ((size_t)(n) << 20)

static void test_what_no_packet_takes_is_refused(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", "--max-allowed-packet=4M");
  OK(faults_open(server.url, &service));
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  /* The event and the key's value are too long for one text: they go apart. */
  OK(set_bytes(session, 'x', MEGABYTES(3)));
  assert_int_equal(moonpad_session_revision(session), 1);
  /* Quotes are doubled on the way. */
  FAILS(MOONPAD_LIMIT, set_bytes(session, '\'', MEGABYTES(3)));
  assert_non_null(strstr(failure.message, "max_allowed_packet"));
  host_append(session, "{\"k\":1}");
  assert_int_equal(moonpad_session_revision(session), 2);
  OK(set_bytes(session, '\'', MEGABYTES(1)));
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(host_read(session, "k", "").as.text.length, MEGABYTES(1));
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

#define OWN(test)                                                                                                      \
  { #test " on mysql:", test, NULL, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      OWN(test_an_old_server_is_refused),
      OWN(test_the_host_that_can_be_written_to_is_found),
      OWN(test_a_server_without_free_connections_is_waited_for),
      OWN(test_an_account_without_rights_is_told),
      OWN(test_what_no_packet_takes_is_refused),
      OWN(test_certificates_are_verified),
      OWN(test_less_durability_is_told_or_refused),
      ON_STORE(test_a_wrong_password_is_told_without_it, "mysql:"),
      ON_STORE(test_a_database_that_is_not_there_is_told, "mysql:"),
      ON_STORE(test_tables_are_made_once, "mysql:"),
      ON_STORE(test_tables_are_completed_or_refused, "mysql:"),
  };
  return HOST_RUN(tests);
}
