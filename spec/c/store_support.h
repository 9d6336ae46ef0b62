/*
** The suite that every store must pass: test_store*.c, which know store/store.h and nothing else.
**
** To add a test: write transaction functions (mp_tx_function; their context is a test_scene) that
** put questions to `tx` in TRY(call), EXPECT(status, call), CHECK(condition), EXPECT_TEXT(dump,
** "text"). Run them in a `static void test_x(void **state)` with write_ok, read_ok or write_fails,
** and add STORE_TEST(test_x) to the table in main: it runs on every store of `kinds`, each time a
** fresh one. To add an operation to mp_tx_ops: forward it in slow_store.c; test it in the
** test_store_*.c of its subject; if it writes, add it to `writes` in test_store_undo.c (it is then
** undone, and run without memory) and to the random life in store_life.c. If a store may lack it,
** give it a STORE_... bit below, and let its tests call store_needs.
** To add a store: one line in `kinds`, in store_support.c (URL, opener, what is true of it). Then
** `make tests`, `STORE=URL build/spec/c/test_store`, and the same with the other test_store_*.
*/
#ifndef STORE_SUPPORT_H
#define STORE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/env.h"
#include "counting_allocator.h"
#include "store/store.h"
#include "timeout.h"

/* ---- stores ---- */

/* What a store may leave out: the operations of housekeeping in mp_tx_ops. */
#define STORE_TRIM         1U
#define STORE_PURGE        2U
#define STORE_TOUCH        4U
#define STORE_SWEEP        8U
#define STORE_TOKENS       16U
#define STORE_HOUSEKEEPING (STORE_TRIM | STORE_PURGE | STORE_TOUCH | STORE_SWEEP | STORE_TOKENS)

typedef struct store_kind {
  const char *url;                           /* FILE in it is a path in a folder of its own */
  const struct moonpad_store_opener *opener; /* as a module hands it in */
  bool is_file;                              /* what is written is there when it is opened again */
  bool has_backup;                           /* opened as sqlite:FILE */
  bool counts_memory;                        /* all of it comes from the host's allocator */
  /* The environment's variable with the URL of its server, which has a schema for each test. */
  const char *server;
  /* with long histories, so that they are shorter for it */
  bool is_slow;
  unsigned has; /* STORE_... */
} store_kind;

typedef struct opened_store {
  const store_kind *kind;
  mp_env *env;
  mp_store *store;
  char folder[64]; /* of a file; removed with all that is in it */
  char path[128];
  char rest[256]; /* of its URL, behind the scheme */
} opened_store;

/* `allocator` may be NULL. Opening and closing fail the test when they fail. */
void store_open(opened_store *opened, const store_kind *kind, const moonpad_allocator *allocator);
void store_reopen(opened_store *opened);
void store_close(opened_store *opened);
moonpad_options store_options(const moonpad_allocator *allocator);
/* With the files in it. No such folder: nothing happens. */
void remove_folder(const char *folder);
/* Skips the test, by name, where the store has left out what it is about. */
void store_needs(const opened_store *opened, unsigned what);

/* ---- transactions ---- */

/*
** A transaction function must return, whatever happens (a failed assertion of cmocka jumps, and
** would leave the store locked). These return from it with a status that says where; write_ok and
** the others then fail the test with that message.
*/
#define TEST_FAILED MOONPAD_TOOL /* no store returns it */

moonpad_status store_test_failed(moonpad_status status, const char *file, int line, const char *what,
                                 moonpad_error *error);

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) return store_test_failed(TEST_FAILED, __FILE__, __LINE__, #condition, error);                    \
  } while (0)
#define TRY(call) EXPECT(MOONPAD_OK, call)
#define EXPECT(expected, call)                                                                                         \
  do {                                                                                                                 \
    moonpad_status tried = (call);                                                                                     \
    if (tried == MOONPAD_NO_MEMORY && (expected) != MOONPAD_NO_MEMORY) return tried;                                   \
    if (tried != (expected)) return store_test_failed(tried, __FILE__, __LINE__, #call, error);                        \
  } while (0)

void write_ok(opened_store *opened, mp_tx_function function, void *context);
void read_ok(opened_store *opened, mp_tx_function function, void *context);
/*
** The function is expected to end with `status`, and with a message that contains `message` unless
** that is NULL.
*/
void write_fails(opened_store *opened, moonpad_status status, const char *message, mp_tx_function function,
                 void *context);

/* ---- asking ---- */

moonpad_session_name session_named(const char *app, const char *user, const char *session);
/* By name alone: ids are found out by find_row and find_head. */
mp_session_ref ref_named(const char *app, const char *user, const char *session);

/* A look for the heads of a session and nothing else; of a user or an app as in mp_look. */
mp_look look_at(const mp_session_ref *ref, mp_scope scope);
/* The session's heads, and their ids for `ref`. */
moonpad_status find_row(mp_tx *tx, mp_session_ref *ref, mp_session_row *row, moonpad_error *error);
/* By the names alone: the head of a user or an app, and its id for `ref`. */
moonpad_status find_head(mp_tx *tx, mp_session_ref *ref, mp_scope scope, bool create, mp_session_row *row,
                         moonpad_error *error);
/* One key: *value is a reference for the caller, or NULL. */
moonpad_status read_one(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, moonpad_string key, mp_value **value,
                        int64_t *revision, moonpad_error *error);
/* The event of this id alone goes to `each`. None: MOONPAD_NOT_FOUND. */
moonpad_status find_event(mp_tx *tx, const mp_session_ref *ref, moonpad_string id, mp_each_event each, void *context,
                          moonpad_error *error);
/* Events with first <= revision <= last. */
moonpad_status walk_events(mp_tx *tx, const mp_session_ref *ref, int64_t first, int64_t last, mp_each_event each,
                           void *context, moonpad_error *error);

/* Is there no message? */
bool is_silent(const moonpad_error *error);

/* ---- building ---- */

mp_event_row event_row(int64_t revision, double timestamp, const char *id, const char *json);
/* An event with what a walk can select without its JSON; `tags` are its kinds. */
mp_event_row event_tagged(int64_t revision, const char *id, const char *json, const char *invocation, unsigned tags);

/* Makes the session, or finds it; and its ids, for `ref`. */
moonpad_status make_session(mp_tx *tx, mp_session_ref *ref, double create_time, moonpad_error *error);
moonpad_status need_session(mp_tx *tx, mp_session_ref *ref, mp_session_row *row, moonpad_error *error);
moonpad_status update_heads(mp_tx *tx, const mp_session_ref *ref, const mp_session_row *row, unsigned heads,
                            moonpad_error *error);
/* Counts a head up to this revision, or down. */
moonpad_status set_revision(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t revision,
                            moonpad_error *error);
/* The event alone, whatever the session's revision is. */
moonpad_status append_row(mp_tx *tx, const mp_session_ref *ref, const mp_event_row *event, moonpad_error *error);
/* What a service does: appends the event and counts the session's revision up to it. */
moonpad_status append_next(mp_tx *tx, const mp_session_ref *ref, const char *id, const char *json,
                           moonpad_error *error);
/* Writes a key, or with NULL a tombstone. A head with a smaller revision counts up to this one. */
moonpad_status write_value(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, moonpad_string key, mp_value *value,
                           int64_t revision, moonpad_error *error);
/* The same with a string. */
moonpad_status write_text(opened_store *opened, mp_tx *tx, const mp_session_ref *ref, mp_scope scope, const char *key,
                          const char *text, int64_t revision, moonpad_error *error);
/* A key of the base state, or with NULL none. */
moonpad_status write_base(mp_tx *tx, const mp_session_ref *ref, moonpad_string key, mp_value *value,
                          moonpad_error *error);

/* ---- writing down ---- */

typedef struct store_dump {
  char *text; /* NUL-terminated */
  size_t length;
  size_t capacity;
} store_dump;

void dump_free(store_dump *dump);
void dump_print(store_dump *dump, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Printable ASCII as it is, the rest as \xNN. */
void dump_bytes(store_dump *dump, moonpad_string bytes);

/* Lines "KEY=VALUE@REVISION", sorted. Strings in '', floats as %a, a tombstone as "removed". */
moonpad_status dump_keys(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t since, store_dump *dump,
                         moonpad_error *error);
moonpad_status dump_base_keys(mp_tx *tx, const mp_session_ref *ref, store_dump *dump, moonpad_error *error);
/* Lines "REVISION ID TIMESTAMP DIGEST JSON"; without JSON "-" stands there. */
/* an mp_each_event */
moonpad_status dump_event(void *dump, const mp_event_row *row, moonpad_error *error);
moonpad_status dump_events(mp_tx *tx, const mp_session_ref *ref, int64_t first, int64_t last, store_dump *dump,
                           moonpad_error *error);
moonpad_status dump_query(mp_tx *tx, const mp_session_ref *ref, const mp_event_query *query, store_dump *dump,
                          moonpad_error *error);
/* An mp_each_event: "REVISION ", in the order in which they come. */
moonpad_status dump_number(void *dump, const mp_event_row *row, moonpad_error *error);
/* The event with an id (NULL: none) and the `recent` last ones go to `each`, from one look. */
moonpad_status look_for_events(mp_tx *tx, const mp_session_ref *ref, const char *id, int64_t recent, mp_each_event each,
                               void *context, moonpad_error *error);
/* Lines "SCOPE KEY=VALUE@REVISION": an mp_each_state for walks over several scopes. */
moonpad_status dump_state(void *dump, const mp_state_row *row, moonpad_error *error);
/* Lines of `unsorted` in order of their bytes; it is empty afterwards. */
void dump_sorted(store_dump *to, store_dump *unsorted);

/*
** All of these apps and users, their sessions and what those hold. With `ids`, internal ids too:
** two stores need not agree on them.
*/
extern const char *const dumped_apps[3];
extern const char *const dumped_users[4];
moonpad_status dump_all(mp_tx *tx, bool ids, store_dump *dump, moonpad_error *error);
void dump_store(opened_store *opened, bool ids, store_dump *dump);

/* ---- tests ---- */

/* What the functions of a test share; each test uses what it needs. */
typedef struct test_scene {
  opened_store *opened;
  mp_session_ref session;
  mp_session_ref other;
  store_dump before;
  store_dump after;
} test_scene;

test_scene scene_of(void **state);
void scene_free(test_scene *scene);
/* Fails the test and shows both when they differ. */
void expect_same_dump(const store_dump *expected, const store_dump *found);

/* In a transaction function: `dump_call` writes to `text`, which must then be `expected`. */
#define EXPECT_TEXT(dump_call, expected)                                                                               \
  do {                                                                                                                 \
    store_dump text = {NULL, 0, 0};                                                                                    \
    moonpad_status dumped = dump_call;                                                                                 \
    bool same = strcmp(text.text == NULL ? "" : text.text, expected) == 0;                                             \
    if (dumped == MOONPAD_OK && !same)                                                                                 \
      print_error("expected:\n%sfound:\n%s", expected, text.text == NULL ? "" : text.text);                            \
    dump_free(&text);                                                                                                  \
    TRY(dumped);                                                                                                       \
    CHECK(same);                                                                                                       \
  } while (0)

/* A sweep, until it has removed `limit` or been everywhere: one call may stop before. */
static inline moonpad_status store_sweep(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit,
                                         int64_t *removed, moonpad_error *error) {
  mp_sweep sweep = {.scope = scope, .touched_before = touched_before};
  moonpad_status status = MOONPAD_OK;
  *removed = 0;
  while (status == MOONPAD_OK && !sweep.is_done && *removed < limit) {
    sweep.limit = limit - *removed;
    status = tx->ops->sweep(tx, &sweep, error);
    *removed += sweep.removed;
  }
  return status;
}

/* ---- a session with something of everything ---- */

#define FULL_MESSAGE                                                                                                   \
  "{\"author\":\"user\",\"invocationId\":\"i1\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}}"
#define FULL_CHANGE  "{\"author\":\"bot\",\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"a\":1}}}"
#define FULL_OF_USER "{\"author\":\"bot\",\"invocationId\":\"i2\",\"actions\":{\"stateDelta\":{\"user:a\":1}}}"
#define FULL_BOTH                                                                                                      \
  "{\"author\":\"user\",\"invocationId\":\"i2\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"y\"}]},"         \
  "\"actions\":{\"stateDelta\":{\"b\":2}}}"

/*
** A transaction function; its context is a test_scene. Makes session s1 of user ann of app shop
** (scene->session) and s2 (scene->other), which is empty. s1 has events e1 to e4, which are the
** texts above, at revision / 2 seconds, and revision 4; its user has revision 7, its app 9. Keys,
** as SCOPE KEY=VALUE@REVISION: session a='old'@2 b='new'@4 gone=removed@3, user a='users'@6
** gone=removed@7, app a='apps'@9.
*/
moonpad_status writes_full_session(mp_tx *tx, void *scene, moonpad_error *error);

/* A test of the suite: its *state is an opened_store, fresh, of the kind under test. */
int store_test_setup(void **state);
int store_test_teardown(void **state);
#define STORE_TEST(function) cmocka_unit_test_setup_teardown(function, store_test_setup, store_test_teardown)

/* The result is for main to return. */
int run_on_every_store(const struct CMUnitTest *tests, size_t count);
#define RUN_ON_EVERY_STORE(tests) run_on_every_store((tests), sizeof(tests) / sizeof *(tests))

/* The kind by which the others are measured. */
const store_kind *memory_kind(void);
/* The one that opens what others back up. */
const store_kind *file_kind(void);
/* The kinds of which all memory can be counted, and made to fail; NULL behind the last one. */
const store_kind *counting_kind(size_t number);

#endif
