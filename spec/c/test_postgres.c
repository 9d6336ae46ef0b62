/*
** PostgreSQL and what happens to servers and networks: round trips are counted, answers lost, a
** server killed, a standby promoted. spec/c/link.h stands between where a network has to fail.
*/
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/condition.h"
#include "linked.h"
#include "moonpad_stores.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void increment(moonpad_session *session, const char *key) {
  moonpad_changes *changes = NULL;
  moonpad_value one = moonpad_integer(1);
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, T(key), &one, &failure));
  OK(moonpad_update_session(session, NULL, &failure));
}

static void test_round_trips(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "");
  moonpad_session *session = host_create(scene.self, "s", "{\"n\":1,\"app:n\":1}"), *other = host_get(scene.self, "s");
  moonpad_session_list *list = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_value value, by = moonpad_integer(2);
  moonpad_buffer json = {0};
  bool existed;
  TAKES(1, host_append(session, "{\"k\":1}"));
  TAKES(1, host_append(session, "{\"k\":1,\"user:k\":2,\"app:k\":3}"));
  /* An object that is behind, and others have changed what it adds to. */
  TAKES(1, increment(session, "app:n"));
  TAKES(1, increment(other, "app:n"));
  TAKES(1, increment(session, "n"));
  TAKES(1, increment(other, "user:new"));
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

/* ---- a round trip that is lost, at any place of any call ---- */

typedef void lost_call(host *self, moonpad_session *session, const moonpad_session_name *name);

static void call_append(host *self, moonpad_session *session, const moonpad_session_name *name) {
  (void)self, (void)name;
  host_append(session, "{\"k\":1,\"user:k\":2}");
}

static void call_append_by_id(host *self, moonpad_session *session, const moonpad_session_name *name) {
  (void)self, (void)name;
  OK(moonpad_append_event(session, T("{\"id\":\"given\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[1]}}}"),
                          NULL, &failure));
}

static void call_increment(host *self, moonpad_session *session, const moonpad_session_name *name) {
  (void)self, (void)name;
  increment(session, "n");
}

/* The object is behind, and its sum is one of floats: it is decided in a transaction. */
static void call_locked(host *self, moonpad_session *session, const moonpad_session_name *name) {
  moonpad_changes *changes = NULL;
  moonpad_session *other = NULL;
  moonpad_value half = moonpad_float(0.5);
  (void)session;
  OK(moonpad_get_session(self->service, name, NULL, &other, &failure));
  OK(moonpad_session_changes(other, &changes, &failure));
  OK(moonpad_changes_increment(changes, T("float"), &half, &failure));
  OK(moonpad_update_session(other, NULL, &failure));
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, T("float"), &half, &failure));
  OK(moonpad_update_session(session, NULL, &failure));
  moonpad_session_free(other);
}

static void call_shared(host *self, moonpad_session *session, const moonpad_session_name *name) {
  moonpad_value by = moonpad_integer(2), value;
  (void)session;
  OK(moonpad_increment_user_state(self->service, name->app_name, name->user_id, T("n"), &by, &value, &failure));
  assert_int_equal(value.as.integer, 2);
  OK(moonpad_update_user_state(self->service, name->app_name, name->user_id, T("{\"x\":1}"), T("[]"), &failure));
}

static void call_create(host *self, moonpad_session *session, const moonpad_session_name *name) {
  moonpad_session_name made = *name;
  moonpad_session *another = NULL;
  (void)session;
  made.session_id = T("made");
  OK(moonpad_create_session(self->service, &made, T("{\"k\":1,\"user:made\":1}"), &another, &failure));
  moonpad_session_free(another);
}

static void call_delete(host *self, moonpad_session *session, const moonpad_session_name *name) {
  bool existed;
  (void)session;
  OK(moonpad_delete_session(self->service, name, &existed, &failure));
  assert_true(existed);
}

static void call_fork(host *self, moonpad_session *session, const moonpad_session_name *name) {
  moonpad_session *forked = NULL;
  (void)self, (void)name;
  OK(moonpad_fork(session, 1, T("forked"), &forked, &failure));
  moonpad_session_free(forked);
}

static void call_rewind(host *self, moonpad_session *session, const moonpad_session_name *name) {
  (void)self, (void)name;
  OK(moonpad_rewind_to_revision(session, 1, NULL, &failure));
}

static void call_read(host *self, moonpad_session *session, const moonpad_session_name *name) {
  moonpad_session *got = NULL;
  moonpad_session_list *list = NULL;
  moonpad_buffer json = {0};
  OK(moonpad_get_session(self->service, name, NULL, &got, &failure));
  moonpad_session_free(got);
  OK(moonpad_list_sessions(self->service, name->app_name, NULL, &list, &failure));
  moonpad_session_list_free(list);
  OK(moonpad_state_at(session, 1, &json, &failure));
  moonpad_buffer_free(&json);
}

static const struct {
  const char *name;
  lost_call *run;
} lost_calls[] = {{"append", call_append},       {"append by id", call_append_by_id},
                  {"increment", call_increment}, {"a sum of floats", call_locked},
                  {"user state", call_shared},   {"create", call_create},
                  {"delete", call_delete},       {"fork", call_fork},
                  {"rewind", call_rewind},       {"read", call_read}};

/* What is stored of a user, as text for the caller to free. */
static char *describe(host *self, moonpad_string user) {
  static const char *const ids[] = {"s", "made", "forked"};
  char *text = calloc(1, 4096);
  moonpad_buffer json = {0};
  assert_non_null(text);
  OK(moonpad_get_user_state(self->service, T("app"), user, &json, &failure));
  int at = snprintf(text, 4096, "user %s\n", json.data);
  moonpad_buffer_free(&json);
  for (size_t i = 0; i < COUNT(ids); i++) {
    moonpad_session_name name = {T("app"), user, T(ids[i])};
    moonpad_session *session = NULL;
    moonpad_status status = moonpad_get_session(self->service, &name, NULL, &session, &failure);
    if (status == MOONPAD_NOT_FOUND) continue;
    OK(status);
    OK(moonpad_session_state(session, &json, &failure));
    at += snprintf(text + at, (size_t)(4096 - at), "%s: %" PRId64 ", %zu events, %s\n", ids[i],
                   moonpad_session_revision(session), host_event_count(session), json.data);
    moonpad_buffer_free(&json);
    moonpad_session_free(session);
  }
  return text;
}

/*
** One call of a user of its own. n 0: nothing breaks. m 0: no answer is lost after that. Returns
** what is stored then.
*/
static char *try_call(linked *scene, size_t call, link_fault fault, int n, int m, bool *has_broken) {
  static int users;
  char user[32];
  snprintf(user, sizeof user, "user%d", ++users);
  moonpad_session_name name = {T("app"), T(user), T("s")};
  moonpad_session *session = NULL;
  OK(moonpad_create_session(scene->self->service, &name, T("{\"n\":1,\"float\":0.5}"), &session, &failure));
  host_append(session, "{\"first\":1}");
  host_append(session, "{\"second\":1}");
  if (n > 0) link_break_twice(scene->link, fault, n, LINK_CUT_ANSWER, m);
  lost_calls[call].run(scene->self, session, &name);
  *has_broken = n > 0 && link_has_broken(scene->link);
  link_mend(scene->link);
  moonpad_session_free(session);
  return describe(scene->self, name.user_id);
}

static void lose_round_trips(linked *scene, size_t call, link_fault fault) {
  bool has_broken = true;
  char *expected = try_call(scene, call, fault, 0, 0, &has_broken);
  int n = 0;
  do {
    char *found = try_call(scene, call, fault, ++n, 0, &has_broken);
    if (strcmp(expected, found) != 0) {
      fail_msg("%s, %s of round trip %d lost: expected\n%sfound\n%s", lost_calls[call].name,
               fault == LINK_CUT_ANSWER ? "answer" : "request", n, expected, found);
    }
    free(found);
  } while (has_broken);
  assert_true(n > 1);
  free(expected);
}

static void test_what_is_lost_takes_effect_once(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "");
  for (size_t call = 0; call < COUNT(lost_calls); call++) {
    lose_round_trips(&scene, call, LINK_CUT_ANSWER);
    lose_round_trips(&scene, call, LINK_CUT_REQUEST);
  }
  linked_close(&scene);
}

/*
** The COMMIT is lost, and then an answer to what is asked because of it: that the question has
** given the COMMIT up must not pass for the COMMIT.
*/
static void test_the_answer_about_a_commit_is_lost_as_well(void **state) {
  (void)state;
  static const link_fault faults[] = {LINK_CUT_REQUEST, LINK_CUT_ANSWER};
  static const size_t user_state = 4;
  static const int commit = 2;
  linked scene;
  bool has_broken;
  linked_open(&scene, "");
  assert_string_equal(lost_calls[user_state].name, "user state");
  char *expected = try_call(&scene, user_state, LINK_CUT_ANSWER, 0, 0, &has_broken);
  for (size_t i = 0; i < COUNT(faults); i++) {
    int m = 0;
    do {
      char *found = try_call(&scene, user_state, faults[i], commit, ++m, &has_broken);
      if (strcmp(expected, found) != 0) fail_msg("fault %zu, then %d: expected\n%sfound\n%s", i, m, expected, found);
      free(found);
    } while (has_broken);
    assert_true(m > 3);
  }
  free(expected);
  linked_close(&scene);
}

/* ---- a server that says nothing ---- */

static void test_a_silent_server_is_given_up(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "&connect_timeout=2");
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
  linked_open(&scene, "");
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

/* ---- servers of these tests' own ---- */

#define SERVER_SCRIPT "spec/servers/postgresql.sh"

typedef struct own_server {
  char folder[64];
  char url[256];
} own_server;

static void run_script(const char *verb, const char *folder, const char *more) {
  char command[256];
  snprintf(command, sizeof command, SERVER_SCRIPT " %s %s %s", verb, folder, more);
  int result = system(command);
  if (result != 0) fail_msg("%s: %d", command, result);
}

static void take_url(own_server *server) {
  char command[128];
  snprintf(command, sizeof command, SERVER_SCRIPT " url %s", server->folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(server->url, sizeof server->url, pipe));
  server->url[strcspn(server->url, "\n")] = '\0';
  pclose(pipe);
}

static void make_server(own_server *server, const char *verb, const char *more) {
  strcpy(server->folder, "/tmp/moonpad-server-XXXXXX");
  assert_non_null(mkdtemp(server->folder));
  run_script(verb, server->folder, more);
  take_url(server);
}

static void end_server(own_server *server) {
  char command[128];
  run_script("stop", server->folder, "");
  snprintf(command, sizeof command, "rm -rf '%s'", server->folder);
  assert_int_equal(system(command), 0);
}

static moonpad_status open_on(const char *url, int64_t busy_timeout_ms, moonpad_service **service) {
  const moonpad_store_scheme stores[] = {{"postgresql", moonpad_postgres_store()}};
  moonpad_options options;
  moonpad_options_init(&options);
  options.stores = stores;
  options.store_count = 1;
  options.busy_timeout_ms = busy_timeout_ms;
  return moonpad_open(T(url), &options, service, &failure);
}

/* ---- eight writers, and a server that dies ---- */

#define WRITERS 8

typedef struct writer {
  pthread_t thread;
  moonpad_service *service;
  int number;
  atomic_bool *ends;
  int stored;  /* appends that were acknowledged */
  int unknown; /* those that failed: they may have been stored */
  moonpad_error last;
} writer;

static void *write_on(void *context) {
  writer *self = context;
  char id[16];
  snprintf(id, sizeof id, "s%d", self->number);
  moonpad_session_name name = host_name(id);
  moonpad_session *session = NULL;
  moonpad_error error;
  if (moonpad_create_session(self->service, &name, T("{}"), &session, &error) != MOONPAD_OK) return NULL;
  while (!atomic_load(self->ends)) {
    moonpad_changes *changes = NULL;
    moonpad_value one = moonpad_integer(1);
    moonpad_session_changes(session, &changes, &error);
    moonpad_changes_increment(changes, T("app:n"), &one, &error);
    if (moonpad_update_session(session, NULL, &self->last) == MOONPAD_OK) {
      self->stored++;
    } else {
      self->unknown++;
      moonpad_changes_discard(changes);
    }
  }
  moonpad_session_free(session);
  return NULL;
}

static void start_writers(writer *writers, moonpad_service *service, atomic_bool *ends) {
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (writer){.service = service, .number = i, .ends = ends};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
  }
}

/* Every acknowledged event is there once, and the counter is the number of events. */
static void check_writers(writer *writers, moonpad_service *service) {
  int64_t events = 0, stored = 0, unknown = 0;
  moonpad_buffer json = {0};
  char expected[64];
  for (int i = 0; i < WRITERS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    moonpad_session_name name = host_name(id);
    moonpad_session *session = NULL;
    pthread_join(writers[i].thread, NULL);
    OK(moonpad_get_session(service, &name, NULL, &session, &failure));
    int64_t found = moonpad_session_revision(session);
    assert_true(found >= writers[i].stored && found <= writers[i].stored + writers[i].unknown);
    if (writers[i].unknown > 0) print_message("writer %d: %s\n", i, writers[i].last.message);
    events += found;
    stored += writers[i].stored;
    unknown += writers[i].unknown;
    moonpad_session_free(session);
  }
  OK(moonpad_get_app_state(service, T("app"), &json, &failure));
  snprintf(expected, sizeof expected, "{\"n\":%" PRId64 "}", events);
  print_message("%" PRId64 " events, %" PRId64 " acknowledged, %" PRId64 " not known\n", events, stored, unknown);
  GIVES(json, expected);
}

static void pause_for(long milliseconds) {
  poll(NULL, 0, (int)milliseconds);
}

static void test_a_killed_server_loses_nothing(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  moonpad_service *service = NULL;
  make_server(&server, "start", "");
  OK(open_on(server.url, 30000, &service));
  start_writers(writers, service, &ends);
  for (int i = 0; i < 3; i++) {
    pause_for(300);
    run_script("kill", server.folder, "");
    run_script("again", server.folder, "");
  }
  pause_for(300);
  atomic_store(&ends, true);
  check_writers(writers, service);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(writers[i].unknown, 0);
  moonpad_service_release(service);
  end_server(&server);
}

/* Both hosts stand in the URL. The standby is synchronous, so it has all that was acknowledged. */
static void test_a_promoted_standby_is_found(void **state) {
  (void)state;
  own_server primary, standby;
  writer writers[WRITERS];
  atomic_bool ends = false;
  char url[600];
  moonpad_service *service = NULL;
  make_server(&primary, "start", "");
  make_server(&standby, "standby", primary.folder);
  snprintf(url, sizeof url, "postgresql://moonpad:secret@127.0.0.1:%d,127.0.0.1:%d/moonpad?connect_timeout=2",
           atoi(linked_port_in(primary.url)), atoi(linked_port_in(standby.url)));
  OK(open_on(url, 30000, &service));
  run_script("synchronous", primary.folder, "");
  start_writers(writers, service, &ends);
  pause_for(500);
  run_script("kill", primary.folder, "");
  run_script("promote", standby.folder, "");
  double promoted = mp_monotonic();
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("after");
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  assert_true(mp_monotonic() - promoted < 10);
  moonpad_session_free(session);
  pause_for(500);
  atomic_store(&ends, true);
  check_writers(writers, service);
  moonpad_service_release(service);
  end_server(&standby);
  run_script("again", primary.folder, "");
  end_server(&primary);
}

static void test_a_standby_alone_is_read_only(void **state) {
  (void)state;
  own_server primary, standby;
  moonpad_service *service = NULL;
  make_server(&primary, "start", "");
  make_server(&standby, "standby", primary.folder);
  FAILS(MOONPAD_STORAGE, open_on(standby.url, 100, &service));
  if (strstr(failure.message, "read-only") == NULL) fail_msg("%s", failure.message);
  end_server(&standby);
  end_server(&primary);
}

/* Two connections are all that the server has for it, and the pool would take eight. */
static void test_a_server_without_free_connections_is_waited_for(void **state) {
  (void)state;
  own_server server;
  writer writers[WRITERS];
  atomic_bool ends = false;
  char url[300];
  moonpad_service *service = NULL, *second = NULL;
  make_server(&server, "start", "max_connections=5 superuser_reserved_connections=3");
  snprintf(url, sizeof url, "%s?pool=8", server.url);
  OK(open_on(url, 30000, &service));
  start_writers(writers, service, &ends);
  pause_for(500);
  atomic_store(&ends, true);
  check_writers(writers, service);
  /* A shorter time might be over before it is refused, on a machine that is busy. */
  FAILS(MOONPAD_BUSY, open_on(url, 3000, &second));
  if (strstr(failure.message, "connection slots") == NULL) fail_msg("%s", failure.message);
  moonpad_service_release(service);
  OK(open_on(url, 5000, &second));
  moonpad_service_release(second);
  end_server(&server);
}

/* ---- accounts, processes ---- */

static void test_an_account_without_rights_is_told(void **state) {
  (void)state;
  own_server server;
  char url[300];
  moonpad_service *service = NULL;
  make_server(&server, "start", "");
  run_script("account", server.folder, "poor");
  snprintf(url, sizeof url, "postgresql://poor:secret@127.0.0.1:%d/moonpad", atoi(linked_port_in(server.url)));
  FAILS(MOONPAD_UNSUPPORTED, open_on(url, 1000, &service));
  if (strstr(failure.message, "may not make") == NULL) fail_msg("%s", failure.message);
  /* The schema is there, and is not for this account. */
  OK(open_on(server.url, 1000, &service));
  moonpad_service_release(service);
  FAILS(MOONPAD_UNSUPPORTED, open_on(url, 1000, &service));
  if (strstr(failure.message, "may not use") == NULL) fail_msg("%s", failure.message);
  end_server(&server);
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
    moonpad_status opened = open_on(url, 20000, &service);
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
