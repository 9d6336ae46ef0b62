/* What every store must do with events. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "fault_steps.h"
#include "store_support.h"

static moonpad_status makes_two_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  scene->session = ref_named("shop", "ann", "s1");
  scene->other = ref_named("shop", "ann", "s2");
  TRY(make_session(tx, &scene->session, 1.0, error));
  return make_session(tx, &scene->other, 1.0, error);
}

/* ---- events ---- */

static moonpad_status appends_some(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_two_sessions(tx, context, error));
  for (int64_t revision = 1; revision <= 5; revision++) {
    char id[32];
    char json[32];
    snprintf(id, sizeof id, "e%" PRId64, revision);
    snprintf(json, sizeof json, "{\"n\":%" PRId64 "}", revision);
    mp_event_row row = event_row(revision, 0.5 * (double)revision, id, json);
    row.digest = revision == 3 ? UINT64_MAX : (uint64_t)revision * UINT64_C(0x1111111111111111);
    TRY(append_row(tx, &scene->session, &row, error));
  }
  /* The same id in another session is another event. */
  mp_event_row row = event_row(1, -1.0 / 3.0, "e3", "{}");
  return append_row(tx, &scene->other, &row, error);
}

#define EVENT_1 "1 e1 0x1p-1 1229782938247303441 {\"n\":1}\n"
#define EVENT_2 "2 e2 0x1p+0 2459565876494606882 {\"n\":2}\n"
#define EVENT_3 "3 e3 0x1.8p+0 18446744073709551615 {\"n\":3}\n"
#define EVENT_4 "4 e4 0x1p+1 4919131752989213764 {\"n\":4}\n"
#define EVENT_5 "5 e5 0x1.4p+1 6148914691236517205 {\"n\":5}\n"
#define OTHER_1 "1 e3 -0x1.5555555555555p-2 0 {}\n"

static moonpad_status sees_some(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  const mp_session_ref *ref = &scene->session;
  EXPECT_TEXT(dump_events(tx, ref, 1, 5, &text, error), EVENT_1 EVENT_2 EVENT_3 EVENT_4 EVENT_5);
  EXPECT_TEXT(dump_events(tx, ref, INT64_MIN, INT64_MAX, &text, error), EVENT_1 EVENT_2 EVENT_3 EVENT_4 EVENT_5);
  EXPECT_TEXT(dump_events(tx, ref, 2, 4, &text, error), EVENT_2 EVENT_3 EVENT_4);
  EXPECT_TEXT(dump_events(tx, ref, 5, 5, &text, error), EVENT_5);
  EXPECT_TEXT(dump_events(tx, ref, 0, 1, &text, error), EVENT_1);
  EXPECT_TEXT(dump_events(tx, ref, 5, 9, &text, error), EVENT_5);
  EXPECT_TEXT(dump_events(tx, ref, 6, 9, &text, error), "");
  EXPECT_TEXT(dump_events(tx, ref, 4, 3, &text, error), "");
  EXPECT_TEXT(dump_events(tx, ref, -5, 0, &text, error), "");
  EXPECT_TEXT(dump_events(tx, &scene->other, 0, 9, &text, error), OTHER_1);
  EXPECT_TEXT(find_event(tx, ref, moonpad_text("e3"), dump_event, &text, error), EVENT_3);
  EXPECT_TEXT(find_event(tx, ref, moonpad_text("e5"), dump_event, &text, error), EVENT_5);
  EXPECT_TEXT(find_event(tx, &scene->other, moonpad_text("e3"), dump_event, &text, error), OTHER_1);
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, ref, moonpad_text("e"), dump_event, NULL, error));
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, ref, moonpad_text("E1"), dump_event, NULL, error));
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, &scene->other, moonpad_text("e1"), dump_event, NULL, error));
  CHECK(error->message[0] == '\0');
  return MOONPAD_OK;
}

static moonpad_status appends_and_sees_some(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(appends_some(tx, context, error));
  return sees_some(tx, context, error);
}

static void test_events(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_and_sees_some, &scene);
  read_ok(scene.opened, sees_some, &scene);
}

static moonpad_status appends_beyond_all(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  TRY(makes_two_sessions(tx, context, error));
  mp_event_row last = event_row(MP_MAX_REVISION, 1.0, "last", "{}");
  TRY(append_row(tx, &scene->session, &last, error));
  mp_event_row row = event_row(MP_MAX_REVISION + 1, 1.0, "beyond", "{}");
  return append_row(tx, &scene->session, &row, error);
}

static void test_the_last_revision(void **state) {
  test_scene scene = scene_of(state);
  write_fails(scene.opened, MOONPAD_LIMIT, "17179869184: a session counts no further than 17179869183",
              appends_beyond_all, &scene);
}

/* A history that does not begin at 1, and has gaps. */
static moonpad_status appends_with_gaps(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  static const int64_t revisions[] = {10, 11, 20, 21, INT64_C(5000000000)};
  TRY(makes_two_sessions(tx, context, error));
  for (size_t i = 0; i < 5; i++) {
    char id[32];
    snprintf(id, sizeof id, "e%zu", i);
    mp_event_row row = event_row(revisions[i], 1.0, id, "{}");
    TRY(append_row(tx, &scene->session, &row, error));
  }
  EXPECT_TEXT(dump_events(tx, &scene->session, 11, 20, &text, error), "11 e1 0x1p+0 0 {}\n20 e2 0x1p+0 0 {}\n");
  EXPECT_TEXT(dump_events(tx, &scene->session, 12, 19, &text, error), "");
  EXPECT_TEXT(dump_events(tx, &scene->session, 12, 20, &text, error), "20 e2 0x1p+0 0 {}\n");
  EXPECT_TEXT(dump_events(tx, &scene->session, 0, 10, &text, error), "10 e0 0x1p+0 0 {}\n");
  EXPECT_TEXT(dump_events(tx, &scene->session, 22, INT64_MAX, &text, error), "5000000000 e4 0x1p+0 0 {}\n");
  return MOONPAD_OK;
}

static void test_events_with_gaps(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_with_gaps, &scene);
}

#define ODD_IDS 14

static void make_odd_ids(char long_id[2000], moonpad_string ids[ODD_IDS]) {
  memset(long_id, 'x', 2000);
  moonpad_string list[ODD_IDS] = {
      {"", 0},         {" ", 1},        {"\0", 1}, {"a\0b", 3},     {"a", 1},         {"a\0", 2},
      {"'", 1},        {"\"", 1},       {"%_", 2}, {"\xc3\xa9", 2}, {"e\xcc\x81", 3}, {"{\"id\":1}\n", 9},
      {long_id, 2000}, {long_id, 1999},
  };
  memcpy(ids, list, sizeof list);
}

static moonpad_status appends_odd_ids(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  char long_id[2000];
  moonpad_string ids[ODD_IDS];
  make_odd_ids(long_id, ids);
  TRY(makes_two_sessions(tx, context, error));
  for (int i = 0; i < ODD_IDS; i++) {
    mp_event_row row = event_row(i + 1, 1.0, "", "{\"text\":\"\\u0000\xf0\x9f\x98\x80\"}");
    row.id = ids[i];
    TRY(append_row(tx, &scene->session, &row, error));
  }
  return MOONPAD_OK;
}

typedef struct expected_event {
  moonpad_string id;
  int64_t revision;
  int calls;
} expected_event;

static moonpad_status checks_event(void *context, const mp_event_row *row, moonpad_error *error) {
  expected_event *expected = context;
  CHECK(row->revision == expected->revision);
  CHECK(mp_text_compare(row->id, expected->id) == 0);
  CHECK(mp_text_compare(row->json, moonpad_text("{\"text\":\"\\u0000\xf0\x9f\x98\x80\"}")) == 0);
  expected->calls++;
  return MOONPAD_OK;
}

static moonpad_status finds_odd_ids(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  char long_id[2000];
  moonpad_string ids[ODD_IDS];
  make_odd_ids(long_id, ids);
  for (int i = 0; i < ODD_IDS; i++) {
    expected_event expected = {ids[i], i + 1, 0};
    TRY(find_event(tx, &scene->session, ids[i], checks_event, &expected, error));
    TRY(walk_events(tx, &scene->session, i + 1, i + 1, checks_event, &expected, error));
    CHECK(expected.calls == 2);
  }
  return MOONPAD_OK;
}

static void test_odd_event_ids(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_odd_ids, &scene);
  read_ok(scene.opened, finds_odd_ids, &scene);
}

static moonpad_status appends_an_id_again(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_event_row row = event_row(6, 1.0, "e3", "{}");
  return append_row(tx, &scene->session, &row, error);
}

static moonpad_status appends_a_revision_again(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_event_row row = event_row(5, 1.0, "new", "{}");
  return append_row(tx, &scene->session, &row, error);
}

static void test_events_are_unique(void **state) {
  test_scene scene = scene_of(state);
  moonpad_error error;
  const mp_store_ops *ops = scene.opened->store->ops;
  write_ok(scene.opened, appends_some, &scene);
  write_fails(scene.opened, MOONPAD_ALREADY_EXISTS, NULL, appends_an_id_again, &scene);
  /* The service never does this; a store that let it pass would hide its mistake. */
  assert_int_not_equal(MOONPAD_OK, ops->write(scene.opened->store, appends_a_revision_again, &scene, &error));
  read_ok(scene.opened, sees_some, &scene);
}

/* After e1 to e5: below all of them, above them, between. */
static const char *const unsorted_ids[] = {"e0", "e7", "e33", "e6"};
#define UNSORTED_IDS 4

static moonpad_status appends_unsorted(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  for (int i = 0; i < UNSORTED_IDS; i++) {
    mp_event_row row = event_row(6 + i, 1.0, unsorted_ids[i], "{}");
    TRY(append_row(tx, &scene->session, &row, error));
  }
  return MOONPAD_OK;
}

static moonpad_status finds_unsorted(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  EXPECT_TEXT(dump_events(tx, &scene->session, 1, 5, &text, error), EVENT_1 EVENT_2 EVENT_3 EVENT_4 EVENT_5);
  EXPECT_TEXT(find_event(tx, &scene->session, moonpad_text("e1"), dump_event, &text, error), EVENT_1);
  EXPECT_TEXT(find_event(tx, &scene->session, moonpad_text("e5"), dump_event, &text, error), EVENT_5);
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, &scene->session, moonpad_text("e34"), dump_event, NULL, error));
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, &scene->session, moonpad_text("e8"), dump_event, NULL, error));
  for (int i = 0; i < UNSORTED_IDS; i++) {
    char expected[64];
    snprintf(expected, sizeof expected, "%d %s 0x1p+0 0 {}\n", 6 + i, unsorted_ids[i]);
    EXPECT_TEXT(find_event(tx, &scene->session, moonpad_text(unsorted_ids[i]), dump_event, &text, error), expected);
  }
  return MOONPAD_OK;
}

typedef struct repeated_id {
  mp_session_ref session;
  const char *id;
} repeated_id;

static moonpad_status repeats_an_id(mp_tx *tx, void *context, moonpad_error *error) {
  const repeated_id *repeated = context;
  mp_event_row row = event_row(6 + UNSORTED_IDS, 1.0, repeated->id, "{}");
  return append_row(tx, &repeated->session, &row, error);
}

static void test_unsorted_ids(void **state) {
  static const char *const ids[] = {"e1", "e3", "e5", "e0", "e7", "e33", "e6"};
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_some, &scene);
  write_ok(scene.opened, appends_unsorted, &scene);
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    repeated_id repeated = {scene.session, ids[i]};
    write_fails(scene.opened, MOONPAD_ALREADY_EXISTS, NULL, repeats_an_id, &repeated);
  }
  read_ok(scene.opened, finds_unsorted, &scene);
}

/* ---- a long history ---- */

#define MANY_EVENTS   100000
#define PER_WRITE     5000
#define WRITES_SLOW   2 /* of a store for which more would take too long */
#define WRITES_OF_FEW 4 /* under valgrind and in a sample: behind RISING_EVENTS */
/* So many ids rise from event to event; of those behind them, each second one does not. */
#define RISING_EVENTS 17501

static void long_event(int64_t number, char id[40], char json[160]) {
  snprintf(id, 40, "01890000-%08" PRId64 "-7000-8000", number <= RISING_EVENTS ? number : number ^ 1);
  snprintf(json, 160, "{\"id\":\"%s\",\"author\":\"bot\",\"content\":{\"parts\":[{\"text\":\"number %" PRId64 "\"}]}}",
           id, number);
}

static moonpad_status appends_many(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  TRY(find_row(tx, &scene->session, &row, error));
  for (int64_t i = 0; i < PER_WRITE; i++) {
    char id[40];
    char json[160];
    long_event(++row.revision, id, json);
    mp_event_row event = event_row(row.revision, 0.001 * (double)row.revision, id, json);
    /* as it may well be: a part of the JSON */
    if (i % 2 == 0) event.id.data = json + strlen("{\"id\":\"");
    mp_batch batch = {.ref = scene->session, .row = &row, .events = &event, .event_count = 1};
    TRY(tx->ops->apply(tx, &batch, error));
  }
  return update_heads(tx, &scene->session, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status appends_many_and_fails(mp_tx *tx, void *context, moonpad_error *error) {
  TRY(appends_many(tx, context, error));
  return mp_fail(error, MOONPAD_LIMIT, "enough");
}

typedef struct run_of_events {
  int64_t next;
  int64_t count;
} run_of_events;

static moonpad_status checks_long_event(void *context, const mp_event_row *row, moonpad_error *error) {
  run_of_events *run = context;
  char id[40];
  char json[160];
  long_event(run->next, id, json);
  CHECK(row->revision == run->next && row->timestamp == 0.001 * (double)run->next);
  CHECK(mp_text_compare(row->id, moonpad_text(id)) == 0 && mp_text_compare(row->json, moonpad_text(json)) == 0);
  run->next++;
  run->count++;
  return MOONPAD_OK;
}

static moonpad_status reads_many(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  uint64_t random = 12345;
  TRY(find_row(tx, &scene->session, &row, error));
  for (int i = 0; i < fault_rounds(3000); i++) {
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    int64_t number = (int64_t)((random >> 33) % (uint64_t)row.revision) + 1;
    int64_t last = number + (int64_t)((random >> 20) % 3);
    if (last > row.revision) last = row.revision;
    run_of_events run = {number, 0};
    TRY(walk_events(tx, &scene->session, number, last, checks_long_event, &run, error));
    CHECK(run.count == last - number + 1);
    char id[40];
    char json[160];
    long_event(number, id, json);
    run.next = number;
    TRY(find_event(tx, &scene->session, moonpad_text(id), checks_long_event, &run, error));
    long_event(number + MANY_EVENTS, id, json);
    EXPECT(MOONPAD_NOT_FOUND, find_event(tx, &scene->session, moonpad_text(id), checks_long_event, &run, error));
  }
  run_of_events all = {1, 0};
  TRY(walk_events(tx, &scene->session, INT64_MIN, INT64_MAX, checks_long_event, &all, error));
  CHECK(all.count == row.revision);
  return MOONPAD_OK;
}

static moonpad_status finds_each(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  char id[40];
  char json[160];
  TRY(find_row(tx, &scene->session, &row, error));
  for (int64_t number = 1; number <= row.revision; number++) {
    run_of_events run = {number, 0};
    long_event(number, id, json);
    TRY(find_event(tx, &scene->session, moonpad_text(id), checks_long_event, &run, error));
  }
  long_event(row.revision + 1, id, json);
  EXPECT(MOONPAD_NOT_FOUND, find_event(tx, &scene->session, moonpad_text(id), checks_long_event, NULL, error));
  return MOONPAD_OK;
}

static int writes_of_many(void) {
  return fault_is_sample() ? WRITES_OF_FEW : MANY_EVENTS / PER_WRITE;
}

static void test_many_events(void **state) {
  test_scene scene = scene_of(state);
  const int writes = scene.opened->kind->is_slow ? WRITES_SLOW : writes_of_many();
  write_ok(scene.opened, makes_two_sessions, &scene);
  for (int i = 0; i < writes; i++) {
    write_fails(scene.opened, MOONPAD_LIMIT, "enough", appends_many_and_fails, &scene);
    if (i < 4) read_ok(scene.opened, finds_each, &scene);
    write_ok(scene.opened, appends_many, &scene);
  }
  read_ok(scene.opened, reads_many, &scene);
}

/* ---- short histories, of which the end is undone ---- */

typedef struct short_history {
  char name[16];
  mp_session_ref session;
  unsigned number; /* makes its ids unlike those of others */
  int first;       /* appends events first..last */
  int last;
  bool fails;
} short_history;

static void short_id(const short_history *history, int event, char id[32]) {
  snprintf(id, 32, "%x-%x", history->number * 2654435761U, (unsigned)event * 2246822519U);
}

static moonpad_status appends_short(mp_tx *tx, void *context, moonpad_error *error) {
  short_history *history = context;
  if (history->first == 1) {
    snprintf(history->name, sizeof history->name, "s%u", history->number);
    history->session = ref_named("shop", "ann", history->name);
    TRY(make_session(tx, &history->session, 1.0, error));
  }
  for (int event = history->first; event <= history->last; event++) {
    char id[32];
    short_id(history, event, id);
    TRY(append_next(tx, &history->session, id, "{}", error));
  }
  return history->fails ? mp_fail(error, MOONPAD_LIMIT, "enough") : MOONPAD_OK;
}

static moonpad_status counts_calls(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)row;
  (void)error;
  ++*(int *)context;
  return MOONPAD_OK;
}

/* Events 1..first-1 are there, what was appended after them is not. */
static moonpad_status finds_short(mp_tx *tx, void *context, moonpad_error *error) {
  const short_history *history = context;
  int calls = 0;
  for (int event = 1; event <= history->last; event++) {
    char id[32];
    short_id(history, event, id);
    EXPECT(event < history->first ? MOONPAD_OK : MOONPAD_NOT_FOUND,
           find_event(tx, &history->session, moonpad_text(id), counts_calls, &calls, error));
  }
  CHECK(calls == history->first - 1);
  return MOONPAD_OK;
}

/* An index that grew meanwhile must lose what was undone and nothing else. */
static void test_short_histories(void **state) {
  for (unsigned number = 0; number < (unsigned)fault_rounds(400); number++) {
    short_history history = {.number = number, .first = 1, .last = 1 + (int)(number % 24)};
    write_ok(*state, appends_short, &history);
    history.first = history.last + 1;
    history.last += 50;
    history.fails = true;
    write_fails(*state, MOONPAD_LIMIT, "enough", appends_short, &history);
    read_ok(*state, finds_short, &history);
  }
}

/* ---- walks that fail ---- */

static moonpad_status fails_at_state(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)row;
  ++*(int *)context;
  return mp_fail(error, MOONPAD_CANCELLED, "that will do");
}

static moonpad_status fails_at_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)row;
  ++*(int *)context;
  return mp_fail(error, MOONPAD_CANCELLED, "that will do");
}

static moonpad_status fails_at_session(void *context, const mp_listed_session *session, moonpad_error *error) {
  (void)session;
  ++*(int *)context;
  return mp_fail(error, MOONPAD_CANCELLED, "that will do");
}

static moonpad_status fails_in_walks(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  int calls = 0;
  mp_facts facts;
  mp_state_row wanted = {.scope = MP_SCOPE_SESSION, .key = moonpad_text("a")};
  mp_list_query query = {.app_name = moonpad_text("shop")};
  mp_listing by_session = {fails_at_session, NULL, &calls}, by_key = {fails_at_session, fails_at_state, &calls};
  for (int i = 0; i < 2; i++) { /* a walk that has failed leaves nothing in the way of the next */
    for (int64_t since = MP_EVERY_KEY; since <= 0; since++) {
      mp_look look = look_at(&scene->session, MP_SCOPE_SESSION);
      look.since[MP_SCOPE_SESSION] = since;
      look.each_state = fails_at_state;
      look.context = &calls;
      EXPECT(MOONPAD_CANCELLED, tx->ops->look(tx, &look, &facts, error));
    }
    mp_look look = look_at(&scene->session, MP_SCOPE_SESSION);
    look.keys = &wanted; /* what was found before is not the caller's when the look fails */
    look.key_count = 1;
    look.recent = 2;
    look.each_event = fails_at_event;
    look.context = &calls;
    EXPECT(MOONPAD_CANCELLED, tx->ops->look(tx, &look, &facts, error));
    CHECK(wanted.value == NULL);
    EXPECT(MOONPAD_CANCELLED, tx->ops->each_base_key(tx, &scene->session, fails_at_state, &calls, error));
    EXPECT(MOONPAD_CANCELLED, walk_events(tx, &scene->session, 1, 5, fails_at_event, &calls, error));
    EXPECT(MOONPAD_CANCELLED, find_event(tx, &scene->session, moonpad_text("e2"), fails_at_event, &calls, error));
    EXPECT(MOONPAD_CANCELLED, tx->ops->each_listed(tx, &query, &by_session, error));
    EXPECT(MOONPAD_CANCELLED, tx->ops->each_listed(tx, &query, &by_key, error));
  }
  CHECK(calls == 16 && strcmp(error->message, "that will do") == 0);
  error->message[0] = '\0';
  return sees_some(tx, context, error);
}

static moonpad_status appends_some_with_keys(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  TRY(appends_some(tx, context, error));
  TRY(find_row(tx, &scene->session, &row, error));
  row.revision = 5;
  TRY(update_heads(tx, &scene->session, &row, MP_HEAD(MP_SCOPE_SESSION), error));
  for (int i = 0; i < 3; i++) {
    char key[2] = {(char)('a' + i), '\0'};
    TRY(write_text(scene->opened, tx, &scene->session, MP_SCOPE_SESSION, key, "v", 1, error));
    mp_value *value = mp_value_new_boolean(scene->opened->env, true);
    moonpad_status status = write_base(tx, &scene->session, moonpad_text(key), value, error);
    mp_value_release(scene->opened->env, value);
    TRY(status);
  }
  return MOONPAD_OK;
}

static void test_walks_that_fail(void **state) {
  test_scene scene = scene_of(state);
  write_ok(scene.opened, appends_some_with_keys, &scene);
  read_ok(scene.opened, fails_in_walks, &scene);
  write_ok(scene.opened, fails_in_walks, &scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_events),          STORE_TEST(test_events_with_gaps),  STORE_TEST(test_the_last_revision),
      STORE_TEST(test_odd_event_ids),   STORE_TEST(test_events_are_unique), STORE_TEST(test_unsorted_ids),
      STORE_TEST(test_short_histories), STORE_TEST(test_many_events),       STORE_TEST(test_walks_that_fail),
  };
  return RUN_ON_EVERY_STORE(tests);
}
