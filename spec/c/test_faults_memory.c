/*
** Every allocation of every call failing, one by one and from one on: moonpad's own, on both
** stores, and SQLite's. The answer is no_memory or what it would have been, what there is
** afterwards is what there was or what there would have been, the call works when there is memory
** again, and all of it is given back. Which are tried: fault_steps.h.
*/
#include "call_support.h"
#include "fault_steps.h"
#include "faulty_vfs.h"
#include "sqlite_memory.h"
#include "sqlite_support.h"

/* How many allocations fail one by one. A call without a file takes a tenth of the time. */
#define ONE_BY_ONE_IN_MEMORY 100
#define ONE_BY_ONE_IN_FILE   12

static counting_allocator own; /* what moonpad allocates */

/* ---- Failing ---- */

typedef struct memory_fault_test {
  call_setting setting;
  counting_allocator *failing;
  call_expectation expected;
} memory_fault_test;

/* The call has failed: nothing has changed, and it works now. */
static void expect_before(const memory_fault_test *self, call_scene *scene, long n) {
  const call_expectation *expected = &self->expected;
  moonpad_error error;
  call_expect(expected, n, "the store", call_stored(scene->service, "app"), &expected->stored_before);
  if (!call_expect_object_before(expected, n, scene)) return;
  if (call_run(scene, expected->call, &error) != MOONPAD_OK)
    fail_msg("%s, allocation %ld, when there is memory again: %s", expected->call->name, n, error.message);
  call_expect_after(expected, n, scene);
}

/* False when so many allocations were not made. */
static bool fail_once(const memory_fault_test *self, long n, bool lasting) {
  call_scene scene;
  moonpad_error error;
  counting_init(&own);
  call_scene_make(&scene, &self->setting);
  counting_arm_as(self->failing, (size_t)n, lasting);
  moonpad_status status = call_run(&scene, self->expected.call, &error);
  bool has_failed = counting_has_failed(self->failing);
  counting_disarm(self->failing);
  if (status == MOONPAD_OK) {
    call_expect_after(&self->expected, n, &scene);
  } else {
    if (status != MOONPAD_NO_MEMORY || !has_failed)
      fail_msg("%s, allocation %ld: %s: %s", self->expected.call->name, n, moonpad_status_name(status), error.message);
    assert_int_equal(error.code, MOONPAD_NO_MEMORY);
    assert_true(error.message[0] != '\0');
    expect_before(self, &scene, n);
  }
  call_scene_free(&scene);
  assert_int_equal(own.alive, 0);
  return has_failed;
}

static void fail_each(call_setting setting, counting_allocator *failing, long one_by_one) {
  fault_seed();
  setting.allocator = &own.hooks;
  for (size_t i = 0; i < every_call_count; i++) {
    if (!fault_is_due(i)) continue;
    memory_fault_test one = {.setting = setting, .failing = failing};
    sqlite3_int64 used = sqlite3_memory_used();
    counting_init(&own);
    call_learn(&one.expected, &every_calls[i], &one.setting);
    assert_int_equal(own.alive, 0);
    for (int lasting = 0; lasting < 2; lasting++) {
      for (long n = 1; fail_once(&one, n, lasting == 1);) n = fault_after(n, one_by_one);
    }
    call_forget(&one.expected);
    assert_int_equal(sqlite3_memory_used(), used);
  }
}

static void test_every_call_in_memory(void **state) {
  (void)state;
  fail_each(call_in_memory(), &own, ONE_BY_ONE_IN_MEMORY);
}

static void test_every_call_keeping_house(void **state) {
  (void)state;
  fail_each(call_keeping_house(call_in_memory()), &own, ONE_BY_ONE_IN_MEMORY);
}

static void test_every_call_keeping_house_on_a_file(void **state) {
  const sqlite_files *files = *state;
  fail_each(call_keeping_house(call_in_file(files->path)), &own, ONE_BY_ONE_IN_FILE);
}

static void test_every_call_as_a_plan(void **state) {
  (void)state;
  fail_each(call_with_plans(), &own, ONE_BY_ONE_IN_MEMORY);
}

static void test_every_call_on_a_file(void **state) {
  const sqlite_files *files = *state;
  fail_each(call_in_file(files->path), &own, ONE_BY_ONE_IN_FILE);
}

static void test_every_call_while_sqlite_has_no_memory(void **state) {
  const sqlite_files *files = *state;
  fail_each(call_in_file(files->path), &sqlite_memory, ONE_BY_ONE_IN_FILE);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_every_call_in_memory),     TEST(test_every_call_as_a_plan),
      TEST(test_every_call_keeping_house), TEST(test_every_call_keeping_house_on_a_file),
      TEST(test_every_call_on_a_file),     TEST(test_every_call_while_sqlite_has_no_memory)};
  sqlite_memory_install();
  faulty_vfs_install(); /* fails nothing here, and does not wait for the disk */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
