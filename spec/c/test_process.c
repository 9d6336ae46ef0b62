/* Children (src/process): beside one another, in forked processes, under hosts of many habits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process/process.h"
#include "process/start.h"
#include "timeout.h"

typedef struct child {
  mp_process *process;
  mp_process_pipes pipes;
} child;

static mp_process_failure try_start(child *started, const char *program, int *code) {
  char *const arguments[] = {(char *)program, NULL};
  char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
  mp_process_command command = {arguments, environment, NULL};
  pid_t pid;
  mp_process_failure failure = mp_process_start(&command, &pid, &started->pipes, code);
  if (failure != MP_PROCESS_STARTED) return failure;
  started->process = mp_process_new(pid);
  return started->process == NULL ? MP_PROCESS_NOT_STARTED : MP_PROCESS_STARTED;
}

static child start(const char *program) {
  child started;
  int code;
  if (try_start(&started, program, &code) != MP_PROCESS_STARTED) abort();
  return started;
}

static void close_pipes(const child *started) {
  close(started->pipes.input);
  close(started->pipes.output);
  close(started->pipes.error);
}

static void finish(child *started) {
  close_pipes(started);
  mp_process_end(started->process);
}

static void nap(void) {
  mp_sleep(2e-3);
}

/* Waits until the process is over. Also for forked processes, of which cmocka knows nothing. */
static int status_of(mp_process *process) {
  int status;
  double limit = time_limit();
  while (!mp_process_is_over(process, &status)) {
    if (!wait_before(limit)) abort();
  }
  return status;
}

static void await_absence(pid_t pid) {
  WAIT_UNTIL(kill(pid, 0) == -1);
}

/* Does `cat` answer what it is told? */
static bool answers(const child *started) {
  char byte = 'x';
  struct pollfd wait = {started->pipes.output, POLLIN, 0};
  return write(started->pipes.input, &byte, 1) == 1 && poll(&wait, 1, TIMEOUT_MS) == 1 &&
         read(started->pipes.output, &byte, 1) == 1 && byte == 'x';
}

/*
** The last that a forked process does: it becomes another program. It has the memory of threads
** that it has not, which valgrind would take for lost.
*/
static pid_t main_process;
static const char *fork_result = "exit 0";

static void leave(void) {
  if (getpid() != main_process) execl("/bin/sh", "sh", "-c", fork_result, (char *)NULL);
}

/* Runs a part of a test in a forked process; its exit code. */
static int in_fork(int (*run)(child *parents), child *parents) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    static const char *const results[] = {"exit 0", "exit 1", "exit 2", "exit 3"};
    fork_result = results[run(parents)];
    exit(0);
  }
  assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- Tests ---- */

static void a_child_lives_until_its_input_ends(void **state) {
  (void)state;
  int status;
  child cat = start("cat");
  assert_true(answers(&cat));
  assert_false(mp_process_is_over(cat.process, &status));
  assert_false(mp_process_is_foreign(cat.process));
  close(cat.pipes.input);
  status = status_of(cat.process);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pid_t pid = mp_process_id(cat.process);
  close(cat.pipes.output);
  close(cat.pipes.error);
  mp_process_end(cat.process);
  await_absence(pid);
}

static void *start_many(void *context) {
  (void)context;
  for (int i = 0; i < 5; i++) {
    child cat = start("cat"), none = start("true");
    if (!answers(&cat)) abort();
    pid_t pid = mp_process_id(cat.process);
    finish(&cat);
    if (status_of(none.process) != 0) abort();
    finish(&none);
    while (kill(pid, 0) == 0) nap();
  }
  return NULL;
}

static void threads_start_children_beside_one_another(void **state) {
  (void)state;
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, start_many, NULL), 0);
  for (size_t i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* The children of the process that it was forked from are none of its business; its own are. */
static int use_in_fork(child *parents) {
  int status;
  if (!mp_process_is_foreign(parents->process) || !mp_process_is_over(parents->process, &status)) return 1;
  mp_process_end(parents->process);
  child own = start("cat");
  if (mp_process_is_foreign(own.process) || !answers(&own)) return 2;
  child other = start("true");
  if (status_of(other.process) != 0) return 3;
  finish(&other);
  /* Left to exit(). */
  return 0;
}

static void a_forked_process_leaves_them_alone(void **state) {
  (void)state;
  child cat = start("cat");
  assert_int_equal(in_fork(use_in_fork, &cat), 0);
  assert_true(answers(&cat));
  finish(&cat);
}

/* It tells its parent's pipe which child it has had. */
static int leave_to_exit(child *parents) {
  child cat = start("cat");
  pid_t pid = mp_process_id(cat.process);
  return answers(&cat) && write(parents->pipes.input, &pid, sizeof pid) == sizeof pid ? 0 : 1;
}

static void exit_ends_them(void **state) {
  (void)state;
  int ends[2];
  pid_t pid;
  assert_int_equal(pipe(ends), 0);
  child parents = {NULL, {ends[1], -1, -1}};
  assert_int_equal(in_fork(leave_to_exit, &parents), 0);
  assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
  assert_int_equal(kill(pid, 0), -1);
  close(ends[0]);
  close(ends[1]);
}

static int without_standard_streams(child *parents) {
  (void)parents;
  close(0);
  close(1);
  close(2);
  child cat = start("cat");
  bool is_heard = answers(&cat);
  finish(&cat);
  return is_heard ? 0 : 1;
}

static void a_host_may_have_closed_its_standard_streams(void **state) {
  (void)state;
  assert_int_equal(in_fork(without_standard_streams, NULL), 0);
}

static int ignoring_children(child *parents) {
  (void)parents;
  signal(SIGCHLD, SIG_IGN);
  child none = start("true"), cat = start("cat");
  if (status_of(none.process) != -1 || !answers(&cat)) return 1;
  finish(&none);
  pid_t pid = mp_process_id(cat.process);
  finish(&cat);
  while (kill(pid, 0) == 0) nap();
  return 0;
}

static void a_host_may_ignore_its_children(void **state) {
  (void)state;
  assert_int_equal(in_fork(ignoring_children, NULL), 0);
}

static void a_host_may_end_a_child_itself(void **state) {
  (void)state;
  child cat = start("cat");
  kill(mp_process_id(cat.process), SIGKILL);
  int status = status_of(cat.process);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  finish(&cat);
}

static void without_descriptors_nothing_is_started(void **state) {
  (void)state;
  struct rlimit before, none;
  int code, next = dup(0);
  close(next);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  for (int left = 0; left < 6; left++) {
    child started;
    none = before;
    none.rlim_cur = (rlim_t)(next + left);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    mp_process_failure failure = try_start(&started, "cat", &code);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(failure, MP_PROCESS_NO_PIPES);
    assert_int_equal(code, EMFILE);
    int again = dup(0);
    close(again);
    assert_int_equal(again, next);
  }
}

/* Of this process. Linux tells it; elsewhere it is 0. */
static int thread_count(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (const struct dirent *one; tasks != NULL && (one = readdir(tasks)) != NULL;) count += one->d_name[0] != '.';
  if (tasks != NULL) closedir(tasks);
  return count;
}

static int threads_before;

static int count_threads(void **state) {
  (void)state;
  threads_before = thread_count();
  return 0;
}

/* Their threads end a moment after the children. */
static int await_threads(void **state) {
  (void)state;
  for (double limit = time_limit(); thread_count() > threads_before && wait_before(limit);) continue;
  return 0;
}

int main(void) {
  main_process = getpid();
  atexit(leave);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_lives_until_its_input_ends),
      cmocka_unit_test(threads_start_children_beside_one_another),
      cmocka_unit_test(a_forked_process_leaves_them_alone),
      cmocka_unit_test(exit_ends_them),
      cmocka_unit_test(a_host_may_have_closed_its_standard_streams),
      cmocka_unit_test(a_host_may_ignore_its_children),
      cmocka_unit_test(a_host_may_end_a_child_itself),
      cmocka_unit_test(without_descriptors_nothing_is_started),
  };
  return cmocka_run_group_tests(tests, count_threads, await_threads);
}
