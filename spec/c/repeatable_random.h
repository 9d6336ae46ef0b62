/* Random numbers for tests, the same in every run, so that a failure can be found again. */
#ifndef REPEATABLE_RANDOM_H
#define REPEATABLE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static uint64_t random_state = UINT64_C(88172645463325252);

static inline uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * UINT64_C(0x2545F4914F6CDD1D);
}

/* The same where a size_t may have 32 bits. */
static inline size_t random_size(void) {
  return (size_t)next_random();
}

#endif
