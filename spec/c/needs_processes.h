/* For a test that starts processes or limits its own, in a program that has others as well. */
#ifndef NEEDS_PROCESSES_H
#define NEEDS_PROCESSES_H

/* Skips the test where a program is all that there is. */
#if defined(__EMSCRIPTEN__)
#define NEEDS_PROCESSES() skip()
#else
#define NEEDS_PROCESSES() ((void)0)
#endif

#endif
