/*
** What every store must do in lists of sessions: order, limits, pages, and the states that belong
** to them.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_support.h"

/* ---- order, limits, pages ---- */

typedef struct listed_session {
  double time;
  const char *user;
  const char *session;
} listed_session;

/* In ascending order: by time, then by the bytes of the user id, then of the session id. */
static const listed_session listed[] = {
    {-5.5, "z", "z"},    {0.0, "ann", "zz"},        {10.0, "Z", "a"},        {10.0, "an", "z"},
    {10.0, "ann", ""},   {10.0, "ann", "A"},        {10.0, "ann", "a"},      {10.0, "ann", "a b"},
    {10.0, "ann", "ab"}, {10.0, "ann", "\xc3\xa9"}, {10.0, "ann b", "a"},    {10.0, "ann/", "a"},
    {10.0, "anna", "0"}, {10.0, "b", "a"},          {10.0, "\xc3\xa9", "a"}, {10.000000000000002, "a", "a"},
    {11.0, "ann", "b"},  {1e12, "ann", "c"},
};
#define LISTED (sizeof listed / sizeof *listed)

static const char *position_session(size_t position) {
  return listed[position].session[0] == '\0' ? "!" : listed[position].session;
}

static moonpad_status makes_listed_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_session_row row;
  for (size_t i = 0; i < LISTED; i++) {
    /* 7 and 18 have no common factor: each once, in disorder */
    size_t number = (i * 7 + 3) % LISTED;
    mp_session_ref ref = ref_named("shop", listed[number].user, position_session(number));
    mp_session_ref elsewhere = ref_named("shop2", listed[number].user, position_session(number));
    TRY(make_session(tx, &ref, 77.0, error));
    TRY(find_row(tx, &ref, &row, error));
    row.last_update_time = listed[number].time;
    row.revision = (int64_t)number;
    TRY(update_heads(tx, &ref, &row, MP_HEAD(MP_SCOPE_SESSION), error));
    TRY(make_session(tx, &elsewhere, 10.0, error));
    if (number % 2 == 0) TRY(tx->ops->remove_session(tx, &elsewhere, error));
  }
  return MOONPAD_OK;
}

static moonpad_status list_sessions(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                    moonpad_error *error) {
  mp_listing listing = {each, NULL, context};
  return tx->ops->each_listed(tx, query, &listing, error);
}

static moonpad_status collect_position(void *context, const mp_listed_session *session, moonpad_error *error) {
  store_dump *dump = context;
  CHECK(session->row.create_time == 77.0 && session->row.id != 0);
  CHECK(session->row.revision >= 0 && session->row.revision < (int64_t)LISTED);
  size_t position = (size_t)session->row.revision;
  CHECK(session->row.last_update_time == listed[position].time);
  CHECK(mp_text_compare(session->user_id, moonpad_text(listed[position].user)) == 0);
  CHECK(mp_text_compare(session->session_id, moonpad_text(position_session(position))) == 0);
  dump_print(dump, "%zu ", position);
  return MOONPAD_OK;
}

/* What the listing should say: entries after number `after` (-1: all), of `user` (NULL: all). */
static void expected_list(const mp_list_query *query, const char *user, int after, store_dump *dump) {
  int64_t count = 0;
  dump_print(dump, "%s", "");
  for (size_t i = 0; i < LISTED; i++) {
    size_t position = query->newest_first ? LISTED - 1 - i : i;
    if (user != NULL && strcmp(user, listed[position].user) != 0) continue;
    if (after >= 0 && (query->newest_first ? (int)position >= after : (int)position <= after)) continue;
    if (query->limit != 0 && count == query->limit) return;
    dump_print(dump, "%zu ", position);
    count++;
  }
}

static moonpad_status lists_page(mp_tx *tx, bool newest_first, int64_t limit, const char *user, int after,
                                 moonpad_error *error) {
  mp_list_query query;
  memset(&query, 0, sizeof query);
  query.app_name = moonpad_text("shop");
  query.newest_first = newest_first;
  query.limit = limit;
  query.has_user_id = user != NULL;
  query.user_id = moonpad_text(user);
  query.has_after = after >= 0;
  if (after >= 0) {
    query.after_time = listed[after].time;
    query.after_user_id = moonpad_text(listed[after].user);
    query.after_session_id = moonpad_text(position_session((size_t)after));
  }
  store_dump expected = {NULL, 0, 0};
  expected_list(&query, user, after, &expected);
  store_dump found = {NULL, 0, 0};
  dump_print(&found, "%s", "");
  moonpad_status status = list_sessions(tx, &query, collect_position, &found, error);
  bool same = strcmp(expected.text, found.text) == 0;
  if (!same)
    print_error("newest %d limit %d user %s after %d: expected %s, found %s\n", newest_first, (int)limit,
                user == NULL ? "-" : user, after, expected.text, found.text);
  dump_free(&expected);
  dump_free(&found);
  TRY(status);
  CHECK(same);
  return MOONPAD_OK;
}

static moonpad_status lists_every_way(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  static const char *const users[] = {NULL, "ann", "an", "z", "nobody"};
  static const int64_t limits[] = {0, 1, 3, 1000, INT64_MAX};
  for (int newest = 0; newest < 2; newest++) {
    for (size_t user = 0; user < sizeof users / sizeof *users; user++) {
      for (size_t limit = 0; limit < sizeof limits / sizeof *limits; limit++) {
        for (int after = -1; after < (int)LISTED; after++) {
          TRY(lists_page(tx, newest == 1, limits[limit], users[user], after, error));
        }
      }
    }
  }
  return MOONPAD_OK;
}

/* A cursor may name a session that is not there any more. */
static moonpad_status lists_after_a_gap(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_list_query query;
  memset(&query, 0, sizeof query);
  query.app_name = moonpad_text("shop");
  query.limit = 2;
  query.has_after = true;
  query.after_time = 10.0;
  query.after_user_id = moonpad_text("ann");
  query.after_session_id = moonpad_text("aa");
  EXPECT_TEXT(list_sessions(tx, &query, collect_position, &text, error), "8 9 ");
  query.newest_first = true;
  EXPECT_TEXT(list_sessions(tx, &query, collect_position, &text, error), "7 6 ");
  query.app_name = moonpad_text("game");
  EXPECT_TEXT(list_sessions(tx, &query, collect_position, &text, error), "");
  return MOONPAD_OK;
}

static void test_listing(void **state) {
  write_ok(*state, makes_listed_sessions, NULL);
  read_ok(*state, lists_every_way, NULL);
  write_ok(*state, lists_every_way, NULL);
  read_ok(*state, lists_after_a_gap, NULL);
}

/* ---- listings with states ---- */

static moonpad_status list_key(void *context, const mp_state_row *row, moonpad_error *error) {
  CHECK(row->value != NULL);
  return dump_state(context, row, error);
}

static moonpad_status list_session(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)error;
  dump_print(context, "%.*s/%.*s %g\n", (int)session->user_id.length, session->user_id.data,
             (int)session->session_id.length, session->session_id.data, session->row.last_update_time);
  return MOONPAD_OK;
}

static moonpad_status lists(mp_tx *tx, mp_list_query query, bool with_keys, store_dump *dump, moonpad_error *error) {
  mp_listing listing = {list_session, with_keys ? list_key : NULL, dump};
  return tx->ops->each_listed(tx, &query, &listing, error);
}

/*
** Users take turns in the order of time: ann 1, bob 2, ann 3, cy 4. One key each, and a tombstone.
*/
static moonpad_status makes_listed(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  static const char *const users[] = {"ann", "bob", "ann", "cy"};
  static const char *const sessions[] = {"s1", "s2", "s3", "s4"};
  for (int i = 0; i < 4; i++) {
    mp_session_ref ref = ref_named("shop", users[i], sessions[i]);
    TRY(make_session(tx, &ref, i + 1, error));
    if (i != 1) TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_SESSION, "of", sessions[i], 1, error));
    TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_SESSION, "gone", NULL, 2, error));
    if (i != 3) TRY(write_text(scene->opened, tx, &ref, MP_SCOPE_USER, "of", users[i], 1, error));
    if ((scene->opened->kind->has & STORE_TOUCH) == 0) continue;
    mp_touch touch = {ref, MP_HEAD(MP_SCOPE_SESSION), 100.0 - i};
    TRY(tx->ops->touch(tx, &touch, 1, error));
  }
  mp_session_ref app = ref_named("shop", NULL, NULL), elsewhere = ref_named("game", "ann", "s1");
  TRY(write_text(scene->opened, tx, &app, MP_SCOPE_APP, "of", "shop", 1, error));
  TRY(write_text(scene->opened, tx, &app, MP_SCOPE_APP, "gone", NULL, 2, error));
  TRY(make_session(tx, &elsewhere, 1.0, error));
  return write_text(scene->opened, tx, &elsewhere, MP_SCOPE_SESSION, "of", "game", 1, error);
}

#define OF_APP "app of='shop'@1\n"
#define OF_ANN "user of='ann'@1\n"
#define OF_BOB "user of='bob'@1\n"
#define S1     "ann/s1 1\nsession of='s1'@1\n"
#define S2     "bob/s2 2\n"
#define S3     "ann/s3 3\nsession of='s3'@1\n"
#define S4     "cy/s4 4\nsession of='s4'@1\n"

static moonpad_status lists_states(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_list_query all = {.app_name = moonpad_text("shop")}, query = all;
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_ANN S1 OF_BOB S2 S3 S4);
  EXPECT_TEXT(lists(tx, query, false, &text, error), "ann/s1 1\nbob/s2 2\nann/s3 3\ncy/s4 4\n");
  query.newest_first = true;
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP S4 OF_ANN S3 OF_BOB S2 S1);
  query.limit = 2;
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP S4 OF_ANN S3);
  query = all;
  query.limit = 1;
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_ANN S1);
  query.has_after = true; /* a later page has the states it needs, too */
  query.after_time = 2.0;
  query.after_user_id = moonpad_text("bob");
  query.after_session_id = moonpad_text("s2");
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_ANN S3);
  query = all;
  query.has_user_id = true;
  query.user_id = moonpad_text("bob");
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_BOB S2);
  query.user_id = moonpad_text("nobody");
  EXPECT_TEXT(lists(tx, query, true, &text, error), "");
  query = all;
  query.app_name = moonpad_text("nothing");
  EXPECT_TEXT(lists(tx, query, true, &text, error), "");
  return MOONPAD_OK;
}

static void test_listings_with_states(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_listed, &scene);
  read_ok(scene.opened, lists_states, &scene);
  write_ok(scene.opened, lists_states, &scene);
}

/* s1 was used at 100, s2 at 99, s3 at 98, s4 at 97. */
static moonpad_status lists_what_was_used(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_list_query query = {.app_name = moonpad_text("shop"), .touched_since = 99.0};
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_ANN S1 OF_BOB S2);
  query.newest_first = true;
  query.limit = 1; /* counts what is listed */
  EXPECT_TEXT(lists(tx, query, true, &text, error), OF_APP OF_BOB S2);
  query.touched_since = 100.5;
  EXPECT_TEXT(lists(tx, query, true, &text, error), "");
  query.app_name = moonpad_text("game"); /* never touched: its time of update, 1, counts */
  EXPECT_TEXT(lists(tx, query, false, &text, error), "");
  query.touched_since = 1.0;
  EXPECT_TEXT(lists(tx, query, false, &text, error), "ann/s1 1\n");
  return MOONPAD_OK;
}

static void test_listing_what_was_used(void **state) {
  test_scene scene = scene_of(state);
  store_needs(scene.opened, STORE_TOUCH);
  write_ok(scene.opened, makes_listed, &scene);
  read_ok(scene.opened, lists_what_was_used, &scene);
}

/* ---- the names of the apps ---- */

typedef struct found_names {
  size_t count;
  unsigned seen; /* a bit for each of the names below */
  size_t stop_after;
} found_names;

static const char *const app_names[] = {"shop", "an app/with \"signs\"", "\xc3\xa9t\xc3\xa9"};

static moonpad_status find_name(void *context, moonpad_string name, moonpad_error *error) {
  found_names *found = context;
  (void)error;
  for (size_t i = 0; i < 3; i++) {
    if (mp_text_compare(name, moonpad_text(app_names[i])) == 0) found->seen |= 1U << i;
  }
  found->count++;
  return found->count == found->stop_after ? MP_STOP : MOONPAD_OK;
}

static moonpad_status makes_apps(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  for (size_t i = 0; i < 3; i++) {
    mp_session_ref ref = ref_named(app_names[i], "ann", "s1");
    TRY(make_session(tx, &ref, 1.0, error));
  }
  return MOONPAD_OK;
}

static moonpad_status lists_apps(mp_tx *tx, void *context, moonpad_error *error) {
  found_names *wanted = context;
  if (!MP_HAS(mp_tx_ops, tx->ops, each_app)) return MOONPAD_OK;
  found_names found = {0, 0, wanted->stop_after};
  TRY(tx->ops->each_app(tx, find_name, &found, error));
  assert_int_equal(found.count, wanted->count);
  if (wanted->stop_after == 0) assert_int_equal(found.seen, wanted->seen);
  return MOONPAD_OK;
}

static void test_names_of_apps(void **state) {
  test_scene scene = scene_of(state);
  found_names none = {0, 0, 0}, all = {3, 7, 0}, first = {1, 0, 1};
  read_ok(scene.opened, lists_apps, &none);
  write_ok(scene.opened, makes_apps, &scene);
  read_ok(scene.opened, lists_apps, &all);
  write_ok(scene.opened, lists_apps, &all);
  read_ok(scene.opened, lists_apps, &first);
}

/* ---- the names of the users ---- */

static moonpad_status makes_users(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  for (size_t i = 0; i < 3; i++) {
    mp_session_ref ref = ref_named("shop", app_names[i], "s1");
    TRY(make_session(tx, &ref, 1.0, error));
    /* One of them has no session any more, one has gone. */
    if (i == 1) TRY(tx->ops->remove_session(tx, &ref, error));
  }
  scene->other = ref_named("another app", "another", "s1");
  TRY(make_session(tx, &scene->other, 1.0, error));
  scene->session = ref_named("shop", "gone", "s1");
  return make_session(tx, &scene->session, 1.0, error);
}

static moonpad_status removes_user(mp_tx *tx, void *context, moonpad_error *error) {
  int64_t sessions;
  return tx->ops->remove_user(tx, &((test_scene *)context)->session, &sessions, error);
}

static moonpad_status lists_users(mp_tx *tx, void *context, moonpad_error *error) {
  found_names *wanted = context;
  if (!MP_HAS(mp_tx_ops, tx->ops, each_user)) return MOONPAD_OK;
  found_names found = {0, 0, wanted->stop_after};
  TRY(tx->ops->each_user(tx, moonpad_text("shop"), find_name, &found, error));
  assert_int_equal(found.count, wanted->count);
  if (wanted->stop_after == 0) assert_int_equal(found.seen, wanted->seen);
  return MOONPAD_OK;
}

static void test_names_of_users(void **state) {
  test_scene scene = scene_of(state);
  found_names none = {0, 0, 0}, all = {3, 7, 0}, first = {1, 0, 1};
  read_ok(scene.opened, lists_users, &none);
  write_ok(scene.opened, makes_users, &scene);
  write_ok(scene.opened, removes_user, &scene);
  read_ok(scene.opened, lists_users, &all);
  write_ok(scene.opened, lists_users, &all);
  read_ok(scene.opened, lists_users, &first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_names_of_apps),        STORE_TEST(test_names_of_users),        STORE_TEST(test_listing),
      STORE_TEST(test_listings_with_states), STORE_TEST(test_listing_what_was_used),
  };
  return RUN_ON_EVERY_STORE(tests);
}
