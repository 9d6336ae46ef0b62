/*
** What is PostgreSQL's own of what happens to servers: a standby, accounts, connections, versions.
** The rest is in test_server_faults.c.
*/
#include <stdio.h>

#include "base/platform.h"
#include "server_faults.h"
#include "server_support.h"

/* ---- a server that says nothing ---- */

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
  snprintf(url, sizeof url, "postgresql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/moonpad",
           atoi(linked_port_in(primary.url)), atoi(linked_port_in(standby.url)));
  OK(faults_open(url, &service));
  own_server_run(&primary, "synchronous", "");
  writers_start(writers, service, &ends);
  writers_go_on(writers);
  own_server_run(&primary, "kill", "");
  own_server_run(&standby, "promote", "");
  double promoted = mp_monotonic();
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("after");
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  print_message("goes on after %.1f s\n", mp_monotonic() - promoted);
  moonpad_session_free(session);
  writers_go_on(writers);
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
  own_server_make(&primary, SCRIPT, "start", "");
  own_server_make(&standby, SCRIPT, "standby", primary.folder);
  faults_refuse(standby.url, MOONPAD_STORAGE, "read-only");
  own_server_end(&standby);
  own_server_end(&primary);
}

/* Two connections are all that the server has for it, and the pool would take eight. */
static void test_a_server_without_free_connections_is_waited_for(void **state) {
  (void)state;
  own_server server;
  own_server_make(&server, SCRIPT, "start", "max_connections=5 superuser_reserved_connections=3");
  faults_wait_for_a_connection(server.url, "connection slots");
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
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  if (strstr(failure.message, "may not make") == NULL) fail_msg("%s", failure.message);
  /* The schema is there, and is not for this account. */
  OK(faults_open(server.url, &service));
  moonpad_service_release(service);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  if (strstr(failure.message, "may not use") == NULL) fail_msg("%s", failure.message);
  own_server_end(&server);
}

/* Many open it at the same time, when there is no schema yet. */
static void test_a_schema_is_made_once(void **state) {
  host *self = *state;
  char url[300];
  snprintf(url, sizeof url, "%s_once", self->url);
  faults_open_by_many(url);
  server_forget_url(strchr(url, ':') + 1);
}

#define OWN(test)                                                                                                      \
  { #test " on postgresql:", test, NULL, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      OWN(test_an_old_server_is_refused),          OWN(test_a_promoted_standby_is_found),
      OWN(test_a_standby_alone_is_read_only),      OWN(test_a_server_without_free_connections_is_waited_for),
      OWN(test_an_account_without_rights_is_told), ON_STORE(test_a_schema_is_made_once, "postgresql:"),
  };
  return HOST_RUN(tests);
}
