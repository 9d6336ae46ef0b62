/*
** Events that were written with schema 1, of which nothing is told but by their JSON: a walk
** over them, alone and among events of today, finds what SQLite finds in the JSON. The store is
** asked itself: which events a walk skips without their JSON is not seen from outside.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite_support.h"
#include "store_support.h"

#define T(text)     moonpad_text(text)
#define MOST_EVENTS 64
#define IS_MESSAGE  "coalesce((event ->> '$.author') = 'user' AND json_array_length(event, '$.content.parts') > 0, 0)"
#define IS_CHANGE                                                                                                      \
  "EXISTS (SELECT 1 FROM json_each(event, '$.actions.stateDelta') WHERE key NOT GLOB 'user:*' AND key NOT GLOB "       \
  "'app:*')"
/* Of no event, of those with an even revision, of all. */
static const char *const told[] = {
    "UPDATE events SET kinds = NULL, invocation = NULL",
    "UPDATE events SET kinds = (" IS_MESSAGE ") + 2 * " IS_CHANGE
    ", invocation = event ->> '$.invocationId' WHERE revision % 2 = 0",
    "UPDATE events SET kinds = (" IS_MESSAGE ") + 2 * " IS_CHANGE ", invocation = event ->> '$.invocationId'",
};

typedef struct walk {
  mp_event_query query;
  mp_session_ref ref;
  moonpad_string invocation;
  int64_t found; /* the revision of its first event; 0: none */
  int64_t revisions[MOST_EVENTS];
  unsigned kinds[MOST_EVENTS];
  char invocations[MOST_EVENTS][48]; /* "": not read back */
  size_t count;
} walk;

static moonpad_status note_event(void *context, const mp_event_row *row, moonpad_error *error) {
  walk *self = context;
  (void)error;
  assert_true(self->count < MOST_EVENTS);
  assert_true(self->query.without_json ? row->json.data == NULL : row->json.data[0] == '{');
  self->revisions[self->count] = row->revision;
  assert_true((row->invocation.data != NULL) == self->query.tags);
  snprintf(self->invocations[self->count], sizeof self->invocations[0], "%.*s", (int)row->invocation.length,
           row->invocation.data == NULL ? "" : row->invocation.data);
  self->kinds[self->count++] = row->kinds;
  return MOONPAD_OK;
}

static moonpad_status ask_events(mp_tx *tx, void *context, moonpad_error *error) {
  walk *self = context;
  mp_session_row row;
  moonpad_status status = find_row(tx, &self->ref, &row, error);
  self->count = 0;
  if (status == MOONPAD_OK) status = tx->ops->each_event(tx, &self->ref, &self->query, note_event, self, error);
  if (status != MOONPAD_OK || self->invocation.data == NULL) return status;
  status = tx->ops->find_invocation(tx, &self->ref, self->invocation, &self->found, error);
  if (status == MOONPAD_NOT_FOUND) self->found = 0;
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

#define OF_SESSION " FROM events WHERE session = (SELECT id FROM sessions WHERE session_id = 'history') AND "

/* The first event of a kind, the last one and how many there are. */
static void expect_walk(const sqlite_files *files, const walk *self, const char *condition) {
  char sql[600];
  const char *const wanted[] = {"min(revision)", "max(revision)", "count(*)"};
  size_t last = self->count - 1;
  bool newest_first = self->query.newest_first;
  int64_t found[] = {self->revisions[newest_first ? last : 0], self->revisions[newest_first ? 0 : last],
                     (int64_t)self->count};
  assert_true(self->count > 0);
  for (size_t i = 0; i < 3; i++) {
    snprintf(sql, sizeof sql, "SELECT %s" OF_SESSION "%s", wanted[i], condition);
    assert_int_equal(found[i], sql_integer(files->path, sql));
  }
  for (size_t i = 1; i < self->count; i++) {
    assert_true((self->revisions[i] > self->revisions[i - 1]) != newest_first);
  }
}

static void expect_kinds(const sqlite_files *files, const walk *self) {
  char sql[600];
  for (size_t i = 0; i < self->count; i++) {
    bool asked = self->query.tags || self->query.kinds != 0;
    snprintf(sql, sizeof sql, "SELECT (" IS_MESSAGE ") + 2 * " IS_CHANGE OF_SESSION "revision = %lld",
             (long long)self->revisions[i]);
    assert_int_equal(self->kinds[i], asked ? sql_integer(files->path, sql) : 0);
    snprintf(sql, sizeof sql, "SELECT coalesce(event ->> '$.invocationId', '') = '%s'" OF_SESSION "revision = %lld",
             self->invocations[i], (long long)self->revisions[i]);
    if (self->query.tags) assert_int_equal(sql_integer(files->path, sql), 1);
  }
}

static void expect_walks(const sqlite_files *files, mp_store *store) {
  static const struct {
    unsigned kinds;
    const char *condition;
  } cases[] = {{0, "true"},
               {MP_EVENT_USER_MESSAGE, IS_MESSAGE},
               {MP_EVENT_SESSION_CHANGE, IS_CHANGE},
               {MP_EVENT_USER_MESSAGE | MP_EVENT_SESSION_CHANGE, "(" IS_MESSAGE " OR " IS_CHANGE ")"}};
  for (unsigned i = 0; i < 8 * sizeof cases / sizeof *cases; i++) {
    walk one = {.ref.name = {T("shop"), T("ann"), T("history")}};
    one.query = (mp_event_query){.first = 1,
                                 .last = MP_MAX_REVISION,
                                 .newest_first = (i & 1) != 0,
                                 .without_json = (i & 2) != 0,
                                 .kinds = cases[i / 8].kinds,
                                 .tags = (i & 4) != 0};
    assert_int_equal(store->ops->read(store, ask_events, &one, NULL), MOONPAD_OK);
    expect_walk(files, &one, cases[i / 8].condition);
    expect_kinds(files, &one);
  }
}

static void expect_invocations(const sqlite_files *files, mp_store *store) {
  for (int turn = 1; turn < 10; turn++) {
    char name[20], sql[600];
    snprintf(name, sizeof name, "turn %d", turn);
    walk one = {.ref.name = {T("shop"), T("ann"), T("history")}, .invocation = T(name)};
    one.query = (mp_event_query){.first = 1, .last = MP_MAX_REVISION, .without_json = true};
    assert_int_equal(store->ops->read(store, ask_events, &one, NULL), MOONPAD_OK);
    snprintf(sql, sizeof sql, "SELECT coalesce(min(revision), 0)" OF_SESSION "(event ->> '$.invocationId') = '%s'",
             name);
    assert_int_equal(one.found, sql_integer(files->path, sql));
    assert_true(turn > 8 || one.found > 0);
  }
}

static void test_events_of_schema_1_are_walked_as_sqlite_reads_them(void **state) {
  sqlite_files *files = *state;
  char command[300];
  snprintf(command, sizeof command, "gzip -dc spec/fixtures/schema_1/sessions.db.gz > '%s'", files->path);
  assert_int_equal(system(command), 0);
  mp_store *store = folder_open(files);
  for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
    sql_run(files->path, told[i]);
    expect_walks(files, store);
    expect_invocations(files, store);
  }
  folder_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_events_of_schema_1_are_walked_as_sqlite_reads_them, folder_setup,
                                      folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
