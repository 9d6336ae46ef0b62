/*
** How long tests wait. What has to happen is waited for until it has: the limit is there for what
** never does, and far beyond what anything takes on a machine that is busy with other things. How
** long something may take is measured in bench/.
*/
#ifndef TIMEOUT_H
#define TIMEOUT_H

#include <stdbool.h>

#include "base/platform.h"

#define TIMEOUT_SECONDS 300
#define TIMEOUT_MS      (TIMEOUT_SECONDS * 1000)
#define TIMEOUT_TEXT    "300" /* seconds, in the text of a Lua program */

/*
** On a thread of which cmocka knows nothing:
**
**   for (double limit = time_limit(); !has_happened() && wait_before(limit);) continue;
*/
static inline double time_limit(void) {
  return mp_monotonic() + TIMEOUT_SECONDS;
}

/* Waits a moment. False when the limit is passed. */
static inline bool wait_before(double limit) {
  mp_sleep(1e-3);
  return mp_monotonic() < limit;
}

/* Until it is so; the test fails when it never is. */
#define WAIT_UNTIL(condition)                                                                                          \
  do {                                                                                                                 \
    double wait_limit = time_limit();                                                                                  \
    while (!(condition)) {                                                                                             \
      if (!wait_before(wait_limit)) fail_msg("line %d: not within %d s: %s", __LINE__, TIMEOUT_SECONDS, #condition);   \
    }                                                                                                                  \
  } while (0)

#endif
