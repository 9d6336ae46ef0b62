/*
** That the time which something takes does not grow out of proportion: processor time is compared
** with that of less of the same, in the same test, so that it does not matter how fast the machine
** is, or what else it does.
*/
#ifndef GROWTH_H
#define GROWTH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

typedef void growing_work(void *context, size_t size);

static inline double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What a coarse clock can tell from none. */
#define SECONDS_TOLD_APART 0.02

/* Of one run, of as many as take a time that can be told. */
static inline double seconds_of_work(growing_work *run, void *context, size_t size) {
  double begun = processor_seconds(), taken = 0;
  for (int runs = 1;; runs++) {
    run(context, size);
    taken = processor_seconds() - begun;
    if (taken >= SECONDS_TOLD_APART) return taken / runs;
  }
}

/*
** `times` as much takes about `times` as long: not six times that. Where the time grows with the
** square of the size, it takes `times` times that; so `times` is to be 20 or more. The best of a
** few measurements counts.
*/
static inline void expect_proportional(const char *what, growing_work *run, void *context, size_t few, size_t times) {
  double best_of_few = 0, best_of_many = 0;
  for (int tries = 0; tries < 5; tries++) {
    double of_few = seconds_of_work(run, context, few), of_many = seconds_of_work(run, context, few * times);
    if (tries == 0 || of_few < best_of_few) best_of_few = of_few;
    if (tries == 0 || of_many < best_of_many) best_of_many = of_many;
    if (best_of_many <= best_of_few * (double)times * 6) return;
#ifdef __SANITIZE_ADDRESS__
    /* Its allocator asks for new pages each time, which takes longer than so little work. */
    if (best_of_many < SECONDS_TOLD_APART) return;
#endif
  }
  fail_msg("%s: %f s for %zu, %f s for %zu", what, best_of_few, few, best_of_many, few * times);
}

#endif
