/*
** Which of many possible faults a test tries. The first ones are tried one by one, those behind
** them more and more rarely, by chance. From the environment: MOONPAD_SEED, which ones;
** MOONPAD_FAULTS, how many times as many as usual. Where each takes many times as long, under
** AddressSanitizer and under valgrind, there are fewer. A test lets something fail like this:
**
**   fault_seed();
**   for (long n = 1; fail_once(n); n = fault_after(n, 100)) continue;    (the first 100 one by one)
**
** where fail_once arms one fault, makes the call, compares, and returns false when the call ended
** before the n-th allocation or operation. What can fail: moonpad's own allocations
** (counting_allocator.h), SQLite's (sqlite_memory.h), the disk (faulty_vfs.h).
**
** Or it tries one in so many, others in each turn:
**
**   for (long n = fault_in_turn(0, 7); n <= total; n = fault_in_turn(n, 7)) fail_once(n);
**
** MOONPAD_SAMPLE, a number, is the turn (0 without it): scripts/run_tests.sh gives it. With "all"
** each one is tried, and none is rarer than elsewhere.
*/
#ifndef FAULT_STEPS_H
#define FAULT_STEPS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repeatable_random.h"

static inline long fault_number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atol(text);
}

static inline bool runs_under_valgrind(void) {
  const char *preloaded = getenv("LD_PRELOAD");
  return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

static inline const char *fault_sample(void) {
  const char *text = getenv("MOONPAD_SAMPLE");
  return text == NULL || *text == '\0' ? "0" : text;
}

static inline bool tries_all(void) {
  return strcmp(fault_sample(), "all") == 0;
}

/* The odd numbers below have no divisor in common with the turns of whole programs. */
static inline long fault_rarity(void) {
  if (tries_all()) return 1;
#ifdef __SANITIZE_ADDRESS__
  return 4;
#else
  return runs_under_valgrind() ? 17 : 1;
#endif
}

/* How often to do what is done `count` times usually. */
static inline long fault_count(long count) {
  long scaled = count * fault_number("MOONPAD_FAULTS", 1) / fault_rarity();
  return scaled < 1 ? 1 : scaled;
}

/*
** Where each of many is tried, even under a sanitizer, valgrind sees in one of a few what
** they do with memory: how far it is to the next one, and how often to do what is done `count`
** times elsewhere. The latter with "all" too: what is repeated is of the same kind.
*/
static inline long valgrind_stride(void) {
  return runs_under_valgrind() && !tries_all() ? 7 : 1;
}

static inline int valgrind_rounds(int count) {
  return runs_under_valgrind() ? (count + 15) / 16 : count;
}

/* Near seeds begin alike. */
static inline void fault_seed(void) {
  random_state = (uint64_t)fault_number("MOONPAD_SEED", 0) * 2 + 1;
  for (int i = 0; i < 20; i++) next_random();
}

/*
** The number of the next fault to be tried after the n-th, when usually `all` are tried one by one.
*/
static inline long fault_after(long n, long all) {
  long most = n * fault_rarity() / 3;
  return n + 1 + (n < fault_count(all) || most == 0 ? 0 : (long)(next_random() % (uint64_t)most));
}

/*
** The number of the first fault behind the n-th that has its turn, when one in `stride` has. The
** first of all is fault_in_turn(0, stride), which is at most `stride`: where there may be fewer to
** try, the test must see that it tried one.
*/
static inline long fault_in_turn(long n, long stride) {
  const char *sample = fault_sample();
  if (tries_all()) return n + 1;
  if (strspn(sample, "0123456789") != strlen(sample)) {
    fprintf(stderr, "MOONPAD_SAMPLE=%s: neither a number nor all\n", sample);
    exit(2);
  }
  return n + 1 + (atol(sample) % stride + stride - n % stride) % stride;
}

#endif
