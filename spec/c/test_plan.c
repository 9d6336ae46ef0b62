/*
** Plans (store/plan.h): an append that a store carries out by itself, in one round trip. What is
** stored, what is refused, and what it tells whoever asked; a service shows only the outcome.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "counting_allocator.h"
#include "moonpad_stores.h"
#include "redis_support.h"
#include "server_support.h"
#include "service_support.h"
#include "store/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NO_ROW       ((const char *)NULL)
#define TOMBSTONE    ""

/* ---- a store with one session ---- */

typedef struct scene {
  char server_rest[256]; /* of the URL of a store on a server; else empty */
  counting_allocator memory;
  mp_env *env;
  mp_store *store;
  mp_session_row row; /* of the session as it was made */
} scene;

static const moonpad_session_name name = {{"app", 3}, {"u", 1}, {"s", 1}};

static moonpad_status make_session(mp_tx *tx, void *context, moonpad_error *error) {
  scene *self = context;
  return tx->ops->create_session(tx, &name, 10, &self->row, error);
}

static void write_ok(scene *self, mp_tx_function function, void *context) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = self->store->ops->write(self->store, function, context, &error);
  if (status != MOONPAD_OK) fail_msg("%s: %s", moonpad_status_name(status), error.message);
}

static void open_scene(scene *self, mp_store_open open, const char *rest) {
  moonpad_options options;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_options_init(&options);
  counting_init(&self->memory);
  options.allocator = &self->memory.hooks;
  self->env = mp_env_new(&options);
  assert_non_null(self->env);
  if (open(self->env, T(rest), &options, &self->store, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  write_ok(self, make_session, self);
}

static void close_scene(scene *self) {
  self->store->ops->close(self->store);
  self->store->ops->free(self->store);
  mp_env_release(self->env);
  assert_int_equal(self->memory.alive, 0);
}

static mp_value *value_of(scene *self, const char *json) {
  mp_value *value = mp_value_from_trusted_json(self->env, T(json));
  assert_non_null(value);
  return value;
}

/* ---- keys as others write them ---- */

typedef struct foreign_write {
  scene *self;
  mp_state_row write;
  double touched;
} foreign_write;

static moonpad_status write_in(mp_tx *tx, void *context, moonpad_error *error) {
  foreign_write *foreign = context;
  mp_session_ref ref = {.name = name, .session = foreign->self->row.id};
  mp_look look = {.ref = ref, .heads = MP_ALL_HEADS, .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  mp_facts facts;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  mp_session_row *row = &facts.row;
  mp_scope scope = foreign->write.scope;
  int64_t *revision = scope == MP_SCOPE_SESSION ? &row->revision
                      : scope == MP_SCOPE_USER  ? &row->user_revision
                                                : &row->app_revision;
  foreign->write.revision = ++*revision;
  char id[32];
  snprintf(id, sizeof id, "e%lld", (long long)*revision);
  mp_event_row event = {*revision, 11, T(id), T("{}"), 0, T("i"), 0};
  mp_batch batch = {.ref = ref,
                    .row = row,
                    .heads = MP_HEAD(scope),
                    .touched = foreign->touched,
                    .keys = &foreign->write,
                    .key_count = foreign->write.key.data == NULL ? 0 : 1,
                    .events = &event,
                    .event_count = scope == MP_SCOPE_SESSION ? 1 : 0};
  return tx->ops->apply(tx, &batch, error);
}

/* The revision that it has then. */
static int64_t store_key(scene *self, mp_scope scope, const char *key, const char *json) {
  foreign_write foreign = {.self = self, .write = {.scope = scope, .key = T(key)}};
  if (json[0] != '\0') foreign.write.value = value_of(self, json);
  write_ok(self, write_in, &foreign);
  mp_value_release(self->env, foreign.write.value);
  return foreign.write.revision;
}

/* ---- what is stored, as text ---- */

typedef struct dump {
  scene *self;
  char text[4096];
} dump;

static void print(dump *out, const char *format, ...) {
  size_t used = strlen(out->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out->text + used, sizeof out->text - used, format, arguments);
  va_end(arguments);
}

static moonpad_status dump_row(void *context, const mp_state_row *row, moonpad_error *error) {
  dump *out = context;
  (void)error;
  mp_buffer json;
  mp_buffer_init(&json, out->self->env);
  if (row->value != NULL) mp_value_write(&json, row->value);
  moonpad_string text = row->value == NULL ? T("removed") : mp_buffer_text(&json);
  print(out, "%d %.*s=%.*s@%lld\n", (int)row->scope, (int)row->key.length, row->key.data, (int)text.length, text.data,
        (long long)row->revision);
  mp_buffer_free(&json);
  return MOONPAD_OK;
}

static moonpad_status dump_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  print(context, "%lld %.*s %.*s %.*s %u %llu\n", (long long)row->revision, (int)row->id.length, row->id.data,
        (int)row->json.length, row->json.data, (int)row->invocation.length, row->invocation.data, row->kinds,
        (unsigned long long)row->digest);
  return MOONPAD_OK;
}

static moonpad_status dump_in(mp_tx *tx, void *context, moonpad_error *error) {
  dump *out = context;
  mp_look look = {.ref = {.name = name, .session = out->self->row.id},
                  .heads = MP_ALL_HEADS,
                  .since = {0, 0, 0},
                  .each_state = dump_row,
                  .context = out};
  mp_facts facts;
  out->text[0] = '\0';
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  const mp_session_row *row = &facts.row;
  mp_event_query last = {.first = row->revision, .last = row->revision, .tags = true};
  if (status == MOONPAD_OK) status = tx->ops->each_event(tx, &look.ref, &last, dump_event, out, error);
  print(out, "%lld %lld %lld, %lld messages, %g, used %g\n", (long long)row->revision, (long long)row->user_revision,
        (long long)row->app_revision, (long long)row->conversation_count, row->last_update_time,
        facts.touched[MP_SCOPE_SESSION]);
  return status;
}

static void dump_all(scene *self, dump *out) {
  moonpad_error error = {MOONPAD_OK, ""};
  out->self = self;
  assert_int_equal(self->store->ops->read(self->store, dump_in, out, &error), MOONPAD_OK);
}

/* ---- plans ---- */

/* A plan with one operation, and what it has been told. */
typedef struct plain_plan {
  mp_plan plan;
  mp_guarded operation;
  mp_plan_span spans[2];
  dump told;
  int begun;
} plain_plan;

static void begin_telling(void *context) {
  plain_plan *plain = context;
  plain->begun++;
  plain->told.text[0] = '\0';
}

static moonpad_status tell_row(void *context, const mp_state_row *row, moonpad_error *error) {
  plain_plan *plain = context;
  return dump_row(&plain->told, row, error);
}

/* Its value is given back by end_plan. It holds all that is stored. */
static void plain_plan_of(scene *self, plain_plan *plain, mp_guarded_kind kind, const char *key, const char *json) {
  memset(plain, 0, sizeof *plain);
  plain->told.self = self;
  plain->operation = (mp_guarded){.kind = kind, .key = T(key), .base = MP_UNGUARDED};
  if (json != NULL) plain->operation.value = value_of(self, json);
  bool adds = kind == MP_GUARDED_ADD || kind == MP_GUARDED_EXTEND;
  plain->spans[0] = (mp_plan_span){MP_NO_RESULT, T("{\"is\":")};
  plain->spans[1] = (mp_plan_span){adds ? 0 : MP_NO_RESULT, T("}")};
  plain->plan = (mp_plan){.ref = {.name = name, .session = self->row.id},
                          .operations = &plain->operation,
                          .count = 1,
                          .event = {.timestamp = 12, .id = T("mine"), .digest = 5, .invocation = T("inv"), .kinds = 3},
                          .spans = plain->spans,
                          .span_count = 2,
                          .begin = begin_telling,
                          .each_state = tell_row,
                          .context = plain};
  if (adds) return;
  plain->spans[0].text = T("{\"is\":0}");
  plain->plan.span_count = 1;
}

static void end_plan(scene *self, plain_plan *plain) {
  mp_plan_forget(self->env, &plain->plan);
  mp_value_release(self->env, plain->operation.value);
}

typedef struct sent {
  scene *self;
  mp_plan *plans[4];
  size_t count;
  bool fails; /* after all */
} sent;

static moonpad_status send_in(mp_tx *tx, void *context, moonpad_error *error) {
  sent *plans = context;
  for (size_t i = 0; i < plans->count; i++) {
    moonpad_status status = mp_plan_run(tx, plans->self->env, plans->plans[i], error);
    if (status != MOONPAD_OK) return status;
  }
  return plans->fails ? MOONPAD_TOOL : MOONPAD_OK;
}

/* By the store itself, if it takes plans. */
static void send_plan(scene *self, mp_plan *plan) {
  if (MP_HAS(mp_store_ops, self->store->ops, append)) {
    self->store->ops->append(self->store, plan, 1);
    if (plan->error.code != MOONPAD_OK) fail_msg("%s", plan->error.message);
    return;
  }
  sent plans = {self, {plan}, 1, false};
  write_ok(self, send_in, &plans);
}

/* ---- every operation on every value with every guard ---- */

static const char *const stored_values[] = {NO_ROW, TOMBSTONE, "null", "true", "7",   "9223372036854775807",
                                            "1.5",  "\"7\"",   "[]",   "{}",   "[1]", "{\"a\":1}",
                                            "[[]]"};

typedef struct tried_operation {
  mp_guarded_kind kind;
  const char *operand;
  const char *results[COUNT(stored_values)]; /* of the stored values above; NULL: refused */
} tried_operation;

static const tried_operation tried_operations[] = {
    {MP_GUARDED_SET, "5", {"5", "5", "5", "5", "5", "5", "5", "5", "5", "5", "5", "5", "5"}},
    {MP_GUARDED_REMOVE, NULL, {"", "", "", "", "", "", "", "", "", "", "", "", ""}},
    {MP_GUARDED_ADD, "3", {"3", "3", NULL, NULL, "10", NULL}},
    {MP_GUARDED_ADD,
     "-9223372036854775808",
     {"-9223372036854775808", "-9223372036854775808", NULL, NULL, "-9223372036854775801", "-1"}},
    {MP_GUARDED_EXTEND,
     "[2,{}]",
     {"[2,{}]", "[2,{}]", NULL, NULL, NULL, NULL, NULL, NULL, "[2,{}]", "[2,{}]", "[1,2,{}]", NULL, "[[],2,{}]"}},
};

/* What the key is to show: "" for removed. */
static void expect_key(scene *self, mp_scope scope, const char *expected, int64_t revision, const char *at) {
  dump all;
  char line[128];
  dump_all(self, &all);
  snprintf(line, sizeof line, "%d k=%s@%lld\n", (int)scope, expected[0] == '\0' ? "removed" : expected,
           (long long)revision);
  if (strstr(all.text, line) == NULL) fail_msg("%s: no %s in\n%s", at, line, all.text);
}

/* guard: -1 one that is broken, 0 none, 1 one that holds. */
static void try_operation(mp_store_open open, const char *rest, const tried_operation *tried, size_t value, int guard,
                          mp_scope scope) {
  char at[128];
  snprintf(at, sizeof at, "kind %d, stored %zu, guard %d, scope %d", (int)tried->kind, value, guard, (int)scope);
  scene self;
  open_scene(&self, open, rest);
  bool has_row = stored_values[value] != NO_ROW;
  store_key(&self, scope, "beside", "1");
  int64_t stored_at = has_row ? store_key(&self, scope, "k", stored_values[value]) : 0;
  plain_plan plain;
  plain_plan_of(&self, &plain, tried->kind, "k", tried->operand);
  plain.operation.scope = scope;
  plain.plan.snapshot[scope] = has_row ? 2 : 1;
  if (guard != 0) plain.operation.base = guard > 0 ? stored_at : stored_at - 1;
  dump before, after;
  dump_all(&self, &before);
  send_plan(&self, &plain.plan);
  dump_all(&self, &after);
  const char *result = tried->results[value];
  if (result == NULL || (guard < 0 && has_row)) {
    if (plain.plan.outcome != MP_OUTCOME_REFUSED) fail_msg("%s: outcome %d", at, (int)plain.plan.outcome);
    assert_null(plain.operation.result);
    assert_string_equal(before.text, after.text);
  } else if (guard < 0) {
    /* a base of -1 lies before everything */
    assert_int_equal(plain.plan.outcome, MP_OUTCOME_REFUSED);
  } else {
    if (plain.plan.outcome != MP_OUTCOME_STORED) fail_msg("%s: outcome %d", at, (int)plain.plan.outcome);
    expect_key(&self, scope, result, has_row ? 3 : 2, at);
    bool adds = tried->kind == MP_GUARDED_ADD || tried->kind == MP_GUARDED_EXTEND;
    char event[128];
    snprintf(event, sizeof event, "mine {\"is\":%s} inv 3 5\n", adds ? result : "0");
    if (strstr(after.text, event) == NULL) fail_msg("%s: no %s in\n%s", at, event, after.text);
    assert_int_equal(plain.operation.result != NULL, adds);
  }
  end_plan(&self, &plain);
  close_scene(&self);
}

static void test_every_operation_stores_its_result(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(tried_operations); i++) {
    for (size_t value = 0; value < COUNT(stored_values); value++) {
      for (int guard = -1; guard <= 1; guard++) {
        if (guard < 0 && stored_values[value] == NO_ROW) continue;
        for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
          try_operation(mp_memory_open, "", &tried_operations[i], value, guard, (mp_scope)scope);
        }
        try_operation(mp_sqlite_open, ":memory:", &tried_operations[i], value, guard, MP_SCOPE_SESSION);
      }
    }
  }
}

/* ---- on each store ---- */

static int setup(void **state, mp_store_open open, const char *rest) {
  scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  open_scene(self, open, rest);
  *state = self;
  return 0;
}

static int setup_memory(void **state) {
  return setup(state, mp_memory_open, "");
}

static int setup_sqlite(void **state) {
  return setup(state, mp_sqlite_open, ":memory:");
}

static int setup_server(void **state, const char *variable, mp_store_open open) {
  char rest[256];
  server_make_url(variable, rest, sizeof rest);
  setup(state, open, rest);
  scene *self = *state;
  strcpy(self->server_rest, rest);
  return 0;
}

static int setup_postgresql(void **state) {
  return setup_server(state, "MOONPAD_TEST_POSTGRESQL", moonpad_postgres_store()->open);
}

static int setup_mysql(void **state) {
  return setup_server(state, "MOONPAD_TEST_MYSQL", moonpad_mysql_store()->open);
}

static int setup_redis(void **state) {
  return setup_server(state, "MOONPAD_TEST_REDIS", redis_opener()->open);
}

static int teardown(void **state) {
  scene *self = *state;
  close_scene(self);
  if (self->server_rest[0] != '\0') server_forget_url(self->server_rest);
  free(self);
  return 0;
}

static void expect_outcome(scene *self, plain_plan *plain, mp_plan_outcome expected) {
  dump before, after;
  dump_all(self, &before);
  send_plan(self, &plain->plan);
  assert_int_equal(plain->plan.outcome, expected);
  dump_all(self, &after);
  if (expected != MP_OUTCOME_STORED) assert_string_equal(before.text, after.text);
  assert_int_equal(plain->begun, 1);
  end_plan(self, plain);
}

static void test_a_stored_plan_tells_the_row(void **state) {
  scene *self = *state;
  store_key(self, MP_SCOPE_USER, "k", "1");
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_ADD, "k", "4");
  plain.operation.scope = MP_SCOPE_USER;
  plain.plan.touched = 99;
  send_plan(self, &plain.plan);
  const mp_session_row *row = &plain.plan.facts.row;
  assert_int_equal(plain.plan.outcome, MP_OUTCOME_STORED);
  assert_int_equal(row->id, self->row.id);
  assert_int_equal(row->revision, 1);
  assert_int_equal(row->user_revision, 2);
  assert_int_equal(row->app_revision, 0);
  assert_int_equal(row->conversation_count, 1);
  assert_int_equal(plain.operation.result->as.as.integer, 5);
  dump after;
  dump_all(self, &after);
  assert_string_equal(after.text, "1 k=5@2\n1 mine {\"is\":5} inv 3 5\n1 2 0, 1 messages, 12, used 99\n");
  end_plan(self, &plain);
}

/*
** Rows are told as they were before the plan, its own key among them: other readers of that key
** must learn of it.
*/
static void test_tells_what_others_changed(void **state) {
  scene *self = *state;
  store_key(self, MP_SCOPE_SESSION, "seen", "1");
  store_key(self, MP_SCOPE_SESSION, "k", "2");
  store_key(self, MP_SCOPE_SESSION, "gone", TOMBSTONE);
  store_key(self, MP_SCOPE_APP, "shared", "3");
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_ADD, "k", "4");
  plain.plan.snapshot[MP_SCOPE_SESSION] = 1;
  send_plan(self, &plain.plan);
  assert_int_equal(plain.plan.outcome, MP_OUTCOME_STORED);
  assert_null(strstr(plain.told.text, "seen"));
  assert_non_null(strstr(plain.told.text, "0 k=2@2\n"));
  assert_non_null(strstr(plain.told.text, "0 gone=removed@3\n"));
  assert_non_null(strstr(plain.told.text, "2 shared=3@1\n"));
  assert_int_equal(plain.plan.facts.row.app_revision, 1);
  end_plan(self, &plain);
}

static void test_a_session_that_is_gone_is_missing(void **state) {
  scene *self = *state;
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
  plain.plan.ref.session = self->row.id + 1;
  expect_outcome(self, &plain, MP_OUTCOME_MISSING);
}

static void test_an_id_that_is_there_already_is_a_duplicate(void **state) {
  scene *self = *state;
  store_key(self, MP_SCOPE_SESSION, "k", "1"); /* by event e1 */
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "2");
  plain.plan.snapshot[MP_SCOPE_SESSION] = 1;
  plain.plan.event.id = T("e1");
  plain.plan.id_given = true;
  expect_outcome(self, &plain, MP_OUTCOME_DUPLICATE);
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "2");
  plain.plan.id_given = true;
  expect_outcome(self, &plain, MP_OUTCOME_STORED);
}

static void test_what_is_too_long_is_refused(void **state) {
  scene *self = *state;
  static const struct {
    const char *operand;
    int64_t value_limit, event_limit;
    mp_plan_outcome expected;
  } tried[] = {{"[1,2]", 7, 0, MP_OUTCOME_REFUSED},
               {"[1,2]", 8, 0, MP_OUTCOME_REFUSED},
               {"[1,2]", 9, 14, MP_OUTCOME_REFUSED},
               {"[1,2]", 9, 15, MP_OUTCOME_REFUSED},
               {"[1,2]", 9, 16, MP_OUTCOME_STORED}};
  store_key(self, MP_SCOPE_SESSION, "k", "[1,0]");
  for (size_t i = 0; i < COUNT(tried); i++) {
    plain_plan plain;
    plain_plan_of(self, &plain, MP_GUARDED_EXTEND, "k", tried[i].operand);
    plain.plan.max_value_bytes = tried[i].value_limit;
    plain.plan.max_event_bytes = tried[i].event_limit;
    expect_outcome(self, &plain, tried[i].expected);
  }
}

/* The store has lost what the session object holds. */
static void test_held_is_ahead(void **state) {
  scene *self = *state;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    plain_plan plain;
    plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
    plain.plan.snapshot[scope] = 1;
    expect_outcome(self, &plain, MP_OUTCOME_REFUSED);
  }
}

static void test_an_entry_used_too_long_ago_is_refused(void **state) {
  scene *self = *state;
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
  plain.plan.touched_since[MP_SCOPE_SESSION] = 10.5; /* it was made at 10 */
  expect_outcome(self, &plain, MP_OUTCOME_REFUSED);
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
  plain.plan.touched = 50;
  plain.plan.touched_since[MP_SCOPE_SESSION] = 10;
  plain.plan.touched_since[MP_SCOPE_USER] = 10; /* not known when it was used */
  expect_outcome(self, &plain, MP_OUTCOME_STORED);
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
  plain.plan.event.id = T("later");
  plain.plan.touched_since[MP_SCOPE_SESSION] = 50.5;
  expect_outcome(self, &plain, MP_OUTCOME_REFUSED);
}

static moonpad_status purge_in(mp_tx *tx, void *context, moonpad_error *error) {
  scene *self = context;
  mp_session_ref ref = {.name = name, .session = self->row.id, .user = self->row.user, .app = self->row.app};
  return tx->ops->purge(tx, &ref, MP_SCOPE_SESSION, 3, error);
}

/*
** A key without a row may have been removed since a base before what was forgotten; one with a row
** tells its revision.
*/
static void test_what_may_have_been_forgotten_is_refused(void **state) {
  scene *self = *state;
  store_key(self, MP_SCOPE_SESSION, "old", "1");
  store_key(self, MP_SCOPE_SESSION, "k", "1");
  store_key(self, MP_SCOPE_SESSION, "k", TOMBSTONE);
  write_ok(self, purge_in, self);
  static const struct {
    const char *key;
    int64_t base;
    mp_plan_outcome expected;
  } tried[] = {{"k", 2, MP_OUTCOME_REFUSED},
               {"never", 2, MP_OUTCOME_REFUSED},
               {"old", 0, MP_OUTCOME_REFUSED},
               {"old", 1, MP_OUTCOME_STORED},
               {"k", 3, MP_OUTCOME_STORED}};
  for (size_t i = 0; i < COUNT(tried); i++) {
    char id[16];
    snprintf(id, sizeof id, "try %zu", i);
    plain_plan plain;
    plain_plan_of(self, &plain, MP_GUARDED_SET, tried[i].key, "2");
    plain.plan.event.id = T(id);
    plain.plan.snapshot[MP_SCOPE_SESSION] = tried[i].base;
    plain.operation.base = tried[i].base;
    send_plan(self, &plain.plan);
    assert_int_equal(plain.plan.outcome, tried[i].expected);
    if (tried[i].expected == MP_OUTCOME_STORED) {
      assert_int_equal(plain.plan.facts.whole[MP_SCOPE_SESSION], tried[i].base < 3);
    }
    end_plan(self, &plain);
  }
}

static void test_plans_in_one_transaction_see_those_before_them(void **state) {
  scene *self = *state;
  plain_plan plans[4];
  static const char *const ids[] = {"a", "b", "c", "d"};
  for (size_t i = 0; i < 4; i++) {
    plain_plan_of(self, &plans[i], MP_GUARDED_ADD, "k", "2");
    plans[i].plan.event.id = T(ids[i]);
  }
  plans[1].operation.base = 0; /* the first one has written it then */
  plans[2].operation.base = 1;
  sent all = {self, {&plans[0].plan, &plans[1].plan, &plans[2].plan, &plans[3].plan}, 4, true};
  moonpad_error error;
  assert_int_equal(self->store->ops->write(self->store, send_in, &all, &error), MOONPAD_TOOL);
  dump after;
  dump_all(self, &after);
  assert_string_equal(after.text, "0 0 0, 0 messages, 10, used 0\n");
  all.fails = false;
  write_ok(self, send_in, &all);
  static const mp_plan_outcome expected[] = {MP_OUTCOME_STORED, MP_OUTCOME_REFUSED, MP_OUTCOME_STORED,
                                             MP_OUTCOME_STORED};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(plans[i].plan.outcome, expected[i]);
    assert_int_equal(plans[i].begun, 2);
  }
  assert_string_equal(plans[0].told.text, "");
  assert_string_equal(plans[3].told.text, "0 k=4@2\n");
  assert_int_equal(plans[2].operation.result->as.as.integer, 4);
  dump_all(self, &after);
  assert_string_equal(after.text, "0 k=6@3\n3 d {\"is\":6} inv 3 5\n3 0 0, 3 messages, 12, used 0\n");
  for (size_t i = 0; i < 4; i++) end_plan(self, &plans[i]);
}

/*
** More operations than find room without an allocation, of all scopes, with results inside
** the event.
*/
static void many_operations(scene *self, size_t fail_at, bool *done) {
  enum { MANY = 24 };
  mp_guarded operations[MANY];
  mp_plan_span spans[MANY + 1];
  char keys[MANY][8];
  mp_value *one = value_of(self, "1");
  mp_value *items = value_of(self, "[1]");
  size_t span_count = 1;
  spans[0] = (mp_plan_span){MP_NO_RESULT, T("[0")};
  for (size_t i = 0; i < MANY; i++) {
    snprintf(keys[i], sizeof keys[i], "k%zu", i);
    mp_guarded_kind kind = (mp_guarded_kind)(i % 4);
    operations[i] = (mp_guarded){.kind = kind,
                                 .scope = (mp_scope)(i % 3),
                                 .key = T(keys[i]),
                                 .value = kind == MP_GUARDED_EXTEND   ? items
                                          : kind == MP_GUARDED_REMOVE ? NULL
                                                                      : one,
                                 .base = i % 2 == 0 ? 0 : MP_UNGUARDED};
    bool adds = kind == MP_GUARDED_ADD || kind == MP_GUARDED_EXTEND;
    if (adds) spans[span_count++] = (mp_plan_span){i, T(",")};
  }
  spans[span_count - 1].text = T("]}");
  spans[0].text = T("{\"list\":[");
  plain_plan plain;
  plain_plan_of(self, &plain, MP_GUARDED_SET, "k", "1");
  plain.plan.operations = operations;
  plain.plan.count = MANY;
  plain.plan.spans = spans;
  plain.plan.span_count = span_count;
  dump before, after;
  dump_all(self, &before);
  sent all = {self, {&plain.plan}, 1, false};
  moonpad_error error;
  counting_arm(&self->memory, fail_at);
  moonpad_status status = self->store->ops->write(self->store, send_in, &all, &error);
  *done = !counting_has_failed(&self->memory);
  counting_disarm(&self->memory);
  dump_all(self, &after);
  if (status == MOONPAD_OK) {
    assert_int_equal(plain.plan.outcome, MP_OUTCOME_STORED);
    assert_non_null(
        strstr(after.text, "mine {\"list\":[1,[1],1,[1],1,[1],1,[1],1,[1],1,[1]]} inv 3 5\n1 1 1, 1 messages"));
  } else {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    assert_string_equal(before.text, after.text);
  }
  mp_plan_forget(self->env, &plain.plan);
  mp_value_release(self->env, plain.operation.value);
  mp_value_release(self->env, one);
  mp_value_release(self->env, items);
}

static void failing_allocations(mp_store_open open, const char *rest) {
  bool done = false;
  for (size_t fail_at = 1; !done; fail_at++) {
    scene self;
    open_scene(&self, open, rest);
    many_operations(&self, fail_at, &done);
    close_scene(&self);
    assert_true(fail_at < 1000);
  }
}

static void test_a_plan_without_memory_stores_nothing(void **state) {
  (void)state;
  failing_allocations(mp_memory_open, "");
  failing_allocations(mp_sqlite_open, ":memory:");
}

#define ON_ALL(test)                                                                                                   \
  {#test " on memory:", test, setup_memory, teardown, NULL},                                                           \
      {#test " on sqlite:", test, setup_sqlite, teardown, NULL},                                                       \
      {#test " on postgresql:", test, setup_postgresql, teardown, NULL},                                               \
      {#test " on mysql:", test, setup_mysql, teardown, NULL}, {                                                       \
#test " on redis:", test, setup_redis, teardown, NULL                                                              \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_operation_stores_its_result),
      ON_ALL(test_a_stored_plan_tells_the_row),
      ON_ALL(test_tells_what_others_changed),
      ON_ALL(test_a_session_that_is_gone_is_missing),
      ON_ALL(test_an_id_that_is_there_already_is_a_duplicate),
      ON_ALL(test_what_is_too_long_is_refused),
      ON_ALL(test_held_is_ahead),
      ON_ALL(test_an_entry_used_too_long_ago_is_refused),
      ON_ALL(test_what_may_have_been_forgotten_is_refused),
      ON_ALL(test_plans_in_one_transaction_see_those_before_them),
      cmocka_unit_test(test_a_plan_without_memory_stores_nothing),
  };
  return HOST_RUN(tests);
}
