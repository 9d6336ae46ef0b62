/* For C tests on Windows: NEEDS_PROCESSES skips those that call what is here. */
#ifndef WINDOWS_RESOURCE_H
#define WINDOWS_RESOURCE_H

#include <stdlib.h>

typedef unsigned long rlim_t;

struct rlimit {
  rlim_t rlim_cur, rlim_max;
};

#define RLIMIT_FSIZE  0
#define RLIMIT_NOFILE 1
#define SIGXFSZ       25
#define getrlimit     of_process
#define setrlimit     of_process

static inline int of_process(int resource, struct rlimit *limit) {
  (void)resource;
  (void)limit;
  abort();
}

#endif
