/*
** Housekeeping: what a store may leave out, and must do where it has it. That all of it is undone
** when a transaction fails is in test_store_undo.c.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_support.h"

static moonpad_status makes_two(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  scene->session = ref_named("shop", "ann", "s1");
  scene->other = ref_named("shop", "bob", "s2");
  TRY(make_session(tx, &scene->session, 1.0, error));
  return make_session(tx, &scene->other, 2.0, error);
}

/* ---- tombstones ---- */

static moonpad_status writes_tombstones(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  opened_store *opened = scene->opened;
  const mp_session_ref *ref = &scene->session;
  TRY(makes_two(tx, context, error));
  for (mp_scope scope = MP_SCOPE_SESSION; scope < MP_STORED_SCOPES; scope++) {
    TRY(write_text(opened, tx, ref, scope, "stays", "1", 2, error));
    TRY(write_text(opened, tx, ref, scope, "gone", NULL, 3, error));
    TRY(write_text(opened, tx, ref, scope, "gone too", NULL, 5, error));
    TRY(write_text(opened, tx, ref, scope, "later", NULL, 6, error));
  }
  return write_text(opened, tx, &scene->other, MP_SCOPE_SESSION, "gone", NULL, 3, error);
}

static moonpad_status purges(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  for (mp_scope scope = MP_SCOPE_SESSION; scope < MP_STORED_SCOPES; scope++) {
    TRY(tx->ops->purge(tx, &scene->session, scope, 5, error));
  }
  return MOONPAD_OK;
}

/* The rows since a revision, and whether they are all that have a value. */
static moonpad_status dump_since(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t since, int64_t forgotten,
                                 store_dump *dump, moonpad_error *error) {
  mp_facts facts;
  store_dump unsorted = {NULL, 0, 0};
  mp_look look = look_at(ref, scope);
  look.since[scope] = since;
  look.each_state = dump_state;
  look.context = &unsorted;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  dump_sorted(dump, &unsorted);
  TRY(status);
  dump_print(dump, facts.whole[scope] ? "whole\n" : "");
  CHECK(facts.forgotten[scope] == forgotten);
  return MOONPAD_OK;
}

static moonpad_status sees_no_tombstones(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  static const char *const stays[] = {"session stays='1'@2\nwhole\n", "user stays='1'@2\nwhole\n",
                                      "app stays='1'@2\nwhole\n"};
  static const char *const later[] = {"session later=removed@6\n", "user later=removed@6\n", "app later=removed@6\n"};
  const mp_session_ref *ref = &scene->session;
  for (mp_scope scope = MP_SCOPE_SESSION; scope < MP_STORED_SCOPES; scope++) {
    for (int64_t since = MP_EVERY_KEY; since < 5; since++) {
      EXPECT_TEXT(dump_since(tx, ref, scope, since, 5, &text, error), stays[scope]);
    }
    EXPECT_TEXT(dump_since(tx, ref, scope, 5, 5, &text, error), later[scope]);
    EXPECT_TEXT(dump_since(tx, ref, scope, 6, 5, &text, error), "");
    EXPECT_TEXT(dump_since(tx, ref, scope, MP_NO_KEYS, 5, &text, error), "");
    mp_value *value;
    int64_t revision;
    TRY(read_one(tx, ref, scope, moonpad_text("gone"), &value, &revision, error));
    CHECK(value == NULL && revision == 0);
    TRY(read_one(tx, ref, scope, moonpad_text("later"), &value, &revision, error));
    CHECK(value == NULL && revision == 6);
  }
  EXPECT_TEXT(dump_since(tx, &scene->other, MP_SCOPE_SESSION, 0, 0, &text, error), "session gone=removed@3\n");
  return MOONPAD_OK;
}

static moonpad_status purges_less(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  /* what is forgotten stays forgotten */
  TRY(tx->ops->purge(tx, &scene->session, MP_SCOPE_SESSION, 2, error));
  return write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, "gone", "back", 7, error);
}

static moonpad_status sees_it_back(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_since(tx, &scene->session, MP_SCOPE_SESSION, 4, 5, &text, error),
              "session gone='back'@7\nsession stays='1'@2\nwhole\n");
  EXPECT_TEXT(dump_since(tx, &scene->session, MP_SCOPE_SESSION, 5, 5, &text, error),
              "session gone='back'@7\nsession later=removed@6\n");
  return MOONPAD_OK;
}

static void test_purged_tombstones(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_PURGE);
  write_ok(scene.opened, writes_tombstones, &scene);
  write_ok(scene.opened, purges, &scene);
  read_ok(scene.opened, sees_no_tombstones, &scene);
  write_ok(scene.opened, purges, &scene);
  read_ok(scene.opened, sees_no_tombstones, &scene);
  if (scene.opened->kind->is_file) store_reopen(scene.opened);
  read_ok(scene.opened, sees_no_tombstones, &scene);
  write_ok(scene.opened, purges_less, &scene);
  read_ok(scene.opened, sees_it_back, &scene);
}

/* ---- trimming ---- */

static moonpad_status appends_six(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_two(tx, context, error));
  for (int i = 1; i <= 6; i++) {
    char id[3] = {'e', (char)('0' + i), '\0'};
    TRY(append_next(tx, &scene->session, id, "{\"invocationId\":\"i\"}", error));
  }
  return append_next(tx, &scene->other, "e1", "{}", error);
}

static moonpad_status trims_to(mp_tx *tx, const mp_session_ref *ref, int64_t last, moonpad_error *error) {
  mp_session_row row;
  mp_session_ref at = *ref;
  TRY(find_row(tx, &at, &row, error));
  row.base_revision = last;
  TRY(tx->ops->trim(tx, ref, last, error));
  return update_heads(tx, ref, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status dump_recent(mp_tx *tx, const mp_session_ref *ref, int64_t recent, store_dump *dump,
                                  moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  look.recent = recent;
  look.each_event = dump_number;
  look.context = dump;
  return tx->ops->look(tx, &look, &facts, error);
}

static moonpad_status trims(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  const mp_session_ref *ref = &scene->session;
  TRY(trims_to(tx, ref, 4, error));
  EXPECT_TEXT(walk_events(tx, ref, 0, 9, dump_number, &text, error), "5 6 ");
  EXPECT_TEXT(dump_recent(tx, ref, 1, &text, error), "6 ");
  EXPECT_TEXT(dump_recent(tx, ref, 5, &text, error), "5 6 ");
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, ref, moonpad_text("e4"), dump_number, NULL, error));
  EXPECT_TEXT(find_event(tx, ref, moonpad_text("e5"), dump_number, &text, error), "5 ");
  EXPECT_TEXT(walk_events(tx, &scene->other, 0, 9, dump_number, &text, error), "1 ");
  TRY(append_next(tx, ref, "e1", "{}", error)); /* an id that was trimmed is free */
  EXPECT_TEXT(walk_events(tx, ref, 0, 9, dump_number, &text, error), "5 6 7 ");
  EXPECT_TEXT(find_event(tx, ref, moonpad_text("e1"), dump_number, &text, error), "7 ");
  TRY(trims_to(tx, ref, 4, error)); /* once more is nothing */
  mp_session_ref at = *ref;
  TRY(find_row(tx, &at, &row, error));
  CHECK(row.revision == 7 && row.base_revision == 4);
  return MOONPAD_OK;
}

static moonpad_status trims_all(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t revision;
  const mp_session_ref *ref = &scene->session;
  TRY(trims_to(tx, ref, 7, error));
  EXPECT_TEXT(walk_events(tx, ref, 0, 9, dump_number, &text, error), "");
  EXPECT_TEXT(dump_recent(tx, ref, 5, &text, error), "");
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->find_invocation(tx, ref, moonpad_text("i"), &revision, error));
  TRY(append_next(tx, ref, "e8", "{}", error));
  EXPECT_TEXT(walk_events(tx, ref, 0, 9, dump_number, &text, error), "8 ");
  return MOONPAD_OK;
}

static void test_trimming(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_TRIM);
  write_ok(scene.opened, appends_six, &scene);
  write_ok(scene.opened, trims, &scene);
  write_ok(scene.opened, trims_all, &scene);
}

/* ---- when something was last used ---- */

/* "SESSION USER APP" */
static moonpad_status dump_touched(mp_tx *tx, const mp_session_ref *ref, store_dump *dump, moonpad_error *error) {
  mp_facts facts, user, app;
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  mp_look of_user = look_at(ref, MP_SCOPE_USER), of_app = look_at(ref, MP_SCOPE_APP);
  TRY(tx->ops->look(tx, &look, &facts, error));
  TRY(tx->ops->look(tx, &of_user, &user, error));
  TRY(tx->ops->look(tx, &of_app, &app, error));
  CHECK(user.touched[MP_SCOPE_USER] == facts.touched[MP_SCOPE_USER]);
  CHECK(app.touched[MP_SCOPE_APP] == facts.touched[MP_SCOPE_APP]);
  dump_print(dump, "%g %g %g", facts.touched[MP_SCOPE_SESSION], facts.touched[MP_SCOPE_USER],
             facts.touched[MP_SCOPE_APP]);
  return MOONPAD_OK;
}

static moonpad_status applies_touching(mp_tx *tx, const mp_session_ref *ref, unsigned heads, double touched,
                                       moonpad_error *error) {
  mp_session_row row;
  mp_session_ref at = *ref;
  TRY(find_row(tx, &at, &row, error));
  mp_batch batch = {.ref = at, .row = &row, .heads = heads, .touched = touched};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status touches(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session, *other = &scene->other;
  TRY(makes_two(tx, context, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "0 0 0");
  TRY(applies_touching(tx, ref, MP_HEAD(MP_SCOPE_SESSION), 10.5, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "10.5 0 0");
  TRY(applies_touching(tx, ref, MP_ALL_HEADS, 11.0, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "11 11 11");
  TRY(applies_touching(tx, ref, MP_ALL_HEADS, 0, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "11 11 11");
  TRY(applies_touching(tx, ref, MP_HEAD(MP_SCOPE_USER), 12.0, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "11 12 11");
  EXPECT_TEXT(dump_touched(tx, other, &text, error), "0 0 11");
  const mp_touch touched[] = {{*other, MP_HEAD(MP_SCOPE_SESSION) | MP_HEAD(MP_SCOPE_APP), 13.0},
                              {*ref, MP_HEAD(MP_SCOPE_USER), 14.0},
                              {*ref, MP_HEAD(MP_SCOPE_SESSION), 15.0}};
  TRY(tx->ops->touch(tx, touched, 3, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "15 14 13");
  EXPECT_TEXT(dump_touched(tx, other, &text, error), "13 0 13");
  TRY(tx->ops->touch(tx, touched, 0, error));
  EXPECT_TEXT(dump_touched(tx, other, &text, error), "13 0 13");
  /* nothing is made older */
  const mp_touch earlier[] = {{*ref, MP_ALL_HEADS, 9.0}};
  TRY(tx->ops->touch(tx, earlier, 1, error));
  TRY(applies_touching(tx, ref, MP_ALL_HEADS, 8.0, error));
  EXPECT_TEXT(dump_touched(tx, ref, &text, error), "15 14 13");
  return MOONPAD_OK;
}

static moonpad_status touches_what_is_gone(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_touch touched[] = {{scene->session, MP_HEAD(MP_SCOPE_SESSION), 16.0},
                              {scene->other, MP_HEAD(MP_SCOPE_SESSION), 17.0}};
  TRY(tx->ops->remove_session(tx, &scene->session, error));
  TRY(tx->ops->touch(tx, touched, 2, error)); /* it does not matter: the others are touched */
  EXPECT_TEXT(dump_touched(tx, &scene->other, &text, error), "17 0 13");
  return MOONPAD_OK;
}

static void test_touching(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_TOUCH);
  write_ok(scene.opened, touches, &scene);
  write_ok(scene.opened, touches_what_is_gone, &scene);
}

/* ---- sweeping ---- */

#define SWEPT 10

/* Session and user number i, of app number i / 5, are used at 100 + i; the apps at 200 and 205. */
static moonpad_status makes_what_is_swept(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  for (int i = 0; i < SWEPT; i++) {
    char user[] = {'u', (char)('0' + i), '\0'};
    mp_session_ref ref = ref_named(i < 5 ? "shop" : "game", user, "s");
    TRY(make_session(tx, &ref, 1.0, error));
    TRY(append_next(tx, &ref, "e1", "{}", error));
    TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_SESSION, "k", "v", 1, error));
    TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_USER, "k", "v", 3, error));
    TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_USER, "gone", NULL, 2, error));
    const mp_touch touched = {ref, MP_HEAD(MP_SCOPE_SESSION) | MP_HEAD(MP_SCOPE_USER), 100.0 + i};
    TRY(tx->ops->touch(tx, &touched, 1, error));
    if (i % 5 != 0) continue;
    const mp_touch app = {ref, MP_HEAD(MP_SCOPE_APP), 200.0 + i};
    TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_APP, "k", "v", 5, error));
    TRY(tx->ops->touch(tx, &app, 1, error));
  }
  return MOONPAD_OK;
}

static moonpad_status list_name(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)error;
  dump_print(context, "%.*s ", (int)session->user_id.length, session->user_id.data);
  return MOONPAD_OK;
}

static moonpad_status list_users(mp_tx *tx, store_dump *dump, moonpad_error *error) {
  static const char *const apps[] = {"shop", "game"};
  for (int i = 0; i < 2; i++) {
    mp_list_query query = {.app_name = moonpad_text(apps[i])};
    mp_listing listing = {list_name, NULL, dump};
    TRY(tx->ops->each_listed(tx, &query, &listing, error));
  }
  return MOONPAD_OK;
}

static moonpad_status sweeps_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  int64_t removed = 77;
  mp_session_ref u0 = ref_named("shop", "u0", "s");
  TRY(store_sweep(tx, MP_SCOPE_SESSION, 100.0, 100, &removed, error)); /* strictly before */
  CHECK(removed == 0);
  for (int64_t left = 7; left > 0; left -= 3) { /* in slices */
    TRY(store_sweep(tx, MP_SCOPE_SESSION, 107.0, 3, &removed, error));
    CHECK(removed == (left < 3 ? left : 3));
  }
  TRY(store_sweep(tx, MP_SCOPE_SESSION, 107.0, 3, &removed, error));
  CHECK(removed == 0);
  EXPECT_TEXT(list_users(tx, &text, error), "u7 u8 u9 ");
  /* is no session */
  EXPECT_TEXT(dump_keys(tx, &u0, MP_SCOPE_USER, 0, &text, error), "gone=removed@2\nk='v'@3\n");
  TRY(make_session(tx, &u0, 300.0, error));
  EXPECT_TEXT(dump_keys(tx, &u0, MP_SCOPE_SESSION, 0, &text, error), "");
  EXPECT_TEXT(dump_events(tx, &u0, 0, 9, &text, error), "");
  return MOONPAD_OK;
}

/* Of a session that was never touched the time of its last update counts: u0's is 300, u1's 1. */
static moonpad_status sweeps_untouched_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  int64_t removed = 77;
  mp_session_ref u1 = ref_named("shop", "u1", "s");
  TRY(make_session(tx, &u1, 1.0, error));
  TRY(store_sweep(tx, MP_SCOPE_SESSION, 2.0, 100, &removed, error));
  CHECK(removed == 1);
  EXPECT_TEXT(list_users(tx, &text, error), "u0 u7 u8 u9 ");
  return MOONPAD_OK;
}

/* A sweep goes on where it has stopped, and comes to an end. */
static moonpad_status sweeps_on(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_sweep sweep = {.scope = MP_SCOPE_SESSION, .touched_before = 1000.0, .limit = 3};
  int64_t removed = 0;
  for (int calls = 0; !sweep.is_done; calls++) {
    CHECK(calls < 10);
    TRY(tx->ops->sweep(tx, &sweep, error));
    CHECK(sweep.removed <= 3);
    removed += sweep.removed;
  }
  CHECK(removed == 10);
  EXPECT_TEXT(list_users(tx, &text, error), "");
  return MOONPAD_OK;
}

static void test_a_sweep_in_parts(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_SWEEP | STORE_TOUCH);
  write_ok(scene.opened, makes_what_is_swept, &scene);
  write_ok(scene.opened, sweeps_on, &scene);
}

static void test_swept_sessions(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_SWEEP | STORE_TOUCH);
  write_ok(scene.opened, makes_what_is_swept, &scene);
  write_ok(scene.opened, sweeps_sessions, &scene);
  write_ok(scene.opened, sweeps_untouched_sessions, &scene);
}

/* The head counts up, and has forgotten all: who has seen the state sees that it is gone. */
static moonpad_status dump_swept(mp_tx *tx, const char *app, const char *user, mp_scope scope, int64_t seen,
                                 store_dump *dump, moonpad_error *error) {
  mp_session_ref ref = ref_named(app, user, NULL);
  mp_facts facts;
  mp_look look = look_at(&ref, scope);
  look.since[scope] = seen;
  look.each_state = dump_state;
  look.context = dump;
  TRY(tx->ops->look(tx, &look, &facts, error));
  int64_t revision = scope == MP_SCOPE_USER ? facts.row.user_revision : facts.row.app_revision;
  dump_print(dump, "%" PRId64 " %" PRId64 "%s", revision, facts.forgotten[scope], facts.whole[scope] ? " whole" : "");
  return MOONPAD_OK;
}

static moonpad_status sweeps_users(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t removed = 77;
  mp_session_ref u0 = ref_named("shop", "u0", "s");
  TRY(store_sweep(tx, MP_SCOPE_USER, 100.0, 100, &removed, error));
  CHECK(removed == 0);
  for (int64_t left = 5; left > 0; left -= 2) {
    TRY(store_sweep(tx, MP_SCOPE_USER, 105.0, 2, &removed, error));
    CHECK(removed == (left < 2 ? left : 2));
  }
  /* what is empty is not swept again */
  TRY(store_sweep(tx, MP_SCOPE_USER, 105.0, 2, &removed, error));
  CHECK(removed == 0);
  EXPECT_TEXT(dump_swept(tx, "shop", "u0", MP_SCOPE_USER, 3, &text, error), "4 4 whole");
  EXPECT_TEXT(dump_swept(tx, "shop", "u4", MP_SCOPE_USER, MP_EVERY_KEY, &text, error), "4 4 whole");
  EXPECT_TEXT(dump_swept(tx, "shop", "u4", MP_SCOPE_USER, 4, &text, error), "4 4");
  EXPECT_TEXT(dump_swept(tx, "game", "u5", MP_SCOPE_USER, 2, &text, error), "user k='v'@3\n3 0");
  EXPECT_TEXT(list_users(tx, &text, error), "u0 u1 u2 u3 u4 u5 u6 u7 u8 u9 ");
  EXPECT_TEXT(dump_keys(tx, &u0, MP_SCOPE_SESSION, 0, &text, error), "k='v'@1\n");
  TRY(write_text(scene->opened, tx, &u0, MP_SCOPE_USER, "k", "new", 5, error));
  EXPECT_TEXT(dump_swept(tx, "shop", "u0", MP_SCOPE_USER, 4, &text, error), "user k='new'@5\n5 4");
  EXPECT_TEXT(dump_swept(tx, "shop", "u0", MP_SCOPE_USER, 3, &text, error), "user k='new'@5\n5 4 whole");
  return MOONPAD_OK;
}

static moonpad_status sweeps_apps(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  int64_t removed = 77;
  TRY(store_sweep(tx, MP_SCOPE_APP, 205.0, 100, &removed, error));
  CHECK(removed == 1);
  EXPECT_TEXT(dump_swept(tx, "shop", NULL, MP_SCOPE_APP, 5, &text, error), "6 6 whole");
  EXPECT_TEXT(dump_swept(tx, "game", NULL, MP_SCOPE_APP, 5, &text, error), "5 0");
  EXPECT_TEXT(dump_swept(tx, "shop", "u4", MP_SCOPE_USER, 4, &text, error), "4 4");
  return MOONPAD_OK;
}

/* Nobody knows when it was used: it stays. */
static moonpad_status sweeps_untouched_state(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t removed = 77;
  mp_session_ref ref = ref_named("else", "ann", NULL);
  mp_session_row row;
  TRY(find_head(tx, &ref, MP_SCOPE_USER, true, &row, error));
  TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_USER, "k", "v", 1, error));
  TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_APP, "k", "v", 1, error));
  TRY(store_sweep(tx, MP_SCOPE_APP, 1.0, 100, &removed, error));
  CHECK(removed == 0);
  TRY(store_sweep(tx, MP_SCOPE_USER, 1.0, 100, &removed, error));
  CHECK(removed == 0);
  EXPECT_TEXT(dump_keys(tx, &ref, MP_SCOPE_USER, 0, &text, error), "k='v'@1\n");
  return MOONPAD_OK;
}

static void test_swept_states(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_SWEEP | STORE_TOUCH);
  write_ok(scene.opened, makes_what_is_swept, &scene);
  write_ok(scene.opened, sweeps_users, &scene);
  write_ok(scene.opened, sweeps_apps, &scene);
  write_ok(scene.opened, sweeps_untouched_state, &scene);
}

/* ---- tokens ---- */

static moonpad_status claim(mp_tx *tx, char number, double now, double expired, moonpad_error *error) {
  unsigned char token[MP_TOKEN_BYTES] = {0}; /* with NULs, and alike but for the last byte */
  token[MP_TOKEN_BYTES - 1] = (unsigned char)number;
  return tx->ops->claim_token(tx, token, now, expired, error);
}

static moonpad_status claims(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  TRY(claim(tx, 1, 10.0, 0.0, error));
  TRY(claim(tx, 0, 11.0, 0.0, error));
  EXPECT(MOONPAD_ALREADY_EXISTS, claim(tx, 1, 12.0, 5.0, error));
  CHECK(error->message[0] == '\0');
  return MOONPAD_OK;
}

static moonpad_status claims_in_vain(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  TRY(claim(tx, 2, 13.0, 0.0, error));
  return mp_fail(error, MOONPAD_CONFLICT, "it was all in vain");
}

static moonpad_status claims_later(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  TRY(claim(tx, 2, 13.0, 0.0, error));
  /* noted at 10, which is not before 10 */
  EXPECT(MOONPAD_ALREADY_EXISTS, claim(tx, 1, 20.0, 10.0, error));
  EXPECT(MOONPAD_ALREADY_EXISTS, claim(tx, 0, 20.0, 10.5, error));
  TRY(claim(tx, 1, 20.0, 10.5, error)); /* forgotten by now */
  EXPECT(MOONPAD_ALREADY_EXISTS, claim(tx, 1, 20.0, 10.5, error));
  return MOONPAD_OK;
}

/*
** Each is forgotten in its time, also where they were noted while a clock was set back and forth.
*/
static moonpad_status claims_with_a_restless_clock(mp_tx *tx, void *context, moonpad_error *error) {
  static const double times[] = {50.0, 10.0, 30.0, 30.0, 60.0, 20.0, 40.0, 5.0};
  const int count = sizeof times / sizeof *times;
  (void)context;
  for (int i = 0; i < count; i++) TRY(claim(tx, (char)i, times[i], 0.0, error));
  for (double expired = 0; expired <= 65; expired += 5) {
    for (int i = 0; i < count; i++) {
      bool is_gone = times[i] < expired;
      bool was_gone = times[i] < expired - 5; /* noted again then, with a time that never comes */
      EXPECT(is_gone && !was_gone ? MOONPAD_OK : MOONPAD_ALREADY_EXISTS, claim(tx, (char)i, 1e9, expired, error));
    }
  }
  return MOONPAD_OK;
}

/* What is noted, forgotten, and noted again in one transaction is not there when that fails. */
static moonpad_status claims_again_in_vain(mp_tx *tx, void *context, moonpad_error *error) {
  for (int i = 1; i <= 3; i++) TRY(claim(tx, 9, 2e9 + i, 2e9 + i, error));
  return claims_in_vain(tx, context, error);
}

static moonpad_status claims_the_first_time(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  return claim(tx, 9, 2e9, 0.0, error);
}

static void test_when_tokens_are_forgotten(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_TOKENS);
  write_ok(scene.opened, claims_with_a_restless_clock, &scene);
  write_fails(scene.opened, MOONPAD_CONFLICT, "in vain", claims_again_in_vain, &scene);
  write_ok(scene.opened, claims_the_first_time, &scene);
}

static void test_tokens(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_TOKENS);
  write_ok(scene.opened, claims, &scene);
  write_fails(scene.opened, MOONPAD_CONFLICT, "in vain", claims_in_vain, &scene);
  write_ok(scene.opened, claims_later, &scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_purged_tombstones),
      STORE_TEST(test_trimming),
      STORE_TEST(test_touching),
      STORE_TEST(test_swept_sessions),
      STORE_TEST(test_a_sweep_in_parts),
      STORE_TEST(test_swept_states),
      STORE_TEST(test_tokens),
      STORE_TEST(test_when_tokens_are_forgotten),
  };
  return RUN_ON_EVERY_STORE(tests);
}
