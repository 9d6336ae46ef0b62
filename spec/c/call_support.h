/*
** Every call of the C API that reads or changes what is stored, once, on a scene that is always the
** same: for tests that let something
** fail in the middle of a call and then compare what there is with what there was before, and with
** what there is when nothing fails.
**
** To add a call, write into call_list.c a function that makes it once and keeps its answer as text:
**
**   static moonpad_status call_state_at(call_scene *scene, moonpad_error *error) {
**     moonpad_buffer json = {0};
**     return answer_buffer(scene, moonpad_state_at(scene->session, 2, &json, error), &json);
**   }
**
** and a row into every_calls[]: {"state at", call_state_at, CALL_WAITS}. From then on it is run
** with each allocation failing (test_faults_memory.c), with each operation of the disk failing
** (test_faults_disk.c), and beside a call that fails (test_run_again.c). A call that fails must
** change nothing, and work when it is made again; answer_...() checks that it has given nothing.
** What has to be there before a call belongs into call_scene_make.
*/
#ifndef CALL_SUPPORT_H
#define CALL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "moonpad.h"
#include "timeout.h"

/* Bytes that belong to malloc, so that what fails in moonpad does not fail here. */
typedef struct call_text {
  char *data;
  size_t length;
} call_text;

/*
** Where and how. What `path` names is removed when the scene is over, so that the next one
** finds nothing.
*/
typedef struct call_setting {
  char url[160], path[140], copy[150]; /* empty paths: the store is no file, and has no backup */
  moonpad_durability durability;
  const moonpad_allocator *allocator; /* may be NULL */
  /*
  ** The state of user and app has expired when the call is made, an append trims, and a session too
  ** many takes the oldest one's place.
  */
  bool keeps_house;
} call_setting;

call_setting call_in_memory(void);
call_setting call_with_plans(void); /* in memory, and appends go as plans */
call_setting call_in_file(const char *path);
/* The same with keeps_house. */
call_setting call_keeping_house(call_setting setting);

/*
** Session "s" of app "app" and user "u" with a history of invocations "i1" and "i2"; others have
** changed its keys and its user's since the object was got. `changes` is a change set on it with
** writes of each kind pending, and so has the object itself.
*/
typedef struct call_scene {
  const call_setting *setting;
  moonpad_options options;
  moonpad_service *service;
  moonpad_session *session;
  moonpad_changes *changes;
  call_text exported; /* another session as JSON lines */
  call_text answer;   /* what the last call gave */
  unsigned random_seed;
  double now;
} call_scene;

void call_scene_make(call_scene *scene, const call_setting *setting);
/* Lets go of everything but the files. */
void call_scene_close(call_scene *scene);
void call_scene_free(call_scene *scene);

/*
** All that the session object shows, and all that its change set has pending. The caller frees
** the data.
*/
call_text call_scene_object(call_scene *scene);
/*
** All that is stored of an app and its users "u" and "new". Fails the test when the events do not
** make the state. The caller frees the data.
*/
call_text call_stored(moonpad_service *service, const char *app_name);

typedef struct every_call {
  const char *name;
  moonpad_status (*run)(call_scene *scene, moonpad_error *error);
  /*
  ** CALL_WAITS      is done when it returns
  ** CALL_IS_ASYNC   when it fails, what was pending in the change set is gone
  ** CALL_TAKES_OWN  when it fails, what was pending on the session object itself is gone
  ** CALL_CATCHES_UP when it fails nothing is gone; without memory at its end, the object shows what
  **                 others have changed only at its next refresh
  */
  enum { CALL_WAITS, CALL_IS_ASYNC, CALL_TAKES_OWN, CALL_CATCHES_UP } kind;
} every_call;

extern const every_call every_calls[];
extern const size_t every_call_count;

/*
** Runs it once; the scene's answer is what it gave, empty when it failed. Ids and times are the
** same each time.
*/
moonpad_status call_run(call_scene *scene, const every_call *call, moonpad_error *error);

/* What there is before a call and after it, when nothing fails. */
typedef struct call_expectation {
  const every_call *call;
  call_text object_before, stored_before;
  call_text object_after, stored_after, answer;
  call_text object_refreshed; /* before, with what others have changed */
  call_text object_taken;     /* the same without what its change set has pending */
} call_expectation;

void call_learn(call_expectation *expected, const every_call *call, const call_setting *setting);
void call_forget(call_expectation *expected);

bool call_same(const call_text *one, const call_text *other);
/* Fails the test when it is something else, and names the n-th fault. Frees `is`. */
void call_expect(const call_expectation *expected, long n, const char *what, call_text is, const call_text *wanted);
/* All is as it is after the call. */
void call_expect_after(const call_expectation *expected, long n, call_scene *scene);
/*
** The object is as it was before; after an asynchronous call, it may have been loaded again.
** False when that call has taken what it was about to write, so that it cannot be tried again.
*/
bool call_expect_object_before(const call_expectation *expected, long n, call_scene *scene);

#endif
