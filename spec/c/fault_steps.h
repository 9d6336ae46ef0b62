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
** The turn (scope.h) says where it begins. With the scope "whole" each one is tried, and none is
** rarer than elsewhere.
*/
#ifndef FAULT_STEPS_H
#define FAULT_STEPS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repeatable_random.h"
#include "scope.h"

static inline long fault_number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atol(text);
}

static inline bool runs_under_valgrind(void) {
  const char *preloaded = getenv("LD_PRELOAD");
  return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

/* Of many calls that each have many faults some are tried: those in a sample with each fault. */
static bool fault_calls_are_few;

/* How much rarer where each takes many times as long. Odd numbers have no divisor in common with
** the turns of whole programs. */
static inline long fault_slowness(void) {
  if (scope_is("whole")) return 1;
#ifdef __SANITIZE_ADDRESS__
  return 4;
#else
  return runs_under_valgrind() ? 17 : 1;
#endif
}

static inline long fault_rarity(void) {
  long slowness = fault_slowness(), stride = fault_calls_are_few && !scope_is("quick") ? 1 : scope_stride();
  return slowness > stride ? slowness : stride;
}

/* Whether so few are tried that some kinds of results may not be among them. */
static inline bool fault_is_sample(void) {
  return runs_under_valgrind() || scope_stride() > 1;
}

static inline bool fault_is_due(size_t number) {
  fault_calls_are_few = scope_stride() > 1 || (runs_under_valgrind() && !scope_is("whole"));
  return !fault_calls_are_few || number % 7 == (size_t)scope_turn() % 7;
}

/* How often to do what is done `count` times usually. */
static inline long fault_count(long count) {
  long scaled = count * fault_number("MOONPAD_FAULTS", 1) / fault_rarity();
  return scaled < 1 ? 1 : scaled;
}

/*
** Where each of many is tried, even under a sanitizer, valgrind sees in one of a few what
** they do with memory: how far it is to the next one, and how often to do what is done `count`
** times elsewhere. The latter with "whole" too: what is repeated is of the same kind.
*/
static inline long valgrind_stride(void) {
  return runs_under_valgrind() && !scope_is("whole") ? 7 : 1;
}

static inline int fault_rounds(int count) {
  int rarity = runs_under_valgrind() ? 16 : (int)scope_stride();
  return (count + rarity - 1) / rarity;
}

/* The first of `count` seeds in succession: others in each turn. */
static inline uint64_t fault_seeds(long count) {
  return (uint64_t)fault_number("MOONPAD_SEED", scope_turn() * count + 1);
}

/* Near seeds begin alike. */
static inline void fault_seed(void) {
  random_state = (uint64_t)fault_number("MOONPAD_SEED", scope_turn()) * 2 + 1;
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
** The number of the first fault behind the n-th that has its turn, when one in `stride` has; in a
** sample fewer, and one of the first. That is fault_in_turn(0, stride), which is at most `stride`:
** where there may be fewer to try, the test must see that it tried one.
*/
static inline long fault_in_turn(long n, long stride) {
  if (scope_is("whole")) return n + 1;
  if (n > 0) stride *= scope_stride();
  return n + 1 + (scope_turn() % stride + stride - n % stride) % stride;
}

#endif
