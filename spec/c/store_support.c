/*
** Support for the tests of stores. Its own memory comes from malloc, so that an allocator that
** fails on purpose does not hit it.
*/
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "example_store.h"
#include "redis_support.h"
#include "scope.h"
#include "server_support.h"
#include "slow_store.h"
#include "store_support.h"

/* ---- the stores ---- */

static const struct moonpad_store_opener memory = {MP_STORE_VERSION, mp_memory_open};
static const struct moonpad_store_opener sqlite = {MP_STORE_VERSION, mp_sqlite_open};

static moonpad_status open_postgres(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                    moonpad_error *error) {
  return moonpad_postgres_store()->open(env, rest, options, store, error);
}
static const struct moonpad_store_opener postgres = {MP_STORE_VERSION, open_postgres};

static moonpad_status open_mysql(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                 moonpad_error *error) {
  return moonpad_mysql_store()->open(env, rest, options, store, error);
}
static const struct moonpad_store_opener mysql = {MP_STORE_VERSION, open_mysql};

static moonpad_status open_redis(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                 moonpad_error *error) {
  return redis_opener()->open(env, rest, options, store, error);
}
static const struct moonpad_store_opener redis = {MP_STORE_VERSION, open_redis};

/* One line for each store that runs the suite. */
static const store_kind kinds[] = {
    {"memory:", &memory, .counts_memory = true, .has = STORE_HOUSEKEEPING},
    {"sqlite:FILE", &sqlite, .is_file = true, .has_backup = true, .has = STORE_HOUSEKEEPING},
    {"sqlite::memory:", &sqlite, .has_backup = true, .has = STORE_HOUSEKEEPING},
    {"slow:0:memory:", &slow_store_opener, .counts_memory = true, .has = STORE_HOUSEKEEPING},
    {"example:", &example_store_opener, .counts_memory = true, .is_slow = true},
    {"postgresql:", &postgres, .server = "MOONPAD_TEST_POSTGRESQL", .is_slow = true, .has = STORE_HOUSEKEEPING},
    {"mysql:", &mysql, .server = "MOONPAD_TEST_MYSQL", .is_slow = true, .has = STORE_HOUSEKEEPING},
    {"redis:", &redis, .server = "MOONPAD_TEST_REDIS", .is_slow = true, .has = STORE_HOUSEKEEPING & ~STORE_TOKENS},
};
#define KINDS (sizeof kinds / sizeof *kinds)
static const store_kind *kind_under_test; /* set before each run of the suite */

const store_kind *memory_kind(void) {
  return &kinds[0];
}

const store_kind *file_kind(void) {
  return &kinds[1];
}

const store_kind *counting_kind(size_t number) {
  for (size_t i = 0; i < KINDS; i++) {
    if (kinds[i].counts_memory && number-- == 0) return &kinds[i];
  }
  return NULL;
}

void store_needs(const opened_store *opened, unsigned what) {
  static const char *const names[] = {"trim", "purge", "touch", "sweep", "claim_token"};
  unsigned missing = what & ~opened->kind->has;
  if (missing == 0) return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if ((missing & (1U << i)) != 0) print_message("%s has no %s\n", opened->kind->url, names[i]);
  }
  skip();
}

static moonpad_status finds_housekeeping(mp_tx *tx, void *context, moonpad_error *error) {
  (void)error;
  *(unsigned *)context =
      (MP_HAS(mp_tx_ops, tx->ops, trim) ? STORE_TRIM : 0) | (MP_HAS(mp_tx_ops, tx->ops, purge) ? STORE_PURGE : 0) |
      (MP_HAS(mp_tx_ops, tx->ops, touch) ? STORE_TOUCH : 0) | (MP_HAS(mp_tx_ops, tx->ops, sweep) ? STORE_SWEEP : 0) |
      (MP_HAS(mp_tx_ops, tx->ops, claim_token) ? STORE_TOKENS : 0);
  return MOONPAD_OK;
}

/* The table above says of each store what it has. */
int store_test_setup(void **state) {
  opened_store *opened = malloc(sizeof *opened);
  assert_non_null(opened);
  store_open(opened, kind_under_test, NULL);
  *state = opened;
  unsigned has = 0;
  read_ok(opened, finds_housekeeping, &has);
  assert_int_equal(has, opened->kind->has);
  return 0;
}

int store_test_teardown(void **state) {
  store_close(*state);
  free(*state);
  return 0;
}

/*
** STORE is the URL of one kind to run on alone: for a debugger, or a store that is being written.
*/
int run_on_every_store(const struct CMUnitTest *tests, size_t count) {
  int failures = 0;
  const char *only = getenv("STORE");
  for (size_t i = 0; i < KINDS; i++) {
    if (only != NULL ? strcmp(only, kinds[i].url) != 0 : !scope_has_store(kinds[i].url)) continue;
    if (kinds[i].server != NULL && !server_is_there(kinds[i].server)) continue;
    kind_under_test = &kinds[i];
    failures += _cmocka_run_group_tests(kinds[i].url, tests, count, NULL, NULL);
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

/* ---- stores ---- */

moonpad_options store_options(const moonpad_allocator *allocator) {
  moonpad_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.durability = MOONPAD_DURABILITY_NORMAL;
  options.busy_timeout_ms = TIMEOUT_MS;
  options.num_recent_events = MOONPAD_ALL_EVENTS;
  options.allocator = allocator;
  return options;
}

static moonpad_string store_rest(const opened_store *opened) {
  if (opened->kind->is_file) return moonpad_text(opened->path);
  if (opened->kind->server != NULL) return moonpad_text(opened->rest);
  return moonpad_text(strchr(opened->kind->url, ':') + 1);
}

static void open_again(opened_store *opened) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_options options = store_options(NULL);
  if (opened->kind->opener->open(opened->env, store_rest(opened), &options, &opened->store, &error) != MOONPAD_OK) {
    fail_msg("%s does not open: %s", opened->kind->url, error.message);
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
  if (kind->server != NULL) server_borrow_url(kind->server, opened->rest, sizeof opened->rest);
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

void remove_folder(const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == NULL) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) remove(path);
  }
  closedir(directory);
  rmdir(folder);
}

void store_close(opened_store *opened) {
  close_only(opened);
  mp_env_release(opened->env);
  if (opened->kind->server != NULL) server_return_url(opened->rest);
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

/* ---- asking: these give back what the store answers, for tests in which it may well fail ---- */

#define PASS_ON(call)                                                                                                  \
  do {                                                                                                                 \
    moonpad_status passed = (call);                                                                                    \
    if (passed != MOONPAD_OK) return passed;                                                                           \
  } while (0)

moonpad_session_name session_named(const char *app, const char *user, const char *session) {
  moonpad_session_name name = {moonpad_text(app), moonpad_text(user), moonpad_text(session)};
  return name;
}

mp_session_ref ref_named(const char *app, const char *user, const char *session) {
  mp_session_ref ref = {.name = session_named(app, user, session)};
  return ref;
}

mp_look look_at(const mp_session_ref *ref, mp_scope scope) {
  mp_look look = {.ref = *ref, .heads = scope == MP_SCOPE_SESSION ? MP_ALL_HEADS : MP_HEAD(scope)};
  for (int i = 0; i < MP_STORED_SCOPES; i++) look.since[i] = MP_NO_KEYS;
  if (scope != MP_SCOPE_SESSION) {
    look.ref.session = 0;
    look.ref.name.session_id = moonpad_text(NULL);
  }
  if (scope == MP_SCOPE_APP) {
    look.ref.user = 0;
    look.ref.name.user_id = moonpad_text(NULL);
  }
  return look;
}

moonpad_status find_row(mp_tx *tx, mp_session_ref *ref, mp_session_row *row, moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  *row = facts.row;
  ref->session = row->id;
  ref->user = row->user;
  ref->app = row->app;
  return MOONPAD_OK;
}

moonpad_status find_head(mp_tx *tx, mp_session_ref *ref, mp_scope scope, bool create, mp_session_row *row,
                         moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, scope);
  look.create = create;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  *row = facts.row;
  if (scope == MP_SCOPE_USER) ref->user = row->user;
  if (scope == MP_SCOPE_APP) ref->app = row->app;
  return MOONPAD_OK;
}

/* The row of a scope's head, and the ref of that scope. */
static moonpad_status head_row(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, mp_session_ref *at,
                               mp_session_row *row, moonpad_error *error) {
  *at = look_at(ref, scope).ref;
  return scope == MP_SCOPE_SESSION ? find_row(tx, at, row, error) : find_head(tx, at, scope, false, row, error);
}

moonpad_status read_one(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, moonpad_string key, mp_value **value,
                        int64_t *revision, moonpad_error *error) {
  mp_facts facts;
  mp_state_row wanted = {.scope = scope, .key = key};
  mp_look look = look_at(ref, scope);
  look.keys = &wanted;
  look.key_count = 1;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  *value = wanted.value;
  *revision = wanted.revision;
  return status;
}

typedef struct event_search {
  mp_each_event each;
  void *context;
  bool found;
} event_search;

static moonpad_status pass_event_on(void *context, const mp_event_row *row, moonpad_error *error) {
  event_search *search = context;
  search->found = true;
  return search->each(search->context, row, error);
}

moonpad_status find_event(mp_tx *tx, const mp_session_ref *ref, moonpad_string id, mp_each_event each, void *context,
                          moonpad_error *error) {
  mp_facts facts;
  event_search search = {each, context, false};
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  look.event_id = id;
  look.each_event = pass_event_on;
  look.context = &search;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  return status == MOONPAD_OK && !search.found ? MOONPAD_NOT_FOUND : status;
}

moonpad_status walk_events(mp_tx *tx, const mp_session_ref *ref, int64_t first, int64_t last, mp_each_event each,
                           void *context, moonpad_error *error) {
  mp_event_query query = {.first = first, .last = last};
  return tx->ops->each_event(tx, ref, &query, each, context, error);
}

/* ---- building ---- */

mp_event_row event_row(int64_t revision, double timestamp, const char *id, const char *json) {
  mp_event_row row;
  memset(&row, 0, sizeof row);
  row.revision = revision;
  row.timestamp = timestamp;
  row.id = moonpad_text(id);
  row.json = moonpad_text(json);
  return row;
}

moonpad_status make_session(mp_tx *tx, mp_session_ref *ref, double create_time, moonpad_error *error) {
  mp_session_row row;
  PASS_ON(tx->ops->create_session(tx, &ref->name, create_time, &row, error));
  return find_row(tx, ref, &row, error);
}

moonpad_status need_session(mp_tx *tx, mp_session_ref *ref, mp_session_row *row, moonpad_error *error) {
  moonpad_status status = find_row(tx, ref, row, error);
  if (status != MOONPAD_NOT_FOUND) return status;
  PASS_ON(make_session(tx, ref, 1000.5, error));
  return find_row(tx, ref, row, error);
}

moonpad_status update_heads(mp_tx *tx, const mp_session_ref *ref, const mp_session_row *row, unsigned heads,
                            moonpad_error *error) {
  mp_batch batch = {.ref = *ref, .row = row, .heads = heads};
  return tx->ops->apply(tx, &batch, error);
}

static int64_t *revision_of(mp_session_row *row, mp_scope scope) {
  return scope == MP_SCOPE_USER ? &row->user_revision : scope == MP_SCOPE_APP ? &row->app_revision : &row->revision;
}

moonpad_status set_revision(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t revision,
                            moonpad_error *error) {
  mp_session_ref at;
  mp_session_row row;
  PASS_ON(head_row(tx, ref, scope, &at, &row, error));
  *revision_of(&row, scope) = revision;
  return update_heads(tx, &at, &row, MP_HEAD(scope), error);
}

moonpad_status append_row(mp_tx *tx, const mp_session_ref *ref, const mp_event_row *event, moonpad_error *error) {
  mp_session_ref at;
  mp_session_row row;
  PASS_ON(head_row(tx, ref, MP_SCOPE_SESSION, &at, &row, error));
  mp_batch batch = {.ref = at, .row = &row, .events = event, .event_count = 1};
  return tx->ops->apply(tx, &batch, error);
}

moonpad_status append_next(mp_tx *tx, const mp_session_ref *ref, const char *id, const char *json,
                           moonpad_error *error) {
  mp_session_ref at;
  mp_session_row row;
  PASS_ON(head_row(tx, ref, MP_SCOPE_SESSION, &at, &row, error));
  row.revision++;
  row.conversation_count++;
  row.last_update_time += 0.25;
  mp_event_row event = event_row(row.revision, row.last_update_time, id, json);
  mp_batch batch = {.ref = at, .row = &row, .heads = MP_HEAD(MP_SCOPE_SESSION), .events = &event, .event_count = 1};
  return tx->ops->apply(tx, &batch, error);
}

moonpad_status write_value(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, moonpad_string key, mp_value *value,
                           int64_t revision, moonpad_error *error) {
  mp_session_ref at;
  mp_session_row row;
  mp_state_row write = {scope, key, value, revision};
  PASS_ON(head_row(tx, ref, scope, &at, &row, error));
  mp_batch batch = {.ref = at, .row = &row, .keys = &write, .key_count = 1};
  if (*revision_of(&row, scope) < revision) {
    *revision_of(&row, scope) = revision;
    batch.heads = MP_HEAD(scope);
  }
  return tx->ops->apply(tx, &batch, error);
}

moonpad_status write_text(opened_store *opened, mp_tx *tx, const mp_session_ref *ref, mp_scope scope, const char *key,
                          const char *text, int64_t revision, moonpad_error *error) {
  mp_value *value = NULL;
  if (text != NULL) {
    value = mp_value_new_string(opened->env, moonpad_text(text));
    if (value == NULL) return mp_no_memory(error);
  }
  moonpad_status status = write_value(tx, ref, scope, moonpad_text(key), value, revision, error);
  mp_value_release(opened->env, value);
  return status;
}

moonpad_status write_base(mp_tx *tx, const mp_session_ref *ref, moonpad_string key, mp_value *value,
                          moonpad_error *error) {
  mp_session_ref at;
  mp_session_row row;
  mp_state_row write = {.key = key, .value = value};
  PASS_ON(head_row(tx, ref, MP_SCOPE_SESSION, &at, &row, error));
  mp_batch batch = {.ref = at, .row = &row, .base_keys = &write, .base_key_count = 1};
  return tx->ops->apply(tx, &batch, error);
}

/* ---- a session with something of everything ---- */

mp_event_row event_tagged(int64_t revision, const char *id, const char *json, const char *invocation, unsigned tags) {
  mp_event_row row = event_row(revision, 0.5 * (double)revision, id, json);
  row.invocation = moonpad_text(invocation);
  row.kinds = tags;
  return row;
}

static moonpad_status appends_events(mp_tx *tx, const mp_session_ref *ref, moonpad_error *error) {
  mp_session_row row;
  mp_session_ref at = *ref;
  TRY(find_row(tx, &at, &row, error));
  row.revision = 4;
  const mp_event_row events[] = {
      event_tagged(1, "e1", FULL_MESSAGE, "i1", MP_EVENT_USER_MESSAGE),
      event_tagged(2, "e2", FULL_CHANGE, "i1", MP_EVENT_SESSION_CHANGE),
      event_tagged(3, "e3", FULL_OF_USER, "i2", 0),
      event_tagged(4, "e4", FULL_BOTH, "i2", MP_EVENT_USER_MESSAGE | MP_EVENT_SESSION_CHANGE),
  };
  mp_batch batch = {.ref = at, .row = &row, .heads = MP_HEAD(MP_SCOPE_SESSION), .events = events, .event_count = 4};
  return tx->ops->apply(tx, &batch, error);
}

moonpad_status writes_full_session(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  opened_store *opened = scene->opened;
  const mp_session_ref *ref = &scene->session;
  scene->session = ref_named("shop", "ann", "s1");
  scene->other = ref_named("shop", "ann", "s2");
  TRY(make_session(tx, &scene->session, 10.0, error));
  TRY(make_session(tx, &scene->other, 20.0, error));
  TRY(appends_events(tx, ref, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "a", "old", 2, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "b", "new", 4, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "gone", NULL, 3, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_USER, "a", "users", 6, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_USER, "gone", NULL, 7, error));
  return write_text(opened, tx, ref, MP_SCOPE_APP, "a", "apps", 9, error);
}

moonpad_status dump_number(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  dump_print(context, "%" PRId64 " ", row->revision);
  return MOONPAD_OK;
}

moonpad_status look_for_events(mp_tx *tx, const mp_session_ref *ref, const char *id, int64_t recent, mp_each_event each,
                               void *context, moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  look.event_id = moonpad_text(id);
  look.recent = recent;
  look.each_event = each;
  look.context = context;
  return tx->ops->look(tx, &look, &facts, error);
}

bool is_silent(const moonpad_error *error) {
  return error->message[0] == '\0';
}
