/* For a test that forks or limits its process, in a program that has others as well. */
#ifndef NEEDS_PROCESSES_H
#define NEEDS_PROCESSES_H

/* Skips the test where a program is all that there is, and where it cannot fork. */
#if defined(__EMSCRIPTEN__) || defined(_WIN32)
#define NEEDS_PROCESSES() skip()
#else
#define NEEDS_PROCESSES() ((void)0)
#endif

#endif
