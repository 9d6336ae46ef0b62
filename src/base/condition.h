/* A condition variable whose timed waits no change of the machine's clock makes longer. */
#ifndef MP_BASE_CONDITION_H
#define MP_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Times are of CLOCK_MONOTONIC. False: there is nothing to destroy. */
static inline bool mp_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  bool is_made =
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  return is_made;
}

/* Seconds of that clock, which only goes forwards. */
static inline double mp_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
