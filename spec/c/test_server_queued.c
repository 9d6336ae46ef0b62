/*
** Asynchronous appends on servers: how many round trips a batch takes, what is lost on the way,
** rows that somebody else has locked, and that no two transactions wait for each other. (Redis has
** no locks: its batches are in test_redis.c.)
*/
#include <stdatomic.h>
#include <stdio.h>

#include "base/platform.h"
#include "linked.h"
#include "server_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MOST         64

typedef struct answers {
  int done, failed;
  moonpad_error errors[MOST]; /* of those that failed */
} answers;

static void note_answer(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  answers *all = context;
  (void)session, (void)event;
  all->done++;
  if (error != NULL) all->errors[all->failed++] = *error;
}

static void wait_for(host *self, const answers *all, int count) {
  while (all->done < count) assert_true(moonpad_poll(self->service, TIMEOUT_MS) > 0);
}

static void increment(answers *all, moonpad_session *session, const char *const *keys, size_t count) {
  moonpad_changes *changes = NULL;
  moonpad_value one = moonpad_integer(1);
  bool queued;
  OK(moonpad_session_changes(session, &changes, &failure));
  for (size_t i = 0; i < count; i++) OK(moonpad_changes_increment(changes, T(keys[i]), &one, &failure));
  OK(moonpad_update_session_async(session, note_answer, all, &queued, &failure));
}

#define SESSIONS 20

static void make_sessions(host *self, moonpad_session **sessions) {
  for (int i = 0; i < SESSIONS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    sessions[i] = host_create(self, id, "{}");
  }
}

static void free_sessions(moonpad_session **sessions) {
  for (int i = 0; i < SESSIONS; i++) moonpad_session_free(sessions[i]);
}

static const char *behind_scheme(const host *self) {
  return strchr(self->url, ':') + 1;
}

static bool is_mysql(const char *url) {
  return strncmp(url, "mysql:", 6) == 0;
}

/* ---- a worker that is kept waiting, so that all that follows is one batch ---- */

typedef struct hold {
  server_connection *connection;
  moonpad_session *session;
  answers done;
} hold;

/*
** Locks a session's row, in a transaction that goes on. By its id: MariaDB locks each row that it
** looks at.
*/
static void lock_session(server_connection *connection, const host *self, const char *id, const char *more) {
  const char *prefix = is_mysql(self->url) ? "moonpad_" : "";
  char sql[256];
  snprintf(sql, sizeof sql, "SELECT id FROM %ssessions WHERE session_id = '%s'", prefix, id);
  long number = server_number(connection, sql);
  server_run(connection, "BEGIN");
  snprintf(sql, sizeof sql, "SELECT 1 FROM %ssessions WHERE id = %ld FOR UPDATE%s", prefix, number, more);
  server_run(connection, sql);
}

static void hold_worker(linked *scene, hold *held) {
  *held = (hold){.session = host_create(scene->self, "plug", "{}")};
  held->connection = server_connect(strchr(scene->direct, ':') + 1);
  lock_session(held->connection, scene->self, "plug", "");
  long before = link_round_trips(scene->link);
  host_append_async(held->session, "{\"k\":1}", note_answer, &held->done);
  WAIT_UNTIL(link_round_trips(scene->link) > before);
}

static void go_on(hold *held) {
  server_run(held->connection, "ROLLBACK");
}

static void end_hold(host *self, hold *held) {
  wait_for(self, &held->done, 1);
  assert_int_equal(held->done.failed, 0);
  server_disconnect(held->connection);
  moonpad_session_free(held->session);
}

/* ---- round trips ---- */

static void test_a_batch_takes_one_round_trip(void **state) {
  static const char *const keys[] = {"n", "user:n", "app:n"};
  /* Those that write the app's keys go in a transaction of their own. */
  static const struct { size_t with_app, trips; } batches[] = {{0, 1}, {SESSIONS, 1}, {SESSIONS / 2, 2}};
  for (size_t i = 0; i < COUNT(batches); i++) {
    linked scene;
    answers all = {0};
    hold held;
    moonpad_session *sessions[SESSIONS];
    linked_open(&scene, *state, "");
    make_sessions(scene.self, sessions);
    hold_worker(&scene, &held);
    for (size_t j = 0; j < SESSIONS; j++) increment(&all, sessions[j], keys, j < batches[i].with_app ? 3 : 2);
    TAKES((int)batches[i].trips, go_on(&held); wait_for(scene.self, &all, SESSIONS));
    assert_int_equal(all.failed, 0);
    for (size_t j = 0; j < SESSIONS; j++) assert_int_equal(moonpad_session_revision(sessions[j]), 1);
    OK(moonpad_refresh(sessions[0], &failure));
    assert_int_equal(host_read(sessions[0], "user:n", "").as.integer, SESSIONS);
    if (batches[i].with_app > 0) {
      assert_int_equal(host_read(sessions[0], "app:n", "").as.integer, (int)batches[i].with_app);
    }
    end_hold(scene.self, &held);
    free_sessions(sessions);
    linked_close(&scene);
  }
}

/* ---- what is lost ---- */

/* Two appends each, of which a round trip is lost. False: it was not one of them. */
static bool lose_round_trip(const char *store, link_fault fault, int n) {
  static const char *const keys[] = {"n", "user:n", "app:n"};
  linked scene;
  answers all = {0};
  moonpad_session *sessions[SESSIONS];
  linked_open(&scene, store, "");
  make_sessions(scene.self, sessions);
  link_break(scene.link, fault, n);
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < SESSIONS; j++) increment(&all, sessions[j], keys, 3);
  }
  wait_for(scene.self, &all, 2 * SESSIONS);
  bool has_broken = link_has_broken(scene.link);
  link_mend(scene.link);
  if (all.failed > 0) fail_msg("round trip %d: %s", n, all.errors[0].message);
  for (int i = 0; i < SESSIONS; i++) {
    OK(moonpad_refresh(sessions[i], &failure));
    assert_int_equal(moonpad_session_revision(sessions[i]), 2);
    assert_int_equal(host_event_count(sessions[i]), 2);
    STATE(sessions[i], "{\"app:n\":40,\"n\":2,\"user:n\":40}");
  }
  free_sessions(sessions);
  linked_close(&scene);
  return has_broken;
}

static void test_what_is_lost_takes_effect_once(void **state) {
  static const link_fault faults[] = {LINK_CUT_ANSWER, LINK_CUT_REQUEST};
  for (size_t i = 0; i < COUNT(faults); i++) {
    assert_true(lose_round_trip(*state, faults[i], 1));
    for (int n = 2; n < 8 && lose_round_trip(*state, faults[i], n); n++) continue;
  }
}

static void expect_told(const answers *all) {
  int sent = 0, behind = 0, untried = 0;
  assert_int_equal(all->failed, SESSIONS + 2);
  for (int i = 0; i < all->failed; i++) {
    assert_int_equal(all->errors[i].code, MOONPAD_STORAGE);
    const char *said = all->errors[i].message;
    sent += strncmp(said, "it may have been stored", 23) == 0;
    behind += strncmp(said, "an earlier append of this session object failed", 47) == 0;
    untried += strncmp(said, "not tried", 9) == 0;
  }
  assert_int_equal(sent, SESSIONS);
  assert_int_equal(behind, 1);
  assert_int_equal(untried, 1);
}

/* False: the worker did not wait for its lock until all were queued. */
static bool fall_silent(const char *store, int64_t busy_timeout_ms) {
  linked scene;
  answers all = {0};
  hold held;
  moonpad_session *sessions[SESSIONS];
  linked_open(&scene, store, "");
  host_reopen_hasty(scene.self, busy_timeout_ms);
  make_sessions(scene.self, sessions);
  moonpad_session *again = host_get(scene.self, "s0");
  hold_worker(&scene, &held);
  for (int j = 0; j < SESSIONS; j++) host_append_async(sessions[j], "{\"k\":1}", note_answer, &all);
  host_append_async(sessions[1], "{\"k\":2}", note_answer, &all);
  host_append_async(again, "{\"l\":1}", note_answer, &all);
  link_break(scene.link, LINK_HANG, 1);
  go_on(&held);
  wait_for(scene.self, &all, SESSIONS + 2);
  link_mend(scene.link);
  wait_for(scene.self, &held.done, 1);
  bool has_waited = held.done.failed == 0;
  if (has_waited) expect_told(&all);
  server_disconnect(held.connection);
  moonpad_session_free(held.session);
  moonpad_session_free(again);
  free_sessions(sessions);
  linked_close(&scene);
  return has_waited;
}

/*
** The server says nothing any more: what was sent may be stored, what was not says so. It is given
** up 10 s after what a lock is waited for; that is made longer where the machine is too busy.
*/
static void test_a_silent_server_is_given_up(void **state) {
  for (int64_t busy_timeout_ms = 5000; !fall_silent(*state, busy_timeout_ms); busy_timeout_ms *= 2) {
    assert_true(busy_timeout_ms < TIMEOUT_MS);
  }
}

/* ---- a row that somebody else has locked ---- */

/* How many appends failed, of which one has to. */
static int append_beside_locked(const char *store, int64_t busy_timeout_ms) {
  static const char *const keys[] = {"n", "user:n", "app:n"};
  void *state;
  answers all = {0};
  moonpad_session *sessions[SESSIONS];
  host_setup(&state, store);
  host *self = state;
  host_reopen_hasty(self, busy_timeout_ms);
  make_sessions(self, sessions);
  server_connection *other = server_connect(behind_scheme(self));
  lock_session(other, self, "s7", "");
  for (int i = 0; i < SESSIONS; i++) increment(&all, sessions[i], keys, 3);
  wait_for(self, &all, SESSIONS);
  assert_true(all.failed > 0);
  for (int i = 0; i < all.failed; i++) assert_int_equal(all.errors[i].code, MOONPAD_BUSY);
  int failed = all.failed;
  server_run(other, "ROLLBACK");
  increment(&all, sessions[7], keys, 3);
  wait_for(self, &all, SESSIONS + 1);
  if (failed == 1 && all.failed == 1) STATE(sessions[7], "{\"app:n\":20,\"n\":1,\"user:n\":20}");
  server_disconnect(other);
  free_sessions(sessions);
  host_teardown(&state);
  return all.failed;
}

/*
** The others wait for each other at most, which should not take so long. What a lock is waited for
** is made longer where the machine is too busy.
*/
static void test_a_locked_session_holds_up_no_other(void **state) {
  for (int64_t busy_timeout_ms = 200; append_beside_locked(*state, busy_timeout_ms) != 1; busy_timeout_ms *= 4) {
    assert_true(busy_timeout_ms < TIMEOUT_MS / 4);
  }
}

/* ---- two services that write the same sessions, users and apps ---- */

#define USERS  3
#define APPS   2
#define ROUNDS 60

typedef struct writer {
  pthread_t thread;
  host *self;
  moonpad_service *service;
  moonpad_session *sessions[SESSIONS];
  answers all;
  int seed;
  int added[APPS]; /* to the key of each app */
} writer;

/*
** Some write the user's keys, some the app's, some both, in another order each time; and every
** other round, in turns, all write their own alone.
*/
static void *write_on(void *context) {
  static const char *const keys[] = {"n", "user:n", "app:n"};
  static const char *const of_app[] = {"n", "app:n"};
  writer *self = context;
  for (int round = 0; round < ROUNDS; round++) {
    bool are_own = round % 2 == self->seed;
    for (int i = 0; i < SESSIONS; i++) {
      int number = (i * (self->seed == 0 ? 3 : 7) + round) % SESSIONS;
      bool is_of_app = !are_own && i % 4 == 0;
      size_t count = are_own ? 1 : is_of_app ? 2 : (size_t)(1 + i % 3);
      increment(&self->all, self->sessions[number], is_of_app ? of_app : keys, count);
      if (is_of_app || count == 3) self->added[number % APPS]++;
    }
    while (self->all.done < (round + 1) * SESSIONS) moonpad_poll(self->service, TIMEOUT_MS);
  }
  return NULL;
}

static long deadlocks_so_far(const host *self, server_connection *connection) {
  return server_number(connection,
                       is_mysql(self->url)
                           ? "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
                           : "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
}

static void open_writer(writer *made, host *self, int seed) {
  *made = (writer){.self = self, .seed = seed};
  OK(moonpad_open(T(self->url), &self->options, &made->service, &failure));
  for (int i = 0; i < SESSIONS; i++) {
    char id[16], user[16], app[16];
    snprintf(id, sizeof id, "s%d", i);
    snprintf(user, sizeof user, "u%d", i % USERS);
    snprintf(app, sizeof app, "app%d", i % APPS);
    moonpad_session_name name = {T(app), T(user), T(id)};
    moonpad_status status = moonpad_create_session(made->service, &name, T("{}"), &made->sessions[i], &failure);
    if (status == MOONPAD_ALREADY_EXISTS) {
      status = moonpad_get_session(made->service, &name, NULL, &made->sessions[i], &failure);
    }
    OK(status);
  }
}

static void test_no_two_transactions_wait_for_each_other(void **state) {
  host *self = *state;
  writer writers[2];
  server_connection *connection = server_connect(behind_scheme(self));
  long before = deadlocks_so_far(self, connection);
  for (int i = 0; i < 2; i++) open_writer(&writers[i], self, i);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(writers[i].thread, NULL);
  for (int i = 0; i < 2; i++) {
    if (writers[i].all.failed > 0) fail_msg("%s", writers[i].all.errors[0].message);
    for (int app = 0; app < APPS; app++) {
      OK(moonpad_refresh(writers[i].sessions[app], &failure));
      assert_int_equal(host_read(writers[i].sessions[app], "app:n", "").as.integer,
                       writers[0].added[app] + writers[1].added[app]);
    }
    for (int j = 0; j < SESSIONS; j++) moonpad_session_free(writers[i].sessions[j]);
  }
  for (int i = 0; i < 2; i++) moonpad_service_release(writers[i].service);
  mp_sleep(0.2); /* until the server has counted */
  assert_int_equal(deadlocks_so_far(self, connection), before);
  server_disconnect(connection);
}

/*
** A batch of two apps that waits for the second of three sessions has not locked the third, which
** is of the first one's app.
*/
static void test_sessions_are_locked_in_one_order(void **state) {
  static const char *const apps[] = {"a", "b", "a"}, *const ids[] = {"first", "second", "third"};
  linked scene;
  hold held;
  answers all = {0};
  moonpad_session *sessions[COUNT(apps)];
  linked_open(&scene, *state, "");
  server_connection *other = server_connect(behind_scheme(scene.self));
  for (size_t i = 0; i < COUNT(apps); i++) {
    moonpad_session_name name = {T(apps[i]), T("u"), T(ids[i])};
    OK(moonpad_create_session(scene.self->service, &name, T("{}"), &sessions[i], &failure));
  }
  hold_worker(&scene, &held);
  lock_session(other, scene.self, "second", "");
  for (size_t i = 0; i < COUNT(apps); i++) host_append_async(sessions[i], "{\"k\":1}", note_answer, &all);
  go_on(&held);
  const char *waiting = is_mysql(*state)
                            ? "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist"
                              " p ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()"
                            : "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY"
                              " (pg_blocking_pids(pid))";
  /* MariaDB says nothing new to who asks more often. */
  for (double limit = time_limit(); server_number(other, waiting) == 0; mp_sleep(0.15)) {
    assert_true(mp_monotonic() < limit);
  }
  server_connection *third = server_connect(behind_scheme(scene.self));
  lock_session(third, scene.self, "third", " NOWAIT");
  server_run(third, "ROLLBACK");
  server_disconnect(third);
  server_run(other, "ROLLBACK");
  wait_for(scene.self, &all, COUNT(apps));
  assert_int_equal(all.failed, 0);
  end_hold(scene.self, &held);
  server_disconnect(other);
  for (size_t i = 0; i < COUNT(apps); i++) moonpad_session_free(sessions[i]);
  linked_close(&scene);
}

#define OWN(test, store)                                                                                               \
  { #test " on " store, test, NULL, NULL, (void *)(store) }
#define ON_SERVER(store)                                                                                               \
  OWN(test_a_batch_takes_one_round_trip, store), OWN(test_what_is_lost_takes_effect_once, store),                      \
      OWN(test_a_silent_server_is_given_up, store), OWN(test_sessions_are_locked_in_one_order, store),                 \
      OWN(test_a_locked_session_holds_up_no_other, store),                                                             \
      ON_STORE(test_no_two_transactions_wait_for_each_other, store)

int main(void) {
  const struct CMUnitTest tests[] = {ON_SERVER("postgresql:"), ON_SERVER("mysql:"),
                                     OWN(test_what_is_lost_takes_effect_once, "redis:")};
  return HOST_RUN(tests);
}
