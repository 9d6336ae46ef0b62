/*
** Redis: which host, with what replicas, durability and memory, and who may use it. What is stored
** there is in test_redis.c.
*/
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/platform.h"
#include "server_faults.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SCRIPT       "spec/servers/redis.sh"
#define MANY         1200 /* events: too many for one script */

/* ---- several hosts ---- */

static const struct {
  const char *scheme, *says;
} silences[] = {{"redis", "no connection: it has said nothing for 1 s"},
#ifdef MP_REDIS_TLS
                {"rediss", "no connection: TLS: it has said nothing for 1 s (has the server TLS there?)"}
#endif
};

/* It takes the connection, and says nothing. */
static void test_a_silent_server_is_given_up_soon(void **state) {
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  char url[100];
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(listener, 10), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  for (size_t i = 0; i < COUNT(silences); i++) {
    snprintf(url, sizeof url, "%s://127.0.0.1:%d", silences[i].scheme, ntohs(address.sin_port));
    faults_refuse(url, MOONPAD_STORAGE, silences[i].says);
  }
  close(listener);
}

/* Of two hosts the first is not there, and of two the first may not be written to. */
static void test_the_host_that_can_be_written_to_is_found(void **state) {
  (void)state;
  own_server server, replica;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_make(&replica, SCRIPT, "replica", server.folder);
  int port = atoi(linked_port_in(server.url)), other = atoi(linked_port_in(replica.url));
  snprintf(url, sizeof url, "redis://:secret@127.0.0.1:1,127.0.0.1:%d/0", port);
  OK(faults_open(url, &service));
  moonpad_service_release(service);
  snprintf(url, sizeof url, "redis://:secret@127.0.0.1:%d,127.0.0.1:%d", other, port);
  OK(faults_open(url, &service));
  moonpad_service_release(service);
  faults_refuse(replica.url, MOONPAD_STORAGE, "read-only");
  own_server_end(&replica);
  own_server_end(&server);
}

static void test_a_socket(void **state) {
  (void)state;
  own_server server;
  const char *const formats[] = {"redis+unix://:secret@%s/socket?db=2&prefix=x", "redis+unix:%s/socket?db=2&prefix=x"};
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  for (size_t i = 0; i < COUNT(formats); i++) {
    char url[200];
    moonpad_service *service = NULL;
    snprintf(url, sizeof url, formats[i], server.folder);
    if (i == 1) setenv("MOONPAD_PASSWORD", "secret", 1);
    OK(faults_open(url, &service));
    unsetenv("MOONPAD_PASSWORD");
    if (i == 0) OK(moonpad_create_session(service, &name, T("{\"k\":1}"), &session, &failure));
    if (i == 1) OK(moonpad_get_session(service, &name, NULL, &session, &failure));
    STATE(session, "{\"k\":1}");
    moonpad_session_free(session);
    moonpad_service_release(service);
  }
  own_server_end(&server);
}

static void test_replicas_are_waited_for(void **state) {
  (void)state;
  own_server server, replica;
  char url[300];
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", "");
  own_server_make(&replica, SCRIPT, "replica", server.folder);
  snprintf(url, sizeof url, "%s?replicas=1", server.url);
  OK(faults_open(url, &service));
  OK(moonpad_create_session(service, &name, T("{\"k\":1}"), &session, &failure));
  host_append(session, "{\"k\":2}");
  moonpad_service_release(service);
  moonpad_session_free(session);
  own_server_end(&replica);
  faults_open_hasty(url, 100, &service);
  OK(moonpad_get_session(service, &name, NULL, &session, &failure));
  FAILS(MOONPAD_BUSY, moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure));
  faults_say("it is stored, but 0 replicas have it, not 1");
  FAILS(MOONPAD_BUSY, moonpad_update_user_state(service, T("app"), T("u"), T("{\"x\":1}"), T("[]"), &failure));
  OK(moonpad_append_event(session, T("{\"id\":\"e\",\"author\":\"a\"}"), NULL, &failure));
  assert_int_equal(moonpad_session_revision(session), 2);
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* The primary becomes a replica under a service that is open, and a primary again. */
static void test_a_server_that_is_read_only_for_a_while_is_waited_for(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", "");
  faults_open_hasty(server.url, 300, &service);
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  own_server_run(&server, "run", "replicaof 127.0.0.1 1");
  FAILS(MOONPAD_STORAGE, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  faults_say("read-only");
  own_server_run(&server, "run", "replicaof no one");
  const char *event = "{\"id\":\"e\",\"author\":\"a\"}";
  /* It may take the service more than once to come to the server again in so little time. */
  WAIT_UNTIL(moonpad_append_event(session, T(event), NULL, &failure) == MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

/* Two connections are all that the server has, and the pool would take eight. */
static void test_a_server_without_free_connections_is_waited_for(void **state) {
  (void)state;
  own_server server;
  own_server_make(&server, SCRIPT, "start", "maxclients 2");
  faults_wait_for_a_connection(server.url, "maxclients");
  own_server_end(&server);
}

/* ---- memory, durability ---- */

static moonpad_status append_bytes(moonpad_session *session, size_t bytes) {
  char *event = malloc(bytes + 100);
  assert_non_null(event);
  int length = snprintf(event, 100, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":\"");
  memset(event + length, 'x', bytes);
  strcpy(event + (size_t)length + bytes, "\"}}}");
  moonpad_status status = moonpad_append_event(session, moonpad_text(event), NULL, &failure);
  free(event);
  return status;
}

/* At a write of any kind: nothing of it is stored, and all goes on when there is room again. */
static void test_a_full_server_stores_all_or_nothing(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL, *again = NULL;
  moonpad_session_name name = host_name("s"), other = host_name("t"), gone = host_name("gone");
  moonpad_status status = MOONPAD_OK;
  int64_t stored = 0;
  bool existed = false;
  own_server_make(&server, SCRIPT, "start", "maxmemory 4mb");
  faults_open_hasty(server.url, 300, &service);
  OK(moonpad_create_session(service, &gone, T("{\"k\":0}"), &session, &failure));
  moonpad_session_free(session);
  OK(moonpad_create_session(service, &name, T("{\"k\":0}"), &session, &failure));
  for (; status == MOONPAD_OK && stored < 1000; stored++) status = append_bytes(session, 50000);
  assert_int_equal(status, MOONPAD_STORAGE);
  faults_say("memory is full");
  own_server_run(&server, "run", "config set maxmemory 1mb");
  FAILS(MOONPAD_STORAGE, moonpad_create_session(service, &other, T("{\"user:n\":1}"), &again, &failure));
  FAILS(MOONPAD_STORAGE, moonpad_update_user_state(service, T("app"), T("u"), T("{\"x\":1}"), T("[]"), &failure));
  /* What is there can be read, and deleted. */
  OK(moonpad_delete_session(service, &gone, &existed, &failure));
  assert_true(existed);
  OK(moonpad_get_session(service, &name, NULL, &again, &failure));
  assert_int_equal(moonpad_session_revision(again), stored - 1);
  assert_int_equal(host_event_count(again), stored - 1);
  moonpad_session_free(again);
  own_server_run(&server, "run", "config set maxmemory 100mb");
  host_append(session, "{\"k\":1}");
  assert_int_equal(moonpad_session_revision(session), stored);
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(service, &other, NULL, &again, &failure));
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_durability_is_the_servers(void **state) {
  host *self = *state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  int before = self->warnings;
  own_server_make(&server, SCRIPT, "start", "appendfsync everysec");
  OK(moonpad_open(T(server.url), &self->options, &service, &failure));
  assert_int_equal(self->warnings, before + 1);
  assert_non_null(strstr(self->last_said, "without appendfsync always"));
  moonpad_service_release(service);
  snprintf(url, sizeof url, "%s?strict=1", server.url);
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(url), &self->options, &service, &failure));
  faults_say("without appendfsync always");
  own_server_run(&server, "run", "config set maxmemory-policy allkeys-lru");
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(url), &self->options, &service, &failure));
  faults_say("maxmemory-policy");
  own_server_run(&server, "run", "config set maxmemory-policy noeviction");
  own_server_run(&server, "run", "config set appendonly no");
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(url), &self->options, &service, &failure));
  faults_say("without appendonly");
  own_server_run(&server, "run", "config set maxmemory-policy volatile-lru");
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(url), &self->options, &service, &failure));
  faults_say("maxmemory-policy");
  self->options.durability = MOONPAD_DURABILITY_NORMAL;
  OK(moonpad_open(T(url), &self->options, &service, &failure));
  moonpad_service_release(service);
  own_server_end(&server);
}

/* ---- TLS ---- */

static moonpad_status open_with_tls(const char *name, int port, const char *options) {
  char url[300];
  moonpad_service *service = NULL;
  snprintf(url, sizeof url, "rediss://:secret@%s:%d/0%s", name, port, options);
  moonpad_status status = faults_open(url, &service);
  if (service == NULL) return status;
  moonpad_session *session = NULL;
  moonpad_session_name who = host_name("");
  OK(moonpad_create_session(service, &who, T("{\"k\":1}"), &session, &failure));
  host_append(session, "{\"k\":2}");
  moonpad_session_free(session);
  moonpad_service_release(service);
  return status;
}

static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  close(listener);
  return ntohs(address.sin_port);
}

#ifdef MP_REDIS_TLS
static void try_certificates(const own_server *server, const char *folder, int port) {
  char options[200];
  snprintf(options, sizeof options, "?ca=%s/cert0.pem", folder);
  OK(open_with_tls("localhost", port, options));
  /* Another name, another certificate, one that nobody vouches for, none at all. */
  FAILS(MOONPAD_STORAGE, open_with_tls("127.0.0.1", port, options));
  faults_say("its certificate: IP address mismatch");
  snprintf(options, sizeof options, "?ca=%s/cert1.pem", folder);
  FAILS(MOONPAD_STORAGE, open_with_tls("localhost", port, options));
  faults_say("its certificate: ");
  FAILS(MOONPAD_STORAGE, open_with_tls("localhost", port, ""));
  faults_say("its certificate: ");
  FAILS(MOONPAD_STORAGE, open_with_tls("localhost", atoi(linked_port_in((char *)server->url)), ""));
  faults_say("no connection: TLS: ");
  FAILS(MOONPAD_INVALID_ARGUMENT, open_with_tls("localhost", port, "?ca=/not/there"));
  faults_say("option ca: /not/there: No such file or directory");
}

/* The client's own: another one's key, no certificate, a key that wants a password, none at all. */
static void try_own_certificates(const own_server *server, const char *folder, int port) {
  char options[200];
  own_server_run(server, "run", "config set tls-auth-clients yes");
  snprintf(options, sizeof options, "?ca=%s/cert0.pem&cert=%s/cert1.pem&key=%s/key1.pem", folder, folder, folder);
  OK(open_with_tls("localhost", port, options));
  snprintf(options, sizeof options, "?ca=%s/cert0.pem&cert=%s/cert1.pem&key=%s/key0.pem", folder, folder, folder);
  FAILS(MOONPAD_INVALID_ARGUMENT, open_with_tls("localhost", port, options));
  faults_say("option key: ");
  snprintf(options, sizeof options, "?ca=%s/cert0.pem&key=%s/key1.pem", folder, folder);
  FAILS(MOONPAD_INVALID_ARGUMENT, open_with_tls("localhost", port, options));
  faults_say("option key: cert is missing");
  snprintf(options, sizeof options,
           "openssl rsa -aes128 -passout pass:x -in %s/key1.pem -out %s/locked.pem 2>/dev/null", folder, folder);
  assert_int_equal(system(options), 0);
  snprintf(options, sizeof options, "?ca=%s/cert0.pem&cert=%s/cert1.pem&key=%s/locked.pem", folder, folder, folder);
  FAILS(MOONPAD_INVALID_ARGUMENT, open_with_tls("localhost", port, options));
  faults_say("locked.pem: ");
  snprintf(options, sizeof options, "?ca=%s/cert0.pem", folder);
  FAILS(MOONPAD_STORAGE, open_with_tls("localhost", port, options));
  faults_say("does the server want a certificate");
}
#else
/* hiredis has no TLS. */
static void try_certificates(const own_server *server, const char *folder, int port) {
  (void)server, (void)folder;
  FAILS(MOONPAD_UNSUPPORTED, open_with_tls("localhost", port, ""));
  faults_say("a hiredis that has no TLS");
}

static void try_own_certificates(const own_server *server, const char *folder, int port) {
  (void)server, (void)folder, (void)port;
}
#endif

static void test_certificates_are_verified(void **state) {
  (void)state;
  own_server server;
  char folder[] = "/tmp/moonpad-tls-XXXXXX", options[300];
  int port = free_port();
  assert_non_null(mkdtemp(folder));
  faults_make_certificates(folder);
  snprintf(options, sizeof options,
           "tls-port %d tls-cert-file %s/cert0.pem tls-key-file %s/key0.pem tls-ca-cert-file %s/cert1.pem"
           " tls-auth-clients optional",
           port, folder, folder, folder);
  own_server_make(&server, SCRIPT, "start", options);
  try_certificates(&server, folder, port);
  try_own_certificates(&server, folder, port);
  own_server_end(&server);
  snprintf(options, sizeof options, "rm -rf '%s'", folder);
  assert_int_equal(system(options), 0);
}

/* ---- accounts ---- */

static void use_everything(moonpad_service *service) {
  moonpad_session_name name = host_name("long");
  moonpad_session *session = NULL, *fork = NULL;
  bool existed;
  int64_t sessions;
  OK(moonpad_create_session(service, &name, T("{\"k\":1,\"user:n\":99999999999999999,\"app:k\":1}"), &session,
                            &failure));
  for (int i = 0; i < MANY; i++) OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  OK(moonpad_refresh(session, &failure));
  moonpad_value by = moonpad_integer(1), sum;
  OK(moonpad_increment_user_state(service, T("app"), T("u"), T("n"), &by, &sum, &failure));
  OK(moonpad_fork(session, MANY, T("fork"), &fork, &failure));
  moonpad_session_free(fork);
  moonpad_session_free(session);
  OK(moonpad_delete_session(service, &name, &existed, &failure));
  OK(moonpad_delete_user(service, T("app"), T("u"), &sessions, &failure));
}

static void test_an_account_without_rights_is_told(void **state) {
  (void)state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_run(&server, "run", "acl setuser poor on '>secret' '~*' +@all -eval -evalsha -config -info");
  snprintf(url, sizeof url, "redis://poor:secret@127.0.0.1:%d", atoi(linked_port_in(server.url)));
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  faults_say("eval");
  /* What docs/servers.md names is enough. */
  own_server_run(&server, "run",
                 "acl setuser poor resetkeys '~mp:*' nocommands +@connection +@scripting +@hash +@sortedset +@stream"
                 " +@string +select +time +exists +unlink +del +expire +persist");
  OK(faults_open(url, &service));
  use_everything(service);
  moonpad_service_release(service);
  own_server_run(&server, "run", "acl setuser poor resetkeys '~*' +@all -eval -evalsha -config -info");
  /* Whoever may not load scripts, or ask for settings, does without. */
  own_server_run(&server, "run", "acl setuser poor +eval +evalsha -script");
  OK(faults_open(url, &service));
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  OK(moonpad_create_session(service, &name, T("{\"k\":1}"), &session, &failure));
  host_append(session, "{\"k\":2,\"user:k\":2,\"app:k\":2}");
  own_server_run(&server, "run", "acl setuser poor -xadd");
  FAILS(MOONPAD_UNSUPPORTED, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_an_account_may_have_no_password(void **state) {
  (void)state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  own_server_make(&server, SCRIPT, "start", "");
  own_server_run(&server, "run", "acl setuser reader on nopass '~*' +@all -xadd");
  snprintf(url, sizeof url, "redis://reader@127.0.0.1:%d", atoi(linked_port_in(server.url)));
  OK(faults_open(url, &service));
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  FAILS(MOONPAD_UNSUPPORTED, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
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
  faults_say("refuses the user or the password");
  assert_null(strstr(failure.message, "s3cr3t"));
  memmove(found - 1, found + 7, strlen(found + 7) + 1);
  FAILS(MOONPAD_STORAGE, faults_open(url, &service));
  faults_say("refuses the user or the password");
}

#define OWN(test)                                                                                                      \
  { #test " on redis:", test, NULL, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      OWN(test_a_silent_server_is_given_up_soon),
      OWN(test_the_host_that_can_be_written_to_is_found),
      OWN(test_a_socket),
      OWN(test_replicas_are_waited_for),
      OWN(test_a_server_that_is_read_only_for_a_while_is_waited_for),
      OWN(test_a_server_without_free_connections_is_waited_for),
      OWN(test_a_full_server_stores_all_or_nothing),
      OWN(test_certificates_are_verified),
      OWN(test_an_account_without_rights_is_told),
      OWN(test_an_account_may_have_no_password),
      ON_STORE(test_durability_is_the_servers, "redis:"),
      ON_STORE(test_a_wrong_password_is_told_without_it, "redis:"),
  };
  return HOST_RUN(tests);
}
