/* Support for the tests of stores. Its own memory comes from malloc, so that an allocator that fails on purpose does not hit it. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/map.h"
#include "store_support.h"

/* ---- the stores ---- */

static const store_kind kinds[] = {
    {"memory:", mp_memory_open, false, false},
    {"sqlite:FILE", mp_sqlite_open, true, true},
    {"sqlite::memory:", mp_sqlite_open, false, true},
};
static const store_kind *kind_under_test; /* set before each run of the suite */

const store_kind *memory_kind(void) {
  return &kinds[0];
}

const store_kind *file_kind(void) {
  return &kinds[1];
}

int store_test_setup(void **state) {
  opened_store *opened = malloc(sizeof *opened);
  assert_non_null(opened);
  store_open(opened, kind_under_test, NULL);
  *state = opened;
  return 0;
}

int store_test_teardown(void **state) {
  store_close(*state);
  free(*state);
  return 0;
}

/* STORE names one kind to run on alone: for a debugger, or a sanitizer that a store's library does not bear. */
int run_on_every_store(const struct CMUnitTest *tests, size_t count) {
  int failures = 0;
  const char *only = getenv("STORE");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (only != NULL && strcmp(only, kinds[i].name) != 0) continue;
    kind_under_test = &kinds[i];
    failures += _cmocka_run_group_tests(kinds[i].name, tests, count, NULL, NULL);
  }
  return failures;
}

test_scene scene_of(void **state) {
  test_scene scene;
  memset(&scene, 0, sizeof scene);
  scene.opened = *state;
  return scene;
}

void scene_free(test_scene *scene) {
  dump_free(&scene->before);
  dump_free(&scene->after);
}

void expect_same_dump(const store_dump *expected, const store_dump *found) {
  if (strcmp(expected->text, found->text) == 0) return;
  print_error("expected:\n%s\nfound:\n%s\n", expected->text, found->text);
  fail_msg("the store does not hold what it should");
}

/* ---- the allocator: each block is preceded by its size ---- */

#define BLOCK_HEAD 16

static bool counting_refuses(counting_allocator *allocator) {
  allocator->made++;
  return allocator->fail_at != 0 && allocator->made >= allocator->fail_at;
}

static void *counting_resize(void *context, void *block, size_t size) {
  counting_allocator *allocator = context;
  if (counting_refuses(allocator)) return NULL;
  char *whole = block == NULL ? NULL : (char *)block - BLOCK_HEAD;
  size_t before = 0;
  if (whole != NULL) memcpy(&before, whole, sizeof before);
  char *resized = realloc(whole, size + BLOCK_HEAD);
  if (resized == NULL) return NULL;
  memcpy(resized, &size, sizeof size);
  allocator->bytes += size - before;
  if (block == NULL) allocator->live++;
  return resized + BLOCK_HEAD;
}

static void *counting_allocate(void *context, size_t size) {
  return counting_resize(context, NULL, size);
}

static void counting_release(void *context, void *block) {
  counting_allocator *allocator = context;
  if (block == NULL) return;
  char *whole = (char *)block - BLOCK_HEAD;
  size_t size;
  memcpy(&size, whole, sizeof size);
  allocator->bytes -= size;
  allocator->live--;
  free(whole);
}

void counting_init(counting_allocator *allocator) {
  memset(allocator, 0, sizeof *allocator);
  allocator->hooks.allocate = counting_allocate;
  allocator->hooks.resize = counting_resize;
  allocator->hooks.release = counting_release;
  allocator->hooks.context = allocator;
}

void counting_arm(counting_allocator *allocator, long fail_at) {
  allocator->made = 0;
  allocator->fail_at = fail_at;
}

/* ---- stores ---- */

moonpad_options store_options(const moonpad_allocator *allocator) {
  moonpad_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.durability = MOONPAD_DURABILITY_NORMAL;
  options.busy_timeout_ms = 60000;
  options.num_recent_events = MOONPAD_ALL_EVENTS;
  options.allocator = allocator;
  return options;
}

static moonpad_string store_rest(const opened_store *opened) {
  if (opened->kind->is_file) return moonpad_text(opened->path);
  return moonpad_text(strchr(opened->kind->name, ':') + 1);
}

static void open_again(opened_store *opened) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_options options = store_options(NULL);
  if (opened->kind->open(opened->env, store_rest(opened), &options, &opened->store, &error) != MOONPAD_OK) {
    fail_msg("%s does not open: %s", opened->kind->name, error.message);
  }
}

void store_open(opened_store *opened, const store_kind *kind, const moonpad_allocator *allocator) {
  memset(opened, 0, sizeof *opened);
  opened->kind = kind;
  if (kind->is_file) {
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > sizeof opened->folder - 32) base = "/tmp";
    snprintf(opened->folder, sizeof opened->folder, "%s/moonpad-store-XXXXXX", base);
    assert_non_null(mkdtemp(opened->folder));
    snprintf(opened->path, sizeof opened->path, "%s/state.db", opened->folder);
  }
  moonpad_options options = store_options(allocator);
  opened->env = mp_env_new(&options);
  assert_non_null(opened->env);
  open_again(opened);
}

static void close_only(opened_store *opened) {
  if (opened->store == NULL) return;
  opened->store->ops->close(opened->store);
  opened->store->ops->free(opened->store);
  opened->store = NULL;
}

void store_reopen(opened_store *opened) {
  close_only(opened);
  open_again(opened);
}

static void remove_folder(const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == NULL) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  closedir(directory);
  rmdir(folder);
}

void store_close(opened_store *opened) {
  close_only(opened);
  mp_env_release(opened->env);
  if (opened->folder[0] != '\0') remove_folder(opened->folder);
}

/* ---- transactions ---- */

moonpad_status store_test_failed(moonpad_status status, const char *file, int line, const char *what,
                                 moonpad_error *error) {
  char message[512];
  const char *said = error->code == status ? error->message : "";
  snprintf(message, sizeof message, "%s:%d: %s: status %d %.300s", file, line, what, (int)status, said);
  error->code = TEST_FAILED;
  snprintf(error->message, sizeof error->message, "%s", message);
  return TEST_FAILED;
}

void write_ok(opened_store *opened, mp_tx_function function, void *context) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = opened->store->ops->write(opened->store, function, context, &error);
  if (status != MOONPAD_OK) fail_msg("write: status %d: %s", (int)status, error.message);
}

void read_ok(opened_store *opened, mp_tx_function function, void *context) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = opened->store->ops->read(opened->store, function, context, &error);
  if (status != MOONPAD_OK) fail_msg("read: status %d: %s", (int)status, error.message);
}

void write_fails(opened_store *opened, moonpad_status expected, const char *message, mp_tx_function function,
                 void *context) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = opened->store->ops->write(opened->store, function, context, &error);
  if (status != expected) fail_msg("write: status %d, not %d: %s", (int)status, (int)expected, error.message);
  if (message != NULL && strstr(error.message, message) == NULL) fail_msg("no \"%s\" in: %s", message, error.message);
}

/* ---- building ---- */

moonpad_session_name session_named(const char *app, const char *user, const char *session) {
  moonpad_session_name name = {moonpad_text(app), moonpad_text(user), moonpad_text(session)};
  return name;
}

mp_event_row event_row(int64_t revision, double timestamp, const char *id, const char *json) {
  mp_event_row row;
  memset(&row, 0, sizeof row);
  row.revision = revision;
  row.timestamp = timestamp;
  row.id = moonpad_text(id);
  row.json = moonpad_text(json);
  return row;
}

moonpad_status need_session(mp_tx *tx, const moonpad_session_name *name, mp_session_row *row, moonpad_error *error) {
  moonpad_status status = tx->ops->find_session(tx, name, row, error);
  return status == MOONPAD_NOT_FOUND ? tx->ops->create_session(tx, name, 1000.5, row, error) : status;
}

moonpad_status append_next(mp_tx *tx, int64_t session, const char *id, const char *json, moonpad_error *error) {
  mp_session_row row;
  TRY(tx->ops->load_session(tx, session, &row, error));
  row.revision++;
  row.conversation_count++;
  row.last_update_time += 0.25;
  mp_event_row event = event_row(row.revision, row.last_update_time, id, json);
  TRY(tx->ops->append_event(tx, session, &event, error));
  TRY(tx->ops->update_session(tx, &row, error));
  return MOONPAD_OK;
}

moonpad_status write_text(opened_store *opened, mp_tx *tx, mp_scope scope, int64_t id, const char *key,
                          const char *text, int64_t revision, moonpad_error *error) {
  mp_value *value = NULL;
  if (text != NULL) {
    value = mp_value_new_string(opened->env, moonpad_text(text));
    if (value == NULL) return mp_no_memory(error);
  }
  moonpad_status status = tx->ops->write_key(tx, scope, id, moonpad_text(key), value, revision, error);
  mp_value_release(opened->env, value);
  return status;
}

/* ---- writing down ---- */

void dump_free(store_dump *dump) {
  free(dump->text);
  memset(dump, 0, sizeof *dump);
}

static void dump_room(store_dump *dump, size_t more) {
  if (dump->capacity - dump->length > more) return;
  dump->capacity = (dump->length + more + 1) * 2;
  dump->text = realloc(dump->text, dump->capacity);
  if (dump->text == NULL) abort();
}

void dump_print(store_dump *dump, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  dump_room(dump, (size_t)length);
  va_start(arguments, format);
  vsnprintf(dump->text + dump->length, (size_t)length + 1, format, arguments);
  va_end(arguments);
  dump->length += (size_t)length;
}

void dump_bytes(store_dump *dump, moonpad_string bytes) {
  for (size_t i = 0; i < bytes.length; i++) {
    unsigned char byte = (unsigned char)bytes.data[i];
    dump_print(dump, byte > 0x20 && byte < 0x7f && byte != '\\' ? "%c" : "\\x%02x", byte);
  }
}

static void dump_value(store_dump *dump, const mp_value *value) {
  if (value == NULL) {
    dump_print(dump, "removed");
    return;
  }
  switch (value->as.type) {
  case MOONPAD_ABSENT:
    dump_print(dump, "absent");
    break;
  case MOONPAD_NULL:
    dump_print(dump, "null");
    break;
  case MOONPAD_BOOLEAN:
    dump_print(dump, value->as.as.boolean ? "true" : "false");
    break;
  case MOONPAD_INTEGER:
    dump_print(dump, "%" PRId64, value->as.as.integer);
    break;
  case MOONPAD_FLOAT:
    dump_print(dump, "%a", value->as.as.number);
    break;
  case MOONPAD_STRING:
    dump_print(dump, "'");
    dump_bytes(dump, value->as.as.text);
    dump_print(dump, "'");
    break;
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    dump_print(dump, value->as.type == MOONPAD_ARRAY ? "array" : "object");
    dump_bytes(dump, value->as.as.text);
    break;
  }
}

static moonpad_status dump_key_row(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  store_dump *dump = context;
  dump_bytes(dump, row->key);
  dump_print(dump, "=");
  dump_value(dump, row->value);
  dump_print(dump, "@%" PRId64 "\n", row->revision);
  return MOONPAD_OK;
}

static int compare_lines(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the lines of `unsorted` in order, and frees it. */
static void dump_sorted(store_dump *to, store_dump *unsorted) {
  size_t count = 0;
  char **lines = NULL;
  for (char *line = unsorted->text; line != NULL && *line != '\0';) {
    char *end = strchr(line, '\n');
    *end = '\0';
    lines = realloc(lines, (count + 1) * sizeof *lines);
    if (lines == NULL) abort();
    lines[count++] = line;
    line = end + 1;
  }
  if (count != 0) qsort(lines, count, sizeof *lines, compare_lines);
  for (size_t i = 0; i < count; i++) dump_print(to, "%s\n", lines[i]);
  free(lines);
  dump_free(unsorted);
}

moonpad_status dump_keys(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, store_dump *to, moonpad_error *error) {
  store_dump unsorted = {NULL, 0, 0};
  moonpad_status status = tx->ops->each_key(tx, scope, id, since, dump_key_row, &unsorted, error);
  dump_sorted(to, &unsorted);
  return status;
}

/* A row of the base state has no revision of its own. */
static moonpad_status dump_base_row(void *context, const mp_state_row *row, moonpad_error *error) {
  mp_state_row without_revision = {row->key, row->value, 0};
  return dump_key_row(context, &without_revision, error);
}

moonpad_status dump_base_keys(mp_tx *tx, int64_t session, store_dump *to, moonpad_error *error) {
  store_dump unsorted = {NULL, 0, 0};
  moonpad_status status = tx->ops->each_base_key(tx, session, dump_base_row, &unsorted, error);
  dump_sorted(to, &unsorted);
  return status;
}

static moonpad_status dump_event_row(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  store_dump *dump = context;
  dump_print(dump, "%" PRId64 " ", row->revision);
  dump_bytes(dump, row->id);
  dump_print(dump, " %a %" PRIu64 " ", row->timestamp, row->digest);
  dump_bytes(dump, row->json);
  dump_print(dump, "\n");
  return MOONPAD_OK;
}

moonpad_status dump_events(mp_tx *tx, int64_t session, int64_t first, int64_t last, store_dump *dump,
                           moonpad_error *error) {
  return tx->ops->each_event(tx, session, first, last, dump_event_row, dump, error);
}

static moonpad_status dump_session_row(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)error;
  store_dump *dump = context;
  dump_bytes(dump, session->user_id);
  dump_print(dump, "/");
  dump_bytes(dump, session->session_id);
  dump_print(dump, " %g\n", session->row.last_update_time);
  return MOONPAD_OK;
}

moonpad_status dump_sessions(mp_tx *tx, const mp_list_query *query, store_dump *dump, moonpad_error *error) {
  return tx->ops->each_session(tx, query, dump_session_row, dump, error);
}

/* ---- everything ---- */

const char *const dumped_apps[3] = {"shop", "shop2", "game"};
const char *const dumped_users[4] = {"ann", "bob", "an", "cy"};

#define MAX_LISTED 64

typedef struct listed_rows {
  mp_session_row rows[MAX_LISTED];
  size_t count;
  store_dump *names; /* one line each, with what else the listing said */
} listed_rows;

static moonpad_status collect_row(void *context, const mp_listed_session *session, moonpad_error *error) {
  listed_rows *listed = context;
  CHECK(listed->count < MAX_LISTED);
  listed->rows[listed->count++] = session->row;
  return dump_session_row(listed->names, session, error);
}

static void dump_row(store_dump *dump, const mp_session_row *row, bool ids) {
  if (ids) dump_print(dump, "  id %" PRId64 " of %" PRId64 ", %" PRId64 "\n", row->id, row->user, row->app);
  dump_print(dump, "  revision %" PRId64 " base %" PRId64 " user %" PRId64 " app %" PRId64, row->revision,
             row->base_revision, row->user_revision, row->app_revision);
  dump_print(dump, " count %" PRId64 " created %a updated %a\n", row->conversation_count, row->create_time,
             row->last_update_time);
}

static moonpad_status dump_scope(mp_tx *tx, mp_scope scope, int64_t id, store_dump *dump, moonpad_error *error) {
  dump_print(dump, "  keys\n");
  TRY(dump_keys(tx, scope, id, -1, dump, error));
  for (int64_t since = 0; since < 8; since += since < 2 ? 1 : 3) {
    dump_print(dump, "  rows since %" PRId64 "\n", since);
    TRY(dump_keys(tx, scope, id, since, dump, error));
  }
  return MOONPAD_OK;
}

static moonpad_status dump_app_sessions(mp_tx *tx, const char *app, bool ids, store_dump *dump, moonpad_error *error) {
  listed_rows listed;
  mp_list_query query;
  memset(&query, 0, sizeof query);
  query.app_name = moonpad_text(app);
  listed.count = 0;
  listed.names = dump;
  TRY(tx->ops->each_session(tx, &query, collect_row, &listed, error));
  for (size_t i = 0; i < listed.count; i++) {
    mp_session_row row;
    TRY(tx->ops->load_session(tx, listed.rows[i].id, &row, error));
    dump_print(dump, " session %zu\n", i);
    dump_row(dump, &listed.rows[i], ids);
    dump_row(dump, &row, ids);
    TRY(dump_scope(tx, MP_SCOPE_SESSION, row.id, dump, error));
    dump_print(dump, "  base\n");
    TRY(dump_base_keys(tx, row.id, dump, error));
    dump_print(dump, "  events\n");
    TRY(dump_events(tx, row.id, INT64_MIN, INT64_MAX, dump, error));
  }
  return MOONPAD_OK;
}

static moonpad_status dump_shared(mp_tx *tx, const char *app, const char *user, bool ids, store_dump *dump,
                                  moonpad_error *error) {
  int64_t id;
  int64_t revision;
  moonpad_string user_id = moonpad_text(user);
  moonpad_status status =
      tx->ops->find_shared(tx, moonpad_text(app), user == NULL ? NULL : &user_id, false, &id, &revision, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  TRY(status);
  dump_print(dump, " %s/%s revision %" PRId64 "\n", app, user == NULL ? "" : user, revision);
  if (ids) dump_print(dump, "  id %" PRId64 "\n", id);
  return dump_scope(tx, user == NULL ? MP_SCOPE_APP : MP_SCOPE_USER, id, dump, error);
}

moonpad_status dump_all(mp_tx *tx, bool ids, store_dump *dump, moonpad_error *error) {
  for (size_t app = 0; app < sizeof dumped_apps / sizeof *dumped_apps; app++) {
    dump_print(dump, "%s\n", dumped_apps[app]);
    TRY(dump_shared(tx, dumped_apps[app], NULL, ids, dump, error));
    for (size_t user = 0; user < sizeof dumped_users / sizeof *dumped_users; user++) {
      TRY(dump_shared(tx, dumped_apps[app], dumped_users[user], ids, dump, error));
    }
    TRY(dump_app_sessions(tx, dumped_apps[app], ids, dump, error));
  }
  return MOONPAD_OK;
}

typedef struct dump_request {
  bool ids;
  store_dump *dump;
} dump_request;

static moonpad_status dump_in_read(mp_tx *tx, void *context, moonpad_error *error) {
  dump_request *request = context;
  dump_free(request->dump);
  return dump_all(tx, request->ids, request->dump, error);
}

void dump_store(opened_store *opened, bool ids, store_dump *dump) {
  dump_request request = {ids, dump};
  read_ok(opened, dump_in_read, &request);
}
