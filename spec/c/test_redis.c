/*
** Redis: scripts, others at the same time, keys, long histories. Hosts, replicas and accounts are
** in test_redis_hosts.c; what every server has to stand is in test_server_faults.c.
*/
#include <stdio.h>

#include "base/platform.h"
#include "redis_support.h"
#include "server_faults.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SCRIPT       "spec/servers/redis.sh"
#define MANY         1200 /* events: too many for one script */

static const char *behind_scheme(const host *self) {
  return strchr(self->url, ':') + 1;
}

/* A server that has forgotten the scripts is told them again. */
static void test_forgotten_scripts(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL, *other = NULL;
  moonpad_session_name name = host_name("s");
  own_server_make(&server, SCRIPT, "start", "");
  OK(faults_open(server.url, &service));
  OK(moonpad_create_session(service, &name, T("{}"), &session, &failure));
  own_server_run(&server, "run", "script flush");
  for (int i = 0; i < 100; i++) {
    OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
    if (i % 10 == 0) own_server_run(&server, "run", "script flush");
  }
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(moonpad_session_revision(session), 100);
  own_server_run(&server, "run", "script flush");
  OK(moonpad_get_session(service, &name, NULL, &other, &failure));
  assert_int_equal(host_event_count(other), 100);
  moonpad_session_free(other);
  moonpad_session_free(session);
  moonpad_service_release(service);
  own_server_end(&server);
}

static void test_an_old_server_is_refused(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "redis:", "");
  moonpad_service *service = NULL;
  char version[16], text[64], other[64];
  const char *found = strstr(redis_run(behind_scheme(scene.self), "HELLO", "2", NULL), "version ");
  assert_true(found != NULL && sscanf(found, "version %15s", version) == 1);
  int bytes = snprintf(text, sizeof text, "version\r\n$%zu\r\n%c.", strlen(version), version[0]);
  snprintf(other, sizeof other, "version\r\n$%zu\r\n5.", strlen(version));
  link_replace(scene.link, text, other, (size_t)bytes);
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T(scene.self->url), &scene.self->options, &service, &failure));
  faults_say("needs 6.0");
  linked_close(&scene);
}

/* ---- others at the same time ---- */

#define SESSIONS 20

static void count_stored(void *context, moonpad_session *session, const moonpad_event *event,
                         const moonpad_error *error) {
  (void)session, (void)event;
  if (error != NULL) fail_msg("%s", error->message);
  ++*(int *)context;
}

/* Appends that wait while the server lets nobody write go there in one round trip. */
static void test_a_batch_takes_one_round_trip(void **state) {
  (void)state;
  own_server server;
  moonpad_service *service = NULL;
  moonpad_session *sessions[SESSIONS];
  char url[300], id[16];
  int stored = 0;
  own_server_make(&server, SCRIPT, "start", "");
  test_link *link = link_open(atoi(linked_port_in(server.url)));
  assert_non_null(link);
  snprintf(url, sizeof url, "redis://:secret@127.0.0.1:%d/0", link_port(link));
  OK(faults_open(url, &service));
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(id, sizeof id, "s%d", i);
    moonpad_session_name name = {T(i % 2 == 0 ? "app" : "other"), T("u"), T(id)};
    OK(moonpad_create_session(service, &name, T("{}"), &sessions[i], &failure));
  }
  own_server_run(&server, "run", "client pause 600000 write");
  long before = link_round_trips(link);
  for (int i = 0; i < SESSIONS; i++) {
    const char *event = "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1,\"user:k\":1,\"app:k\":1}}}";
    OK(moonpad_append_event_async(sessions[i], moonpad_text(event), count_stored, &stored, &failure));
    /* The first one keeps the worker. */
    if (i == 0) WAIT_UNTIL(link_round_trips(link) > before);
  }
  own_server_run(&server, "run", "client unpause");
  while (stored < SESSIONS) assert_true(moonpad_poll(service, TIMEOUT_MS) > 0);
  assert_int_equal(link_round_trips(link) - before, 2);
  for (int i = 0; i < SESSIONS; i++) moonpad_session_free(sessions[i]);
  moonpad_service_release(service);
  link_close(link);
  own_server_end(&server);
}

typedef struct appender {
  pthread_t thread;
  moonpad_service *service;
  atomic_bool ends;
  atomic_int appended;
} appender;

/* Changes the app's state all the time. */
static void *count_on(void *context) {
  appender *self = context;
  moonpad_error error;
  bool is_well = true;
  while (is_well && !atomic_load(&self->ends)) {
    is_well = moonpad_update_app_state(self->service, T("app"), T("{\"n\":1}"), T("[]"), &error) == MOONPAD_OK;
    self->appended += is_well;
  }
  if (!is_well) fprintf(stderr, "%s\n", error.message);
  return NULL;
}

static void *append_on(void *context) {
  appender *self = context;
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  moonpad_error error;
  bool is_well = moonpad_get_session(self->service, &name, NULL, &session, &error) == MOONPAD_OK;
  while (is_well && !atomic_load(&self->ends)) {
    is_well = moonpad_append_event(session, T("{\"author\":\"b\"}"), NULL, &error) == MOONPAD_OK;
    self->appended += is_well;
  }
  if (!is_well) fprintf(stderr, "%s\n", error.message);
  moonpad_session_free(session);
  return NULL;
}

static moonpad_session *fork_as(linked *scene, moonpad_session *session, int64_t revision, const char *id,
                                long *round_trips) {
  moonpad_session *fork = NULL;
  long before = link_round_trips(scene->link);
  OK(moonpad_fork(session, revision, T(id), &fork, &failure));
  *round_trips += link_round_trips(scene->link) - before;
  return fork;
}

/*
** Who is asked again because of what others write is asked for ever, while he who waits long enough
** may be lucky: so what counts is how often the server is asked, beside a fork that is alone.
*/
static void expect_few_round_trips(long found, int forks, long alone) {
  if (found > 5 * alone * forks) fail_msg("%ld round trips for %d forks, %ld alone", found, forks, alone);
}

/* A session that grows all the time can be forked all the same. */
static void test_a_session_that_grows_can_be_forked(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "redis:", "");
  host *self = scene.self;
  appender other = {.ends = false};
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  long alone = 0, beside = 0;
  int forks = 0;
  host_append(session, "{\"k\":2}");
  moonpad_session_free(fork_as(&scene, session, 1, "alone", &alone));
  OK(moonpad_open(T(scene.direct), &self->options, &other.service, &failure));
  assert_int_equal(pthread_create(&other.thread, NULL, append_on, &other), 0);
  double limit = time_limit();
  for (; forks < 20 || (atomic_load(&other.appended) <= 20 && mp_monotonic() < limit); forks++) {
    char id[16];
    snprintf(id, sizeof id, "f%d", forks);
    OK(moonpad_refresh(session, &failure));
    int64_t revision = moonpad_session_revision(session);
    moonpad_session *fork = fork_as(&scene, session, revision, id, &beside);
    assert_int_equal(moonpad_session_revision(fork), revision);
    assert_int_equal(host_event_count(fork), revision);
    STATE(fork, "{\"k\":2}");
    moonpad_session_free(fork);
  }
  atomic_store(&other.ends, true);
  pthread_join(other.thread, NULL);
  assert_true(other.appended > 20);
  expect_few_round_trips(beside, forks, alone);
  moonpad_session_free(session);
  moonpad_service_release(other.service);
  linked_close(&scene);
}

static const char message[] = "{\"author\":\"user\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}}";

/* It has a long history, of which nothing is there any more. */
static void test_a_trimmed_session_can_be_forked(void **state) {
  host *self = *state;
  moonpad_session *fork = NULL;
  self->options.max_events = 1;
  host_reopen(self);
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  for (int i = 0; i < MANY; i++) OK(moonpad_append_event_async(session, T(message), NULL, NULL, &failure));
  OK(moonpad_refresh(session, &failure));
  for (int i = 0; i < 2; i++) OK(moonpad_append_event(session, T(message), NULL, &failure));
  OK(moonpad_fork(session, MANY + 1, T("fork"), &fork, &failure));
  assert_int_equal(moonpad_session_revision(fork), MANY + 1);
  assert_int_equal(host_event_count(fork), 0);
  STATE(fork, "{\"k\":1}");
  moonpad_session_free(fork);
  moonpad_session_free(session);
}

/* The first and the last of MANY are there. */
static void expect_events(moonpad_session *session) {
  for (size_t i = 0; i < MANY; i += MANY - 1) {
    moonpad_event *event = NULL;
    OK(moonpad_session_event(session, i, &event, &failure));
    moonpad_event_free(event);
  }
}

/* Nor does a busy app keep a long session from being forked, whose history goes in many parts. */
static void test_a_session_of_a_busy_app_can_be_forked(void **state) {
  (void)state;
  linked scene;
  linked_open(&scene, "redis:", "");
  host *self = scene.self;
  appender other = {.ends = false};
  moonpad_session *session = host_create(self, "s", "{}");
  long alone = 0, beside = 0;
  int forks = 0;
  for (int i = 0; i < MANY; i++) OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  OK(moonpad_refresh(session, &failure));
  moonpad_session_free(fork_as(&scene, session, MANY, "alone", &alone));
  OK(moonpad_open(T(scene.direct), &self->options, &other.service, &failure));
  assert_int_equal(pthread_create(&other.thread, NULL, count_on, &other), 0);
  double limit = time_limit();
  for (; forks < 5 || (atomic_load(&other.appended) <= 20 && mp_monotonic() < limit); forks++) {
    char id[16];
    snprintf(id, sizeof id, "f%d", forks);
    moonpad_session *fork = fork_as(&scene, session, MANY, id, &beside);
    expect_events(fork);
    moonpad_session_free(fork);
  }
  atomic_store(&other.ends, true);
  pthread_join(other.thread, NULL);
  assert_true(other.appended > 20);
  expect_few_round_trips(beside, forks, alone);
  moonpad_session_free(session);
  moonpad_service_release(other.service);
  linked_close(&scene);
}

/* A history that went in parts before the commit is as whole as a short one. */
static void test_what_no_replica_has_is_kept_whole(void **state) {
  host *self = *state;
  char url[300];
  moonpad_service *service = NULL;
  moonpad_session *session = host_create(self, "s", "{}"), *fork = NULL;
  for (int i = 0; i < MANY; i++) OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  OK(moonpad_refresh(session, &failure));
  moonpad_session_free(session);
  snprintf(url, sizeof url, "%s&replicas=1", self->url);
  faults_open_hasty(url, 100, &service);
  moonpad_session_name name = host_name("s");
  OK(moonpad_get_session(service, &name, NULL, &session, &failure));
  FAILS(MOONPAD_BUSY, moonpad_fork(session, MANY, T("fork"), &fork, &failure));
  faults_say("it is stored, but 0 replicas have it, not 1");
  moonpad_session_free(session);
  moonpad_service_release(service);
  fork = host_get(self, "fork");
  assert_int_equal(moonpad_session_revision(fork), MANY);
  expect_events(fork);
  moonpad_session_free(fork);
}

/* ---- keys ---- */

static void test_keys_of_others_are_refused(void **state) {
  host *self = *state;
  const char *rest = behind_scheme(self);
  moonpad_service *service = NULL;
  char url[300];
  redis_run(rest, "SET", "#schema", "2", NULL);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(self->url, &service));
  faults_say("newer moonpad: schema 2");
  redis_run(rest, "SET", "#schema", "what?", NULL);
  FAILS(MOONPAD_CORRUPT, faults_open(self->url, &service));
  redis_run(rest, "DEL", "#schema", NULL);
  snprintf(url, sizeof url, "%s&migrate=off", self->url);
  FAILS(MOONPAD_UNSUPPORTED, faults_open(url, &service));
  faults_say("migrate=off");
  assert_int_equal(redis_number(rest, "EXISTS", "#schema"), 0);
}

/* The numbers of the next app are its own. */
static void test_an_app_gives_no_numbers_of_another(void **state) {
  host *self = *state;
  moonpad_session_name name = host_name("t");
  moonpad_session *session = NULL;
  moonpad_session_free(host_create(self, "s", "{}"));
  redis_run(behind_scheme(self), "SET", "#{app}:n", "4294967294", NULL);
  moonpad_session_free(host_create(self, "last", "{}"));
  FAILS(MOONPAD_LIMIT, moonpad_create_session(self->service, &name, T("{}"), &session, &failure));
  faults_say("all the numbers");
  moonpad_session_free(host_get(self, "s"));
}

static void test_a_damaged_session_is_told(void **state) {
  host *self = *state;
  const char *rest = behind_scheme(self);
  moonpad_session *session = host_create(self, "s", "{\"k\":1}"), *other = NULL;
  moonpad_session_name name = host_name("s");
  char key[64];
  snprintf(key, sizeof key, "#{app}:%s:v", redis_run(rest, "HGET", "#{app}:s:u:s", "n", NULL));
  redis_run(rest, "HSET", key, "k", "{not", NULL);
  FAILS(MOONPAD_CORRUPT, moonpad_get_session(self->service, &name, NULL, &other, &failure));
  redis_run(rest, "SET", key, "x", NULL);
  FAILS(MOONPAD_CORRUPT, moonpad_get_session(self->service, &name, NULL, &other, &failure));
  faults_say("a key holds what moonpad has not put there");
  moonpad_session_free(session);
}

/* ---- odd names ---- */

static const char *const odd_names[] = {"a",   "a:b", "a:b{c}*", "{a}",      "a%3Ab", "%",   "l",
                                        "u:l", ":",   "a b",     "\xc3\xa9", "A",     "a:v", "n"};

/* Nothing in a name is syntax: each app, user and session of such names is one of its own. */
static void test_names_are_never_syntax(void **state) {
  host *self = *state;
  for (size_t i = 0; i < COUNT(odd_names); i++) {
    for (size_t j = 0; j < COUNT(odd_names); j++) {
      moonpad_session_name name = {T(odd_names[i]), T(odd_names[j]), T(odd_names[(i + j) % COUNT(odd_names)])};
      moonpad_session *session = NULL;
      char delta[100];
      snprintf(delta, sizeof delta, "{\"k\\u0000:{}\":%zu,\"user:\\u0000\":%zu,\"app:*\":%zu}", i, j, i);
      OK(moonpad_create_session(self->service, &name, T("{}"), &session, &failure));
      host_append(session, delta);
      moonpad_session_free(session);
    }
  }
  for (size_t i = 0; i < COUNT(odd_names); i++) {
    moonpad_session_list *list = NULL;
    OK(moonpad_list_sessions(self->service, T(odd_names[i]), NULL, &list, &failure));
    assert_int_equal(moonpad_session_list_count(list), COUNT(odd_names));
    moonpad_session_list_free(list);
    for (size_t j = 0; j < COUNT(odd_names); j++) {
      moonpad_session_name name = {T(odd_names[i]), T(odd_names[j]), T(odd_names[(i + j) % COUNT(odd_names)])};
      moonpad_session *session = NULL;
      char expected[100];
      snprintf(expected, sizeof expected, "{\"app:*\":%zu,\"k\\u0000:{}\":%zu,\"user:\\u0000\":%zu}", i, i, j);
      OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
      STATE(session, expected);
      assert_int_equal(host_event_count(session), 1);
      moonpad_session_free(session);
    }
  }
}

/* ---- many, and much ---- */

/* More keys and values than a Lua function takes arguments, in one call. */
static void test_many_keys_in_one_call(void **state) {
  host *self = *state;
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  enum { KEYS = 20000 };
  char *json = malloc(KEYS * 20), *at = json;
  assert_non_null(json);
  for (int i = 0; i < KEYS; i++) at += sprintf(at, "%c\"%s%d\":%d", i == 0 ? '{' : ',', i % 2 ? "user:k" : "k", i, i);
  strcpy(at, "}");
  OK(moonpad_create_session(self->service, &name, moonpad_text(json), &session, &failure));
  moonpad_session *other = host_get(self, "s");
  char *event = malloc(KEYS * 20 + 100);
  assert_non_null(event);
  sprintf(event, "{\"author\":\"a\",\"actions\":{\"stateDelta\":%s}}", json);
  OK(moonpad_append_event(session, moonpad_text(event), NULL, &failure));
  free(event);
  OK(moonpad_refresh(other, &failure));
  assert_int_equal(host_read(other, "user:k19999", "").as.integer, KEYS - 1);
  moonpad_session_free(session);
  moonpad_session_free(other);
  free(json);
}

/* ---- long histories: they go to the server in parts, before the commit ---- */

#define LONG 2500

typedef struct lines {
  char **text;
  size_t count, next;
} lines;

static bool keep_line(void *context, moonpad_string line) {
  lines *kept = context;
  kept->text[kept->count] = strndup(line.data, line.length);
  return kept->text[kept->count++] != NULL;
}

static bool next_line(void *context, moonpad_string *line) {
  lines *kept = context;
  if (kept->next == kept->count) return false;
  *line = moonpad_text(kept->text[kept->next++]);
  return true;
}

static void expect_long(moonpad_session *session) {
  assert_int_equal(moonpad_session_revision(session), LONG);
  assert_int_equal(host_event_count(session), LONG);
  for (size_t i = 0; i < LONG; i += 499) {
    moonpad_event *event = NULL;
    char id[16];
    snprintf(id, sizeof id, "e%zu", i);
    OK(moonpad_session_event(session, i, &event, &failure));
    assert_string_equal(host_in_event(event, "id"), id);
    moonpad_event_free(event);
  }
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_append_event(session, T("{\"id\":\"e7\",\"author\":\"b\"}"), NULL, &failure));
}

static long count_keys(const host *self) {
  return atol(redis_run(behind_scheme(self), "EVAL", "return #redis.call('KEYS', ARGV[1] .. '*')", "0", "#", NULL));
}

/* Nothing expires of what is stored, and nothing is left of what is not. */
static void test_long_histories(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}"), *made = NULL;
  moonpad_session_name name = host_name("imported");
  lines kept = {.text = calloc(LONG + 1, sizeof(char *))};
  assert_non_null(kept.text);
  for (int i = 0; i < LONG; i++) {
    char event[100];
    snprintf(event, sizeof event, "{\"id\":\"e%d\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":%d}}}", i, i);
    OK(moonpad_append_event_async(session, moonpad_text(event), NULL, NULL, &failure));
  }
  OK(moonpad_refresh(session, &failure));
  OK(moonpad_fork(session, LONG, T("forked"), &made, &failure));
  expect_long(made);
  moonpad_session_free(made);
  OK(moonpad_export_session(session, keep_line, &kept, &failure));
  OK(moonpad_import_session(self->service, &name, next_line, &kept, &made, &failure));
  expect_long(made);
  moonpad_session_free(made);
  const char *lasting = "local n = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '{*')) do if "
                        "redis.call('TTL', key) ~= -1 and not string.find(key, '}:c:') then n = n + 1 end end return n";
  assert_int_equal(atol(redis_run(behind_scheme(self), "EVAL", lasting, "0", "#", NULL)), 0);
  long keys = count_keys(self);
  moonpad_session_free(session);
  self->options.max_sessions_per_user = 3;
  host_reopen(self);
  session = host_get(self, "s");
  kept.next = 0;
  name.session_id = T("again");
  FAILS(MOONPAD_LIMIT, moonpad_fork(session, LONG, T("again"), &made, &failure));
  FAILS(MOONPAD_LIMIT, moonpad_import_session(self->service, &name, next_line, &kept, &made, &failure));
  /* But the one that the new pool has left. */
  assert_true(count_keys(self) <= keys + 1);
  moonpad_session_free(session);
  for (size_t i = 0; i < kept.count; i++) free(kept.text[i]);
  free(kept.text);
}

#define OWN(test)                                                                                                      \
  { #test " on redis:", test, NULL, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      OWN(test_forgotten_scripts),
      OWN(test_an_old_server_is_refused),
      OWN(test_a_batch_takes_one_round_trip),
      OWN(test_a_session_that_grows_can_be_forked),
      OWN(test_a_session_of_a_busy_app_can_be_forked),
      ON_STORE(test_a_trimmed_session_can_be_forked, "redis:"),
      ON_STORE(test_what_no_replica_has_is_kept_whole, "redis:"),
      ON_STORE(test_keys_of_others_are_refused, "redis:"),
      ON_STORE(test_an_app_gives_no_numbers_of_another, "redis:"),
      ON_STORE(test_a_damaged_session_is_told, "redis:"),
      ON_STORE(test_names_are_never_syntax, "redis:"),
      ON_STORE(test_many_keys_in_one_call, "redis:"),
      ON_STORE(test_long_histories, "redis:"),
  };
  return HOST_RUN(tests);
}
