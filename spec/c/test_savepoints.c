/* Savepoints and merges of change sets, with memory and without: what was pending before is never lost. */
#include "counting_allocator.h"
#include "service/pending.h"
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
  set_json(changes, "o", "a.y", "[2]"); /* in place: siblings are merged place by place */
  set_json(changes, "new", "", "{}");
  set_json(changes, "new", "first", "[1]");
  set_json(changes, "temp:t", "", "[0]");
  OK(moonpad_changes_append(changes, T("list"), &item, &failure));
  OK(moonpad_changes_append(changes, T("fresh"), &item, &failure));
  OK(moonpad_changes_append(changes, T("fresh"), &item, &failure));
  OK(moonpad_changes_increment(changes, T("n"), &by, &failure));
  OK(moonpad_changes_remove(changes, T("gone"), T(""), &failure));
}

/* On top of that, or beside it. */
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

/* What the rollback left is what a sibling is merged with, place by place. */
static void expect_to_merge(scene *self, const char *expected, int line) {
  moonpad_changes *sibling = NULL;
  expect_ok(moonpad_changes_begin(self->session, &sibling, &failure), line);
  write_second(sibling);
  expect_ok(mp_changes_merge(self->target, sibling, &failure), line);
  expect_pending(self->target, expected, line);
  moonpad_changes_free(sibling);
}

static void a_rollback_needs_no_memory(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  write_first(self.target);
  OK(mp_changes_savepoint(self.target, &failure));
  write_second(self.target);
  PENDING(self.target, BOTH);
  counting_arm_lasting(&counter, 1);
  mp_changes_rollback(self.target);
  counting_arm(&counter, 0);
  PENDING(self.target, FIRST);
  expect_to_merge(&self, BOTH, __LINE__);
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
  OK(mp_changes_savepoint(self.target, &failure));
  write_first(self.target);
  counting_arm_lasting(&counter, 1);
  mp_changes_rollback(self.target);
  counting_arm(&counter, 0);
  assert_false(moonpad_changes_pending(self.target));
  PENDING(self.target, "{}[]");
  free_scene(&self);
}

/* Nodes of what was rolled back are stale, and what is written afterwards goes into what is there again. */
static void nodes_after_a_rollback_are_of_what_is_there(void **state) {
  (void)state;
  scene self;
  make_scene(&self);
  mp_item before, after;
  write_first(self.target);
  OK(mp_changes_savepoint(self.target, &failure));
  write_second(self.target);
  OK(mp_changes_item(self.target, T("o"), &before, &failure));
  mp_node_retain(before.node);
  mp_changes_rollback(self.target);
  assert_true(mp_node_is_stale(before.node));
  FAILS(MOONPAD_INVALID_ARGUMENT, mp_node_set_member(before.node, T("lost"), NULL, &failure));
  OK(mp_changes_item(self.target, T("o"), &after, &failure));
  assert_ptr_not_equal(before.node, after.node);
  assert_false(mp_node_is_stale(after.node));
  mp_node_release(before.node);
  set_json(self.target, "o", "a.w", "[4]");
  SAYS(changed(self.target, "o", "").as.text, "{\"a\":{\"w\":[4],\"x\":1,\"y\":[2]},\"b\":2}");
  OK(mp_changes_item(self.target, T("o"), &before, &failure));
  assert_ptr_equal(before.node, after.node);
  free_scene(&self);
}

typedef moonpad_status (*faulty_call)(scene *self, moonpad_changes *source, moonpad_error *error);

static moonpad_status call_savepoint(scene *self, moonpad_changes *source, moonpad_error *error) {
  (void)source;
  return mp_changes_savepoint(self->target, error);
}

static moonpad_status call_merge(scene *self, moonpad_changes *source, moonpad_error *error) {
  return mp_changes_merge(self->target, source, error);
}

/* Fails at each allocation, once and for good: then nothing has changed, and it works when there is memory again. */
static void fail_each(faulty_call call, const char *expected) {
  for (int lasting = 0; lasting < 2; lasting++) {
    moonpad_status status = MOONPAD_NO_MEMORY;
    for (size_t n = 1; status != MOONPAD_OK; n++) {
      scene self;
      make_scene(&self);
      moonpad_changes *source = NULL;
      OK(moonpad_changes_begin(self.session, &source, &failure));
      write_first(self.target);
      write_second(source);
      if (lasting) {
        counting_arm_lasting(&counter, n);
      } else {
        counting_arm(&counter, n);
      }
      status = call(&self, source, &failure);
      counting_arm(&counter, 0);
      if (status != MOONPAD_OK) {
        assert_int_equal(status, MOONPAD_NO_MEMORY);
        PENDING(self.target, FIRST);
        OK(call(&self, source, &failure));
      }
      PENDING(self.target, expected);
      OK(moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
      moonpad_changes_free(source);
      free_scene(&self);
    }
  }
}

static void without_memory_a_savepoint_changes_nothing(void **state) {
  (void)state;
  fail_each(call_savepoint, FIRST);
}

static void without_memory_a_merge_changes_nothing(void **state) {
  (void)state;
  fail_each(call_merge, BOTH);
}

/* Of a session of its own, which began with what `copied` shows. */
static void without_memory_an_absorption_changes_nothing(void **state) {
  (void)state;
  for (int lasting = 0; lasting < 2; lasting++) {
    moonpad_status status = MOONPAD_NO_MEMORY;
    for (size_t n = 1; status != MOONPAD_OK; n++) {
      scene self;
      make_scene(&self);
      moonpad_changes *copied = NULL, *source = NULL;
      OK(moonpad_changes_begin(self.session, &copied, &failure));
      OK(mp_changes_new_detached(mp_changes_env(self.target), &source, &failure));
      set_json(source, "o", "", "{\"a\":{\"x\":1}}");
      mp_changes_settle(source);
      write_first(self.target);
      set_json(source, "o", "a.z", "[3]");
      set_json(source, "other", "", "[1]");
      if (lasting) {
        counting_arm_lasting(&counter, n);
      } else {
        counting_arm(&counter, n);
      }
      status = mp_changes_absorb(self.target, source, copied, &failure);
      counting_arm(&counter, 0);
      if (status != MOONPAD_OK) {
        assert_int_equal(status, MOONPAD_NO_MEMORY);
        PENDING(self.target, FIRST);
        OK(mp_changes_absorb(self.target, source, copied, &failure));
      }
      SAYS(changed(self.target, "o", "a.z").as.text, "[3]");
      SAYS(changed(self.target, "o", "a.y").as.text, "[2]");
      SAYS(changed(self.target, "other", "").as.text, "[1]");
      moonpad_changes_free(source);
      moonpad_changes_free(copied);
      free_scene(&self);
    }
  }
}

/* Others have changed what an increment is to be added to, or a value has grown in place: that is for the commit to say. */
static void a_savepoint_does_not_judge_what_is_pending(void **state) {
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
  OK(mp_changes_savepoint(self.target, &failure));
  set_json(self.target, "k", "", "[1]");
  mp_changes_rollback(self.target);
  assert_int_equal(changed(self.target, "k", "").as.integer, 1);
  moonpad_value value;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_get(self.target, T("n"), T(""), &value, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  set_json(self.target, "n", "", "[]");
  FAILS(MOONPAD_LIMIT, moonpad_changes_commit(self.target, T("{}"), NULL, &failure));
  moonpad_changes_free(other);
  free_scene(&self);
}

/* ---- An append through the session object of a change set that has looked at everything ---- */

static void look_at_everything(moonpad_changes *changes) {
  mp_key_list keys;
  OK(mp_changes_keys(changes, &keys, &failure));
  mp_key_list_free(&keys);
}

/* What is stored is noted as the object's own, whenever memory ends: it never conflicts with itself. */
static void without_memory_an_own_append_is_noted_or_not_made(void **state) {
  (void)state;
  for (int lasting = 0; lasting < 2; lasting++) {
    bool failed = true;
    for (size_t n = 1; failed; n++) {
      scene self;
      make_scene(&self);
      look_at_everything(self.target);
      if (lasting) {
        counting_arm_lasting(&counter, n);
      } else {
        counting_arm(&counter, n);
      }
      moonpad_status status = moonpad_append_event(
          self.session, T("{\"actions\":{\"stateDelta\":{\"k\":2,\"fresh\":1,\"user:new\":1}}}"), NULL, &failure);
      failed = counting_has_failed(&counter);
      counting_arm(&counter, 0);
      if (status != MOONPAD_OK) {
        assert_int_equal(status, MOONPAD_NO_MEMORY);
        STATE(self.session, "{\"gone\":1,\"k\":1,\"list\":[1],\"n\":5,\"o\":{\"a\":{\"x\":1},\"b\":2},\"user:u\":[]}");
      }
      set_json(self.target, "k", "", "[3]");
      set_json(self.target, "fresh", "", "[3]");
      set_json(self.target, "user:new", "", "[3]");
      if (moonpad_changes_commit(self.target, T("{}"), NULL, &failure) != MOONPAD_OK) {
        fail_msg("allocation %zu: %s", n, failure.message);
      }
      free_scene(&self);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rollback_needs_no_memory),
      cmocka_unit_test(a_rollback_to_nothing_drops_all),
      cmocka_unit_test(nodes_after_a_rollback_are_of_what_is_there),
      cmocka_unit_test(without_memory_a_savepoint_changes_nothing),
      cmocka_unit_test(without_memory_a_merge_changes_nothing),
      cmocka_unit_test(without_memory_an_absorption_changes_nothing),
      cmocka_unit_test(a_savepoint_does_not_judge_what_is_pending),
      cmocka_unit_test(without_memory_an_own_append_is_noted_or_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
