/*
** The journal of a session object's own writes (service/session/own_writes.h), by which a conflict
** is told from the object's own doing. From outside, only the conflict is seen: here the journal is
** held against a list of all writes, with memory that ends, and must not grow.
*/
#include "step_support.h"

#include "repeatable_random.h"
#include "service/session/own_writes.h"

/* ---- The rule, against a list of all writes ---- */

static const char *const names[] = {"", "p", "p.a", "p.ab", "p.b", "p.b.q.c", "p.b.q.d"};
#define NAMES (sizeof names / sizeof *names) /* the first one: no branch */
static const bool concurrent[NAMES][NAMES] = {
    [2] = {[3] = true, [4] = true, [5] = true, [6] = true},
    [3] = {[2] = true, [4] = true, [5] = true, [6] = true},
    [4] = {[2] = true, [3] = true},
    [5] = {[2] = true, [3] = true, [6] = true},
    [6] = {[2] = true, [3] = true, [5] = true},
};

#define ELSEWHERE   NAMES
#define MOST_WRITES 60

typedef struct history {
  mp_own_writes own;
  mp_key *branches[NAMES];
  struct {
    int64_t revision;
    size_t by;
  } writes[MOST_WRITES];
  size_t count;
  int64_t last; /* revision of the scope, which other keys count up too */
} history;

static int64_t last_change(const history *self) {
  return self->count == 0 ? 0 : self->writes[self->count - 1].revision;
}

static bool conflicts(const history *self, int64_t base, bool has_read, size_t by) {
  for (size_t i = 0; i < self->count; i++) {
    if (self->writes[i].revision <= base) continue;
    if (self->writes[i].by == ELSEWHERE || (has_read && concurrent[by][self->writes[i].by])) return true;
  }
  return false;
}

static void write_by(mp_env *env, history *self, size_t by, mp_own_note *note) {
  int64_t before = last_change(self);
  self->last += 1 + (int64_t)(next_random() % 2);
  self->writes[self->count].revision = self->last;
  self->writes[self->count++].by = by;
  if (by == ELSEWHERE) return;
  note->by = NULL;
  if (by != 0) assert_true(mp_own_writes_reserve(env, &self->own, self->branches[by], note));
  mp_own_writes_note(&self->own, before, self->last, note);
}

/* Several in one transaction, which may be undone. */
static void write_batch(mp_env *env, history *self) {
  mp_own_note notes[4];
  size_t count = 1 + next_random() % 4, before = self->count;
  int64_t last = self->last;
  for (size_t i = 0; i < count; i++) write_by(env, self, random_size() % NAMES, &notes[i]);
  if (next_random() % 2 == 0) return;
  while (count-- > 0) mp_own_writes_undo(&self->own, &notes[count]);
  self->count = before;
  self->last = last;
}

static void expect_answers(const history *self) {
  for (int64_t base = 0; base <= self->last; base++) {
    for (size_t by = 0; by < NAMES; by++) {
      for (int has_read = 0; has_read < 2; has_read++) {
        bool found = mp_own_writes_conflict(&self->own, last_change(self), base, has_read, self->branches[by]);
        assert_int_equal(found, conflicts(self, base, has_read, by));
      }
    }
  }
}

static void test_it_answers_as_a_list_of_all_writes(void **state) {
  host *self = *state;
  mp_env *env = self->service->env;
  for (int round = 0; round < 300; round++) {
    history one = {.count = 0};
    for (size_t i = 1; i < NAMES; i++) one.branches[i] = mp_key_new(env, T(names[i]));
    uint64_t foreign = 1 + next_random() % 9;
    while (one.count < MOST_WRITES - 4) {
      if (next_random() % 10 < foreign) {
        write_by(env, &one, ELSEWHERE, NULL);
      } else {
        write_batch(env, &one);
      }
      expect_answers(&one);
    }
    size_t kept = 0;
    for (const mp_branch_write *by = one.own.branches; by != NULL; by = by->next) kept++;
    assert_true(kept < NAMES); /* one for each branch, however often it has written */
    mp_own_writes_free(env, &one.own);
    for (size_t i = 1; i < NAMES; i++) mp_key_release(env, one.branches[i]);
  }
}

/* ---- What the appends note ---- */

static moonpad_changes *begin_branch(moonpad_session *session, const char *branch) {
  moonpad_changes *changes = begin_changes(session);
  OK(mp_changes_set_branch(changes, T(branch), &failure));
  return changes;
}

static void note_status(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  (void)session, (void)event;
  *(moonpad_status *)context = error == NULL ? MOONPAD_OK : error->code;
}

static moonpad_status commit_now(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self, (void)session;
  return moonpad_changes_commit(changes, T(plain_event), NULL, &failure);
}

static moonpad_status commit_async(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  moonpad_status stored = MOONPAD_OK;
  moonpad_status status = moonpad_changes_commit_async(changes, T(plain_event), note_status, &stored, &failure);
  while (status == MOONPAD_OK && moonpad_poll(self->service, TIMEOUT_MS) == 0) continue;
  return status == MOONPAD_OK ? stored : status;
}

static moonpad_status commit_in_step(host *self, moonpad_session *session, moonpad_changes *changes) {
  told got = {0};
  mp_job *job;
  moonpad_status status = step_try_append(session, changes, plain_event, &got, &job);
  if (status != MOONPAD_OK) return status;
  step_wait(self, job);
  return got.status;
}

typedef moonpad_status (*commit)(host *self, moonpad_session *session, moonpad_changes *changes);
static const commit ways[] = {commit_now, commit_async, commit_in_step};
#define WAYS (sizeof ways / sizeof *ways)

/*
** One change set has k pending when another one stores k, with memory for so many allocations.
** True: it had enough.
*/
static bool store_with_memory_for(host *self, commit way, const char *branch, long allocations) {
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_changes *waiting = begin_branch(session, "p.a"), *writer = begin_branch(session, branch);
  assert_int_equal(changed(waiting, "k", "").as.integer, 1);
  set_number(waiting, "k", 5);
  set_number(writer, "k", 2);
  self->allowed = allocations;
  moonpad_status status = way(self, session, writer);
  bool is_enough = self->allowed > 0;
  self->allowed = -1;
  moonpad_session *theirs = host_get(self, "s");
  assert_int_equal(moonpad_session_revision(theirs), status == MOONPAD_OK);
  if (status == MOONPAD_OK) {
    moonpad_status expected = strcmp(branch, "p.b") == 0 ? MOONPAD_CONFLICT : MOONPAD_OK;
    assert_int_equal(moonpad_changes_commit(waiting, T(plain_event), NULL, &failure), expected);
  } else {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    host_append(theirs, "{\"k\":9}"); /* with the revision that the failed one would have had */
    FAILS(MOONPAD_CONFLICT, moonpad_changes_commit(waiting, T(plain_event), NULL, &failure));
  }
  moonpad_session_free(theirs);
  moonpad_changes_free(waiting);
  moonpad_changes_free(writer);
  moonpad_session_free(session);
  return is_enough;
}

/*
** What is not stored counts for nobody, and what is stored is known as the object's own, whenever
** memory ends.
*/
static void test_what_is_noted_is_what_is_stored(void **state) {
  static const char *const branches[] = {"", "p.a", "p.b"};
  for (size_t way = 0; way < WAYS; way++) {
    for (size_t i = 0; i < sizeof branches / sizeof *branches; i++) {
      for (long n = 0; !store_with_memory_for(*state, ways[way], branches[i], n); n++) continue;
    }
  }
}

/* Those behind others know no revision of theirs yet. */
static void test_appends_under_way_are_the_objects_own(void **state) {
  host *self = *state;
  static const char *const keys[] = {"k", "user:k", "temp:k"};
  moonpad_session *session = host_create(self, "s", "");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    moonpad_changes *waiting = begin_branch(session, "p.a"), *own;
    OK(moonpad_session_changes(session, &own, &failure));
    changed(waiting, keys[i], "");
    for (int number = 0; number < 4; number++) {
      changed(own, keys[i], "");
      set_number(own, keys[i], number);
      if (number == 0) {
        OK(moonpad_update_session(session, NULL, &failure));
      } else {
        OK(moonpad_update_session_async(session, NULL, NULL, NULL, &failure));
      }
    }
    set_number(waiting, keys[i], 7);
    OK(moonpad_changes_commit(waiting, T(plain_event), NULL, &failure));
    assert_int_equal(host_read(session, keys[i], "").as.integer, 7);
    moonpad_changes_free(waiting);
  }
  while (moonpad_poll(self->service, 0) > 0) continue;
  moonpad_session_free(session);
}

/* "k" has been read, changed by somebody else, and that has been taken in with an append. */
static moonpad_changes *read_and_overtaken(host *self, moonpad_session *session, commit way) {
  moonpad_changes *changes = begin_changes(session);
  changed(changes, "k", "");
  moonpad_session *theirs = host_get(self, "s");
  host_append(theirs, "{\"k\":9}");
  moonpad_session_free(theirs);
  set_number(changes, "other", 1);
  OK(way(self, session, changes));
  return changes;
}

/* In sight of that it is written again, which is no conflict, whichever way the append went. */
static void test_what_was_read_before_an_append_counts_as_read_now(void **state) {
  host *self = *state;
  for (size_t way = 0; way < WAYS; way++) {
    moonpad_session *session = host_create(self, "s", "{\"k\":1}");
    moonpad_changes *changes = read_and_overtaken(self, session, ways[way]);
    set_number(changes, "k", 5);
    OK(moonpad_changes_commit(changes, T(plain_event), NULL, &failure));
    moonpad_changes_free(changes);
    moonpad_session_free(session);
    moonpad_session_name name = host_name("s");
    OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  }
}

/* The session object must not reach for it when the append is polled. */
static void test_a_change_set_goes_before_its_appends_are_polled(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_changes *sets[3];
  for (size_t i = 0; i < 3; i++) {
    sets[i] = begin_changes(session);
    add_number(sets[i], "k", 1);
    OK(moonpad_changes_commit_async(sets[i], T(plain_event), NULL, NULL, &failure));
  }
  moonpad_changes_free(sets[1]);
  size_t polled = 0;
  while (polled < 3) polled += moonpad_poll(self->service, TIMEOUT_MS);
  assert_int_equal(changed(sets[2], "k", "").as.integer, 3);
  moonpad_changes_free(sets[0]);
  moonpad_changes_free(sets[2]);
  moonpad_session_free(session);
}

/* However often its branches write, a session object knows no more of it. */
static void test_a_journal_does_not_grow(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  long alive = 0;
  for (int i = 0; i < 300; i++) {
    static const char *const branches[] = {"p.a", "p.b", "", "p.b.q.c"};
    moonpad_changes *changes = begin_branch(session, branches[i % 4]);
    add_number(changes, "k", 1);
    OK(moonpad_changes_commit(changes, T(plain_event), NULL, &failure));
    moonpad_changes_free(changes);
    if (i == 3) alive = self->alive;
  }
  assert_int_equal(host_read(session, "k", "").as.integer, 300);
  long grown = self->alive - alive;
  assert_true(grown < 50);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_STORE(test_it_answers_as_a_list_of_all_writes, "memory:"),
      ON_EVERY_STORE(test_what_is_noted_is_what_is_stored),
      ON_EVERY_STORE(test_appends_under_way_are_the_objects_own),
      ON_EVERY_STORE(test_what_was_read_before_an_append_counts_as_read_now),
      ON_EVERY_STORE(test_a_change_set_goes_before_its_appends_are_polled),
      ON_STORE(test_a_journal_does_not_grow, "sqlite:FILE"),
  };
  return HOST_RUN(tests);
}
