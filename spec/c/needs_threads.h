/* For a test that starts threads, or waits for a worker, in a program that has others as well. */
#ifndef NEEDS_THREADS_H
#define NEEDS_THREADS_H

#include "base/platform.h"

/* Skips the test in a build without threads. */
#define NEEDS_THREADS()                                                                                                \
  do {                                                                                                                 \
    if (!MP_HAS_THREADS) skip();                                                                                       \
  } while (0)

/* The same for one that a build without threads runs, on a system that has some. */
#if defined(__EMSCRIPTEN__)
#define NEEDS_SYSTEM_THREADS() skip()
#else
#define NEEDS_SYSTEM_THREADS() ((void)0)
#endif

#endif
