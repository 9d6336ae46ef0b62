/*
** Transactions over a change set (service/changes/transaction.h), which tool calls are in Lua, with
** memory and without: what was pending before is never lost. Here each allocation fails in turn,
** which no Lua test can do for these calls alone.
*/
#include "core/tree_write.h"
#include "counting_allocator.h"
#include "service/binding/state.h"
#include "service_support.h"

static counting_allocator counter;

/* A session with something of each kind, and a change set over it. */
typedef struct scene {
  moonpad_service *service;
  moonpad_session *session;
  moonpad_changes *target;
} scene;

static void make_scene(scene *self) {
  static const char state[] = "{\"k\":1,\"list\":[1],\"o\":{\"a\":{\"x\":1},\"b\":2},\"n\":5,\"gone\":1,\"user:u\":[]}";
  moonpad_options options;
  moonpad_options_init(&options);
  options.allocator = &counter.hooks;
  options.max_value_bytes = 64;
  counting_init(&counter);
  OK(moonpad_open(T("memory:"), &options, &self->service, &failure));
  moonpad_session_name name = host_name("s");
  OK(moonpad_create_session(self->service, &name, T(state), &self->session, &failure));
  OK(moonpad_changes_begin(self->session, &self->target, &failure));
}

static void free_scene(scene *self) {
  moonpad_changes_free(self->target);
  moonpad_session_free(self->session);
  moonpad_service_release(self->service);
  assert_int_equal(counter.alive, 0);
}

static void write_first(moonpad_changes *changes) {
  moonpad_value by = moonpad_integer(2), item = moonpad_json(T("{\"i\":1}"));
  set_json(changes, "k", "", "[true]");
  set_json(changes, "o", "a.y", "[2]"); /* in place: siblings are merged path by path */
  set_json(changes, "new", "", "{}");
  set_json(changes, "new", "first", "[1]");
  set_json(changes, "temp:t", "", "[0]");
  OK(moonpad_changes_append(changes, T("list"), &item, &failure));
  OK(moonpad_changes_append(changes, T("fresh"), &item, &failure));
  OK(moonpad_changes_append(changes, T("fresh"), &item, &failure));
  OK(moonpad_changes_increment(changes, T("n"), &by, &failure));
  OK(moonpad_changes_remove(changes, T("gone"), T(""), &failure));
}

/* On top of that, or concurrent with it. */
static void write_second(moonpad_changes *changes) {
  moonpad_value by = moonpad_float(0.5), item = moonpad_json(T("[[]]"));
  set_json(changes, "k", "", "{\"late\":1}");
  set_json(changes, "o", "a.z", "[3]");
  OK(moonpad_changes_remove(changes, T("o"), T("b"), &failure));
  if (changed(changes, "new", "").type == MOONPAD_ABSENT) set_json(changes, "new", "", "{}");
  set_json(changes, "new", "second", "[2]");
  set_json(changes, "other", "", "[1,2]");
  set_json(changes, "user:u", "[1]", "{}");
  set_json(changes, "gone", "", "[9]");
  OK(moonpad_changes_append(changes, T("list"), &item, &failure));
  OK(moonpad_changes_append(changes, T("fresh"), &item, &failure));
  OK(moonpad_changes_increment(changes, T("n"), &by, &failure));
}

#define FIRST                                                                                                          \
  "{\"fresh\":[{\"i\":1},{\"i\":1}],\"k\":[true],\"list\":[1,{\"i\":1}],\"n\":7,\"new\":{\"first\":[1]},"              \
  "\"o\":{\"a\":{\"x\":1,\"y\":[2]},\"b\":2},\"temp:t\":[0]}[\"gone\"]"
#define BOTH                                                                                                           \
  "{\"fresh\":[{\"i\":1},{\"i\":1},[[]]],\"gone\":[9],\"k\":{\"late\":1},\"list\":[1,{\"i\":1},[[]]],\"n\":7.5,"       \
  "\"new\":{\"first\":[1],\"second\":[2]},\"o\":{\"a\":{\"x\":1,\"y\":[2],\"z\":[3]}},\"other\":[1,2],"                \
  "\"temp:t\":[0],\"user:u\":[{}]}[]"

static void expect_pending(moonpad_changes *changes, const char *expected, int line) {
  mp_buffer delta, removed;
  mp_buffer_init(&delta, mp_changes_env(changes));
  mp_buffer_init(&removed, mp_changes_env(changes));
  expect_ok(mp_changes_write_delta(changes, &delta, &removed, &failure), line);
  mp_buffer_add_string(&delta, mp_buffer_text(&removed));
  expect_text(mp_buffer_text(&delta), expected, line);
  mp_buffer_free(&delta);
  mp_buffer_free(&removed);
}
#define PENDING(changes, expected) expect_pending((changes), (expected), __LINE__)

/* The allocation that fails between arm and disarm. */
static struct {
  size_t at;
  bool lasting; /* and all after it */
  bool has_happened;
} fault;

static void arm(void) {
  counting_arm(&counter, fault.at);
  counter.lasting = fault.lasting;
}

static void disarm(void) {
  fault.has_happened = counting_has_failed(&counter);
  counting_disarm(&counter);
}

typedef void scene_test(scene *self);

/*
** A test that is run on a new scene for each allocation, which fails once, and then for good. Only
** what is between arm() and disarm() may be without memory:
**
**   static void without_memory_a_removal_changes_nothing(scene *self) {
**     arm();
**     moonpad_status status = moonpad_changes_remove(self->target, T("k"), T(""), &failure);
**     disarm();
**     PENDING(self->target, status == MOONPAD_OK ? "{}[\"k\"]" : "{}[]");
**   }
**
** and in main: AT_EACH_ALLOCATION(without_memory_a_removal_changes_nothing).
*/
#define AT_EACH_ALLOCATION(test)                                                                                       \
  { #test, fail_each_allocation, NULL, NULL, (void *)(test) }

static void fail_each_allocation(void **state) {
  scene_test *test = (scene_test *)*state;
  for (int lasting = 0; lasting < 2; lasting++) {
    fault.lasting = lasting;
    fault.has_happened = true;
    for (fault.at = 1; fault.has_happened; fault.at++) {
      scene self;
      make_scene(&self);
      test(&self);
      free_scene(&self);
    }
  }
}

static moonpad_changes *begin_over(moonpad_changes *below) {
  moonpad_changes *call = NULL;
  OK(mp_changes_new_over(below, &call, &failure));
  mp_transaction_begin(call);
  return call;
}

static void a_rollback_needs_no_memory(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  write_first(self.target);
  moonpad_changes *call = begin_over(self.target);
  write_second(call);
  PENDING(call, BOTH);
  PENDING(self.target, FIRST);
  counting_arm_lasting(&counter, 1);
  mp_transaction_rollback(call);
  counting_disarm(&counter);
  PENDING(call, FIRST);
  mp_transaction_begin(call);
  write_second(call);
  OK(mp_transaction_commit(call, &failure));
  PENDING(self.target, BOTH);
  moonpad_changes_free(call);
  OK(moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  STATE(self.session,
        "{\"fresh\":[{\"i\":1},{\"i\":1},[[]]],\"gone\":[9],\"k\":{\"late\":1},\"list\":[1,{\"i\":1},[[]]],\"n\":7.5,"
        "\"new\":{\"first\":[1],\"second\":[2]},\"o\":{\"a\":{\"x\":1,\"y\":[2],\"z\":[3]}},\"other\":[1,2],"
        "\"temp:t\":[0],\"user:u\":[{}]}");
  free_scene(&self);
}

static void a_rollback_to_nothing_drops_all(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  moonpad_changes *call = begin_over(self.target);
  write_first(call);
  counting_arm_lasting(&counter, 1);
  mp_transaction_rollback(call);
  counting_disarm(&counter);
  assert_false(moonpad_changes_pending(call));
  assert_false(moonpad_changes_pending(self.target));
  PENDING(call, "{}[]");
  moonpad_changes_free(call);
  free_scene(&self);
}

/* Nodes of what was rolled back are stale; those of what was committed live on. */
static void nodes_are_of_what_is_there(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  mp_item before, after;
  write_first(self.target);
  moonpad_changes *call = begin_over(self.target);
  write_second(call);
  OK(mp_changes_item(call, T("o"), &before, &failure));
  mp_node_retain(before.node);
  mp_transaction_rollback(call);
  assert_true(mp_node_is_stale(before.node));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_node_set_member(before.node, T("lost"), NULL, &failure));
  mp_transaction_begin(call);
  OK(mp_changes_item(call, T("o"), &after, &failure));
  assert_ptr_not_equal(before.node, after.node);
  mp_node_release(before.node);
  set_json(call, "o", "a.w", "[4]");
  OK(mp_transaction_commit(call, &failure));
  SAYS(changed(self.target, "o", "").as.text, "{\"a\":{\"w\":[4],\"x\":1,\"y\":[2]},\"b\":2}");
  mp_transaction_begin(call);
  OK(mp_changes_item(call, T("o"), &before, &failure));
  assert_ptr_equal(before.node, after.node);
  assert_false(mp_node_is_stale(after.node));
  moonpad_changes_free(call);
  free_scene(&self);
}

/* Between two transactions, and after its session object is gone, it takes no writes. */
static void writes_outside_of_a_transaction_are_refused(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  moonpad_changes *call = begin_over(self.target), *over = NULL;
  moonpad_value one = moonpad_integer(1);
  OK(mp_transaction_commit(call, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(call, T("k"), T(""), &one, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_transaction_commit(call, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(call, T("{}"), NULL, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_changes_new_over(call, &over, &failure));
  assert_int_equal(changed(call, "k", "").as.integer, 1);
  mp_transaction_begin(call);
  mp_changes_end(self.target, "it is over");
  OK(moonpad_changes_set(call, T("k"), T(""), &one, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_transaction_commit(call, &failure));
  moonpad_session_free(self.session);
  self.session = NULL;
  FAILS(MOONPAD_CLOSED, mp_transaction_commit(call, &failure));
  moonpad_changes_free(call);
  free_scene(&self);
}

/* Where a commit fails, nothing has changed, and it works when there is memory again. */
static void play_commit(scene *self, bool overlaps) {
  moonpad_changes *first = begin_over(self->target), *second = begin_over(self->target);
  write_first(first);
  if (overlaps) {
    OK(mp_transaction_commit(first, &failure));
    mp_transaction_begin(first); /* somebody to be told */
  } else {
    mp_transaction_rollback(first);
    write_first(self->target);
    mp_transaction_begin(second);
  }
  moonpad_value by = moonpad_float(0.5), item = moonpad_json(T("[[]]"));
  set_json(second, "o", "a.z", "[3]");
  set_json(second, "other", "", "[1,2]");
  OK(moonpad_changes_append(second, T("list"), &item, &failure));
  OK(moonpad_changes_increment(second, T("n"), &by, &failure));
  arm();
  moonpad_status status = mp_transaction_commit(second, &failure);
  disarm();
  if (status != MOONPAD_OK) {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    PENDING(self->target, FIRST);
    OK(mp_transaction_commit(second, &failure));
  }
  PENDING(self->target, "{\"fresh\":[{\"i\":1},{\"i\":1}],\"k\":[true],\"list\":[1,{\"i\":1},[[]]],\"n\":7.5,"
                        "\"new\":{\"first\":[1]},\"o\":{\"a\":{\"x\":1,\"y\":[2],\"z\":[3]},\"b\":2},"
                        "\"other\":[1,2],\"temp:t\":[0]}[\"gone\"]");
  moonpad_changes_free(second);
  moonpad_changes_free(first);
  OK(moonpad_changes_commit(self->target, T("{}"), NULL, &failure));
}

static void without_memory_a_commit_changes_nothing(scene *self) {
  play_commit(self, false);
}

static void without_memory_a_commit_beside_another_changes_nothing(scene *self) {
  play_commit(self, true);
}

/* It shows what was there, or its commit fails: what it decides upon is never what came later. */
static void without_memory_a_transaction_sees_the_old_or_fails(scene *self) {
  moonpad_changes *first = begin_over(self->target), *second = begin_over(self->target);
  moonpad_value two = moonpad_integer(2);
  OK(moonpad_changes_set(first, T("k"), T(""), &two, &failure));
  OK(moonpad_changes_remove(first, T("gone"), T(""), &failure));
  arm();
  (void)mp_transaction_commit(first, &failure);
  disarm();
  moonpad_value seen = changed(second, "k", "");
  set_json(second, "seen", "", "[true]");
  bool is_old = seen.as.integer == 1 && changed(second, "gone", "").type != MOONPAD_ABSENT;
  moonpad_status status = mp_transaction_commit(second, &failure);
  if (!is_old && status != MOONPAD_NO_MEMORY) fail_msg("allocation %zu: what came later was seen", fault.at);
  if (!fault.has_happened) assert_int_equal(status, MOONPAD_OK);
  moonpad_changes_free(second);
  moonpad_changes_free(first);
}

/* Whatever was looked at before, it shows what is there, or fails. */
static void without_memory_what_is_over_shows_what_is_there_or_fails(scene *self) {
  moonpad_changes *over = begin_over(self->target), *other = begin_over(self->target);
  write_first(over);
  OK(mp_transaction_commit(over, &failure));
  mp_changes_end(over, "it is over");
  PENDING(over, FIRST);
  write_second(other);
  OK(mp_transaction_commit(other, &failure));
  mp_buffer all;
  moonpad_value n, inner;
  mp_buffer_init(&all, mp_changes_env(over));
  arm();
  moonpad_status status = moonpad_changes_get(over, T("n"), T(""), &n, &failure);
  if (status == MOONPAD_OK) assert_true(n.as.number == 7.5);
  if (status == MOONPAD_OK) status = moonpad_changes_get(over, T("o"), T("a.z"), &inner, &failure);
  if (status == MOONPAD_OK) SAYS(inner.as.text, "[3]");
  if (status == MOONPAD_OK) status = mp_changes_write_all(over, false, &all, &failure);
  disarm();
  if (status != MOONPAD_OK) assert_int_equal(status, MOONPAD_NO_MEMORY);
  mp_buffer_free(&all);
  PENDING(over, BOTH);
  moonpad_changes_free(other);
  moonpad_changes_free(over);
}

/* Of a session of its own, which began with what the caller showed. */
static void without_memory_writes_are_done_again_or_rolled_back(scene *self) {
  moonpad_changes *source = NULL;
  mp_writes *writes = NULL;
  OK(mp_changes_new_detached(mp_changes_env(self->target), &source, &failure));
  set_json(source, "o", "", "{\"a\":{\"x\":1}}");
  mp_changes_promote(source);
  write_first(self->target);
  moonpad_changes *call = begin_over(self->target);
  set_json(source, "o", "a.z", "[3]");
  set_json(source, "other", "", "[1]");
  arm();
  moonpad_status status = mp_changes_writes(source, &writes, &failure);
  if (status == MOONPAD_OK) status = mp_changes_add_writes(call, writes, &failure);
  disarm();
  if (status != MOONPAD_OK) {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    mp_transaction_rollback(call);
    PENDING(self->target, FIRST);
    mp_transaction_begin(call);
    mp_writes_free(writes);
    OK(mp_changes_writes(source, &writes, &failure));
    OK(mp_changes_add_writes(call, writes, &failure));
  }
  mp_writes_free(writes);
  OK(mp_transaction_commit(call, &failure));
  SAYS(changed(self->target, "o", "a.z").as.text, "[3]");
  SAYS(changed(self->target, "o", "a.y").as.text, "[2]");
  SAYS(changed(self->target, "other", "").as.text, "[1]");
  moonpad_changes_free(call);
  moonpad_changes_free(source);
}

/*
** Others have changed what an increment is to be added to, or a value has grown in place: that is
** for the commit to say.
*/
static void a_transaction_does_not_judge_what_is_pending(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  moonpad_changes *other = NULL;
  moonpad_value by = moonpad_integer(1);
  OK(moonpad_changes_increment(self.target, T("n"), &by, &failure));
  set_json(self.target, "o", "long", "[\"0123456789012345678901234567890123456789\"]");
  set_json(self.target, "o", "long2", "[\"0123456789012345678901234567890123456789\"]");
  OK(moonpad_changes_begin(self.session, &other, &failure));
  set_json(other, "n", "", "[]");
  OK(moonpad_changes_commit(other, T("{}"), NULL, &failure));
  moonpad_changes *call = begin_over(self.target);
  set_json(call, "k", "", "[1]");
  mp_transaction_rollback(call);
  assert_int_equal(changed(self.target, "k", "").as.integer, 1);
  moonpad_value value;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_get(self.target, T("n"), T(""), &value, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_get(call, T("n"), T(""), &value, &failure));
  moonpad_changes_free(call);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  set_json(self.target, "n", "", "[]");
  FAILS(MOONPAD_LIMIT, moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  moonpad_changes_free(other);
  free_scene(&self);
}

/* It is in the way of nothing but itself: not of other keys, nor of what takes its place. */
static void an_increment_that_fits_no_more_fails_alone(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  moonpad_value by = moonpad_integer(1);
  moonpad_changes *calls[4];
  for (size_t i = 0; i < 4; i++) calls[i] = begin_over(self.target);
  OK(moonpad_changes_increment(calls[0], T("n"), &by, &failure));
  OK(mp_transaction_commit(calls[0], &failure));
  host_append(self.session, "{\"n\":\"a\"}"); /* seen by no call */
  host_append(self.session, "{\"n\":\"b\"}"); /* on what the increment does not fit on any more */
  assert_int_equal(changed(calls[1], "n", "").as.integer, 5);
  set_json(calls[1], "k", "", "[1]");
  OK(mp_transaction_commit(calls[1], &failure));
  OK(moonpad_changes_increment(calls[2], T("n"), &by, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_transaction_commit(calls[2], &failure));
  OK(moonpad_changes_set(calls[3], T("n"), T(""), &by, &failure));
  OK(mp_transaction_commit(calls[3], &failure));
  for (size_t i = 0; i < 4; i++) moonpad_changes_free(calls[i]);
  PENDING(self.target, "{\"k\":[1],\"n\":1}[]");
  OK(moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  free_scene(&self);
}

/* ---- The end of what a change set lies over ---- */

/* Nothing is written in them any more, and they can be freed in any order. */
static void calls_outlive_their_session(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    scene self;
    make_scene(&self);
    moonpad_changes *within = begin_over(self.target), *between = begin_over(self.target), *unused = NULL;
    OK(mp_changes_new_over(self.target, &unused, &failure));
    write_first(within);
    OK(mp_transaction_commit(between, &failure));
    moonpad_session_free(self.session);
    self.session = NULL;
    moonpad_changes *calls[] = {within, between, unused};
    moonpad_value one = moonpad_integer(1), value;
    if (order == 1) {
      moonpad_changes_free(self.target);
      self.target = NULL;
    }
    for (size_t i = 0; i < 3; i++) {
      mp_transaction_begin(calls[i]);
      FAILS(MOONPAD_CLOSED, moonpad_changes_get(calls[i], T("k"), T(""), &value, &failure));
      FAILS(MOONPAD_CLOSED, moonpad_changes_set(calls[i], T("k"), T(""), &one, &failure));
      FAILS(MOONPAD_CLOSED, mp_transaction_commit(calls[i], &failure));
      mp_transaction_rollback(calls[i]);
      mp_transaction_begin(calls[i]);
      mp_transaction_rollback(calls[i]);
      assert_false(moonpad_changes_pending(calls[i]));
      if (i == 0) mp_changes_end(calls[i], "it is over");
      moonpad_changes_free(calls[i]);
    }
    free_scene(&self);
  }
}

/* What is refused before it is looked at leaves nothing behind: free_scene counts. */
static void a_malformed_event_of_a_branch_is_refused(void **state) {
  (void)state;
  static const char *const events[] = {"{\"author\":1}", "{", "[]", "{\"actions\":{\"stateDelta\":1}}"};
  for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
    scene self;
    make_scene(&self);
    OK(mp_changes_set_branch(self.target, T("team.a"), &failure));
    set_json(self.target, "k", "", "[1]");
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(self.target, T(events[i]), NULL, &failure));
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit_async(self.target, T(events[i]), NULL, NULL, &failure));
    PENDING(self.target, "{\"k\":[1]}[]");
    OK(moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
    free_scene(&self);
  }
}

/* ---- An append through the session object of a change set that has looked at everything ---- */

static void look_at_everything(moonpad_changes *changes) {
  mp_entries keys;
  OK(mp_changes_keys(changes, &keys, &failure));
  mp_entries_free(&keys);
}

/*
** What is stored is noted as the object's own, whenever memory ends: it never conflicts
** with itself.
*/
static void without_memory_an_own_append_is_noted_or_not_made(scene *self) {
  look_at_everything(self->target);
  arm();
  moonpad_status status = moonpad_append_event(
      self->session, T("{\"actions\":{\"stateDelta\":{\"k\":2,\"fresh\":1,\"user:new\":1}}}"), NULL, &failure);
  disarm();
  if (status != MOONPAD_OK) {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    STATE(self->session, "{\"gone\":1,\"k\":1,\"list\":[1],\"n\":5,\"o\":{\"a\":{\"x\":1},\"b\":2},\"user:u\":[]}");
  }
  set_json(self->target, "k", "", "[3]");
  set_json(self->target, "fresh", "", "[3]");
  set_json(self->target, "user:new", "", "[3]");
  if (moonpad_changes_commit(self->target, T("{}"), NULL, &failure) != MOONPAD_OK) {
    fail_msg("allocation %zu: %s", fault.at, failure.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rollback_needs_no_memory),
      cmocka_unit_test(a_rollback_to_nothing_drops_all),
      cmocka_unit_test(nodes_are_of_what_is_there),
      cmocka_unit_test(writes_outside_of_a_transaction_are_refused),
      AT_EACH_ALLOCATION(without_memory_a_commit_changes_nothing),
      AT_EACH_ALLOCATION(without_memory_a_commit_beside_another_changes_nothing),
      AT_EACH_ALLOCATION(without_memory_a_transaction_sees_the_old_or_fails),
      AT_EACH_ALLOCATION(without_memory_what_is_over_shows_what_is_there_or_fails),
      AT_EACH_ALLOCATION(without_memory_writes_are_done_again_or_rolled_back),
      cmocka_unit_test(a_transaction_does_not_judge_what_is_pending),
      cmocka_unit_test(an_increment_that_fits_no_more_fails_alone),
      cmocka_unit_test(calls_outlive_their_session),
      cmocka_unit_test(a_malformed_event_of_a_branch_is_refused),
      AT_EACH_ALLOCATION(without_memory_an_own_append_is_noted_or_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
