/* Wakeups (base/wakeup.h): a descriptor is readable from when it is raised until it is lowered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <poll.h>
#if !defined(_WIN32)
#include <fcntl.h>
#endif

#include "base/wakeup.h"
#include "timeout.h"

static bool is_readable(const mp_wakeup *wakeup, int milliseconds) {
  struct pollfd watched = {.events = POLLIN};
  watched.fd = mp_wakeup_fd(wakeup);
  return poll(&watched, 1, milliseconds) == 1;
}

static mp_wakeup make(void) {
  mp_wakeup wakeup;
  mp_wakeup_init(&wakeup);
  assert_int_equal(mp_wakeup_fd(&wakeup), -1);
  assert_int_equal(mp_wakeup_make(&wakeup), 0);
  return wakeup;
}

static void it_is_readable_while_it_is_raised(void **state) {
  (void)state;
  mp_wakeup wakeup = make();
  assert_false(is_readable(&wakeup, 0));
  mp_wakeup_raise(&wakeup);
  mp_wakeup_raise(&wakeup);
  assert_true(is_readable(&wakeup, TIMEOUT_MS));
  assert_true(is_readable(&wakeup, 0));
  mp_wakeup_lower(&wakeup);
  mp_wakeup_lower(&wakeup);
  assert_false(is_readable(&wakeup, 20));
  mp_wakeup_free(&wakeup);
}

/* Whatever is under way when it is lowered, nothing of it comes later. */
static void lowering_at_once_leaves_nothing(void **state) {
  (void)state;
  mp_wakeup wakeup = make();
  for (int i = 0; i < 2000; i++) {
    mp_wakeup_raise(&wakeup);
    mp_wakeup_lower(&wakeup);
    assert_false(is_readable(&wakeup, 0));
  }
  assert_false(is_readable(&wakeup, 20));
  mp_wakeup_raise(&wakeup);
  assert_true(is_readable(&wakeup, TIMEOUT_MS));
  mp_wakeup_free(&wakeup);
}

static void it_may_be_raised_before_it_is_made(void **state) {
  (void)state;
  mp_wakeup wakeup;
  mp_wakeup_init(&wakeup);
  mp_wakeup_raise(&wakeup);
  assert_int_equal(mp_wakeup_make(&wakeup), 0);
  int descriptor = mp_wakeup_fd(&wakeup);
  assert_int_equal(mp_wakeup_make(&wakeup), 0);
  assert_int_equal(mp_wakeup_fd(&wakeup), descriptor);
  assert_true(is_readable(&wakeup, TIMEOUT_MS));
  mp_wakeup_lower(&wakeup);
  assert_false(is_readable(&wakeup, 20));
  mp_wakeup_free(&wakeup);
  assert_int_equal(mp_wakeup_fd(&wakeup), -1);
}

static bool is_inherited(int descriptor) {
#if defined(_WIN32)
  DWORD flags = HANDLE_FLAG_INHERIT;
  assert_true(GetHandleInformation((HANDLE)(intptr_t)descriptor, &flags));
  return (flags & HANDLE_FLAG_INHERIT) != 0;
#else
  return (fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0;
#endif
}

static void no_child_inherits_it(void **state) {
  (void)state;
#if defined(__EMSCRIPTEN__)
  skip(); /* there is none */
#endif
  mp_wakeup wakeup = make();
  assert_false(is_inherited(wakeup.descriptors[0]));
  assert_false(is_inherited(wakeup.descriptors[1]));
  mp_wakeup_free(&wakeup);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_readable_while_it_is_raised),
      cmocka_unit_test(lowering_at_once_leaves_nothing),
      cmocka_unit_test(it_may_be_raised_before_it_is_made),
      cmocka_unit_test(no_child_inherits_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
