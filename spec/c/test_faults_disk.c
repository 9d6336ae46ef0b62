/*
** Every call of the C API on a disk that fails at the n-th operation of a kind, once and from
** then on: the call says so, its session object shows nothing of it, the store has all of it or
** nothing, and all goes on when the disk works again.
**
** An event whose commit failed may be found when the file is opened again: what fails is the
** wait for the disk, and its bytes may have got there. It is whole then. Which faults are
** tried: fault_steps.h.
*/
#include <stdlib.h>

#include "call_support.h"
#include "fault_steps.h"
#include "faulty_vfs.h"
#include "sqlite_support.h"

#define ONE_BY_ONE 8

typedef struct disk_fault_test {
  call_setting setting;
  call_expectation expected;
  fault_kind kind;
  bool lasting;
} disk_fault_test;

static const char *const kinds[FAULT_KINDS] = {"none", "read", "write", "short write", "full", "sync", "open", "lock"};

static void write_name(const disk_fault_test *self, char *name, size_t size) {
  snprintf(name, size, "%s, %s%s", self->expected.call->name, kinds[self->kind], self->lasting ? " for good" : "");
}

static void expect_status(const disk_fault_test *self, long n, moonpad_status status, const moonpad_error *error) {
  char name[80];
  moonpad_status wanted = self->kind == FAULT_LOCK ? MOONPAD_BUSY : MOONPAD_STORAGE;
  write_name(self, name, sizeof name);
  if (status != wanted) fail_msg("%s %ld: %s: %s", name, n, moonpad_status_name(status), error->message);
  assert_int_equal(error->code, status);
}

/* Either what was there before or what is there afterwards. The caller frees what it is. */
static call_text expect_all_or_nothing(const disk_fault_test *self, long n, moonpad_service *service) {
  char name[80];
  call_text stored = call_stored(service, "app");
  write_name(self, name, sizeof name);
  if (!call_same(&stored, &self->expected.stored_before) && !call_same(&stored, &self->expected.stored_after))
    fail_msg("%s %ld: the store is\n%s", name, n, stored.data);
  return stored;
}

/* The disk works again: the same service goes on. True when the call has happened now for sure. */
static bool go_on(const disk_fault_test *self, long n, call_scene *scene) {
  char name[80];
  moonpad_error error;
  call_text stored = expect_all_or_nothing(self, n, scene->service);
  bool was_stored = call_same(&stored, &self->expected.stored_after);
  free(stored.data);
  if (!call_expect_object_before(&self->expected, n, scene) || was_stored) return was_stored;
  moonpad_status status = call_run(scene, self->expected.call, &error);
  write_name(self, name, sizeof name);
  if (status != MOONPAD_OK) fail_msg("%s %ld, on a disk that works: %s", name, n, error.message);
  call_expect_after(&self->expected, n, scene);
  return true;
}

/* Another process, later: with the same options. */
static void expect_found(const disk_fault_test *self, long n, const moonpad_options *options, bool happened) {
  moonpad_service *service;
  moonpad_error error = {MOONPAD_OK, ""};
  expect_sound_file(self->setting.path);
  if (moonpad_open(moonpad_text(self->setting.url), options, &service, &error) != MOONPAD_OK)
    fail_msg("%s %ld: %s", self->expected.call->name, n, error.message);
  call_text stored = expect_all_or_nothing(self, n, service);
  if (happened) assert_true(call_same(&stored, &self->expected.stored_after));
  free(stored.data);
  moonpad_service_release(service);
}

/* False when so many operations were not made. */
static bool fail_once(const disk_fault_test *self, long n) {
  call_scene scene;
  moonpad_error error;
  call_scene_make(&scene, &self->setting);
  faulty_vfs_arm(self->kind, n, self->lasting);
  moonpad_status status = call_run(&scene, self->expected.call, &error);
  bool has_failed = faulty_vfs_has_failed(), happened = status == MOONPAD_OK;
  faulty_vfs_arm(FAULT_NONE, 0, false);
  if (happened) {
    call_expect_after(&self->expected, n, &scene);
  } else {
    assert_true(has_failed);
    expect_status(self, n, status, &error);
    happened = n % 2 == 1 && go_on(self, n, &scene);
  }
  moonpad_options options = scene.options;
  double now = scene.now;
  call_scene_close(&scene);
  scene.now = now; /* the options' clock reads it */
  expect_found(self, n, &options, happened);
  scene.setting = &self->setting;
  call_scene_free(&scene);
  return has_failed;
}

/* False when the call makes no operation of this kind. */
static bool fail_each(disk_fault_test *self, bool lasting) {
  long n = 1;
  self->lasting = lasting;
  while (fail_once(self, n)) n = fault_after(n, ONE_BY_ONE);
  return n > 1;
}

static void fail_every_call(call_setting setting) {
  fault_seed();
  for (size_t i = 0; i < every_call_count; i++) {
    if (!fault_is_due(i)) continue;
    disk_fault_test one = {.setting = setting};
    one.setting.durability = MOONPAD_DURABILITY_FULL;
    call_learn(&one.expected, &every_calls[i], &one.setting);
    for (int kind = FAULT_READ; kind < FAULT_KINDS; kind++) {
      one.kind = (fault_kind)kind;
      if (fail_each(&one, false)) fail_each(&one, true);
    }
    call_forget(&one.expected);
  }
}

static void test_every_call_on_a_failing_disk(void **state) {
  const sqlite_files *files = *state;
  fail_every_call(call_in_file(files->path));
}

static void test_every_call_keeping_house(void **state) {
  const sqlite_files *files = *state;
  fail_every_call(call_keeping_house(call_in_file(files->path)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_every_call_keeping_house, folder_setup, folder_teardown),
      cmocka_unit_test_setup_teardown(test_every_call_on_a_failing_disk, folder_setup, folder_teardown),
  };
  faulty_vfs_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
