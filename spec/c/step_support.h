/*
** For tests of appends of a step of a run (service/binding/): nothing is shown of one before it is
** stored, and whoever began it learns of its end by a watch. A test:
**
**   told got = {0};
**   moonpad_changes *changes = begin_changes(session);
**   set_number(changes, "k", 2);
**   mp_job *job = step_append(session, changes, plain_event, &got);    (begins it)
**   ... the session object shows the old k, and the change set takes no writes
**   step_wait(self, job);                                              (polls until it is done)
**   assert_int_equal(got.status, MOONPAD_OK);
**   moonpad_changes_free(changes);
**
** ON_OTHER_THREADS runs it on the stores that are asked on other threads.
*/
#ifndef STEP_SUPPORT_H
#define STEP_SUPPORT_H

#include "service_support.h"

#include <stdio.h>

#include "service/binding/append.h"
#include "service/binding/state.h"
#include "thread_support.h"

/* What its watch is told. */
typedef struct told {
  int done, dropped;
  moonpad_status status;
  moonpad_session *session;
  int64_t revision;
  char conflict[32]; /* the first key */
  char refused[512]; /* the event that a conflict refused */
} told;

extern const mp_append_watch step_watch; /* its context is a `told` */
extern const char plain_event[];

/* Begins one; `changes` may be NULL. The second one must not fail. */
moonpad_status step_try_append(moonpad_session *session, moonpad_changes *changes, const char *event, told *got,
                               mp_job **job);
mp_job *step_append(moonpad_session *session, moonpad_changes *changes, const char *event, told *got);
/* As a step does: each time that something is done, it looks whether its own is. */
void step_wait(host *self, mp_job *job);

moonpad_changes *begin_changes(moonpad_session *session);
void set_number(moonpad_changes *changes, const char *key, int64_t number);
void set_text(moonpad_changes *changes, const char *key, const char *path, const char *text);
void add_number(moonpad_changes *changes, const char *key, int64_t number);
void add_item(moonpad_changes *changes, const char *key, int64_t number);
/* What the whole of a change set shows: it has looked at all of it then. */
void print_all(FILE *to, moonpad_changes *changes);
void look_at_all(moonpad_changes *changes);
/* Drops what is pending. */
bool is_writable(moonpad_changes *changes);

/* Where others do the work. */
#define ON_OTHER_THREADS(test)                                                                                         \
  ON_STORE(test, "slow:0:memory:"), ON_STORE(test, "sqlite:FILE"), ON_STORE(test, "slow:5:memory:")

#endif
