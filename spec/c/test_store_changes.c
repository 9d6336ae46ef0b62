/*
** What every store must do with what a rule has decided: apply, copying histories, removing users.
** That all of it is undone when a transaction fails is in test_store_undo.c.
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

/* A row with the ids of `ref`; the rest is for the test to fill in. */
static mp_session_row row_of(const mp_session_ref *ref) {
  return (mp_session_row){.id = ref->session, .user = ref->user, .app = ref->app};
}

/* ---- apply ---- */

static moonpad_status applies_nothing(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *ref = &((test_scene *)context)->session;
  mp_session_row row = row_of(ref), found;
  mp_session_ref at = *ref;
  /* no head changes */
  row.revision = row.user_revision = row.app_revision = row.conversation_count = 50;
  mp_batch batch = {.ref = *ref, .row = &row};
  TRY(tx->ops->apply(tx, &batch, error));
  TRY(find_row(tx, &at, &found, error));
  CHECK(found.revision == 0 && found.user_revision == 0 && found.app_revision == 0 && found.conversation_count == 0);
  return MOONPAD_OK;
}

/* One batch with something of everything, its strings gone afterwards; then single parts of it. */
static moonpad_status applies_everything(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  char text[] = "e1e2{\"n\":1}a";
  mp_env *env = scene->opened->env;
  mp_value *value = mp_value_new_integer(env, 7);
  mp_session_row row = row_of(&scene->session);
  row.revision = 2;
  row.user_revision = 3;
  row.app_revision = 4;
  row.conversation_count = 1;
  row.create_time = 1.0;
  row.last_update_time = 5.0;
  moonpad_string e1 = {text, 2}, e2 = {text + 2, 2}, json = {text + 4, 7}, key = {text + 11, 1};
  const mp_state_row keys[] = {{MP_SCOPE_APP, key, value, 4},
                               {MP_SCOPE_SESSION, key, value, 2},
                               {MP_SCOPE_USER, key, NULL, 3},
                               {MP_SCOPE_SESSION, moonpad_text("x"), NULL, 1}};
  const mp_state_row base_keys[] = {{MP_SCOPE_SESSION, key, value, 0}, {MP_SCOPE_SESSION, e1, value, 0}};
  mp_event_row events[] = {event_row(1, 4.0, NULL, NULL), event_row(2, 5.0, NULL, NULL)};
  events[0].id = e1;
  events[1].id = e2;
  events[0].json = events[1].json = json;
  mp_batch batch = {scene->session, &row, MP_ALL_HEADS, 0, keys, 4, base_keys, 2, events, 2};
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  mp_value_release(env, value);
  memset(text, '#', sizeof text - 1);
  return status;
}

static moonpad_status sees_everything(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session;
  mp_session_row row;
  mp_session_ref at = *ref;
  TRY(find_row(tx, &at, &row, error));
  CHECK(row.revision == 2 && row.user_revision == 3 && row.app_revision == 4 && row.conversation_count == 1);
  CHECK(row.last_update_time == 5.0 && row.create_time == 1.0 && row.base_revision == 0);
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_SESSION, 0, &text, error), "a=7@2\nx=removed@1\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_USER, 0, &text, error), "a=removed@3\n");
  EXPECT_TEXT(dump_keys(tx, ref, MP_SCOPE_APP, 0, &text, error), "a=7@4\n");
  EXPECT_TEXT(dump_base_keys(tx, ref, &text, error), "a=7@0\ne1=7@0\n");
  EXPECT_TEXT(dump_events(tx, ref, 0, 9, &text, error), "1 e1 0x1p+2 0 {\"n\":1}\n2 e2 0x1.4p+2 0 {\"n\":1}\n");
  EXPECT_TEXT(dump_events(tx, &scene->other, 0, 9, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, &scene->other, MP_SCOPE_USER, 0, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, &scene->other, MP_SCOPE_APP, 0, &text, error), "a=7@4\n");
  return MOONPAD_OK;
}

/* A user's and an app's keys without a session, by the names of their own. */
static moonpad_status applies_to_a_user(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_value *value = mp_value_new_boolean(scene->opened->env, true);
  mp_session_ref user = scene->other;
  user.session = 0;
  user.name.session_id = moonpad_text(NULL);
  mp_session_row row = {.user = user.user, .user_revision = 8};
  const mp_state_row key = {MP_SCOPE_USER, moonpad_text("only"), value, 8};
  mp_batch batch = {.ref = user, .row = &row, .heads = MP_HEAD(MP_SCOPE_USER), .keys = &key, .key_count = 1};
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  mp_value_release(scene->opened->env, value);
  TRY(status);
  EXPECT_TEXT(dump_keys(tx, &scene->other, MP_SCOPE_USER, 0, &text, error), "only=true@8\n");
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_USER, 0, &text, error), "a=removed@3\n");
  return MOONPAD_OK;
}

static moonpad_status applies_an_id_twice(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row = row_of(&scene->session);
  row.revision = 4;
  const mp_event_row events[] = {event_row(3, 6.0, "new", "{}"), event_row(4, 6.0, "new", "{}")};
  mp_batch batch = {
      .ref = scene->session, .row = &row, .heads = MP_HEAD(MP_SCOPE_SESSION), .events = events, .event_count = 2};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status applies_an_id_that_is_there(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_USER, "late", "1", 9, error));
  mp_event_row event = event_row(3, 6.0, "e1", "{}");
  return append_row(tx, &scene->session, &event, error);
}

static void test_apply(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_two, &scene);
  write_ok(scene.opened, applies_nothing, &scene);
  write_ok(scene.opened, applies_everything, &scene);
  read_ok(scene.opened, sees_everything, &scene);
  write_fails(scene.opened, MOONPAD_ALREADY_EXISTS, NULL, applies_an_id_twice, &scene);
  write_fails(scene.opened, MOONPAD_ALREADY_EXISTS, NULL, applies_an_id_that_is_there, &scene);
  read_ok(scene.opened, sees_everything, &scene);
  write_ok(scene.opened, applies_to_a_user, &scene);
}

/* ---- copying a history ---- */

#define MESSAGE                                                                                                        \
  "{\"author\":\"user\",\"invocationId\":\"i1\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}}"

static moonpad_status writes_history(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row = row_of(&scene->session);
  mp_value *value = mp_value_new_integer(scene->opened->env, 7);
  row.revision = 5;
  row.base_revision = 2;
  const mp_state_row base_keys[] = {{MP_SCOPE_SESSION, moonpad_text("a"), value, 0},
                                    {MP_SCOPE_SESSION, moonpad_text("b"), value, 0}};
  mp_event_row events[] = {event_row(3, 4.0, "e3", MESSAGE), event_row(4, 5.0, "e4", "{\"n\":4}"),
                           event_row(5, 6.0, "e5", "{}")};
  events[0].digest = UINT64_MAX;
  events[0].invocation = moonpad_text("i1");
  events[0].kinds = MP_EVENT_USER_MESSAGE;
  mp_batch batch = {.ref = scene->session,
                    .row = &row,
                    .heads = MP_HEAD(MP_SCOPE_SESSION),
                    .base_keys = base_keys,
                    .base_key_count = 2,
                    .events = events,
                    .event_count = 3};
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  mp_value_release(scene->opened->env, value);
  return status;
}

#define E3 "3 e3 0x1p+2 18446744073709551615 " MESSAGE "\n"
#define E4 "4 e4 0x1.4p+2 0 {\"n\":4}\n"
#define E5 "5 e5 0x1.8p+2 0 {}\n"

static moonpad_status copies_history(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row = row_of(&scene->other);
  TRY(tx->ops->copy_history(tx, &scene->session, &scene->other, 4, error));
  row.revision = 4;
  row.base_revision = 2;
  return update_heads(tx, &scene->other, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status sees_the_copy(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t revision;
  mp_event_query messages = {.first = 0, .last = 9, .kinds = MP_EVENT_USER_MESSAGE};
  EXPECT_TEXT(dump_events(tx, &scene->other, 0, 9, &text, error), E3 E4);
  EXPECT_TEXT(dump_base_keys(tx, &scene->other, &text, error), "a=7@0\nb=7@0\n");
  EXPECT_TEXT(dump_query(tx, &scene->other, &messages, &text, error), E3);
  TRY(tx->ops->find_invocation(tx, &scene->other, moonpad_text("i1"), &revision, error));
  CHECK(revision == 3);
  EXPECT_TEXT(find_event(tx, &scene->other, moonpad_text("e4"), dump_event, &text, error), E4);
  return MOONPAD_OK;
}

/* What then happens to the one does not happen to the other. */
static moonpad_status goes_its_own_way(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_events(tx, &scene->session, 0, 9, &text, error), E3 E4 E5);
  EXPECT_TEXT(dump_base_keys(tx, &scene->session, &text, error), "a=7@0\nb=7@0\n");
  TRY(append_next(tx, &scene->session, "e6", "{}", error));
  TRY(write_base(tx, &scene->session, moonpad_text("a"), NULL, error));
  TRY(sees_the_copy(tx, context, error));
  return tx->ops->remove_session(tx, &scene->session, error);
}

static moonpad_status appends_to_the_copy(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(append_next(tx, &scene->other, "e5", "{\"other\":1}", error)); /* this id is free there */
  EXPECT_TEXT(find_event(tx, &scene->other, moonpad_text("e5"), dump_event, &text, error),
              "5 e5 0x1p-2 0 {\"other\":1}\n");
  return MOONPAD_OK;
}

static void test_copied_history(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_two, &scene);
  write_ok(scene.opened, writes_history, &scene);
  write_ok(scene.opened, copies_history, &scene);
  read_ok(scene.opened, sees_the_copy, &scene);
  write_ok(scene.opened, goes_its_own_way, &scene);
  read_ok(scene.opened, sees_the_copy, &scene);
  write_ok(scene.opened, appends_to_the_copy, &scene);
}

/* ---- removing a user ---- */

static moonpad_status makes_users(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_ref second = ref_named("shop", "ann", "s9"), same_name = ref_named("game", "ann", "s1");
  TRY(makes_two(tx, context, error));
  TRY(make_session(tx, &second, 3.0, error));
  TRY(make_session(tx, &same_name, 4.0, error));
  TRY(append_next(tx, &scene->session, "e1", "{}", error));
  TRY(append_next(tx, &second, "e1", "{}", error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, "of", "s1", 1, error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_USER, "of", "ann", 5, error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_USER, "gone", NULL, 6, error));
  TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_APP, "of", "shop", 1, error));
  TRY(write_text(scene->opened, tx, &scene->other, MP_SCOPE_USER, "of", "bob", 1, error));
  return write_text(scene->opened, tx, &same_name, MP_SCOPE_USER, "of", "another ann", 1, error);
}

static moonpad_status list_name(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)error;
  dump_print(context, "%.*s/%.*s ", (int)session->user_id.length, session->user_id.data,
             (int)session->session_id.length, session->session_id.data);
  return MOONPAD_OK;
}

static moonpad_status list_names(mp_tx *tx, const char *app, store_dump *dump, moonpad_error *error) {
  mp_list_query query = {.app_name = moonpad_text(app)};
  mp_listing listing = {list_name, NULL, dump};
  return tx->ops->each_listed(tx, &query, &listing, error);
}

static moonpad_status sees_the_others(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_session_ref bob = ref_named("shop", "bob", NULL), another = ref_named("game", "ann", NULL);
  EXPECT_TEXT(list_names(tx, "game", &text, error), "ann/s1 ");
  EXPECT_TEXT(dump_keys(tx, &bob, MP_SCOPE_USER, 0, &text, error), "of='bob'@1\n");
  EXPECT_TEXT(dump_keys(tx, &bob, MP_SCOPE_APP, 0, &text, error), "of='shop'@1\n");
  EXPECT_TEXT(dump_keys(tx, &another, MP_SCOPE_USER, 0, &text, error), "of='another\\x20ann'@1\n");
  return MOONPAD_OK;
}

static moonpad_status removes_user(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  int64_t sessions = 77;
  mp_session_ref ann = ref_named("shop", "ann", NULL), s1 = ref_named("shop", "ann", "s1");
  TRY(tx->ops->remove_user(tx, &ann, &sessions, error));
  CHECK(sessions == 2);
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &s1, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &scene->session, &row, error));
  EXPECT_TEXT(list_names(tx, "shop", &text, error), "bob/s2 ");
  return sees_the_others(tx, context, error);
}

/* Not even the head is left. */
static moonpad_status sees_no_user(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_session_row row;
  mp_session_ref ann = ref_named("shop", "ann", NULL);
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, &ann, MP_SCOPE_USER, false, &row, error));
  CHECK(error->message[0] == '\0');
  return MOONPAD_OK;
}

static moonpad_status removes_user_again(mp_tx *tx, void *context, moonpad_error *error) {
  int64_t sessions = 77;
  mp_session_ref ann = ref_named("shop", "ann", NULL);
  TRY(sees_no_user(tx, context, error));
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->remove_user(tx, &ann, &sessions, error));
  return MOONPAD_OK;
}

static moonpad_status removes_nobody(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  int64_t sessions = 77;
  mp_session_ref nobody = ref_named("shop", "nobody", NULL), nowhere = ref_named("nowhere", "ann", NULL);
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->remove_user(tx, &nobody, &sessions, error));
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->remove_user(tx, &nowhere, &sessions, error));
  CHECK(error->message[0] == '\0');
  return MOONPAD_OK;
}

static moonpad_status makes_user_again(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_ref before = scene->session;
  mp_session_row row;
  scene->session = ref_named("shop", "ann", "s1");
  TRY(make_session(tx, &scene->session, 9.0, error));
  CHECK(scene->session.session != before.session && scene->session.user != before.user);
  TRY(find_row(tx, &scene->session, &row, error));
  CHECK(row.user_revision == 0 && row.app_revision == 1);
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_USER, MP_EVERY_KEY, &text, error), "");
  EXPECT_TEXT(dump_keys(tx, &scene->session, MP_SCOPE_SESSION, 0, &text, error), "");
  EXPECT_TEXT(dump_events(tx, &scene->session, 0, 9, &text, error), "");
  EXPECT_TEXT(list_names(tx, "shop", &text, error), "bob/s2 ann/s1 ");
  return MOONPAD_OK;
}

static moonpad_status removes_and_makes_user(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(removes_user(tx, context, error));
  return makes_user_again(tx, context, error);
}

static moonpad_status makes_and_removes_user(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int64_t sessions;
  mp_session_row row;
  mp_session_ref cy = ref_named("shop", "cy", "s1");
  TRY(make_session(tx, &cy, 1.0, error));
  TRY(write_text(scene->opened, tx, &cy, MP_SCOPE_USER, "of", "cy", 1, error));
  TRY(tx->ops->remove_user(tx, &cy, &sessions, error));
  CHECK(sessions == 1);
  EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &cy, &row, error));
  EXPECT(MOONPAD_NOT_FOUND, find_head(tx, &cy, MP_SCOPE_USER, false, &row, error));
  return MOONPAD_OK;
}

static moonpad_status removes_the_one_again(mp_tx *tx, void *context, moonpad_error *error) {
  mp_session_ref ann = ref_named("shop", "ann", NULL);
  int64_t sessions;
  TRY(write_text(((test_scene *)context)->opened, tx, &ann, MP_SCOPE_USER, "of", "ann again", 1, error));
  TRY(tx->ops->remove_user(tx, &ann, &sessions, error));
  CHECK(sessions == 1);
  return sees_no_user(tx, context, error);
}

static moonpad_status removes_and_fails(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(removes_and_makes_user(tx, context, error));
  return MOONPAD_CANCELLED;
}

static moonpad_status removes_twice_and_fails(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(removes_and_makes_user(tx, context, error));
  TRY(removes_the_one_again(tx, context, error));
  return MOONPAD_CANCELLED;
}

static void test_removed_user(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_users, &scene);
  write_ok(scene.opened, removes_nobody, &scene);
  write_ok(scene.opened, removes_user, &scene);
  read_ok(scene.opened, sees_no_user, &scene);
  write_ok(scene.opened, removes_user_again, &scene);
  write_ok(scene.opened, makes_user_again, &scene);
  read_ok(scene.opened, sees_the_others, &scene);
  write_ok(scene.opened, makes_and_removes_user, &scene);
}

static void test_removed_and_made_in_one_transaction(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, makes_users, &scene);
  test_scene as_made = scene;
  dump_store(scene.opened, true, &scene.before);
  write_fails(scene.opened, MOONPAD_CANCELLED, NULL, removes_and_fails, &scene);
  scene.session = as_made.session;
  write_fails(scene.opened, MOONPAD_CANCELLED, NULL, removes_twice_and_fails, &scene);
  scene.session = as_made.session;
  dump_store(scene.opened, true, &scene.after);
  expect_same_dump(&scene.before, &scene.after);
  write_ok(scene.opened, removes_and_makes_user, &scene);
  read_ok(scene.opened, sees_the_others, &scene);
  write_ok(scene.opened, removes_the_one_again, &scene);
  read_ok(scene.opened, sees_no_user, &scene);
  scene_free(&scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_apply),
      STORE_TEST(test_copied_history),
      STORE_TEST(test_removed_user),
      STORE_TEST(test_removed_and_made_in_one_transaction),
  };
  return RUN_ON_EVERY_STORE(tests);
}
