/*
** Asynchronous appends on stores that take plans: those that wait go together, in rounds, and come
** to what they come to one by one.
*/
#include <stdio.h>

#include "base/platform.h"
#include "fault_steps.h"
#include "server_support.h"
#include "service_support.h"
#include "slow_store.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- what becomes of appends ---- */

#define MOST 64

typedef struct answer {
  bool is_there;
  moonpad_status status;
  int64_t revision; /* of the event; -1: none */
  char said[256];
  char conflict[32]; /* the first key in conflict */
} answer;

/* One of these for each call that is made, in the order of the calls. */
typedef struct batch {
  host *self;
  answer answers[MOST];
  int asked, done;
} batch;

static void note_answer(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  answer *self = context;
  self->is_there = true;
  self->status = error == NULL ? MOONPAD_OK : error->code;
  self->revision = event == NULL ? -1 : moonpad_event_revision(event);
  snprintf(self->said, sizeof self->said, "%.255s", error == NULL ? "" : error->message);
  moonpad_string key = session == NULL || error == NULL ? T("") : moonpad_session_conflict_key(session, 0);
  snprintf(self->conflict, sizeof self->conflict, "%.*s", (int)key.length, key.data == NULL ? "" : key.data);
}

static answer *next_answer(batch *all) {
  assert_true(all->asked < MOST);
  answer *next = &all->answers[all->asked++];
  memset(next, 0, sizeof *next);
  return next;
}

/* An event with this delta. */
static void ask(batch *all, moonpad_session *session, const char *delta) {
  host_append_async(session, delta, note_answer, next_answer(all));
}

static void ask_whole(batch *all, moonpad_session *session, const char *event) {
  OK(moonpad_append_event_async(session, T(event), note_answer, next_answer(all), &failure));
}

static void ask_to_add(batch *all, moonpad_session *session, const char *key, moonpad_value by) {
  moonpad_changes *changes = NULL;
  bool queued;
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, T(key), &by, &failure));
  OK(moonpad_update_session_async(session, note_answer, next_answer(all), &queued, &failure));
  assert_true(queued);
}

static void wait_for_all(batch *all) {
  int done = 0;
  while (done < all->asked) {
    for (done = 0; done < all->asked && all->answers[done].is_there;) done++;
    if (done < all->asked) assert_true(moonpad_poll(all->self->service, TIMEOUT_MS) > 0);
  }
}

#define ANSWERED(all, number, expected)                                                                                \
  do {                                                                                                                 \
    const answer *found = &(all)->answers[number];                                                                     \
    if (found->status != (expected))                                                                                   \
      fail_msg("line %d, append %d: %s: %s", __LINE__, (int)(number), moonpad_status_name(found->status),              \
               found->said);                                                                                           \
  } while (0)

/* ---- a batch whose appends all wait before the first of them is sent ---- */

static bool is_slow(const host *self) {
  return strncmp(self->url, "slow:", 5) == 0;
}

/*
** On a slow store, the worker is kept with an append of this session until the store is let go. On
** others the appends go as they come.
*/
static void hold_with(host *self, moonpad_session *plug) {
  if (!is_slow(self)) return;
  long before = slow_store_round_trips();
  slow_store_hold(true, 0);
  OK(moonpad_append_event_async(plug, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  WAIT_UNTIL(slow_store_round_trips() > before);
}

static moonpad_session *hold_worker(host *self) {
  moonpad_session *plug = host_create(self, "plug", "");
  hold_with(self, plug);
  return plug;
}

static void go_on(moonpad_session *plug) {
  slow_store_hold(false, 0);
  moonpad_session_free(plug);
}

/* ---- sessions that make a round wide enough for plans ---- */

#define WIDE 10

static void make_wide(host *self, moonpad_session **sessions) {
  for (int i = 0; i < WIDE; i++) {
    char id[16];
    snprintf(id, sizeof id, "wide%d", i);
    sessions[i] = host_create(self, id, "{\"n\":0}");
  }
}

static void ask_wide(batch *all, moonpad_session **sessions, int number) {
  char delta[64];
  snprintf(delta, sizeof delta, "{\"n\":%d,\"user:n\":%d}", number, number);
  for (int i = 0; i < WIDE; i++) ask(all, sessions[i], delta);
}

/* They have stored so many events each. */
static void check_wide(host *self, moonpad_session **sessions, int count) {
  for (int i = 0; i < WIDE; i++) {
    assert_int_equal(moonpad_session_revision(sessions[i]), count);
    assert_int_equal(host_event_count(sessions[i]), count);
    assert_int_equal(host_read(sessions[i], "n", "").as.integer, count);
    moonpad_session_free(sessions[i]);
    char id[16];
    snprintf(id, sizeof id, "wide%d", i);
    moonpad_session *stored = host_get(self, id);
    assert_int_equal(moonpad_session_revision(stored), count);
    assert_int_equal(host_read(stored, "n", "").as.integer, count);
    moonpad_session_free(stored);
  }
}

/* ---- round trips ---- */

static void test_a_round_takes_one_round_trip(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *plug = hold_worker(self);
  long before = slow_store_round_trips();
  for (int i = 1; i <= 3; i++) ask_wide(&all, wide, i);
  go_on(plug);
  wait_for_all(&all);
  assert_int_equal(slow_store_round_trips() - before, 3);
  for (int i = 0; i < all.asked; i++) {
    ANSWERED(&all, i, MOONPAD_OK);
    assert_int_equal(all.answers[i].revision, 1 + i / WIDE);
  }
  check_wide(self, wide, 3);
}

/* Many appends of few sessions share a commit, which is what takes the time then. */
static void test_few_sessions_share_a_transaction(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *one = host_create(self, "one", ""), *two = host_create(self, "two", "");
  moonpad_session *plug = hold_worker(self);
  long before = slow_store_round_trips();
  for (int i = 0; i < 5; i++) {
    ask(&all, one, "{\"k\":1}");
    ask(&all, two, "{\"k\":1}");
  }
  go_on(plug);
  wait_for_all(&all);
  assert_int_equal(slow_store_round_trips() - before, 10);
  assert_int_equal(moonpad_session_revision(one), 5);
  assert_int_equal(moonpad_session_revision(two), 5);
  moonpad_session_free(one);
  moonpad_session_free(two);
}

/* ---- refusals ---- */

static void test_a_refused_one_fails_what_is_behind_it(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *session = host_create(self, "s", "{\"k\":0}"), *theirs = host_get(self, "s");
  host_append(theirs, "{\"k\":1}");
  moonpad_session *plug = hold_worker(self);
  long before = slow_store_round_trips();
  ask(&all, session, "{\"k\":2,\"app:k\":2}");
  ask(&all, session, "{\"behind\":1}");
  ask(&all, theirs, "{\"theirs\":2}");
  for (int i = 1; i <= 3; i++) ask_wide(&all, wide, i);
  go_on(plug);
  wait_for_all(&all);
  /* Three rounds, and the transaction of the one that is refused. */
  if (is_slow(self)) assert_int_equal(slow_store_round_trips() - before, 4);
  ANSWERED(&all, 0, MOONPAD_CONFLICT);
  assert_string_equal(all.answers[0].conflict, "k");
  ANSWERED(&all, 1, MOONPAD_CONFLICT);
  assert_non_null(strstr(all.answers[1].said, "an earlier append of this session object failed"));
  for (int i = 2; i < all.asked; i++) ANSWERED(&all, i, MOONPAD_OK);
  assert_int_equal(host_read(session, "k", "").as.integer, 1);
  STORED(self, "s", "{\"k\":1,\"theirs\":2,\"user:n\":3}");
  /* The object can be used again. */
  host_append(session, "{\"k\":3}");
  STORED(self, "s", "{\"k\":3,\"theirs\":2,\"user:n\":3}");
  moonpad_session_free(session);
  moonpad_session_free(theirs);
  check_wide(self, wide, 3);
}

static void test_ids_that_come_again(void **state) {
  host *self = *state;
  static const char one[] = "{\"id\":\"e\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1}}}";
  static const char other[] = "{\"id\":\"e\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":2}}}";
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *session = host_create(self, "s", ""), *again = host_get(self, "s");
  moonpad_session *plug = hold_worker(self);
  ask_whole(&all, session, one);
  ask_whole(&all, session, one);
  ask_whole(&all, again, other);
  ask_whole(&all, session, "{\"id\":\"f\",\"author\":\"a\"}");
  for (int i = 1; i <= 4; i++) ask_wide(&all, wide, i);
  go_on(plug);
  wait_for_all(&all);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, i == 2 ? MOONPAD_ALREADY_EXISTS : MOONPAD_OK);
  assert_int_equal(all.answers[0].revision, 1);
  assert_int_equal(all.answers[1].revision, 1);
  assert_int_equal(all.answers[3].revision, 2);
  assert_int_equal(moonpad_session_revision(session), 2);
  STORED(self, "s", "{\"k\":1,\"user:n\":4}");
  moonpad_session_free(session);
  moonpad_session_free(again);
  check_wide(self, wide, 4);
}

static void test_a_session_is_deleted_meanwhile(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  bool existed = false;
  make_wide(self, wide);
  moonpad_session *session = host_create(self, "s", ""), *plug = hold_worker(self);
  moonpad_session_name name = host_name("s");
  if (is_slow(self)) slow_store_hold(true, 1);
  OK(moonpad_delete_session(self->service, &name, &existed, &failure));
  assert_true(existed);
  for (int i = 1; i <= 2; i++) {
    ask(&all, session, "{\"app:k\":1}");
    ask_wide(&all, wide, i);
  }
  go_on(plug);
  wait_for_all(&all);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, i % (WIDE + 1) == 0 ? MOONPAD_NOT_FOUND : MOONPAD_OK);
  STATE(session, "{}");
  moonpad_session_free(session);
  check_wide(self, wide, 2);
}

/* ---- two objects of one session, and an object's own writes ---- */

static void test_two_objects_of_one_session(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *one = host_create(self, "s", "{\"k\":0}"), *two = host_get(self, "s"), *plug = hold_worker(self);
  ask(&all, one, "{\"k\":1}");
  ask_to_add(&all, two, "n", moonpad_integer(1));
  ask(&all, one, "{\"k\":2,\"own\":1}");
  ask_to_add(&all, two, "n", moonpad_integer(1));
  ask_to_add(&all, one, "n", moonpad_integer(1));
  ask(&all, two, "{\"k\":3}");
  for (int i = 1; i <= 5; i++) ask_wide(&all, wide, i);
  go_on(plug);
  wait_for_all(&all);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, i == 5 ? MOONPAD_CONFLICT : MOONPAD_OK);
  for (int i = 0; i < 5; i++) assert_int_equal(all.answers[i].revision, i + 1);
  assert_int_equal(moonpad_session_revision(one), 5);
  STORED(self, "s", "{\"k\":2,\"n\":3,\"own\":1,\"user:n\":5}");
  moonpad_session_free(one);
  moonpad_session_free(two);
  check_wide(self, wide, 5);
}

/* What the object itself has stored stands against none of its writers; another's change does. */
static void test_own_appends_ahead_in_the_queue(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *session = host_create(self, "s", "{\"k\":0,\"l\":0,\"user:r\":0}"), *theirs = host_get(self, "s");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  assert_int_equal(changed(changes, "k", "").as.integer, 0);
  assert_int_equal(changed(changes, "user:r", "").as.integer, 0);
  set_json(changes, "k", "", "[1]");
  set_json(changes, "user:r", "", "[1]");
  host_append(theirs, "{\"l\":5}");
  moonpad_session *plug = hold_worker(self);
  ask(&all, session, "{\"k\":1,\"user:r\":1}");
  ask(&all, session, "{\"k\":2}");
  OK(moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), note_answer, next_answer(&all), &failure));
  /* An increment conflicts with nobody, and hides nobody's change. */
  ask_to_add(&all, session, "l", moonpad_integer(1));
  ask(&all, session, "{\"l\":9}");
  for (int i = 1; i <= 4; i++) ask_wide(&all, wide, i);
  go_on(plug);
  wait_for_all(&all);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, i == 4 ? MOONPAD_CONFLICT : MOONPAD_OK);
  assert_string_equal(all.answers[4].conflict, "l");
  STORED(self, "s", "{\"k\":[1],\"l\":6,\"user:n\":4,\"user:r\":[1]}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  moonpad_session_free(theirs);
  check_wide(self, wide, 4);
}

/* ---- sums ---- */

static void test_sums_of_many_sessions_are_exact(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *plug = hold_worker(self);
  for (int i = 0; i < WIDE; i++) {
    ask_to_add(&all, wide[i], "app:n", moonpad_integer(2));
    ask_to_add(&all, wide[i], "user:f", moonpad_float(0.5));
    ask_to_add(&all, wide[i], "app:n", moonpad_integer(1));
    ask_to_add(&all, wide[i], "n", moonpad_float(0.25));
    ask_to_add(&all, wide[i], "n", moonpad_integer(1));
  }
  go_on(plug);
  wait_for_all(&all);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, MOONPAD_OK);
  STORED(self, "wide3", "{\"app:n\":30,\"n\":1.25,\"user:f\":5.0}");
  for (int i = 0; i < WIDE; i++) {
    OK(moonpad_refresh(wide[i], &failure));
    STATE(wide[i], "{\"app:n\":30,\"n\":1.25,\"user:f\":5.0}");
    moonpad_session_free(wide[i]);
  }
}

/* ---- what fails ---- */

static void test_lost_answers_take_effect_once(void **state) {
  host *self = *state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *plug = hold_worker(self);
  for (int i = 1; i <= 2; i++) {
    for (int j = 0; j < WIDE; j++) ask_to_add(&all, wide[j], "user:sum", moonpad_integer(1));
    ask_wide(&all, wide, i);
  }
  slow_store_lose_answers(2);
  go_on(plug);
  wait_for_all(&all);
  slow_store_lose_answers(0);
  for (int i = 0; i < all.asked; i++) ANSWERED(&all, i, MOONPAD_OK);
  for (int i = 0; i < WIDE; i++) {
    assert_int_equal(moonpad_session_revision(wide[i]), 4);
    assert_int_equal(host_event_count(wide[i]), 4);
    OK(moonpad_refresh(wide[i], &failure));
    STATE(wide[i], "{\"n\":2,\"user:n\":2,\"user:sum\":20}");
    moonpad_session_free(wide[i]);
  }
}

/* So many allocations of the worker succeed. Returns whether one failed. */
static bool fails_after(long allowed) {
  void *state;
  host_setup(&state, "slow:0:memory:");
  host *self = state;
  batch all = {.self = self};
  moonpad_session *wide[WIDE];
  make_wide(self, wide);
  moonpad_session *plug = hold_worker(self);
  for (int i = 1; i <= 2; i++) {
    ask_wide(&all, wide, i);
    for (int j = 0; j < WIDE; j++) ask_to_add(&all, wide[j], "sum", moonpad_integer(1));
  }
  pthread_mutex_lock(&self->lock);
  self->allowed = allowed;
  pthread_mutex_unlock(&self->lock);
  go_on(plug);
  wait_for_all(&all);
  bool failed = self->allowed == 0;
  self->allowed = -1;
  for (int i = 0; i < WIDE; i++) {
    int stored = 0;
    for (int j = i; j < all.asked; j += WIDE) {
      if (all.answers[j].status != MOONPAD_OK) {
        ANSWERED(&all, j, MOONPAD_NO_MEMORY);
      } else {
        assert_int_equal(all.answers[j].revision, ++stored);
      }
    }
    OK(moonpad_refresh(wide[i], &failure));
    assert_int_equal(moonpad_session_revision(wide[i]), stored);
    host_append(wide[i], "{\"n\":7}");
    assert_int_equal(host_event_count(wide[i]), stored + 1);
    moonpad_session_free(wide[i]);
  }
  host_teardown(&state);
  return failed;
}

static void test_without_memory_each_gets_its_answer(void **state) {
  long allowed = 0;
  (void)state;
  while (fails_after(allowed)) allowed += runs_under_valgrind() ? 7 : 1;
  assert_true(allowed > WIDE);
}

/* ---- random batches come to the same as one by one ---- */

#define OBJECTS 14 /* of twelve sessions */

typedef struct fleet {
  void *state; /* a host */
  host *self;
  moonpad_session *objects[OBJECTS], *plug;
  batch last;
} fleet;

static const char *id_of(int object) {
  static char id[8];
  snprintf(id, sizeof id, "s%d", object % 12);
  return id;
}

static void begin_fleet(fleet *all, const char *url) {
  host_setup(&all->state, url);
  all->self = all->state;
  for (int i = 0; i < OBJECTS; i++) {
    all->objects[i] = i < 12 ? host_create(all->self, id_of(i), "{\"k\":0,\"n\":0}") : host_get(all->self, id_of(i));
  }
  all->plug = host_create(all->self, "plug", "");
}

static void end_fleet(fleet *all) {
  moonpad_session_free(all->plug);
  for (int i = 0; i < OBJECTS; i++) moonpad_session_free(all->objects[i]);
  host_teardown(&all->state);
}

/* What sessions share is only added to, for across sessions appends have no order. */
static void ask_at_random(batch *all, moonpad_session *session) {
  static const char *const sums[] = {"n", "user:n", "app:n", "new"};
  static const char *const deltas[] = {"{\"k\":1}", "{\"k\":2,\"l\":[1]}", "{\"n\":5}", "{\"temp:t\":1}", "{\"m\":{}}"};
  static const char *const events[] = {"{\"id\":\"a\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"l\":1}}}",
                                       "{\"id\":\"a\",\"author\":\"b\"}", "{\"id\":\"b\",\"author\":\"a\"}"};
  uint64_t drawn = next_random();
  switch (drawn % 8) {
  case 0:
    ask_whole(all, session, events[(drawn >> 8) % COUNT(events)]);
    break;
  case 1:
  case 2:
  case 3:
    ask(all, session, deltas[(drawn >> 8) % COUNT(deltas)]);
    break;
  case 4:
    ask_to_add(all, session, "n", moonpad_float(0.5));
    break;
  default:
    ask_to_add(all, session, sums[(drawn >> 8) % COUNT(sums)], moonpad_integer(1));
  }
}

static void live_batch(fleet *all, uint64_t seed, int number) {
  all->last = (batch){.self = all->self};
  random_state = seed * 1000 + (uint64_t)number * 2 + 1;
  hold_with(all->self, all->plug);
  for (int i = 0; i < 60; i++) ask_at_random(&all->last, all->objects[next_random() % OBJECTS]);
  slow_store_hold(false, 0);
  wait_for_all(&all->last);
  for (int i = 0; i < OBJECTS && number % 3 == 2; i++) OK(moonpad_refresh(all->objects[i], &failure));
}

static void expect_same_batch(const fleet *one, const fleet *other, uint64_t seed, int number) {
  for (int i = 0; i < one->last.asked; i++) {
    const answer *a = &one->last.answers[i], *b = &other->last.answers[i];
    if (a->status == b->status && a->revision == b->revision && strcmp(a->conflict, b->conflict) == 0) continue;
    fail_msg("seed %llu, batch %d, append %d: %s at %lld; as plans: %s at %lld, %s", (unsigned long long)seed, number,
             i, moonpad_status_name(a->status), (long long)a->revision, moonpad_status_name(b->status),
             (long long)b->revision, b->said);
  }
}

static void expect_same_sessions(fleet *one, fleet *other) {
  for (int i = 0; i < OBJECTS; i++) {
    moonpad_buffer a = {0}, b = {0};
    OK(moonpad_refresh(one->objects[i], &failure));
    OK(moonpad_refresh(other->objects[i], &failure));
    OK(moonpad_session_state(one->objects[i], &a, &failure));
    OK(moonpad_session_state(other->objects[i], &b, &failure));
    assert_string_equal(a.data, b.data);
    moonpad_buffer_free(&a);
    moonpad_buffer_free(&b);
    assert_int_equal(moonpad_session_revision(one->objects[i]), moonpad_session_revision(other->objects[i]));
    assert_int_equal(host_event_count(one->objects[i]), host_event_count(other->objects[i]));
  }
}

/* The state is the URL of a store that takes plans. */
static void test_random_batches_come_to_the_same(void **state) {
  long lives = fault_count(20);
  uint64_t seed = fault_seeds(lives);
  for (long life = 0; life < lives; life++, seed++) {
    fleet plain, planned;
    begin_fleet(&plain, "memory:");
    begin_fleet(&planned, *state);
    for (int number = 0; number < 8; number++) {
      live_batch(&plain, seed, number);
      live_batch(&planned, seed, number);
      expect_same_batch(&plain, &planned, seed, number);
    }
    expect_same_sessions(&plain, &planned);
    end_fleet(&plain);
    end_fleet(&planned);
  }
}

#define WITH(test, url)                                                                                                \
  { #test " on " url, test, NULL, NULL, (void *)(url) }

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_STORE(test_a_round_takes_one_round_trip, "slow:0:memory:"),
      ON_STORE(test_few_sessions_share_a_transaction, "slow:0:memory:"),
      ON_EVERY_STORE(test_a_refused_one_fails_what_is_behind_it),
      ON_EVERY_STORE(test_ids_that_come_again),
      ON_EVERY_STORE(test_a_session_is_deleted_meanwhile),
      ON_EVERY_STORE(test_two_objects_of_one_session),
      ON_EVERY_STORE(test_own_appends_ahead_in_the_queue),
      ON_EVERY_STORE(test_sums_of_many_sessions_are_exact),
      ON_STORE(test_lost_answers_take_effect_once, "slow:0:memory:"),
      cmocka_unit_test(test_without_memory_each_gets_its_answer),
      WITH(test_random_batches_come_to_the_same, "slow:0:memory:"),
      WITH(test_random_batches_come_to_the_same, "slow:0:sqlite::memory:"),
      WITH(test_random_batches_come_to_the_same, "postgresql:"),
      WITH(test_random_batches_come_to_the_same, "mysql:"),
      WITH(test_random_batches_come_to_the_same, "redis:"),
  };
  return HOST_RUN(tests);
}
