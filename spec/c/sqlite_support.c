/* Support for the tests of the SQLite store. */
#include "sqlite_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store_support.h"

int folder_setup(void **state) {
  sqlite_files *files = calloc(1, sizeof *files);
  assert_non_null(files);
  files->options.size = sizeof files->options;
  files->options.durability = MOONPAD_DURABILITY_NORMAL;
  files->options.busy_timeout_ms = TIMEOUT_MS;
  files->env = mp_env_new(&files->options);
  assert_non_null(files->env);
  snprintf(files->folder, sizeof files->folder, "/tmp/moonpad-sqlite-XXXXXX");
  assert_non_null(mkdtemp(files->folder));
  snprintf(files->path, sizeof files->path, "%s/state.db", files->folder);
  *state = files;
  return 0;
}

int folder_teardown(void **state) {
  sqlite_files *files = *state;
  mp_env_release(files->env);
  chmod(files->folder, 0700);
  remove_folder(files->folder);
  free(files);
  return 0;
}

moonpad_status folder_try(sqlite_files *files, const char *rest, mp_store **store) {
  memset(&files->error, 0, sizeof files->error);
  moonpad_status status = mp_sqlite_open(files->env, moonpad_text(rest), &files->options, store, &files->error);
  if (status != MOONPAD_OK) {
    assert_null(*store);
    assert_int_equal(files->error.code, status);
  }
  return status;
}

mp_store *folder_open(sqlite_files *files) {
  mp_store *store;
  if (folder_try(files, files->path, &store) != MOONPAD_OK) fail_msg("%s", files->error.message);
  return store;
}

void folder_close(mp_store *store) {
  store->ops->close(store);
  store->ops->free(store);
}

/* ---- files ---- */

char *file_bytes(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

void file_write(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

bool file_exists(const char *path, const char *suffix) {
  char name[256];
  snprintf(name, sizeof name, "%s%s", path, suffix);
  return access(name, F_OK) == 0;
}

void remove_files(const char *path) {
  static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
  char name[200];
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
    remove(name);
  }
}

void sql_run(const char *path, const char *sql) {
  sqlite3 *db;
  char *problem = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, &problem) != SQLITE_OK) fail_msg("%s: %s", sql, problem);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t sql_integer(const char *path, const char *sql) {
  sqlite3 *db;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  int64_t integer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  return integer;
}

void expect_sound_file(const char *path) {
  assert_int_equal(sql_integer(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

/* ---- appending ---- */

static bool same_row(const mp_session_row *a, const mp_session_row *b) {
  return a->id == b->id && a->user == b->user && a->app == b->app && a->revision == b->revision &&
         a->base_revision == b->base_revision && a->user_revision == b->user_revision &&
         a->app_revision == b->app_revision && a->conversation_count == b->conversation_count &&
         a->create_time == b->create_time && a->last_update_time == b->last_update_time;
}

/*
** Found by its name and by its internal id, which a store may remember, it must be the same.
** Ends the program otherwise: other threads have no other way to fail a test, and an error would
** only make the store try the transaction again.
*/
static moonpad_status own_session(mp_tx *tx, mp_session_ref *ref, mp_session_row *row, moonpad_error *error) {
  mp_session_row loaded;
  moonpad_status status = find_row(tx, ref, row, error);
  if (status == MOONPAD_NOT_FOUND) {
    status = tx->ops->create_session(tx, &ref->name, 1.0, row, error);
    ref->session = row->id;
  }
  if (status == MOONPAD_OK) status = find_row(tx, ref, &loaded, error);
  if (status != MOONPAD_OK || same_row(row, &loaded)) return status;
  fprintf(stderr, "session %s is not remembered as it is stored\n", ref->name.session_id.data);
  abort();
}

/* The next value of a scope's counter, and where it is written. */
static moonpad_status count_up(mp_tx *tx, mp_env *env, const mp_session_ref *ref, mp_scope scope, int64_t revision,
                               mp_state_row *write, moonpad_error *error) {
  mp_value *value;
  int64_t ignored;
  moonpad_status status = read_one(tx, ref, scope, moonpad_text("count"), &value, &ignored, error);
  if (status != MOONPAD_OK) return status;
  int64_t count = value == NULL ? 0 : value->as.as.integer;
  mp_value_release(env, value);
  *write = (mp_state_row){scope, moonpad_text("count"), mp_value_new_integer(env, count + 1), revision};
  return write->value == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

/* For free. */
static char *event_json(const appender *work) {
  char *json = malloc(work->size + 64);
  if (json == NULL) return NULL;
  int head = sprintf(json, "{\"n\":%d,\"text\":\"", work->next);
  memset(json + head, 'x', work->size);
  strcpy(json + head + work->size, "\"}");
  return json;
}

static moonpad_status apply_append(mp_tx *tx, const appender *work, const mp_session_ref *ref,
                                   const mp_session_row *row, const mp_state_row *counters, moonpad_error *error) {
  char id[40];
  char *json = event_json(work);
  if (json == NULL) return mp_no_memory(error);
  snprintf(id, sizeof id, "event-%d-%d", work->tag, work->next);
  mp_event_row event = event_row(row->revision, 2.0, id, json);
  mp_batch batch = {.ref = *ref,
                    .row = row,
                    .heads = MP_ALL_HEADS,
                    .keys = counters,
                    .key_count = MP_STORED_SCOPES,
                    .events = &event,
                    .event_count = 1};
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  free(json);
  return status;
}

moonpad_status append_once(mp_tx *tx, void *context, moonpad_error *error) {
  appender *work = context;
  mp_session_row row;
  mp_session_ref ref = ref_named("app", "u", work->session_id);
  mp_state_row counters[MP_STORED_SCOPES] = {{.value = NULL}};
  moonpad_status status = own_session(tx, &ref, &row, error);
  if (status != MOONPAD_OK) return status;
  row.last_update_time = (double)++row.revision;
  row.conversation_count++;
  const int64_t revisions[] = {row.revision, ++row.user_revision, ++row.app_revision};
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    status = count_up(tx, work->env, &ref, (mp_scope)scope, revisions[scope], &counters[scope], error);
  }
  if (status == MOONPAD_OK) status = apply_append(tx, work, &ref, &row, counters, error);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_value_release(work->env, counters[scope].value);
  if (status == MOONPAD_OK && work->fail) return mp_fail(error, MOONPAD_CONFLICT, "%d", work->next);
  return status;
}

/* ---- counting what was appended ---- */

typedef struct counting {
  const char *session_id;
  int64_t events;
  int64_t revision;
  int64_t counter;
  bool in_order;
} counting;

static moonpad_status count_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  counting *found = context;
  found->events++;
  found->in_order = found->in_order && row->revision == found->events;
  return MOONPAD_OK;
}

static moonpad_status take_counter(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)context = row->value->as.as.integer;
  return MOONPAD_OK;
}

static moonpad_status read_counter(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t *counter,
                                   mp_session_row *row, moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, scope);
  look.since[scope] = MP_EVERY_KEY;
  look.each_state = take_counter;
  look.context = counter;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  *row = facts.row;
  return status;
}

static moonpad_status count_session(mp_tx *tx, void *context, moonpad_error *error) {
  counting *found = context;
  mp_session_row row;
  mp_session_ref ref = ref_named("app", "u", found->session_id);
  moonpad_status status = find_row(tx, &ref, &row, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
  found->revision = row.revision;
  status = walk_events(tx, &ref, 0, INT64_MAX, count_event, found, error);
  return status == MOONPAD_OK ? read_counter(tx, &ref, MP_SCOPE_SESSION, &found->counter, &row, error) : status;
}

int64_t count_appended(mp_store *store, const char *session_id) {
  counting found = {session_id, 0, 0, 0, true};
  moonpad_error error = {MOONPAD_OK, ""};
  if (store->ops->read(store, count_session, &found, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_true(found.in_order);
  assert_int_equal(found.events, found.revision);
  assert_int_equal(found.events, found.counter);
  return found.events;
}

typedef struct shared_count {
  mp_scope scope;
  int64_t counter;
} shared_count;

static moonpad_status count_shared(mp_tx *tx, void *context, moonpad_error *error) {
  shared_count *found = context;
  mp_session_row row;
  mp_session_ref ref = ref_named("app", "u", NULL);
  moonpad_status status = read_counter(tx, &ref, found->scope, &found->counter, &row, error);
  if (status != MOONPAD_OK) return status;
  int64_t revision = found->scope == MP_SCOPE_USER ? row.user_revision : row.app_revision;
  if (revision != found->counter) return mp_fail(error, MOONPAD_CONFLICT, "the revision is not the counter");
  return MOONPAD_OK;
}

int64_t shared_counter(mp_store *store, mp_scope scope) {
  shared_count found = {scope, 0};
  moonpad_error error = {MOONPAD_OK, ""};
  if (store->ops->read(store, count_shared, &found, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  return found.counter;
}
