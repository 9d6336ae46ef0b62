/* How long children live, and how they end. */
#include "process/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"

/* How long a child may take to end by itself, and after SIGTERM. */
#define PATIENCE 0.7
/* How long exit() waits for children in all, and for those that had to be killed. */
#define EXIT_PATIENCE (2 * PATIENCE + 0.1)
#define KILL_PATIENCE 0.3

#define STACK_SIZE ((size_t)256 * 1024)

struct mp_process {
  atomic_uint references; /* the owner's, and one for each thread */
  pid_t host;             /* the process that has started it */
  pid_t pid;
  mp_mutex lock;        /* guards the next four */
  mp_condition changed; /* it is over */
  bool is_over;
  bool is_ending; /* somebody sees to it */
  int status;
  mp_process *previous, *next; /* guarded by the lock of the list */
};

/*
** Those that are not over. This and the locks around it are the only global state: exit() has to
** find them. A forked process has none of them.
*/
static mp_process *living;
static pthread_mutex_t living_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t living_once = PTHREAD_ONCE_INIT;

/* ---- Memory ---- */

static void release(mp_process *process) {
  if (atomic_fetch_sub(&process->references, 1) != 1) return;
  mp_condition_destroy(&process->changed);
  mp_mutex_destroy(&process->lock);
  free(process);
}

static mp_process *allocate(pid_t pid) {
  mp_process *process = calloc(1, sizeof *process);
  if (process == NULL) return NULL;
  if (mp_mutex_init(&process->lock)) {
    if (mp_condition_init(&process->changed)) {
      atomic_init(&process->references, 1);
      process->host = getpid();
      process->pid = pid;
      process->status = -1;
      return process;
    }
    mp_mutex_destroy(&process->lock);
  }
  free(process);
  return NULL;
}

/* ---- Waiting ---- */

/* With the lock held. False: it is not over by then. */
static bool wait_until(mp_process *process, double deadline) {
  while (!process->is_over) {
    if (!mp_condition_wait_until(&process->changed, &process->lock, deadline)) break;
  }
  return process->is_over;
}

/* With the lock held: until it is over, its number is nobody else's. */
static void signal_group(mp_process *process, int signal_number) {
  if (!process->is_over) kill(-process->pid, signal_number);
}

/* ---- Threads: with all signals blocked, for they are the host's ---- */

static bool start_thread(mp_process *process, void *(*work)(void *)) {
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, STACK_SIZE);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  atomic_fetch_add(&process->references, 1);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_started = pthread_create(&thread, &attributes, work, process) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (!is_started) atomic_fetch_sub(&process->references, 1);
  return is_started;
}

static void link_living(mp_process *process) {
  pthread_mutex_lock(&living_lock);
  process->next = living;
  if (living != NULL) living->previous = process;
  living = process;
  pthread_mutex_unlock(&living_lock);
}

static void unlink_living(mp_process *process) {
  pthread_mutex_lock(&living_lock);
  if (process->previous != NULL) process->previous->next = process->next;
  if (process->next != NULL) process->next->previous = process->previous;
  if (living == process) living = process->next;
  pthread_mutex_unlock(&living_lock);
}

/*
** Waits for the end of the child. As long as it has not been reaped, its number, which is also that
** of its group, cannot be anybody else's: so what it has left in its group is killed before.
*/
static void *watch(void *context) {
  mp_process *process = context;
  siginfo_t info;
  int result, status = -1;
  do {
    result = waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  mp_mutex_lock(&process->lock);
  /* Where the host ignores SIGCHLD, or has reaped it, there is nothing left of it. */
  if (result == 0) {
    kill(-process->pid, SIGKILL);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) continue;
  }
  process->is_over = true;
  process->status = status;
  mp_condition_broadcast(&process->changed);
  mp_mutex_unlock(&process->lock);
  unlink_living(process);
  release(process);
  return NULL;
}

static void *end_slowly(void *context) {
  mp_process *process = context;
  double begin = mp_monotonic();
  mp_mutex_lock(&process->lock);
  if (!wait_until(process, begin + PATIENCE)) signal_group(process, SIGTERM);
  if (!wait_until(process, begin + 2 * PATIENCE)) signal_group(process, SIGKILL);
  mp_mutex_unlock(&process->lock);
  release(process);
  return NULL;
}

/* ---- The end of the host ---- */

static void forget_living(void) {
  living = NULL;
  pthread_mutex_init(&living_lock, NULL);
}

static void signal_living(int signal_number, bool with_ending) {
  for (mp_process *process = living; process != NULL; process = process->next) {
    mp_mutex_lock(&process->lock);
    if (with_ending || !process->is_ending) signal_group(process, signal_number);
    mp_mutex_unlock(&process->lock);
  }
}

static void await_living(double deadline) {
  for (mp_process *process = living; process != NULL; process = process->next) {
    mp_mutex_lock(&process->lock);
    wait_until(process, deadline);
    mp_mutex_unlock(&process->lock);
  }
}

/* The threads go on while exit() runs its handlers: they reap, and end those that are ending. */
static void end_living(void) {
  double begin = mp_monotonic();
  pthread_mutex_lock(&living_lock);
  signal_living(SIGTERM, false);
  await_living(begin + EXIT_PATIENCE);
  signal_living(SIGKILL, true);
  await_living(begin + EXIT_PATIENCE + KILL_PATIENCE);
  pthread_mutex_unlock(&living_lock);
}

static void prepare_exit(void) {
  pthread_atfork(NULL, NULL, forget_living);
  atexit(end_living);
}

/* ---- For the owner ---- */

mp_process *mp_process_new(mp_child pid) {
  pthread_once(&living_once, prepare_exit);
  mp_process *process = allocate(pid);
  if (process != NULL) {
    link_living(process);
    if (start_thread(process, watch)) return process;
    unlink_living(process);
    release(process);
  }
  kill(-pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
  return NULL;
}

bool mp_process_is_foreign(const mp_process *process) {
  return process->host != getpid();
}

int mp_process_id(const mp_process *process) {
  return process->pid;
}

bool mp_process_is_over(mp_process *process, int *status) {
  *status = -1;
  if (mp_process_is_foreign(process)) return true;
  mp_mutex_lock(&process->lock);
  bool is_over = process->is_over;
  *status = process->status;
  mp_mutex_unlock(&process->lock);
  return is_over;
}

void mp_process_tell_end(int status, char *text, size_t size) {
  if (status >= 0 && WIFEXITED(status)) {
    snprintf(text, size, "it ended with exit code %d", WEXITSTATUS(status));
  } else if (status >= 0 && WIFSIGNALED(status)) {
    snprintf(text, size, "it was ended by signal %d", WTERMSIG(status));
  } else {
    snprintf(text, size, "it ended");
  }
}

void mp_process_end(mp_process *process) {
  if (process == NULL) return;
  if (mp_process_is_foreign(process)) {
    /* There are no threads here that hold it, and its locks may be held for ever. */
    free(process);
    return;
  }
  mp_mutex_lock(&process->lock);
  if (!process->is_over) {
    process->is_ending = true;
    if (!start_thread(process, end_slowly)) signal_group(process, SIGKILL);
  }
  mp_mutex_unlock(&process->lock);
  release(process);
}
