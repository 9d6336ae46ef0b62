/*
** For tests of the public C API: a service with every hook of the host injected, and short forms
** for what is asked of it. A test that runs on every store:
**
**   static void test_a_number_is_stored(void **state) {
**     host *self = *state;
**     moonpad_session *session = host_create(self, "s", "{\"k\":1}");
**     host_append(session, "{\"k\":2}");
**     STORED(self, "s", "{\"k\":2}");
**     FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, 9, NULL, &failure));
**     moonpad_session_free(session);
**   }
**
**   int main(void) {
**     const struct CMUnitTest tests[] = {ON_EVERY_STORE(test_a_number_is_stored)};
**     return HOST_RUN(tests);
**   }
**
** `STORE=memory: build/spec/c/test_service` runs a program on one store only. When a test ends,
** every block that its service allocated must be free. ON_EVERY_STORE is the one list of stores: a
** new one is added there.
*/
#ifndef SERVICE_SUPPORT_H
#define SERVICE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "moonpad.h"
#include "timeout.h"

#define T(text) moonpad_text(text)

typedef struct host {
  moonpad_service *service;
  moonpad_options options;
  moonpad_allocator allocator;
  pthread_mutex_t lock;
  long alive;        /* blocks */
  unsigned poisoned; /* how many blocks were filled with digits */
  long allowed;      /* allocations until one fails; -1: none does */
  double now;
  unsigned seed; /* what the next random bytes are made of */
  int warnings;
  moonpad_status last_warning;
  char last_said[512];                         /* by it */
  bool (*at_memory)(void *context, bool asks); /* may be NULL; see host_at_memory */
  void *at_memory_context;
  char folder[64];
  char url[256];
  moonpad_store_scheme stores[5];
  bool is_on_server; /* its place there is removed at the end */
} host;

/*
** *state is a host. Its service waits for whatever keeps it busy (busy_timeout_ms) far beyond what
** that takes; a test of what is given up sets less. Afterwards every block that its service
** allocated is back.
*/
int host_setup(void **state, const char *url);
int host_setup_store(void **state); /* *state is the URL */
int host_setup_memory(void **state);
int host_setup_file(void **state);
int host_setup_sqlite_memory(void **state); /* sqlite::memory: */
int host_teardown(void **state);
/*
** `at_memory` is called whenever memory is asked for or given back (`asks` is false), by any
** thread, with no lock of the host held. Where it answers false, there is no memory. NULL ends it.
*/
void host_at_memory(host *self, bool (*at_memory)(void *context, bool asks), void *context);

/* Releases the service and opens it again, with the options as they are now. */
void host_reopen(host *self);
/*
** Opens it again with this busyTimeoutMs, as one that gives up soon. Where a busy machine does not
** let it come to its server in that time, again until it has.
*/
void host_reopen_hasty(host *self, int64_t busy_timeout_ms);

/* A test on the store of a URL, in which FILE stands for a path in a folder of its own. */
#define ON_STORE(test, store_url)                                                                                      \
  { #test " on " store_url, test, host_setup_store, host_teardown, (void *)(store_url) }

/* One line for each store that the tests run on. */
#define ON_EVERY_STORE(test)                                                                                           \
  ON_STORE(test, "memory:"), ON_STORE(test, "slow:0:memory:"), ON_STORE(test, "example:"),                             \
      ON_STORE(test, "sqlite:FILE"), ON_STORE(test, "postgresql:"), ON_STORE(test, "mysql:"), ON_STORE(test, "redis:")

/*
** Runs a group of tests. STORE is the URL of one store to run on alone, as it stands above: then
** only what is written with ON_EVERY_STORE or ON_STORE runs.
*/
#define HOST_RUN(tests) host_run(tests, sizeof(tests) / sizeof *(tests))
int host_run(const struct CMUnitTest *tests, size_t count);

/* ---- What a call answers; `line` is the line of the test ---- */

extern moonpad_error failure; /* of the last call that failed */

void expect_ok(moonpad_status status, int line);
void expect_failure(moonpad_status expected, moonpad_status status, int line);
void expect_text(moonpad_string found, const char *expected, int line);
/* Frees the buffer. */
void expect_buffer(moonpad_buffer *buffer, const char *expected, int line);
#define OK(call)                expect_ok((call), __LINE__)
#define FAILS(status, call)     expect_failure((status), (call), __LINE__)
#define SAYS(found, expected)   expect_text((found), (expected), __LINE__)
#define GIVES(buffer, expected) expect_buffer(&(buffer), (expected), __LINE__)

/* ---- Sessions of user "u" of "app"; what fails, fails the test ---- */

moonpad_session_name host_name(const char *id);
moonpad_session *host_create(host *self, const char *id, const char *state);
moonpad_session *host_get(host *self, const char *id);
moonpad_value host_read(moonpad_session *session, const char *key, const char *path);
/* An event of "agent" with this stateDelta. */
void host_append(moonpad_session *session, const char *delta);
void host_append_async(moonpad_session *session, const char *delta, moonpad_append_callback callback, void *context);
size_t host_event_count(moonpad_session *session);
/* A string or integer inside an event, as text; overwritten by the next call. */
const char *host_in_event(const moonpad_event *event, const char *path);

/* The whole state, as a session object shows it and as the store has it. */
void expect_state(moonpad_session *session, const char *expected, int line);
void expect_stored(host *self, const char *id, const char *expected, int line);
#define STATE(session, expected)   expect_state((session), (expected), __LINE__)
#define STORED(self, id, expected) expect_stored((self), (id), (expected), __LINE__)

/* ---- What is done later ---- */

moonpad_queue *host_queue(host *self); /* a completion queue of its service, to be freed */
bool is_readable(int fd, int timeout_ms);

/* What a change set is told and shows; `json` is JSON. */
void set_json(moonpad_changes *changes, const char *key, const char *path, const char *json);
moonpad_value changed(moonpad_changes *changes, const char *key, const char *path);

#endif
