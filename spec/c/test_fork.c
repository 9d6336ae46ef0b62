/* Ids after a fork: what the parent has drawn ahead is not given out by its child, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "base/uuid.h"

static void a_forked_child_has_ids_of_its_own(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  char mine[MP_UUID_BYTES], theirs[MP_UUID_BYTES] = {0};
  int ends[2];
  mp_uuid4(env, mine);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    mp_uuid4(env, theirs);
    _exit(write(ends[1], theirs, sizeof theirs) == (ssize_t)sizeof theirs ? 0 : 1);
  }
  mp_uuid4(env, mine);
  assert_int_equal(read(ends[0], theirs, sizeof theirs), (ssize_t)sizeof theirs);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(memcmp(mine, theirs, MP_UUID_BYTES) != 0);
  close(ends[0]);
  close(ends[1]);
  mp_env_release(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_forked_child_has_ids_of_its_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
