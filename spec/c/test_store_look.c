/* What every store must answer to `look`: heads, keys, events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_support.h"

/* ---- heads ---- */

static moonpad_status looks_at_heads(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_facts facts;
  mp_look by_name = look_at(&scene->session, MP_SCOPE_SESSION), by_id = by_name;
  by_name.ref.session = by_name.ref.user = by_name.ref.app = 0;
  const mp_look *looks[] = {&by_name, &by_id};
  for (size_t i = 0; i < 2; i++) {
    mp_look look = *looks[i];
    memset(&facts, 0xff, sizeof facts);
    TRY(tx->ops->look(tx, &look, &facts, error));
    CHECK(facts.row.id == scene->session.session && facts.row.user == scene->session.user);
    CHECK(facts.row.app == scene->session.app && facts.row.revision == 4 && facts.row.base_revision == 0);
    CHECK(facts.row.user_revision == 7 && facts.row.app_revision == 9 && facts.row.create_time == 10.0);
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) CHECK(facts.forgotten[scope] == 0 && !facts.whole[scope]);
  }
  mp_look wrong = by_id; /* who knows the id is not found by the name */
  wrong.ref.session += 1000000;
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->look(tx, &wrong, &facts, error));
  wrong = by_name;
  wrong.ref.name.session_id = moonpad_text("s");
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->look(tx, &wrong, &facts, error));
  CHECK(is_silent(error));
  return MOONPAD_OK;
}

static moonpad_status looks_at_shared_heads(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_facts facts;
  mp_session_ref nobody = ref_named("shop", "bob", NULL), nowhere = ref_named("game", "ann", NULL);
  mp_look user = look_at(&scene->session, MP_SCOPE_USER), app = look_at(&scene->session, MP_SCOPE_APP);
  TRY(tx->ops->look(tx, &user, &facts, error));
  CHECK(facts.row.user == scene->session.user && facts.row.user_revision == 7);
  CHECK(facts.row.id == 0 && facts.row.revision == 0 && facts.row.app_revision == 0);
  TRY(tx->ops->look(tx, &app, &facts, error));
  CHECK(facts.row.app == scene->session.app && facts.row.app_revision == 9);
  CHECK(facts.row.id == 0 && facts.row.revision == 0 && facts.row.user_revision == 0);
  mp_look looks[] = {look_at(&nobody, MP_SCOPE_USER), look_at(&nowhere, MP_SCOPE_USER),
                     look_at(&nowhere, MP_SCOPE_APP)};
  for (size_t i = 0; i < 3; i++) EXPECT(MOONPAD_NOT_FOUND, tx->ops->look(tx, &looks[i], &facts, error));
  CHECK(is_silent(error));
  return MOONPAD_OK;
}

/* Made with the look; a look at what is there makes nothing. */
static moonpad_status looks_and_makes(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_facts facts, again;
  mp_state_row wanted = {.scope = MP_SCOPE_USER, .key = moonpad_text("a")};
  mp_session_ref bob = ref_named("shop", "bob", NULL), cy = ref_named("game", "cy", NULL);
  mp_look made = look_at(&bob, MP_SCOPE_USER), there = look_at(&scene->session, MP_SCOPE_USER);
  made.create = there.create = true;
  made.keys = &wanted;
  made.key_count = 1;
  TRY(tx->ops->look(tx, &made, &facts, error));
  CHECK(facts.row.user != 0 && facts.row.user != scene->session.user && facts.row.user_revision == 0);
  CHECK(wanted.value == NULL && wanted.revision == 0);
  TRY(tx->ops->look(tx, &made, &again, error));
  CHECK(again.row.user == facts.row.user);
  TRY(tx->ops->look(tx, &there, &facts, error));
  CHECK(facts.row.user == scene->session.user && facts.row.user_revision == 7);
  mp_look user = look_at(&cy, MP_SCOPE_USER), app = look_at(&cy, MP_SCOPE_APP);
  user.create = true; /* and the app with it */
  TRY(tx->ops->look(tx, &user, &facts, error));
  TRY(tx->ops->look(tx, &app, &facts, error));
  CHECK(facts.row.app != 0 && facts.row.app != scene->session.app);
  return MOONPAD_OK;
}

static void test_heads(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
  read_ok(scene.opened, looks_at_heads, &scene);
  read_ok(scene.opened, looks_at_shared_heads, &scene);
  write_ok(scene.opened, looks_and_makes, &scene);
  read_ok(scene.opened, looks_at_heads, &scene);
}

/* ---- keys ---- */

/* The rows of a look, sorted. */
static moonpad_status dump_look(mp_tx *tx, const mp_session_ref *ref, int64_t session, int64_t user, int64_t app,
                                store_dump *dump, moonpad_error *error) {
  mp_facts facts;
  store_dump unsorted = {NULL, 0, 0};
  mp_look look = look_at(ref, MP_SCOPE_SESSION);
  look.since[MP_SCOPE_SESSION] = session;
  look.since[MP_SCOPE_USER] = user;
  look.since[MP_SCOPE_APP] = app;
  look.each_state = dump_state;
  look.context = &unsorted;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  dump_sorted(dump, &unsorted);
  const int64_t since[] = {session, user, app};
  for (int i = 0; status == MOONPAD_OK && i < MP_STORED_SCOPES; i++) {
    CHECK(facts.whole[i] == (since[i] == MP_EVERY_KEY)); /* nothing has been forgotten */
  }
  return status;
}

static moonpad_status looks_since(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *ref = &((test_scene *)context)->session;
  const int64_t all = MP_EVERY_KEY, none = MP_NO_KEYS;
  EXPECT_TEXT(dump_look(tx, ref, none, none, none, &text, error), "");
  EXPECT_TEXT(dump_look(tx, ref, all, all, all, &text, error),
              "app a='apps'@9\nsession a='old'@2\nsession b='new'@4\nuser a='users'@6\n");
  EXPECT_TEXT(dump_look(tx, ref, 0, none, 6, &text, error),
              "app a='apps'@9\nsession a='old'@2\nsession b='new'@4\nsession gone=removed@3\n");
  EXPECT_TEXT(dump_look(tx, ref, 2, 5, 9, &text, error),
              "session b='new'@4\nsession gone=removed@3\nuser a='users'@6\nuser gone=removed@7\n");
  EXPECT_TEXT(dump_look(tx, ref, 3, 6, 8, &text, error), "app a='apps'@9\nsession b='new'@4\nuser gone=removed@7\n");
  EXPECT_TEXT(dump_look(tx, ref, 4, 7, all, &text, error), "app a='apps'@9\n");
  EXPECT_TEXT(dump_look(tx, ref, 4, 7, 9, &text, error), "");
  return MOONPAD_OK;
}

static void test_keys_since(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
  read_ok(scene.opened, looks_since, &scene);
}

/* Reads wanted keys, and gives back what they are as text; releases them. */
static moonpad_status dump_wanted(mp_tx *tx, const test_scene *scene, mp_state_row *keys, size_t count,
                                  store_dump *dump, moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(&scene->session, MP_SCOPE_SESSION);
  look.keys = keys;
  look.key_count = count;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    TRY(dump_state(dump, &keys[i], error));
    mp_value_release(scene->opened->env, keys[i].value);
  }
  return status;
}

static moonpad_status looks_for_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  /* what the rows hold before does not count */
  mp_value *stale = mp_value_new_boolean(scene->opened->env, true);
  mp_state_row keys[] = {
      {MP_SCOPE_APP, moonpad_text("a"), stale, 77},        {MP_SCOPE_SESSION, moonpad_text("gone"), stale, 77},
      {MP_SCOPE_SESSION, moonpad_text("a"), stale, 77},    {MP_SCOPE_USER, moonpad_text("a"), NULL, 0},
      {MP_SCOPE_SESSION, moonpad_text("never"), stale, 1}, {MP_SCOPE_USER, moonpad_text("gone"), NULL, 0},
      {MP_SCOPE_APP, moonpad_text("b"), stale, 77},
  };
  EXPECT_TEXT(dump_wanted(tx, scene, keys, 7, &text, error),
              "app a='apps'@9\nsession gone=removed@3\nsession a='old'@2\nuser a='users'@6\n"
              "session never=removed@0\nuser gone=removed@7\napp b=removed@0\n");
  mp_value_release(scene->opened->env, stale);
  /* Of a user or an app alone. */
  mp_facts facts;
  mp_state_row wanted = {.scope = MP_SCOPE_USER, .key = moonpad_text("a")};
  mp_look look = look_at(&scene->session, MP_SCOPE_USER);
  look.keys = &wanted;
  look.key_count = 1;
  TRY(tx->ops->look(tx, &look, &facts, error));
  bool right = wanted.value != NULL && wanted.revision == 6;
  mp_value_release(scene->opened->env, wanted.value);
  CHECK(right);
  return MOONPAD_OK;
}

static moonpad_status looks_for_keys_of_nobody(mp_tx *tx, void *context, moonpad_error *error) {
  (void)context;
  mp_facts facts;
  mp_session_ref nobody = ref_named("shop", "ann", "nobody");
  mp_state_row wanted = {.scope = MP_SCOPE_SESSION, .key = moonpad_text("a")};
  mp_look look = look_at(&nobody, MP_SCOPE_SESSION);
  look.keys = &wanted;
  look.key_count = 1;
  EXPECT(MOONPAD_NOT_FOUND, tx->ops->look(tx, &look, &facts, error));
  CHECK(wanted.value == NULL);
  return MOONPAD_OK;
}

static void test_wanted_keys(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
  read_ok(scene.opened, looks_for_keys, &scene);
  write_ok(scene.opened, looks_for_keys, &scene);
  read_ok(scene.opened, looks_for_keys_of_nobody, &scene);
}

/* ---- events ---- */

static moonpad_status looks_for_events(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session, *other = &scene->other;
  EXPECT_TEXT(look_for_events(tx, ref, NULL, 0, dump_number, &text, error), "");
  EXPECT_TEXT(look_for_events(tx, ref, "e3", 0, dump_number, &text, error), "3 ");
  EXPECT_TEXT(look_for_events(tx, ref, "e5", 0, dump_number, &text, error), "");
  /* an id like any other */
  EXPECT_TEXT(look_for_events(tx, ref, "", 0, dump_number, &text, error), "");
  EXPECT_TEXT(look_for_events(tx, ref, NULL, 1, dump_number, &text, error), "4 ");
  EXPECT_TEXT(look_for_events(tx, ref, NULL, 3, dump_number, &text, error), "2 3 4 ");
  EXPECT_TEXT(look_for_events(tx, ref, NULL, 4, dump_number, &text, error), "1 2 3 4 ");
  EXPECT_TEXT(look_for_events(tx, ref, NULL, INT64_MAX, dump_number, &text, error), "1 2 3 4 ");
  EXPECT_TEXT(look_for_events(tx, ref, "e1", 2, dump_number, &text, error), "1 3 4 ");
  EXPECT_TEXT(look_for_events(tx, ref, "e4", 2, dump_number, &text, error), "4 3 4 ");
  EXPECT_TEXT(look_for_events(tx, ref, "e9", 1, dump_number, &text, error), "4 ");
  EXPECT_TEXT(look_for_events(tx, other, "e1", 9, dump_number, &text, error), "");
  EXPECT_TEXT(look_for_events(tx, ref, "e2", 0, dump_event, &text, error), "2 e2 0x1p+0 0 " FULL_CHANGE "\n");
  return MOONPAD_OK;
}

static void test_wanted_events(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
  read_ok(scene.opened, looks_for_events, &scene);
}

static moonpad_status looks_for_all_at_once(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_facts facts;
  store_dump found = {NULL, 0, 0}; /* of both callbacks: the keys come first */
  mp_state_row wanted = {.scope = MP_SCOPE_SESSION, .key = moonpad_text("b")};
  mp_look look = {.ref = scene->session,
                  .heads = MP_ALL_HEADS,
                  .since = {2, 6, MP_NO_KEYS},
                  .keys = &wanted,
                  .key_count = 1,
                  .event_id = moonpad_text("e1"),
                  .recent = 1,
                  .each_state = dump_state,
                  .each_event = dump_number,
                  .context = &found};
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  bool right = status == MOONPAD_OK && found.length > 4 && strcmp(found.text + found.length - 4, "1 4 ") == 0 &&
               strstr(found.text, "session b='new'@4\n") && strstr(found.text, "session gone=removed@3\n") &&
               strstr(found.text, "user gone=removed@7\n") && !strstr(found.text, "app") && wanted.value != NULL &&
               wanted.revision == 4 && facts.row.app_revision == 9;
  mp_value_release(scene->opened->env, wanted.value);
  dump_free(&found);
  TRY(status);
  CHECK(right);
  return MOONPAD_OK;
}

static void test_all_at_once(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
  read_ok(scene.opened, looks_for_all_at_once, &scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_heads),         STORE_TEST(test_keys_since),  STORE_TEST(test_wanted_keys),
      STORE_TEST(test_wanted_events), STORE_TEST(test_all_at_once),
  };
  return RUN_ON_EVERY_STORE(tests);
}
