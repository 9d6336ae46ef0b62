#include "base/sigpipe.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

static bool is_pending(void) {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

static void set_of_pipe(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
}

void mp_sigpipe_hold(mp_sigpipe *held) {
  sigset_t pipe_signal;
  set_of_pipe(&pipe_signal);
  held->was_pending = is_pending();
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &held->before);
}

void mp_sigpipe_release(const mp_sigpipe *held) {
  int code = errno;
  sigset_t pipe_signal;
  set_of_pipe(&pipe_signal);
  if (!held->was_pending && is_pending()) {
    while (sigtimedwait(&pipe_signal, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &held->before, NULL);
  errno = code;
}
