/*
** An allocator for tests: counts the blocks that are alive, and can let the n-th allocation fail,
** or all from the n-th on. Any thread. To try something with each allocation failing once:
**
**   counting_allocator counter;
**   mp_env *env = counted_env(&counter);    (counted_env.h; or options.allocator = &counter.hooks)
**   bool has_failed = true;
**   for (size_t n = 1; has_failed; n++) {
**     counting_arm(&counter, n);
**     moonpad_status status = try_it(env);
**     has_failed = counting_has_failed(&counter);
**     counting_disarm(&counter);
**     ... status is MOONPAD_NO_MEMORY and nothing has changed, or all is as without a failure
**   }
**   mp_env_release(env);
**   assert_int_equal(counter.alive, 0);
*/
#ifndef COUNTING_ALLOCATOR_H
#define COUNTING_ALLOCATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "moonpad.h"

typedef struct counting_allocator {
  moonpad_allocator hooks;
  atomic_size_t alive; /* blocks */
  atomic_size_t calls; /* allocations asked for since it was armed */
  size_t fail_at;      /* which of these fails; 0: none */
  bool lasting;        /* and all after it */
  bool paused;         /* nothing fails, and nothing is counted as a call */
} counting_allocator;

static bool counting_refuses(counting_allocator *counter) {
  if (counter->paused) return false;
  size_t call = ++counter->calls;
  return counter->fail_at != 0 && (counter->lasting ? call >= counter->fail_at : call == counter->fail_at);
}

static void *counting_allocate(void *context, size_t size) {
  counting_allocator *counter = context;
  void *block = counting_refuses(counter) ? NULL : malloc(size);
  if (block != NULL) counter->alive++;
  return block;
}

static void *counting_resize(void *context, void *block, size_t size) {
  counting_allocator *counter = context;
  void *grown = counting_refuses(counter) ? NULL : realloc(block, size);
  if (grown != NULL && block == NULL) counter->alive++;
  return grown;
}

static void counting_release(void *context, void *block) {
  counting_allocator *counter = context;
  if (block != NULL) counter->alive--;
  free(block);
}

static inline void counting_init(counting_allocator *counter) {
  counter->hooks.allocate = counting_allocate;
  counter->hooks.resize = counting_resize;
  counter->hooks.release = counting_release;
  counter->hooks.context = counter;
  counter->alive = counter->calls = 0;
  counter->fail_at = 0;
  counter->lasting = counter->paused = false;
}

/* From now on, the `fail_at`-th allocation fails. */
static inline void counting_arm(counting_allocator *counter, size_t fail_at) {
  counter->calls = 0;
  counter->fail_at = fail_at;
  counter->lasting = counter->paused = false;
}

/* Nothing fails any more. */
static inline void counting_disarm(counting_allocator *counter) {
  counting_arm(counter, 0);
}

/* The same, and all after it. */
static inline void counting_arm_lasting(counting_allocator *counter, size_t fail_at) {
  counting_arm(counter, fail_at);
  counter->lasting = true;
}

static inline void counting_arm_as(counting_allocator *counter, size_t fail_at, bool lasting) {
  if (lasting) {
    counting_arm_lasting(counter, fail_at);
  } else {
    counting_arm(counter, fail_at);
  }
}

/* Has an allocation failed since it was armed? */
static inline bool counting_has_failed(const counting_allocator *counter) {
  return counter->fail_at != 0 && counter->calls >= counter->fail_at;
}

#endif
