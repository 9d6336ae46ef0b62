/* An env whose blocks are counted: for tests of what lies below the services. */
#ifndef COUNTED_ENV_H
#define COUNTED_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/env.h"
#include "counting_allocator.h"

/* Initializes `counter` as well. The caller releases the env, then `counter->alive` must be 0. */
static inline mp_env *counted_env(counting_allocator *counter) {
  moonpad_options options;
  moonpad_options_init(&options);
  counting_init(counter);
  options.allocator = &counter->hooks;
  mp_env *env = mp_env_new(&options);
  assert_non_null(env);
  return env;
}

#endif
