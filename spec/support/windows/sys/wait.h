/* For C tests on Windows: NEEDS_PROCESSES skips those that call what is here. */
#ifndef WINDOWS_WAIT_H
#define WINDOWS_WAIT_H

#include <stdlib.h>
#include <unistd.h>

static inline pid_t fork(void) {
  abort();
}

static inline pid_t waitpid(pid_t process, int *result, int options) {
  (void)process;
  (void)result;
  (void)options;
  abort();
}

static inline int pipe(int ends[2]) {
  (void)ends;
  abort();
}

static inline int become(unsigned user) {
  (void)user;
  abort();
}

#define geteuid()           0U
#define setuid(user)        become(user)
#define setgid(group)       become(group)
#define WIFEXITED(result)   ((result) == 0)
#define WEXITSTATUS(result) (result)
#define WIFSIGNALED(result) ((result) != 0)
#define WTERMSIG(result)    (result)

#endif
