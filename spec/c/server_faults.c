/* See server_faults.h. */
#include "server_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moonpad_stores.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void faults_increment(moonpad_session *session, const char *key) {
  moonpad_changes *changes = NULL;
  moonpad_value one = moonpad_integer(1);
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, T(key), &one, &failure));
  OK(moonpad_update_session(session, NULL, &failure));
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
  faults_increment(session, "n");
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

/* Whoever has found another host stays there, unless it begins anew. */
static void break_link(linked *scene, link_fault fault, int n, int m) {
  if (scene->breaks_for_good) {
    link_break_for_good(scene->link, fault, n);
  } else {
    link_break_twice(scene->link, fault, n, LINK_CUT_ANSWER, m);
  }
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
  if (scene->breaks_for_good) host_reopen(scene->self);
  OK(moonpad_create_session(scene->self->service, &name, T("{\"n\":1,\"float\":0.5}"), &session, &failure));
  host_append(session, "{\"first\":1}");
  host_append(session, "{\"second\":1}");
  if (n > 0) break_link(scene, fault, n, m);
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

void faults_lose_each_round_trip(linked *scene) {
  for (size_t call = 0; call < COUNT(lost_calls); call++) {
    lose_round_trips(scene, call, LINK_CUT_ANSWER);
    lose_round_trips(scene, call, LINK_CUT_REQUEST);
  }
}

/* That the question has given the COMMIT up must not pass for the COMMIT. */
void faults_lose_commit_and_answer(linked *scene, int commit) {
  static const link_fault faults[] = {LINK_CUT_REQUEST, LINK_CUT_ANSWER};
  static const size_t user_state = 4;
  bool has_broken;
  assert_string_equal(lost_calls[user_state].name, "user state");
  char *expected = try_call(scene, user_state, LINK_CUT_ANSWER, 0, 0, &has_broken);
  for (size_t i = 0; i < COUNT(faults); i++) {
    int m = 0;
    do {
      char *found = try_call(scene, user_state, faults[i], commit, ++m, &has_broken);
      if (strcmp(expected, found) != 0) fail_msg("fault %zu, then %d: expected\n%sfound\n%s", i, m, expected, found);
      free(found);
    } while (has_broken);
    assert_true(m > 3);
  }
  free(expected);
}

/* ---- servers of a test's own ---- */

void own_server_run(const own_server *server, const char *verb, const char *more) {
  char command[512];
  snprintf(command, sizeof command, "%s %s %s %s", server->script, verb, server->folder, more);
  int result = system(command);
  if (result != 0) fail_msg("%s: %d", command, result);
}

static void take_url(own_server *server) {
  char command[128];
  snprintf(command, sizeof command, "%s url %s", server->script, server->folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(server->url, sizeof server->url, pipe));
  server->url[strcspn(server->url, "\n")] = '\0';
  pclose(pipe);
}

/* Those that are there: a test that fails leaves them behind. */
#define MOST_SERVERS 16
static own_server living[MOST_SERVERS];

static own_server *find_living(const char *folder) {
  for (size_t i = 0; i < MOST_SERVERS; i++) {
    if (strcmp(living[i].folder, folder) == 0) return &living[i];
  }
  return NULL;
}

static void stop(own_server *server) {
  char command[256];
  snprintf(command, sizeof command, "%s stop '%s'; rm -rf '%s'", server->script, server->folder, server->folder);
  if (system(command) != 0) fprintf(stderr, "%s\n", command);
  server->folder[0] = '\0';
}

static void stop_living(void) {
  for (size_t i = 0; i < MOST_SERVERS; i++) {
    if (living[i].folder[0] != '\0') stop(&living[i]);
  }
}

static void note_living(const own_server *server) {
  static bool is_registered;
  own_server *room = find_living("");
  assert_non_null(room);
  if (!is_registered) atexit(stop_living);
  is_registered = true;
  *room = *server;
}

void own_server_make(own_server *server, const char *script, const char *verb, const char *more) {
  server->script = script;
  strcpy(server->folder, "/tmp/moonpad-server-XXXXXX");
  assert_non_null(mkdtemp(server->folder));
  note_living(server);
  own_server_run(server, verb, more);
  take_url(server);
}

void own_server_end(own_server *server) {
  stop(find_living(server->folder));
}

void faults_say(const char *text) {
  if (strstr(failure.message, text) == NULL) fail_msg("no \"%s\" in: %s", text, failure.message);
}

moonpad_status faults_open_within(const char *url, int64_t busy_timeout_ms, moonpad_service **service) {
  const moonpad_store_scheme stores[] = {
      {"postgresql", moonpad_postgres_store()}, {"mysql", moonpad_mysql_store()},
      {"redis", moonpad_redis_store()},         {"redis+unix", moonpad_redis_store()},
      {"rediss", moonpad_redis_tls_store()},    {"redis+cluster", moonpad_redis_cluster_store()}};
  moonpad_options options;
  moonpad_options_init(&options);
  options.stores = stores;
  options.store_count = COUNT(stores);
  options.busy_timeout_ms = busy_timeout_ms;
  return moonpad_open(T(url), &options, service, &failure);
}

moonpad_status faults_open(const char *url, moonpad_service **service) {
  return faults_open_within(url, TIMEOUT_MS, service);
}

void faults_open_hasty(const char *url, int64_t busy_timeout_ms, moonpad_service **service) {
  WAIT_UNTIL(faults_open_within(url, busy_timeout_ms, service) == MOONPAD_OK);
}

void faults_refuse(const char *url, moonpad_status status, const char *says) {
  moonpad_service *service = NULL;
  int64_t busy_timeout_ms = 1000;
  /* It may be too short to come to the server at all. */
  while (faults_open_within(url, busy_timeout_ms, &service) != status || strstr(failure.message, says) == NULL) {
    assert_null(service);
    if (busy_timeout_ms > TIMEOUT_MS / 4) fail_msg("no \"%s\" in: %s", says, failure.message);
    busy_timeout_ms *= 4;
  }
}

void faults_make_certificates(const char *folder) {
  char command[512];
  for (int i = 0; i < 2; i++) {
    snprintf(
        command, sizeof command,
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
        " -keyout %s/key%d.pem -out %s/cert%d.pem 2>/dev/null && chmod 644 %s/*.pem",
        folder, i, folder, i, folder);
    assert_int_equal(system(command), 0);
  }
}

/* Many open it at the same time, when there is nothing yet. */
void faults_open_by_many(const char *url) {
  pid_t children[6];
  for (size_t i = 0; i < COUNT(children); i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    moonpad_service *service = NULL;
    moonpad_status opened = faults_open(url, &service);
    if (opened != MOONPAD_OK) fprintf(stderr, "%s\n", failure.message);
    if (service != NULL) moonpad_service_release(service);
    _exit(opened == MOONPAD_OK ? 0 : 1);
  }
  for (size_t i = 0; i < COUNT(children); i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

/* ---- eight writers, and a server that dies ---- */

static void *write_on(void *context) {
  writer *self = context;
  char id[16];
  snprintf(id, sizeof id, "s%d", self->number);
  moonpad_session_name name = host_name(id);
  moonpad_session *session = NULL;
  moonpad_error error;
  if (moonpad_create_session(self->service, &name, T("{}"), &session, &self->last) != MOONPAD_OK) {
    self->unknown++;
    return NULL;
  }
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

static void start_writer(writer *self, moonpad_service *service, int number, atomic_bool *ends) {
  *self = (writer){.service = service, .number = number, .ends = ends};
  assert_int_equal(pthread_create(&self->thread, NULL, write_on, self), 0);
}

void writers_start_on(writer *writers, moonpad_service *even, moonpad_service *odd, atomic_bool *ends) {
  for (int i = 0; i < WRITERS; i++) start_writer(&writers[i], i % 2 == 0 ? even : odd, i, ends);
}

void writers_start(writer *writers, moonpad_service *service, atomic_bool *ends) {
  writers_start_on(writers, service, service, ends);
}

void writers_start_from(writer *writers, int first, moonpad_service *service, atomic_bool *ends) {
  for (int i = 0; i < WRITERS; i++) start_writer(&writers[i], service, first + i, ends);
}

#define MORE 10

void writers_go_on(const writer *writers) {
  int before[WRITERS];
  for (int i = 0; i < WRITERS; i++) before[i] = atomic_load(&writers[i].stored);
  for (int i = 0; i < WRITERS; i++) WAIT_UNTIL(atomic_load(&writers[i].stored) >= before[i] + MORE);
}

void writers_join(writer *writers) {
  for (int i = 0; i < WRITERS; i++) {
    if (!writers[i].is_over) pthread_join(writers[i].thread, NULL);
    writers[i].is_over = true;
  }
}

static int64_t count_events(const writer *writers, moonpad_service *service, bool is_whole) {
  int64_t events = 0, stored = 0, unknown = 0;
  for (int i = 0; i < WRITERS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", writers[i].number);
    moonpad_session_name name = host_name(id);
    moonpad_session *session = NULL;
    if (writers[i].unknown > 0) print_message("writer %s: %s\n", id, writers[i].last.message);
    OK(moonpad_get_session(service, &name, NULL, &session, &failure));
    int64_t found = moonpad_session_revision(session);
    if ((is_whole && found < writers[i].stored) || found > writers[i].stored + writers[i].unknown) {
      fail_msg("writer %s: %d acknowledged, %d not known, found %" PRId64, id, writers[i].stored, writers[i].unknown,
               found);
    }
    events += found;
    stored += writers[i].stored;
    unknown += writers[i].unknown;
    moonpad_session_free(session);
  }
  print_message("%" PRId64 " events, %" PRId64 " acknowledged, %" PRId64 " not known\n", events, stored, unknown);
  return events;
}

int64_t writers_count(const writer *writers, moonpad_service *service) {
  return count_events(writers, service, true);
}

void writers_check_sum(moonpad_service *service, int64_t events) {
  moonpad_buffer json = {0};
  char expected[64];
  OK(moonpad_get_app_state(service, T("app"), &json, &failure));
  snprintf(expected, sizeof expected, "{\"n\":%" PRId64 "}", events);
  GIVES(json, expected);
}

void writers_check(writer *writers, moonpad_service *service) {
  writers_join(writers);
  writers_check_sum(service, count_events(writers, service, true));
}

void writers_check_what_is_left(writer *writers, moonpad_service *service) {
  writers_join(writers);
  writers_check_sum(service, count_events(writers, service, false));
}

void faults_wait_for_a_connection(const char *url, const char *says) {
  writer writers[WRITERS];
  atomic_bool ends = false;
  char with_pool[300];
  moonpad_service *service = NULL;
  snprintf(with_pool, sizeof with_pool, "%s?pool=8", url);
  OK(faults_open(with_pool, &service));
  writers_start(writers, service, &ends);
  writers_go_on(writers);
  atomic_store(&ends, true);
  writers_check(writers, service);
  faults_refuse(with_pool, MOONPAD_BUSY, says);
  moonpad_service_release(service);
  OK(faults_open(with_pool, &service));
  moonpad_service_release(service);
}
