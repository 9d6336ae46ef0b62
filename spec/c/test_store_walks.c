/*
** What every store must do in walks over events: their order, what is read back, stopping;
** invocations.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_support.h"

/* ---- walks over events ---- */

/* What is not read back is "-" and 0. */
static moonpad_status dump_tags(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  dump_print(context, "%" PRId64 ":", row->revision);
  dump_bytes(context, row->invocation.data == NULL ? moonpad_text("-") : row->invocation);
  dump_print(context, ":%u ", row->kinds);
  return MOONPAD_OK;
}

static moonpad_status walk(mp_tx *tx, const mp_session_ref *ref, mp_event_query query, mp_each_event each,
                           store_dump *dump, moonpad_error *error) {
  return tx->ops->each_event(tx, ref, &query, each, dump, error);
}

static moonpad_status walks_every_way(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *ref = &((test_scene *)context)->session;
  const unsigned message = MP_EVENT_USER_MESSAGE, change = MP_EVENT_SESSION_CHANGE;
  mp_event_query all = {.first = 1, .last = 4}, query = all;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "1 2 3 4 ");
  query.newest_first = true;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "4 3 2 1 ");
  query.first = 2;
  query.last = 3;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "3 2 ");
  query = (mp_event_query){.first = INT64_MIN, .last = INT64_MAX, .newest_first = true};
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "4 3 2 1 ");
  query = (mp_event_query){.first = 5, .last = 4, .newest_first = true};
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "");
  query = all;
  query.without_json = true;
  EXPECT_TEXT(walk(tx, ref, query, dump_event, &text, error),
              "1 e1 0x1p-1 0 -\n2 e2 0x1p+0 0 -\n3 e3 0x1.8p+0 0 -\n4 e4 0x1p+1 0 -\n");
  query.newest_first = true;
  query.kinds = change;
  EXPECT_TEXT(walk(tx, ref, query, dump_event, &text, error), "4 e4 0x1p+1 0 -\n2 e2 0x1p+0 0 -\n");
  query = all;
  query.kinds = message;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "1 4 ");
  query.kinds = message | change;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "1 2 4 ");
  query.last = 1;
  query.kinds = change;
  EXPECT_TEXT(walk(tx, ref, query, dump_number, &text, error), "");
  return MOONPAD_OK;
}

/* What an event is about comes with it where somebody asks, and nowhere else. */
static moonpad_status walks_for_tags(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *ref = &((test_scene *)context)->session;
  for (unsigned i = 0; i < 4; i++) {
    mp_event_query query = {.first = 1, .last = 4, .newest_first = (i & 1) != 0, .without_json = (i & 2) != 0};
    bool back = query.newest_first;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error),
                back ? "4:-:0 3:-:0 2:-:0 1:-:0 " : "1:-:0 2:-:0 3:-:0 4:-:0 ");
    query.tags = true;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error),
                back ? "4:i2:3 3:i2:0 2:i1:2 1:i1:1 " : "1:i1:1 2:i1:2 3:i2:0 4:i2:3 ");
    query.kinds = MP_EVENT_USER_MESSAGE;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), back ? "4:i2:3 1:i1:1 " : "1:i1:1 4:i2:3 ");
    query.tags = false;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), back ? "4:-:3 1:-:1 " : "1:-:1 4:-:3 ");
  }
  EXPECT_TEXT(look_for_events(tx, ref, "e1", 2, dump_tags, &text, error), "1:-:0 3:-:0 4:-:0 ");
  return MOONPAD_OK;
}

/* By id an event must be all the rest, too, that is asked for. */
static moonpad_status walks_by_id(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_ref *ref = &((test_scene *)context)->session;
  for (unsigned i = 0; i < 4; i++) {
    mp_event_query query = {.first = 1, .last = 4, .newest_first = (i & 1) != 0, .without_json = (i & 2) != 0};
    query.id = moonpad_text("e4");
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "4:-:0 ");
    EXPECT_TEXT(walk(tx, ref, query, dump_event, &text, error),
                query.without_json ? "4 e4 0x1p+1 0 -\n" : "4 e4 0x1p+1 0 " FULL_BOTH "\n");
    query.tags = true;
    query.kinds = MP_EVENT_SESSION_CHANGE;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "4:i2:3 ");
    query.last = 3;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "");
    query.id = moonpad_text("e1");
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), ""); /* it changes nothing */
    query.kinds = 0;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "1:i1:1 ");
    query.first = 2;
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "");
    query = (mp_event_query){.first = INT64_MIN, .last = INT64_MAX, .id = moonpad_text("e")};
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "");
    query.id = moonpad_text("");
    EXPECT_TEXT(walk(tx, ref, query, dump_tags, &text, error), "");
  }
  return MOONPAD_OK;
}

static void test_walks(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session, &scene);
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
  const mp_session_ref *ref = &scene->session;
  mp_list_query query = {.app_name = moonpad_text("shop")};
  /* there are six rows */
  for (int after = 1; after <= 6; after++) TRY(stops_in_look(tx, scene, after, error));
  for (int after = 1; after <= 3; after++) {
    stopping walk = {after, 0}, looked = {after, 0};
    TRY(walk_events(tx, ref, 1, 4, stops_at_event, &walk, error));
    CHECK(walk.rows == after);
    TRY(look_for_events(tx, ref, "e1", 2, stops_at_event, &looked, error)); /* three events */
    CHECK(looked.rows == after);
    mp_event_query newest = {.first = 1, .last = 4, .newest_first = true};
    walk.rows = 0;
    TRY(tx->ops->each_event(tx, ref, &newest, stops_at_event, &walk, error));
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
  TRY(tx->ops->each_base_key(tx, ref, stops_at_state, &base, error));
  CHECK(base.rows == 1);
  return MOONPAD_OK;
}

static moonpad_status writes_full_session_with_base(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(writes_full_session(tx, context, error));
  mp_value *value = mp_value_new_integer(scene->opened->env, 1);
  moonpad_status status = write_base(tx, &scene->session, moonpad_text("a"), value, error);
  if (status == MOONPAD_OK) status = write_base(tx, &scene->session, moonpad_text("b"), value, error);
  mp_value_release(scene->opened->env, value);
  return status;
}

static void test_stopped_walks(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, writes_full_session_with_base, &scene);
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
  scene->session = ref_named("shop", "ann", "s1");
  scene->other = ref_named("shop", "ann", "s2");
  TRY(make_session(tx, &scene->session, 1.0, error));
  TRY(make_session(tx, &scene->other, 1.0, error));
  for (int i = 0; i < INVOCATIONS; i++) {
    mp_event_row event = event_tagged(i + 1, invocations[i].id, invocations[i].json, invocations[i].invocation, 0);
    TRY(append_row(tx, &scene->session, &event, error));
  }
  TRY(set_revision(tx, &scene->session, MP_SCOPE_SESSION, INVOCATIONS, error));
  mp_event_row event = event_tagged(1, "e1", "{\"invocationId\":\"elsewhere\"}", "elsewhere", 0);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_walks),
      STORE_TEST(test_stopped_walks),
      STORE_TEST(test_invocations),
  };
  return RUN_ON_EVERY_STORE(tests);
}
