/*
** What every store must do when a transaction fails, and when memory ends in one: nothing of it
** is left.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fault_steps.h"
#include "store_life.h"

#define EVERY_ONE 5000 /* more than a transaction here allocates */

/* ---- a failure after every kind of write ---- */

static moonpad_status makes_one_of_each(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref *ref = &scene->session;
  *ref = ref_named("shop", "ann", "s1");
  TRY(need_session(tx, ref, &row, error));
  TRY(append_next(tx, ref, "e1", "{}", error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_SESSION, "a", "1", 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_SESSION, "gone", NULL, 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_USER, "a", "2", 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_USER, "gone", NULL, 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_APP, "a", "3", 1, error));
  if ((scene->opened->kind->has & STORE_TOUCH) == 0) return MOONPAD_OK;
  mp_touch touch = {*ref, MP_ALL_HEADS, 100.0};
  return tx->ops->touch(tx, &touch, 1, error);
}

typedef struct single_write {
  opened_store *opened;
  mp_value *value;
  int number;
  bool fails;  /* returns an error after the write */
  bool shrugs; /* returns MOONPAD_OK although the write ran out of memory */
} single_write;

typedef moonpad_status (*one_write)(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error);

static moonpad_status creates(mp_tx *tx, const char *app, const char *user, const char *session, moonpad_error *error) {
  mp_session_row row;
  moonpad_session_name name = session_named(app, user, session);
  return tx->ops->create_session(tx, &name, 1.0, &row, error);
}

static moonpad_status creates_in_user(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  return creates(tx, "shop", "ann", "s2", error);
}

static moonpad_status creates_in_app(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  return creates(tx, "shop", "bob", "s1", error);
}

static moonpad_status creates_all(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  return creates(tx, "game", "cy", "s1", error);
}

static moonpad_status removes(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return tx->ops->remove_session(tx, ref, error);
}

static moonpad_status removes_the_user(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  int64_t sessions = 0;
  (void)value;
  return tx->ops->remove_user(tx, ref, &sessions, error);
}

static moonpad_status sets_key(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  return write_value(tx, ref, MP_SCOPE_SESSION, moonpad_text("a"), value, 2, error);
}

static moonpad_status removes_key(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return write_value(tx, ref, MP_SCOPE_SESSION, moonpad_text("a"), NULL, 2, error);
}

static moonpad_status sets_user_key(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  return write_value(tx, ref, MP_SCOPE_USER, moonpad_text("new"), value, 2, error);
}

static moonpad_status removes_app_key(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return write_value(tx, ref, MP_SCOPE_APP, moonpad_text("new"), NULL, 2, error);
}

static moonpad_status sets_base_key(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  return write_base(tx, ref, moonpad_text("a"), value, error);
}

static moonpad_status counts_user(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return set_revision(tx, ref, MP_SCOPE_USER, 5, error);
}

static moonpad_status counts_app(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return set_revision(tx, ref, MP_SCOPE_APP, 5, error);
}

static moonpad_status appends(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  mp_event_row event = event_row(2, 5.0, "e2", "{\"id\":\"e2\"}");
  return append_row(tx, ref, &event, error);
}

static moonpad_status counts_session(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  mp_session_row row = {.id = ref->session, .user = ref->user, .app = ref->app};
  row.revision = 9;
  row.base_revision = 8;
  row.conversation_count = 7;
  row.create_time = 1000.5;
  row.last_update_time = 6.0;
  return update_heads(tx, ref, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status makes_user(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  mp_session_row row;
  mp_session_ref made = ref_named("shop2", "cy", NULL);
  return find_head(tx, &made, MP_SCOPE_USER, true, &row, error);
}

/* All that an append does, at once. */
static moonpad_status applies_all(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  mp_session_row row = {.id = ref->session, .user = ref->user, .app = ref->app};
  row.revision = row.user_revision = row.app_revision = 3;
  row.create_time = 1000.5;
  const mp_state_row keys[] = {{MP_SCOPE_SESSION, moonpad_text("a"), value, 3},
                               {MP_SCOPE_USER, moonpad_text("b"), value, 3},
                               {MP_SCOPE_APP, moonpad_text("a"), NULL, 3}};
  const mp_state_row base_keys[] = {{MP_SCOPE_SESSION, moonpad_text("x"), value, 0},
                                    {MP_SCOPE_SESSION, moonpad_text("y"), value, 0}};
  const mp_event_row events[] = {event_row(2, 5.0, "e2", "{\"id\":\"e2\"}"), event_row(3, 5.5, "e3", "{}")};
  mp_batch batch = {*ref, &row, MP_ALL_HEADS, 0, keys, 3, base_keys, 2, events, 2};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status copies(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  mp_session_ref to = ref_named("shop", "ann", "copy");
  moonpad_status status = make_session(tx, &to, 1.0, error);
  return status == MOONPAD_OK ? tx->ops->copy_history(tx, ref, &to, 1, error) : status;
}

static moonpad_status trims(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return tx->ops->trim(tx, ref, 1, error);
}

static moonpad_status purges(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return tx->ops->purge(tx, ref, MP_SCOPE_SESSION, 1, error);
}

static moonpad_status purges_user(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  return tx->ops->purge(tx, ref, MP_SCOPE_USER, 1, error);
}

static moonpad_status touches(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)value;
  const mp_touch touch[] = {{*ref, MP_HEAD(MP_SCOPE_USER), 200.0}, {*ref, MP_HEAD(MP_SCOPE_SESSION), 201.0}};
  return tx->ops->touch(tx, touch, 2, error);
}

static moonpad_status sweeps_sessions(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  int64_t removed = 0;
  return store_sweep(tx, MP_SCOPE_SESSION, 1e6, 100, &removed, error);
}

static moonpad_status sweeps_users(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  int64_t removed = 0;
  return store_sweep(tx, MP_SCOPE_USER, 1e6, 100, &removed, error);
}

static moonpad_status sweeps_apps(mp_tx *tx, const mp_session_ref *ref, mp_value *value, moonpad_error *error) {
  (void)ref, (void)value;
  int64_t removed = 0;
  return store_sweep(tx, MP_SCOPE_APP, 1e6, 100, &removed, error);
}

static const struct {
  one_write write;
  unsigned needs;
} writes[] = {
    {creates_in_user, 0},
    {creates_in_app, 0},
    {creates_all, 0},
    {removes, 0},
    {removes_the_user, 0},
    {sets_key, 0},
    {removes_key, 0},
    {sets_user_key, 0},
    {removes_app_key, 0},
    {sets_base_key, 0},
    {counts_user, 0},
    {counts_app, 0},
    {appends, 0},
    {counts_session, 0},
    {makes_user, 0},
    {applies_all, 0},
    {copies, 0},
    {trims, STORE_TRIM},
    {purges, STORE_PURGE},
    {purges_user, STORE_PURGE},
    {touches, STORE_TOUCH},
    {sweeps_sessions, STORE_SWEEP | STORE_TOUCH},
    {sweeps_users, STORE_SWEEP | STORE_TOUCH},
    {sweeps_apps, STORE_SWEEP | STORE_TOUCH},
};
#define WRITES (int)(sizeof writes / sizeof *writes)

static bool has_write(const opened_store *opened, int number) {
  return (writes[number].needs & ~opened->kind->has) == 0;
}

static moonpad_status writes_once(mp_tx *tx, void *context, moonpad_error *error) {
  single_write *write = context;
  mp_session_row row;
  mp_session_ref ref = ref_named("shop", "ann", "s1");
  moonpad_status status = find_row(tx, &ref, &row, error);
  if (status == MOONPAD_OK) status = writes[write->number].write(tx, &ref, write->value, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NO_MEMORY && write->shrugs ? MOONPAD_OK : status;
  return write->fails ? MOONPAD_BUSY : MOONPAD_OK;
}

static void test_each_write_is_undone(void **state) {
  test_scene scene = scene_of(state);
  single_write write = {scene.opened, mp_value_new_float(scene.opened->env, 0.5), 0, true, false};
  write_ok(scene.opened, makes_one_of_each, &scene);
  dump_store(scene.opened, true, &scene.before);
  for (write.number = 0; write.number < WRITES; write.number++) {
    if (!has_write(scene.opened, write.number)) continue;
    write_fails(scene.opened, MOONPAD_BUSY, NULL, writes_once, &write);
    dump_store(scene.opened, true, &scene.after);
    expect_same_dump(&scene.before, &scene.after);
  }
  mp_value_release(scene.opened->env, write.value);
  scene_free(&scene);
}

/* Else the test before this one would show nothing. */
static void test_each_write_shows(void **state) {
  test_scene scene = scene_of(state);
  const store_kind *kind = scene.opened->kind;
  for (int number = 0; number < WRITES; number++) {
    if (!has_write(scene.opened, number)) continue;
    opened_store fresh;
    store_open(&fresh, kind, NULL);
    scene.opened = &fresh;
    single_write write = {&fresh, mp_value_new_float(fresh.env, 0.5), number, false, false};
    write_ok(&fresh, makes_one_of_each, &scene);
    dump_store(&fresh, true, &scene.before);
    write_ok(&fresh, writes_once, &write);
    dump_store(&fresh, true, &scene.after);
    if (strcmp(scene.before.text, scene.after.text) == 0) fail_msg("write %d does nothing", number);
    mp_value_release(fresh.env, write.value);
    store_close(&fresh);
    scene.opened = *state;
  }
  scene_free(&scene);
}

/* ---- running out of memory ---- */

typedef struct hungry_store {
  opened_store opened;
  counting_allocator allocator;
  test_scene scene;
} hungry_store;

static void hungry_open(hungry_store *hungry, const store_kind *kind) {
  memset(hungry, 0, sizeof *hungry);
  counting_init(&hungry->allocator);
  store_open(&hungry->opened, kind, &hungry->allocator.hooks);
  hungry->scene.opened = &hungry->opened;
  write_ok(&hungry->opened, makes_one_of_each, &hungry->scene);
  dump_store(&hungry->opened, true, &hungry->scene.before);
}

static void hungry_close(hungry_store *hungry) {
  scene_free(&hungry->scene);
  store_close(&hungry->opened);
  assert_int_equal(hungry->allocator.alive, 0);
}

static void live_without_memory(const store_kind *kind) {
  moonpad_error error;
  moonpad_status status = MOONPAD_NO_MEMORY;
  fault_seed();
  for (long n = 1; status == MOONPAD_NO_MEMORY; n = fault_after(n, fault_rounds(EVERY_ONE))) {
    hungry_store hungry;
    hungry_open(&hungry, kind);
    random_life life = {&hungry.opened, kind->has, 99, 120, false, {NULL, 0, 0}};
    counting_arm_lasting(&hungry.allocator, (size_t)n);
    status = hungry.opened.store->ops->write(hungry.opened.store, lives, &life, &error);
    long made = (long)hungry.allocator.calls;
    counting_disarm(&hungry.allocator);
    if (status == MOONPAD_NO_MEMORY) {
      assert_true(made >= n);
      dump_store(&hungry.opened, true, &hungry.scene.after);
      expect_same_dump(&hungry.scene.before, &hungry.scene.after);
      write_ok(&hungry.opened, lives, &life); /* nothing is broken */
    } else {
      if (status != MOONPAD_OK) fail_msg("%s: allocation %ld: %s", kind->url, n, error.message);
      assert_true(n > 100 && made < n);
    }
    dump_free(&life.inside);
    hungry_close(&hungry);
  }
}

/*
** Lets the n-th allocation of a transaction fail, for every n; where that takes too long, not for
** all of the later ones.
*/
static void test_transaction_without_memory(void **state) {
  (void)state;
  const store_kind *kind;
  for (size_t i = 0; (kind = counting_kind(i)) != NULL; i++) live_without_memory(kind);
}

/* False: there were not so many allocations. */
static bool write_without_memory(const store_kind *kind, int number, long n) {
  hungry_store hungry;
  hungry_open(&hungry, kind);
  single_write write = {&hungry.opened, mp_value_new_integer(hungry.opened.env, 4), number, false, false};
  moonpad_error error;
  counting_arm_lasting(&hungry.allocator, (size_t)n);
  moonpad_status status = hungry.opened.store->ops->write(hungry.opened.store, writes_once, &write, &error);
  bool failed = (long)hungry.allocator.calls >= n;
  counting_disarm(&hungry.allocator);
  assert_int_equal(status, failed ? MOONPAD_NO_MEMORY : MOONPAD_OK);
  dump_store(&hungry.opened, true, &hungry.scene.after);
  if (failed) expect_same_dump(&hungry.scene.before, &hungry.scene.after);
  if (!failed) assert_string_not_equal(hungry.scene.before.text, hungry.scene.after.text);
  mp_value_release(hungry.opened.env, write.value);
  hungry_close(&hungry);
  return failed;
}

/* The same for each single write. */
static void test_single_write_without_memory(void **state) {
  (void)state;
  const store_kind *kind;
  for (size_t i = 0; (kind = counting_kind(i)) != NULL; i++) {
    opened_store opened = {.kind = kind};
    for (int number = 0; number < WRITES; number++) {
      if (!has_write(&opened, number)) continue;
      for (long n = 1; write_without_memory(kind, number, n);) n++;
    }
  }
}

static moonpad_status passes_session(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)context, (void)session, (void)error;
  return MOONPAD_OK;
}

static moonpad_status passes_state(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)context, (void)row, (void)error;
  return MOONPAD_OK;
}

static moonpad_status lists_all(mp_tx *tx, void *context, moonpad_error *error) {
  mp_list_query query = {.app_name = moonpad_text("shop")};
  mp_listing with_states = {passes_session, passes_state, NULL};
  TRY(tx->ops->each_listed(tx, &query, &with_states, error));
  return dump_all(tx, true, context, error);
}

static void read_without_memory(const store_kind *kind) {
  moonpad_error error;
  hungry_store hungry;
  hungry_open(&hungry, kind);
  moonpad_status status = MOONPAD_NO_MEMORY;
  for (long n = 1; status == MOONPAD_NO_MEMORY; n++) {
    dump_free(&hungry.scene.after);
    counting_arm_lasting(&hungry.allocator, (size_t)n);
    status = hungry.opened.store->ops->read(hungry.opened.store, lists_all, &hungry.scene.after, &error);
  }
  assert_int_equal(status, MOONPAD_OK);
  expect_same_dump(&hungry.scene.before, &hungry.scene.after);
  status = MOONPAD_NO_MEMORY;
  moonpad_options options = store_options(NULL);
  moonpad_string rest = moonpad_text(strchr(kind->url, ':') + 1);
  for (long n = 1; status == MOONPAD_NO_MEMORY; n++) {
    mp_store *store = (mp_store *)&hungry;
    counting_arm_lasting(&hungry.allocator, (size_t)n);
    status = kind->opener->open(hungry.opened.env, rest, &options, &store, &error);
    if (status == MOONPAD_NO_MEMORY) {
      assert_null(store);
      continue;
    }
    assert_int_equal(status, MOONPAD_OK);
    store->ops->close(store);
    store->ops->free(store);
  }
  hungry_close(&hungry);
}

static void test_reading_and_opening_without_memory(void **state) {
  (void)state;
  const store_kind *kind;
  for (size_t i = 0; (kind = counting_kind(i)) != NULL; i++) read_without_memory(kind);
}

int main(void) {
  const struct CMUnitTest tests[] = {STORE_TEST(test_each_write_is_undone), STORE_TEST(test_each_write_shows)};
  const struct CMUnitTest memory_tests[] = {
      cmocka_unit_test(test_transaction_without_memory),
      cmocka_unit_test(test_single_write_without_memory),
      cmocka_unit_test(test_reading_and_opening_without_memory),
  };
  return RUN_ON_EVERY_STORE(tests) + cmocka_run_group_tests_name("without memory", memory_tests, NULL, NULL);
}
