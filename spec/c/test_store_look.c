/* What every store must answer to `look`, to walks over events and to listings with states. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_support.h"

/* ---- a session with something in every place ---- */

#define MESSAGE                                                                                                        \
  "{\"author\":\"user\",\"invocationId\":\"i1\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}}"
#define CHANGE  "{\"author\":\"bot\",\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"a\":1}}}"
#define OF_USER "{\"author\":\"bot\",\"invocationId\":\"i2\",\"actions\":{\"stateDelta\":{\"user:a\":1}}}"
#define BOTH_KINDS                                                                                                     \
  "{\"author\":\"user\",\"invocationId\":\"i2\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"y\"}]},"         \
  "\"actions\":{\"stateDelta\":{\"b\":2}}}"

static mp_event_row full_event(int64_t revision, const char *id, const char *json, const char *invocation,
                               unsigned kinds) {
  mp_event_row row = event_row(revision, 0.5 * (double)revision, id, json);
  row.invocation = moonpad_text(invocation);
  row.kinds = kinds;
  return row;
}

static moonpad_status appends_events(mp_tx *tx, const mp_session_ref *place, moonpad_error *error) {
  mp_session_row row;
  mp_session_ref at = *place;
  TRY(find_row(tx, &at, &row, error));
  row.revision = 4;
  const mp_event_row events[] = {
      full_event(1, "e1", MESSAGE, "i1", MP_EVENT_USER_MESSAGE),
      full_event(2, "e2", CHANGE, "i1", MP_EVENT_SESSION_CHANGE),
      full_event(3, "e3", OF_USER, "i2", 0),
      full_event(4, "e4", BOTH_KINDS, "i2", MP_EVENT_USER_MESSAGE | MP_EVENT_SESSION_CHANGE),
  };
  mp_batch batch = {.ref = at, .row = &row, .heads = MP_HEAD(MP_SCOPE_SESSION), .events = events, .event_count = 4};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status fills(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  opened_store *opened = scene->opened;
  const mp_session_ref *place = &scene->session;
  scene->session = place_named("shop", "ann", "s1");
  scene->other = place_named("shop", "ann", "s2");
  TRY(make_session(tx, &scene->session, 10.0, error));
  TRY(make_session(tx, &scene->other, 20.0, error));
  TRY(appends_events(tx, place, error));
  TRY(write_text(opened, tx, place, MP_SCOPE_SESSION, "a", "old", 2, error));
  TRY(write_text(opened, tx, place, MP_SCOPE_SESSION, "b", "new", 4, error));
  TRY(write_text(opened, tx, place, MP_SCOPE_SESSION, "gone", NULL, 3, error));
  TRY(write_text(opened, tx, place, MP_SCOPE_USER, "a", "users", 6, error));
  TRY(write_text(opened, tx, place, MP_SCOPE_USER, "gone", NULL, 7, error));
  return write_text(opened, tx, place, MP_SCOPE_APP, "a", "apps", 9, error);
}

/* Revisions of the events alone, in the order in which they came. */
static moonpad_status dump_number(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  dump_print(context, "%" PRId64 " ", row->revision);
  return MOONPAD_OK;
}

/* ---- heads ---- */

static bool is_silent(const moonpad_error *error) {
  return error->message[0] == '\0';
}

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
  mp_session_ref nobody = place_named("shop", "bob", NULL), nowhere = place_named("game", "ann", NULL);
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
  mp_session_ref bob = place_named("shop", "bob", NULL), cy = place_named("game", "cy", NULL);
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
  write_ok(scene.opened, fills, &scene);
  read_ok(scene.opened, looks_at_heads, &scene);
  read_ok(scene.opened, looks_at_shared_heads, &scene);
  write_ok(scene.opened, looks_and_makes, &scene);
  read_ok(scene.opened, looks_at_heads, &scene);
}

/* ---- keys ---- */

/* The rows of a look, sorted. */
static moonpad_status dump_look(mp_tx *tx, const mp_session_ref *place, int64_t session, int64_t user, int64_t app,
                                store_dump *dump, moonpad_error *error) {
  mp_facts facts;
  store_dump unsorted = {NULL, 0, 0};
  mp_look look = look_at(place, MP_SCOPE_SESSION);
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
  const mp_session_ref *place = &((test_scene *)context)->session;
  const int64_t all = MP_EVERY_KEY, none = MP_NO_KEYS;
  EXPECT_TEXT(dump_look(tx, place, none, none, none, &text, error), "");
  EXPECT_TEXT(dump_look(tx, place, all, all, all, &text, error),
              "app a='apps'@9\nsession a='old'@2\nsession b='new'@4\nuser a='users'@6\n");
  EXPECT_TEXT(dump_look(tx, place, 0, none, 6, &text, error),
              "app a='apps'@9\nsession a='old'@2\nsession b='new'@4\nsession gone=removed@3\n");
  EXPECT_TEXT(dump_look(tx, place, 2, 5, 9, &text, error),
              "session b='new'@4\nsession gone=removed@3\nuser a='users'@6\nuser gone=removed@7\n");
  EXPECT_TEXT(dump_look(tx, place, 3, 6, 8, &text, error), "app a='apps'@9\nsession b='new'@4\nuser gone=removed@7\n");
  EXPECT_TEXT(dump_look(tx, place, 4, 7, all, &text, error), "app a='apps'@9\n");
  EXPECT_TEXT(dump_look(tx, place, 4, 7, 9, &text, error), "");
  return MOONPAD_OK;
}

static void test_keys_since(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, fills, &scene);
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
  /* what is in the places before does not count */
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
  mp_session_ref nobody = place_named("shop", "ann", "nobody");
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
  write_ok(scene.opened, fills, &scene);
  read_ok(scene.opened, looks_for_keys, &scene);
  write_ok(scene.opened, looks_for_keys, &scene);
  read_ok(scene.opened, looks_for_keys_of_nobody, &scene);
}

/* ---- events ---- */

static moonpad_status dump_looked(mp_tx *tx, const mp_session_ref *place, const char *id, int64_t recent,
                                  mp_each_event each, void *dump, moonpad_error *error) {
  mp_facts facts;
  mp_look look = look_at(place, MP_SCOPE_SESSION);
  look.event_id = moonpad_text(id);
  look.recent = recent;
  look.each_event = each;
  look.context = dump;
  return tx->ops->look(tx, &look, &facts, error);
}

static moonpad_status looks_for_events(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *place = &scene->session, *other = &scene->other;
  EXPECT_TEXT(dump_looked(tx, place, NULL, 0, dump_number, &text, error), "");
  EXPECT_TEXT(dump_looked(tx, place, "e3", 0, dump_number, &text, error), "3 ");
  EXPECT_TEXT(dump_looked(tx, place, "e5", 0, dump_number, &text, error), "");
  /* an id like any other */
  EXPECT_TEXT(dump_looked(tx, place, "", 0, dump_number, &text, error), "");
  EXPECT_TEXT(dump_looked(tx, place, NULL, 1, dump_number, &text, error), "4 ");
  EXPECT_TEXT(dump_looked(tx, place, NULL, 3, dump_number, &text, error), "2 3 4 ");
  EXPECT_TEXT(dump_looked(tx, place, NULL, 4, dump_number, &text, error), "1 2 3 4 ");
  EXPECT_TEXT(dump_looked(tx, place, NULL, INT64_MAX, dump_number, &text, error), "1 2 3 4 ");
  EXPECT_TEXT(dump_looked(tx, place, "e1", 2, dump_number, &text, error), "1 3 4 ");
  EXPECT_TEXT(dump_looked(tx, place, "e4", 2, dump_number, &text, error), "4 3 4 ");
  EXPECT_TEXT(dump_looked(tx, place, "e9", 1, dump_number, &text, error), "4 ");
  EXPECT_TEXT(dump_looked(tx, other, "e1", 9, dump_number, &text, error), "");
  EXPECT_TEXT(dump_looked(tx, place, "e2", 0, dump_event, &text, error), "2 e2 0x1p+0 0 " CHANGE "\n");
  return MOONPAD_OK;
}

static void test_wanted_events(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, fills, &scene);
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
  write_ok(scene.opened, fills, &scene);
  read_ok(scene.opened, looks_for_all_at_once, &scene);
}

/* ---- walks over events ---- */

/* What is not read back is "-" and 0. */
static moonpad_status dump_tags(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  dump_print(context, "%" PRId64 ":", row->revision);
  dump_bytes(context, row->invocation.data == NULL ? moonpad_text("-") : row->invocation);
  dump_print(context, ":%u ", row->kinds);
  return MOONPAD_OK;
}

static moonpad_status walk(mp_tx *tx, const mp_session_ref *place, mp_event_query query, mp_each_event each,
                           store_dump *dump, moonpad_error *error) {
  return tx->ops->each_event(tx, place, &query, each, dump, error);
}

static moonpad_status walks_every_way(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *place = &((test_scene *)context)->session;
  const unsigned message = MP_EVENT_USER_MESSAGE, change = MP_EVENT_SESSION_CHANGE;
  mp_event_query all = {.first = 1, .last = 4}, query = all;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "1 2 3 4 ");
  query.newest_first = true;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "4 3 2 1 ");
  query.first = 2;
  query.last = 3;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "3 2 ");
  query = (mp_event_query){.first = INT64_MIN, .last = INT64_MAX, .newest_first = true};
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "4 3 2 1 ");
  query = (mp_event_query){.first = 5, .last = 4, .newest_first = true};
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "");
  query = all;
  query.without_json = true;
  EXPECT_TEXT(walk(tx, place, query, dump_event, &text, error),
              "1 e1 0x1p-1 0 -\n2 e2 0x1p+0 0 -\n3 e3 0x1.8p+0 0 -\n4 e4 0x1p+1 0 -\n");
  query.newest_first = true;
  query.kinds = change;
  EXPECT_TEXT(walk(tx, place, query, dump_event, &text, error), "4 e4 0x1p+1 0 -\n2 e2 0x1p+0 0 -\n");
  query = all;
  query.kinds = message;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "1 4 ");
  query.kinds = message | change;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "1 2 4 ");
  query.last = 1;
  query.kinds = change;
  EXPECT_TEXT(walk(tx, place, query, dump_number, &text, error), "");
  return MOONPAD_OK;
}

/* What an event is about comes with it where somebody asks, and nowhere else. */
static moonpad_status walks_for_tags(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *place = &((test_scene *)context)->session;
  for (unsigned i = 0; i < 4; i++) {
    mp_event_query query = {.first = 1, .last = 4, .newest_first = (i & 1) != 0, .without_json = (i & 2) != 0};
    bool back = query.newest_first;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error),
                back ? "4:-:0 3:-:0 2:-:0 1:-:0 " : "1:-:0 2:-:0 3:-:0 4:-:0 ");
    query.tags = true;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error),
                back ? "4:i2:3 3:i2:0 2:i1:2 1:i1:1 " : "1:i1:1 2:i1:2 3:i2:0 4:i2:3 ");
    query.kinds = MP_EVENT_USER_MESSAGE;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), back ? "4:i2:3 1:i1:1 " : "1:i1:1 4:i2:3 ");
    query.tags = false;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), back ? "4:-:3 1:-:1 " : "1:-:1 4:-:3 ");
  }
  EXPECT_TEXT(dump_looked(tx, place, "e1", 2, dump_tags, &text, error), "1:-:0 3:-:0 4:-:0 ");
  return MOONPAD_OK;
}

/* By id an event must be all the rest, too, that is asked for. */
static moonpad_status walks_by_id(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *place = &((test_scene *)context)->session;
  for (unsigned i = 0; i < 4; i++) {
    mp_event_query query = {.first = 1, .last = 4, .newest_first = (i & 1) != 0, .without_json = (i & 2) != 0};
    query.id = moonpad_text("e4");
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "4:-:0 ");
    EXPECT_TEXT(walk(tx, place, query, dump_event, &text, error),
                query.without_json ? "4 e4 0x1p+1 0 -\n" : "4 e4 0x1p+1 0 " BOTH_KINDS "\n");
    query.tags = true;
    query.kinds = MP_EVENT_SESSION_CHANGE;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "4:i2:3 ");
    query.last = 3;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "");
    query.id = moonpad_text("e1");
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), ""); /* it changes nothing */
    query.kinds = 0;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "1:i1:1 ");
    query.first = 2;
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "");
    query = (mp_event_query){.first = INT64_MIN, .last = INT64_MAX, .id = moonpad_text("e")};
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "");
    query.id = moonpad_text("");
    EXPECT_TEXT(walk(tx, place, query, dump_tags, &text, error), "");
  }
  return MOONPAD_OK;
}

static void test_walks(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, fills, &scene);
  static const mp_tx_function walks[] = {walks_every_way, walks_for_tags, walks_by_id};
  for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
    read_ok(scene.opened, walks[i], &scene);
    write_ok(scene.opened, walks[i], &scene);
  }
}

/* ---- walks that are stopped ---- */

typedef struct stopping {
  int after; /* so many rows */
  int rows;
} stopping;

static moonpad_status count_row(stopping *walk) {
  return ++walk->rows >= walk->after ? MP_STOP : MOONPAD_OK;
}

static moonpad_status stops_at_state(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)row, (void)error;
  return count_row(context);
}

static moonpad_status stops_at_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)row, (void)error;
  return count_row(context);
}

static moonpad_status stops_at_session(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)session, (void)error;
  return count_row(context);
}

static moonpad_status passes_session(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)context, (void)session, (void)error;
  return MOONPAD_OK;
}

/* What ends a walk ends all of it, and nothing else of the look. */
static moonpad_status stops_in_look(mp_tx *tx, const test_scene *scene, int after, moonpad_error *error) {
  mp_facts facts;
  stopping walk = {after, 0};
  mp_state_row wanted = {.scope = MP_SCOPE_APP, .key = moonpad_text("a")};
  mp_look look = look_at(&scene->session, MP_SCOPE_SESSION);
  for (int i = 0; i < MP_STORED_SCOPES; i++) look.since[i] = 0;
  look.each_state = stops_at_state;
  look.keys = &wanted;
  look.key_count = 1;
  look.context = &walk;
  TRY(tx->ops->look(tx, &look, &facts, error));
  bool found = wanted.value != NULL;
  mp_value_release(scene->opened->env, wanted.value);
  CHECK(found && walk.rows == after && facts.row.revision == 4);
  return MOONPAD_OK;
}

static moonpad_status stops_walks(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *place = &scene->session;
  mp_list_query query = {.app_name = moonpad_text("shop")};
  /* there are six rows */
  for (int after = 1; after <= 6; after++) TRY(stops_in_look(tx, scene, after, error));
  for (int after = 1; after <= 3; after++) {
    stopping walk = {after, 0}, looked = {after, 0};
    TRY(walk_events(tx, place, 1, 4, stops_at_event, &walk, error));
    CHECK(walk.rows == after);
    TRY(dump_looked(tx, place, "e1", 2, stops_at_event, &looked, error)); /* three events */
    CHECK(looked.rows == after);
    mp_event_query newest = {.first = 1, .last = 4, .newest_first = true};
    walk.rows = 0;
    TRY(tx->ops->each_event(tx, place, &newest, stops_at_event, &walk, error));
    CHECK(walk.rows == after);
  }
  for (int after = 1; after <= 2; after++) {
    stopping walk = {after, 0};
    mp_listing by_session = {stops_at_session, NULL, &walk};
    TRY(tx->ops->each_listed(tx, &query, &by_session, error));
    CHECK(walk.rows == after);
  }
  for (int after = 1; after <= 4; after++) { /* of the app, of the user, two of a session */
    stopping walk = {after, 0};
    mp_listing by_key = {passes_session, stops_at_state, &walk};
    TRY(tx->ops->each_listed(tx, &query, &by_key, error));
    CHECK(walk.rows == after);
  }
  stopping base = {1, 0};
  TRY(tx->ops->each_base_key(tx, place, stops_at_state, &base, error));
  CHECK(base.rows == 1);
  return MOONPAD_OK;
}

static moonpad_status fills_with_base(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(fills(tx, context, error));
  mp_value *value = mp_value_new_integer(scene->opened->env, 1);
  moonpad_status status = write_base(tx, &scene->session, moonpad_text("a"), value, error);
  if (status == MOONPAD_OK) status = write_base(tx, &scene->session, moonpad_text("b"), value, error);
  mp_value_release(scene->opened->env, value);
  return status;
}

static void test_stopped_walks(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, fills_with_base, &scene);
  read_ok(scene.opened, stops_walks, &scene);
  write_ok(scene.opened, stops_walks, &scene);
}

/* ---- invocations ---- */

static const struct {
  const char *id;
  const char *json;
  const char *invocation;
} invocations[] = {
    {"e1", "{\"invocationId\":\"turn\",\"n\":1}", "turn"},
    {"e2", "{\"invocationId\":\"turn\",\"n\":2}", "turn"},
    {"e3", "{\"invocationId\":\"\\\"quoted\\\"\"}", "\\\"quoted\\\""},
    {"e4", "{\"invocationId\":\"\\u0000\\\\\"}", "\\u0000\\\\"},
    {"e5", "{\"n\":\"turn\"}", ""},
    {"e6", "{\"text\":\"\\\"invocationId\\\":\\\"false\\\"\"}", ""},
    {"e7", "{\"content\":{\"invocationId\":\"inner\"},\"invocationId\":\"outer\"}", "outer"},
    {"e8", "{\"invocationId\":\"turn\",\"n\":3}", "turn"},
    {"e9", "{\"invocationId\":\"\xf0\x9f\x98\x80\"}", "\xf0\x9f\x98\x80"},
};
#define INVOCATIONS (int)(sizeof invocations / sizeof *invocations)

static moonpad_status appends_invocations(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  scene->session = place_named("shop", "ann", "s1");
  scene->other = place_named("shop", "ann", "s2");
  TRY(make_session(tx, &scene->session, 1.0, error));
  TRY(make_session(tx, &scene->other, 1.0, error));
  for (int i = 0; i < INVOCATIONS; i++) {
    mp_event_row event = full_event(i + 1, invocations[i].id, invocations[i].json, invocations[i].invocation, 0);
    TRY(append_row(tx, &scene->session, &event, error));
  }
  TRY(set_revision(tx, &scene->session, MP_SCOPE_SESSION, INVOCATIONS, error));
  mp_event_row event = full_event(1, "e1", "{\"invocationId\":\"elsewhere\"}", "elsewhere", 0);
  TRY(append_row(tx, &scene->other, &event, error));
  return set_revision(tx, &scene->other, MP_SCOPE_SESSION, 1, error);
}

static moonpad_status finds_invocations(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  static const char *const absent[] = {"tur", "turn ", "TURN", "elsewhere", "inner", "false", "quoted", "\\\\", "u"};
  int64_t revision;
  for (int i = 0; i < INVOCATIONS; i++) {
    if (invocations[i].invocation[0] == '\0') continue;
    TRY(tx->ops->find_invocation(tx, &scene->session, moonpad_text(invocations[i].invocation), &revision, error));
    CHECK(revision == (i == 1 || i == 7 ? 1 : i + 1)); /* the first of several */
  }
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    EXPECT(MOONPAD_NOT_FOUND, tx->ops->find_invocation(tx, &scene->session, moonpad_text(absent[i]), &revision, error));
  }
  TRY(tx->ops->find_invocation(tx, &scene->other, moonpad_text("elsewhere"), &revision, error));
  CHECK(revision == 1 && is_silent(error));
  return MOONPAD_OK;
}

static void test_invocations(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_invocations, &scene);
  read_ok(scene.opened, finds_invocations, &scene);
  write_ok(scene.opened, finds_invocations, &scene);
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
    mp_session_ref place = place_named("shop", users[i], sessions[i]);
    TRY(make_session(tx, &place, i + 1, error));
    if (i != 1) TRY(write_text(scene->opened, tx, &place, MP_SCOPE_SESSION, "of", sessions[i], 1, error));
    TRY(write_text(scene->opened, tx, &place, MP_SCOPE_SESSION, "gone", NULL, 2, error));
    if (i != 3) TRY(write_text(scene->opened, tx, &place, MP_SCOPE_USER, "of", users[i], 1, error));
    if ((scene->opened->kind->has & STORE_TOUCH) == 0) continue;
    mp_touch touch = {place, MP_HEAD(MP_SCOPE_SESSION), 100.0 - i};
    TRY(tx->ops->touch(tx, &touch, 1, error));
  }
  mp_session_ref app = place_named("shop", NULL, NULL), elsewhere = place_named("game", "ann", "s1");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_heads),
      STORE_TEST(test_keys_since),
      STORE_TEST(test_wanted_keys),
      STORE_TEST(test_wanted_events),
      STORE_TEST(test_all_at_once),
      STORE_TEST(test_walks),
      STORE_TEST(test_stopped_walks),
      STORE_TEST(test_invocations),
      STORE_TEST(test_listings_with_states),
      STORE_TEST(test_listing_what_was_used),
  };
  return RUN_ON_EVERY_STORE(tests);
}
