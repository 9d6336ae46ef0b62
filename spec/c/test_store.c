/* What every store must do with sessions, users, apps and keys. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/map.h"
#include "store_support.h"

/* ---- sessions ---- */

static moonpad_status makes_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_row found;
  scene->session = ref_named("shop", "ann", "s1");
  scene->other = ref_named("shop", "ann", "s2");
  mp_session_ref by_id = scene->session;
  by_id.session = 1;
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &scene->session, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &by_id, &row, error));
  CHECK(error->message[0] == '\0');
  TRY(tx->ops->create_session(tx, &scene->session.name, 1234.0625, &row, error));
  CHECK(row.revision == 0 && row.base_revision == 0 && row.conversation_count == 0);
  CHECK(row.user_revision == 0 && row.app_revision == 0);
  CHECK(row.create_time == 1234.0625 && row.last_update_time == 1234.0625);
  TRY(find_row(tx, &scene->session, &found, error));
  CHECK(found.id == row.id && found.user == row.user && found.app == row.app && found.create_time == 1234.0625);
  EXPECT(MOONPAD_ALREADY_EXISTS, tx->ops->create_session(tx, &scene->session.name, 1.0, &found, error));
  CHECK(error->message[0] == '\0');
  TRY(tx->ops->create_session(tx, &scene->other.name, 2.0, &found, error));
  CHECK(found.id != row.id && found.user == row.user && found.app == row.app);
  return find_row(tx, &scene->other, &row, error);
}

static moonpad_status updates_one(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  TRY(find_row(tx, &scene->session, &row, error));
  row.revision = row.base_revision = INT64_C(7000000000); /* a long life, all of it trimmed */
  row.conversation_count = 3;
  row.last_update_time = 1.0 / 3.0;
  row.user_revision = 98; /* their heads do not change */
  row.app_revision = 97;
  return update_heads(tx, &scene->session, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status sees_the_update(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  int64_t id = scene->session.session;
  TRY(find_row(tx, &scene->session, &row, error));
  CHECK(row.id == id && row.revision == INT64_C(7000000000) && row.base_revision == row.revision);
  CHECK(row.conversation_count == 3 && row.last_update_time == 1.0 / 3.0 && row.create_time == 1234.0625);
  CHECK(row.user_revision == 0 && row.app_revision == 0);
  TRY(find_row(tx, &scene->other, &row, error));
  CHECK(row.revision == 0 && row.last_update_time == 2.0);
  const int64_t nobodys[] = {id + 1000000, -1, INT64_MAX};
  /* who knows the id is not found by the name */
  for (size_t i = 0; i < sizeof nobodys / sizeof *nobodys; i++) {
    mp_session_ref nobody = scene->session;
    nobody.session = nobodys[i];
    EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &nobody, &row, error));
  }
  return MOONPAD_OK;
}

static void test_sessions(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_sessions, &scene);
  write_ok(scene.opened, updates_one, &scene);
  read_ok(scene.opened, sees_the_update, &scene);
}

/* No two of these may be taken for one another. */
static const char *const near_names[][3] = {
    {"a", "b", "c"},
    {"a", "bc", ""},
    {"ab", "c", "c"},
    {"a", "b", "C"},
    {"a", "b", "c "},
    {"a", "b/c", "c"},
    {"a/b", "c", "c"},
    {"a", "'", "\""},
    {"a", "%", "_"},
    {"a", "b\tc", "c"},
    {"a", "\xc3\xa9", "c"},
    {"a", "e\xcc\x81", "c"},
    {"a", "b", "c\xf0\x9f\x98\x80"},
    {"a", ";--", "DROP TABLE sessions"},
    {"A", "b", "c"},
    {"a", "1", "1.0"},
    {"a", "1", "1"},
    {"a", "1", "01"},
};
#define NEAR_NAMES (sizeof near_names / sizeof *near_names)

static moonpad_status makes_near_names(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_session_row row;
  for (size_t i = 0; i < NEAR_NAMES; i++) {
    const char *session = near_names[i][2][0] == '\0' ? "x" : near_names[i][2];
    moonpad_session_name name = session_named(near_names[i][0], near_names[i][1], session);
    TRY(tx->ops->create_session(tx, &name, (double)i, &row, error));
  }
  return MOONPAD_OK;
}

static moonpad_status finds_near_names(mp_tx *tx, void *context, moonpad_error *error) {
  mp_session_row row;
  char longest[3][MOONPAD_MAX_NAME_BYTES + 1];
  for (size_t i = 0; i < NEAR_NAMES; i++) {
    const char *session = near_names[i][2][0] == '\0' ? "x" : near_names[i][2];
    moonpad_session_name name = session_named(near_names[i][0], near_names[i][1], session);
    mp_session_ref ref = {.name = name};
    TRY(find_row(tx, &ref, &row, error));
    CHECK(row.create_time == (double)i);
  }
  for (size_t i = 0; i < 3; i++) {
    memset(longest[i], 'a' + (int)i, MOONPAD_MAX_NAME_BYTES);
    longest[i][MOONPAD_MAX_NAME_BYTES] = '\0';
  }
  moonpad_session_name name = session_named(longest[0], longest[1], longest[2]);
  if (context != NULL) TRY(tx->ops->create_session(tx, &name, 5.0, &row, error));
  mp_session_ref ref = {.name = name};
  TRY(find_row(tx, &ref, &row, error));
  mp_session_ref shorter = {.name = name};
  shorter.name.session_id.length--;
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &shorter, &row, error));
  return MOONPAD_OK;
}

static void test_names(void **state) {
  write_ok(*state, makes_near_names, NULL);
  write_ok(*state, finds_near_names, *state);
  read_ok(*state, finds_near_names, NULL);
}

static moonpad_status removes_session(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref by_name = ref_named("shop", "ann", "s1");
  TRY(tx->ops->remove_session(tx, &scene->session, error));
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &by_name, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &scene->session, &row, error));
  return MOONPAD_OK;
}

static moonpad_status makes_it_again(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref before = scene->session;
  mp_session_ref *ref = &scene->session;
  *ref = ref_named("shop", "ann", "s1");
  TRY(make_session(tx, ref, 3.0, error));
  CHECK(ref->session != before.session && ref->session != scene->other.session);
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &before, &row, error)); /* it is another one */
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 0, &text, error), "");
  EXPECT_TEXT(dump_base_keys(tx, ref, &text, error), "");
  EXPECT_TEXT(dump_events(tx, ref, 0, 99, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_USER, 0, &text, error), "name='Ann'@1\n");
  TRY(find_row(tx, ref, &row, error));
  CHECK(row.user_revision == 1 && row.revision == 0);
  return MOONPAD_OK;
}

static moonpad_status fills_session(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_ref *ref = &scene->session;
  mp_value *value = mp_value_new_integer(scene->opened->env, 5);
  moonpad_status status = write_base(tx, ref, moonpad_text("start"), value, error);
  mp_value_release(scene->opened->env, value);
  TRY(status);
  TRY(append_next(tx, ref, "e1", "{\"id\":\"e1\"}", error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_SESSION, "cart", "apple", 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_SESSION, "gone", NULL, 1, error));
  TRY(write_text(scene->opened, tx, ref, MP_SCOPE_USER, "name", "Ann", 1, error));
  return append_next(tx, ref, "e2", "{\"id\":\"e2\"}", error);
}

static moonpad_status removes_base_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(write_base(tx, &scene->session, moonpad_text("start"), NULL, error));
  TRY(write_base(tx, &scene->session, moonpad_text("never there"), NULL, error));
  EXPECT_TEXT(dump_base_keys(tx, &scene->session, &text, error), "");
  return MOONPAD_OK;
}

static moonpad_status has_no_base_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_base_keys(tx, &scene->session, &text, error), "");
  return MOONPAD_OK;
}

static void test_removed_base_keys(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_sessions, &scene);
  write_ok(scene.opened, fills_session, &scene);
  write_ok(scene.opened, removes_base_keys, &scene);
  read_ok(scene.opened, has_no_base_keys, &scene);
}

static void test_remove_and_create_again(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_sessions, &scene);
  for (int i = 0; i < 5; i++) {
    write_ok(scene.opened, fills_session, &scene);
    write_ok(scene.opened, removes_session, &scene);
    write_ok(scene.opened, makes_it_again, &scene);
  }
}

static moonpad_status replaces_in_one(mp_tx *tx, void *context, moonpad_error *error) {
  for (int i = 0; i < 2; i++) {
    TRY(removes_session(tx, context, error));
    TRY(makes_it_again(tx, context, error));
    TRY(fills_session(tx, context, error));
  }
  return MOONPAD_OK;
}

static moonpad_status replaces_and_fails(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene scene = *(test_scene *)context; /* what it learns is undone with it */
  TRY(replaces_in_one(tx, &scene, error));
  return mp_fail(error, MOONPAD_CONFLICT, "undo all of it");
}

static moonpad_status is_filled(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_SESSION, 0, &text, error), "cart='apple'@1\ngone=removed@1\n");
  EXPECT_TEXT(dump_base_keys(tx, &scene->session, &text, error), "start=5@0\n");
  EXPECT_TEXT(dump_events(tx, &scene->session, 0, 99, &text, error),
              "1 e1 0x1.ap+1 0 {\"id\":\"e1\"}\n2 e2 0x1.cp+1 0 {\"id\":\"e2\"}\n");
  return MOONPAD_OK;
}

static void test_remove_and_create_in_one_transaction(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_sessions, &scene);
  write_ok(scene.opened, fills_session, &scene);
  dump_store(scene.opened, true, &scene.before);
  for (int i = 0; i < 3; i++) {
    write_fails(scene.opened, MOONPAD_CONFLICT, "undo all of it", replaces_and_fails, &scene);
    dump_store(scene.opened, true, &scene.after);
    expect_same_dump(&scene.before, &scene.after);
  }
  write_ok(scene.opened, replaces_in_one, &scene);
  read_ok(scene.opened, is_filled, &scene);
  scene_free(&scene);
}

/* ---- users and apps ---- */

static moonpad_status makes_shared(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref *ann = &scene->session;
  mp_session_ref again = ref_named("shop", "ann", NULL);
  mp_session_ref bob = ref_named("shop", "bob", NULL);
  mp_session_ref game = ref_named("game", "ann", NULL);
  *ann = again;
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, ann, MP_SCOPE_APP, false, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, ann, MP_SCOPE_USER, false, &row, error));
  CHECK(error->message[0] == '\0');
  TRY(find_head(tx, ann, MP_SCOPE_USER, true, &row, error));
  CHECK(row.user_revision == 0 && row.user != 0 && row.id == 0 && row.app_revision == 0);
  TRY(find_head(tx, ann, MP_SCOPE_APP, false, &row, error));
  CHECK(row.app_revision == 0 && row.app != 0 && row.id == 0 && row.user == 0 && row.user_revision == 0);
  TRY(find_head(tx, &again, MP_SCOPE_APP, true, &row, error));
  CHECK(again.app == ann->app);
  TRY(set_revision(tx, ann, MP_SCOPE_USER, 11, error));
  TRY(set_revision(tx, ann, MP_SCOPE_APP, 22, error));
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, &bob, MP_SCOPE_USER, false, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, &game, MP_SCOPE_USER, false, &row, error));
  TRY(find_head(tx, &game, MP_SCOPE_APP, true, &row, error));
  CHECK(game.app != ann->app && row.app_revision == 0);
  return MOONPAD_OK;
}

static moonpad_status sees_shared(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref ann = ref_named("shop", "ann", NULL);
  TRY(find_head(tx, &ann, MP_SCOPE_USER, false, &row, error));
  CHECK(ann.user == scene->session.user && row.user_revision == 11 && row.app_revision == 0);
  TRY(find_head(tx, &ann, MP_SCOPE_APP, false, &row, error));
  CHECK(ann.app == scene->session.app && row.app_revision == 22);
  return MOONPAD_OK;
}

static moonpad_status joins_shared(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  mp_session_ref ref = ref_named("shop", "ann", "s1");
  TRY(tx->ops->create_session(tx, &ref.name, 1.0, &row, error));
  CHECK(row.user == scene->session.user && row.app == scene->session.app);
  CHECK(row.user_revision == 11 && row.app_revision == 22);
  TRY(set_revision(tx, &ref, MP_SCOPE_USER, 12, error));
  TRY(find_row(tx, &ref, &row, error));
  CHECK(row.user_revision == 12 && row.app_revision == 22);
  TRY(tx->ops->remove_session(tx, &ref, error));
  return set_revision(tx, &ref, MP_SCOPE_USER, 11, error);
}

static void test_users_and_apps(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_shared, &scene);
  read_ok(scene.opened, sees_shared, &scene);
  write_ok(scene.opened, joins_shared, &scene);
  read_ok(scene.opened, sees_shared, &scene); /* they outlive the session */
}

/* ---- keys ---- */

static moonpad_status writes_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  opened_store *opened = scene->opened;
  const mp_session_ref *ref = &scene->session;
  TRY(makes_sessions(tx, context, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "k", "session", 1, error));
  TRY(write_text(opened, tx, &scene->other, MP_SCOPE_SESSION, "k", "other", 1, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_USER, "k", "user", 4, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_APP, "k", "app", 5, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "a", "1", 1, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "b", "2", 2, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "c", "3", 3, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "a", "4", 4, error));
  TRY(write_text(opened, tx, ref, MP_SCOPE_SESSION, "b", NULL, 5, error));
  return write_text(opened, tx, ref, MP_SCOPE_SESSION, "never", NULL, 6, error);
}

static moonpad_status sees_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session;
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, MP_EVERY_KEY, &text, error), "a='4'@4\nc='3'@3\nk='session'@1\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 0, &text, error),
              "a='4'@4\nb=removed@5\nc='3'@3\nk='session'@1\nnever=removed@6\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 3, &text, error), "a='4'@4\nb=removed@5\nnever=removed@6\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 5, &text, error), "never=removed@6\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 6, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, MP_NO_KEYS, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, &scene->other, MP_SCOPE_SESSION, MP_EVERY_KEY, &text, error), "k='other'@1\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_USER, MP_EVERY_KEY, &text, error), "k='user'@4\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_APP, MP_EVERY_KEY, &text, error), "k='app'@5\n");
  EXPECT_TEXT(dump_base_keys(tx, ref, &text, error), "");
  return MOONPAD_OK;
}

static moonpad_status reads_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session;
  mp_value *value;
  int64_t revision;
  TRY(read_one(tx, ref, MP_SCOPE_SESSION, moonpad_text("a"), &value, &revision, error));
  bool right = value != NULL && value->as.type == MOONPAD_STRING && value->as.as.text.length == 1 &&
               value->as.as.text.data[0] == '4' && revision == 4;
  mp_value_release(scene->opened->env, value);
  CHECK(right);
  TRY(read_one(tx, ref, MP_SCOPE_SESSION, moonpad_text("b"), &value, &revision, error));
  CHECK(value == NULL && revision == 5);
  TRY(read_one(tx, ref, MP_SCOPE_SESSION, moonpad_text("none"), &value, &revision, error));
  CHECK(value == NULL && revision == 0);
  TRY(read_one(tx, ref, MP_SCOPE_USER, moonpad_text("a"), &value, &revision, error));
  CHECK(value == NULL && revision == 0);
  return MOONPAD_OK;
}

static moonpad_status writes_and_sees_keys(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(writes_keys(tx, context, error));
  TRY(sees_keys(tx, context, error));
  return reads_keys(tx, context, error);
}

static void test_keys(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_and_sees_keys, &scene);
  read_ok(scene.opened, sees_keys, &scene);
  read_ok(scene.opened, reads_keys, &scene);
}

/* A store takes revisions as they come, whatever their order. */
static moonpad_status writes_revisions_in_disorder(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_sessions(tx, context, error));
  const char *const keys[] = {"e", "a", "d", "b", "c"};
  const int64_t revisions[] = {5, 1, 4, 2, 3};
  for (size_t i = 0; i < 5; i++) {
    TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, keys[i], "v", revisions[i], error));
  }
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_SESSION, 2, &text, error), "c='v'@3\nd='v'@4\ne='v'@5\n");
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, "e", "v", 1, error));
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_SESSION, 2, &text, error), "c='v'@3\nd='v'@4\n");
  return MOONPAD_OK;
}

static void test_revisions_in_disorder(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_revisions_in_disorder, &scene);
}

typedef struct odd_keys {
  char bytes[MOONPAD_MAX_KEY_BYTES];
  moonpad_string keys[12];
} odd_keys;

static void odd_keys_init(odd_keys *odd) {
  static const char nul_first[] = "\0a";
  static const char nul_last[] = "a\0";
  static const char nul_only[] = "\0";
  static const char two_nuls[] = "a\0\0";
  static const char after_nul[] = "a\0b";
  memset(odd->bytes, 'x', sizeof odd->bytes);
  moonpad_string list[12] = {
      {"", 0},       {nul_only, 1}, {nul_first, 2},     {"a", 1},
      {nul_last, 2}, {two_nuls, 3}, {after_nul, 3},     {odd->bytes, MOONPAD_MAX_KEY_BYTES},
      {"A", 1},      {"a ", 2},     {"\xc3\xa9'\"", 4}, {odd->bytes, MOONPAD_MAX_KEY_BYTES - 1},
  };
  memcpy(odd->keys, list, sizeof list);
}

static moonpad_status writes_odd_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  odd_keys odd;
  odd_keys_init(&odd);
  TRY(makes_sessions(tx, context, error));
  for (int64_t i = 0; i < 12; i++) {
    mp_value *value = mp_value_new_integer(scene->opened->env, i);
    moonpad_status status = write_value(tx, &scene->session, MP_SCOPE_SESSION, odd.keys[i], value, i + 1, error);
    if (status == MOONPAD_OK) status = write_base(tx, &scene->session, odd.keys[i], value, error);
    mp_value_release(scene->opened->env, value);
    TRY(status);
  }
  return MOONPAD_OK;
}

static moonpad_status every_key(mp_tx *tx, const mp_session_ref *ref, mp_each_state each, void *context,
                                moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  look.since[MP_SCOPE_SESSION] = MP_EVERY_KEY;
  look.each_state = each;
  look.context = context;
  return tx->ops->look(tx, &look, &facts, error);
}

/* The value of each odd key is its index in the list. */
static moonpad_status checks_odd_row(void *context, const mp_state_row *row, moonpad_error *error) {
  unsigned *seen = context;
  odd_keys odd;
  odd_keys_init(&odd);
  CHECK(row->value != NULL && row->value->as.type == MOONPAD_INTEGER);
  int64_t index = row->value->as.as.integer;
  CHECK(index >= 0 && index < 12 && mp_text_compare(row->key, odd.keys[index]) == 0);
  *seen |= 1U << index;
  return MOONPAD_OK;
}

static moonpad_status sees_odd_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  odd_keys odd;
  odd_keys_init(&odd);
  unsigned seen = 0;
  TRY(every_key(tx, &scene->session, checks_odd_row, &seen, error));
  CHECK(seen == 0xfff);
  seen = 0;
  TRY(tx->ops->each_base_key(tx, &scene->session, checks_odd_row, &seen, error));
  CHECK(seen == 0xfff);
  for (int64_t i = 0; i < 12; i++) {
    mp_value *value;
    int64_t revision;
    TRY(read_one(tx, &scene->session, MP_SCOPE_SESSION, odd.keys[i], &value, &revision, error));
    bool right = value != NULL && value->as.type == MOONPAD_INTEGER && value->as.as.integer == i && revision == i + 1;
    mp_value_release(scene->opened->env, value);
    CHECK(right);
  }
  return MOONPAD_OK;
}

static void test_odd_keys(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_odd_keys, &scene);
  read_ok(scene.opened, sees_odd_keys, &scene);
}

/* ---- values ---- */

#define VALUES 40

/* Fills `values` and returns how many; every type, and what is easily lost. */
static size_t make_values(mp_env *env, mp_value *values[VALUES]) {
  static const int64_t integers[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(9007199254740993)};
  static const double floats[] = {
      0.0,     -0.0,     1.0,     -1.0,   0.1,         1.0 / 3.0,          0.30000000000000004,
      DBL_MAX, -DBL_MAX, DBL_MIN, 5e-324, DBL_EPSILON, 9007199254740992.0, 1e15,
      1e16,    1e300};
  static const char with_nul[] = "a\0b";
  size_t count = 0;
  values[count++] = mp_value_new_null(env);
  values[count++] = mp_value_new_boolean(env, true);
  values[count++] = mp_value_new_boolean(env, false);
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    values[count++] = mp_value_new_integer(env, integers[i]);
  }
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) values[count++] = mp_value_new_float(env, floats[i]);
  moonpad_string nul_text = {with_nul, 3};
  values[count++] = mp_value_new_string(env, moonpad_text(""));
  values[count++] = mp_value_new_string(env, moonpad_text("1"));
  values[count++] = mp_value_new_string(env, moonpad_text("null"));
  values[count++] = mp_value_new_string(env, moonpad_text("{\"a\":1}"));
  values[count++] = mp_value_new_string(env, moonpad_text("\"\\\n\x01 \xf0\x9f\x98\x80"));
  values[count++] = mp_value_new_string(env, nul_text);
  values[count++] = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text("[]"));
  values[count++] = mp_value_new_json(env, MOONPAD_OBJECT, moonpad_text("{}"));
  values[count++] = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text("[1,1.0,\"x\\u0000\",null,[[]]]"));
  values[count++] = mp_value_new_json(env, MOONPAD_OBJECT, moonpad_text("{\"b\":0.30000000000000004,\"a\":{}}"));
  return count;
}

static void free_values(mp_env *env, mp_value *values[VALUES], size_t count) {
  for (size_t i = 0; i < count; i++) mp_value_release(env, values[i]);
}

static moonpad_status writes_values(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_sessions(tx, context, error));
  mp_value *values[VALUES];
  size_t count = make_values(scene->opened->env, values);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < count && status == MOONPAD_OK; i++) {
    char key[24];
    snprintf(key, sizeof key, "k%zu", i);
    status = write_value(tx, &scene->session, MP_SCOPE_SESSION, moonpad_text(key), values[i], 1, error);
    if (status != MOONPAD_OK) break;
    status = write_base(tx, &scene->session, moonpad_text(key), values[i], error);
  }
  free_values(scene->opened->env, values, count);
  return status;
}

typedef struct expected_values {
  mp_value *values[VALUES];
  size_t count;
  size_t seen;
} expected_values;

static moonpad_status checks_value_row(void *context, const mp_state_row *row, moonpad_error *error) {
  expected_values *expected = context;
  char key[24];
  snprintf(key, sizeof key, "%.*s", (int)row->key.length, row->key.data);
  size_t index = (size_t)strtoul(key + 1, NULL, 10);
  CHECK(index < expected->count);
  if (!mp_equal_values(row->value, expected->values[index])) {
    return mp_fail(error, TEST_FAILED, "value %zu came back as something else", index);
  }
  expected->seen++;
  return MOONPAD_OK;
}

static moonpad_status sees_values(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  expected_values expected;
  expected.count = make_values(scene->opened->env, expected.values);
  expected.seen = 0;
  moonpad_status status = every_key(tx, &scene->session, checks_value_row, &expected, error);
  if (status == MOONPAD_OK) {
    status = tx->ops->each_base_key(tx, &scene->session, checks_value_row, &expected, error);
  }
  for (size_t i = 0; i < expected.count && status == MOONPAD_OK; i++) {
    char key[24];
    mp_value *value = NULL;
    int64_t revision;
    snprintf(key, sizeof key, "k%zu", i);
    status = read_one(tx, &scene->session, MP_SCOPE_SESSION, moonpad_text(key), &value, &revision, error);
    if (mp_equal_values(value, expected.values[i])) expected.seen++;
    mp_value_release(scene->opened->env, value);
  }
  free_values(scene->opened->env, expected.values, expected.count);
  TRY(status);
  CHECK(expected.seen == 3 * expected.count);
  return MOONPAD_OK;
}

static void test_values(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_values, &scene);
  read_ok(scene.opened, sees_values, &scene);
  if (scene.opened->kind->is_file) {
    store_reopen(scene.opened);
    read_ok(scene.opened, sees_values, &scene);
  }
}

/* A value that was read stays what it was, whatever happens to its key. */
static moonpad_status takes_a_value(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t revision;
  mp_value *value;
  TRY(read_one(tx, &scene->session, MP_SCOPE_SESSION, moonpad_text("a"), &value, &revision, error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, "a", "new", 7, error));
  TRY(tx->ops->remove_session(tx, &scene->session, error));
  bool right = value != NULL && mp_text_compare(value->as.as.text, moonpad_text("4")) == 0;
  mp_value_release(scene->opened->env, value);
  CHECK(right);
  return MOONPAD_OK;
}

static void test_a_value_outlives_its_key(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_keys, &scene);
  write_ok(scene.opened, takes_a_value, &scene);
}

/* ---- base state ---- */

static moonpad_status write_base_text(test_scene *scene, mp_tx *tx, const char *key, const char *text,
                                      moonpad_error *error) {
  mp_value *value = mp_value_new_string(scene->opened->env, moonpad_text(text));
  moonpad_status status = write_base(tx, &scene->session, moonpad_text(key), value, error);
  mp_value_release(scene->opened->env, value);
  return status;
}

static moonpad_status writes_base(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_sessions(tx, context, error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, "k", "now", 3, error));
  TRY(write_base_text(scene, tx, "k", "then", error));
  TRY(write_base_text(scene, tx, "only", "1", error));
  TRY(write_base_text(scene, tx, "only", "2", error));
  return MOONPAD_OK;
}

static moonpad_status sees_base(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_base_keys(tx, &scene->session, &text, error), "k='then'@0\nonly='2'@0\n");
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_SESSION, 0, &text, error), "k='now'@3\n");
  EXPECT_TEXT(dump_base_keys(tx, &scene->other, &text, error), "");
  return MOONPAD_OK;
}

static void test_base_state(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_base, &scene);
  read_ok(scene.opened, sees_base, &scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_sessions),
      STORE_TEST(test_names),
      STORE_TEST(test_removed_base_keys),
      STORE_TEST(test_remove_and_create_again),
      STORE_TEST(test_remove_and_create_in_one_transaction),
      STORE_TEST(test_users_and_apps),
      STORE_TEST(test_keys),
      STORE_TEST(test_revisions_in_disorder),
      STORE_TEST(test_odd_keys),
      STORE_TEST(test_values),
      STORE_TEST(test_a_value_outlives_its_key),
      STORE_TEST(test_base_state),
  };
  return RUN_ON_EVERY_STORE(tests);
}
