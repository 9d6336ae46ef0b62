/*
** How much of the tests is run: MOONPAD_SCOPE and MOONPAD_TURN in the environment, as
** spec/support/scope.lua says. Without them: all, in turn 0.
*/
#ifndef SCOPE_H
#define SCOPE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool scope_is(const char *name) {
  const char *scope = getenv("MOONPAD_SCOPE");
  return scope != NULL && strcmp(scope, name) == 0;
}

static inline long scope_turn(void) {
  const char *turn = getenv("MOONPAD_TURN");
  if (turn == NULL || *turn == '\0') return 0;
  if (strspn(turn, "0123456789") != strlen(turn)) {
    fprintf(stderr, "MOONPAD_TURN=%s: not a number\n", turn);
    exit(2);
  }
  return atol(turn);
}

/* In a hurry the store in memory alone, which stands for the rules above the stores. */
static inline bool scope_has_store(const char *url) {
  return !scope_is("quick") || strcmp(url, "memory:") == 0;
}

/* Leaves out what is named "TEST on sqlite:" or "TEST on slow:", where there is no time for it. */
#define SCOPE_LEAVE_OUT_FILES()                                                                                        \
  do {                                                                                                                 \
    if (scope_is("quick")) cmocka_set_skip_filter("* on s*");                                                          \
  } while (0)

/* Of many cases of one kind a sample has one in so many. Primes, as in spec/support/checks.lua. */
static inline long scope_stride(void) {
  return scope_is("quick") ? 41 : scope_is("test") ? 7 : 1;
}

#endif
