/* Event cursors, on every store: which events, in which order, how long, and at what cost. */
#include "service_support.h"

#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>

/* ---- What a cursor gives ---- */

static moonpad_event_cursor_options choice(int64_t first, int64_t last, bool newest_first) {
  moonpad_event_cursor_options options;
  moonpad_event_cursor_options_init(&options);
  options.first_revision = first;
  options.last_revision = last;
  options.newest_first = newest_first;
  return options;
}

static moonpad_event_cursor *open_at(moonpad_session *session, int64_t first, int64_t last, bool newest_first) {
  moonpad_event_cursor_options options = choice(first, last, newest_first);
  moonpad_event_cursor *cursor = NULL;
  OK(moonpad_event_cursor_open(session, &options, &cursor, &failure));
  return cursor;
}

/* Its revisions with blanks between them: "1 2 3". Frees it. */
static const char *rest_of(moonpad_event_cursor *cursor) {
  static char text[1024];
  const moonpad_event *event;
  text[0] = '\0';
  for (;;) {
    OK(moonpad_event_cursor_next(cursor, &event, &failure));
    if (event == NULL) break;
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%lld", used == 0 ? "" : " ", (long long)moonpad_event_revision(event));
  }
  OK(moonpad_event_cursor_next(cursor, &event, &failure));
  assert_null(event);
  moonpad_event_cursor_free(cursor);
  return text;
}

static int64_t next_revision(moonpad_event_cursor *cursor) {
  const moonpad_event *event;
  OK(moonpad_event_cursor_next(cursor, &event, &failure));
  return event == NULL ? 0 : moonpad_event_revision(event);
}

static void append_numbered(moonpad_session *session, int first, int last) {
  for (int i = first; i <= last; i++) {
    char event[96];
    snprintf(event, sizeof event, "{\"id\":\"e%d\",\"author\":\"a\",\"timestamp\":%d,\"n\":%d}", i, 1000 + i % 7, i);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
}

static bool same_text(moonpad_string one, moonpad_string other) {
  return one.length == other.length && memcmp(one.data, other.data, one.length) == 0;
}

static void test_it_gives_what_is_read_by_index(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 700);
  moonpad_session_free(session);
  session = host_get(self, "s");
  for (int newest_first = 0; newest_first <= 1; newest_first++) {
    moonpad_event_cursor *cursor = open_at(session, 0, 0, newest_first == 1);
    for (size_t i = 0; i < 700; i++) {
      moonpad_event *indexed = NULL;
      const moonpad_event *borrowed;
      OK(moonpad_event_cursor_next(cursor, &borrowed, &failure));
      assert_non_null(borrowed);
      OK(moonpad_session_event(session, newest_first ? 699 - i : i, &indexed, &failure));
      assert_int_equal(moonpad_event_revision(borrowed), moonpad_event_revision(indexed));
      assert_true(moonpad_event_timestamp(borrowed) == moonpad_event_timestamp(indexed));
      assert_true(same_text(moonpad_event_id(borrowed), moonpad_event_id(indexed)));
      assert_true(same_text(moonpad_event_json(borrowed), moonpad_event_json(indexed)));
      moonpad_event_free(indexed);
    }
    assert_int_equal(next_revision(cursor), 0);
    moonpad_event_cursor_free(cursor);
  }
  moonpad_session_free(session);
}

static moonpad_session *get_view(host *self, int64_t recent, double after) {
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  options.num_recent_events = recent;
  options.has_after_timestamp = after > 0;
  options.after_timestamp = after;
  OK(moonpad_get_session(self->service, &name, &options, &session, &failure));
  return session;
}

static void test_it_gives_what_the_object_shows(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  assert_string_equal(rest_of(open_at(session, 0, 0, false)), "");
  assert_string_equal(rest_of(open_at(session, 0, 0, true)), "");
  append_numbered(session, 1, 20); /* timestamps 1001 to 1006, 1000, 1001 ... */
  assert_string_equal(rest_of(open_at(session, 0, 0, false)), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
  static const struct {
    int64_t recent;
    double after;
    const char *oldest_first, *newest_first;
  } views[] = {{0, 0, "", ""},
               {1, 0, "20", "20"},
               {3, 0, "18 19 20", "20 19 18"},
               {MOONPAD_ALL_EVENTS, 1005, "5 6 12 13 19 20", "20 19 13 12 6 5"},
               {3, 1005, "13 19 20", "20 19 13"},
               {0, 1005, "", ""},
               {MOONPAD_ALL_EVENTS, 2000, "", ""}};
  for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
    moonpad_session *view = get_view(self, views[i].recent, views[i].after);
    assert_string_equal(rest_of(open_at(view, 0, 0, false)), views[i].oldest_first);
    assert_string_equal(rest_of(open_at(view, 0, 0, true)), views[i].newest_first);
    moonpad_event_cursor *without = NULL;
    OK(moonpad_event_cursor_open(view, NULL, &without, &failure));
    assert_string_equal(rest_of(without), views[i].oldest_first);
    moonpad_session_free(view);
  }
  /* What such an object appends itself, it shows as well. */
  moonpad_session *view = get_view(self, 1, 1006);
  append_numbered(view, 21, 22);
  assert_string_equal(rest_of(open_at(view, 0, 0, false)), "20 21 22");
  moonpad_session_free(view);
  moonpad_session_free(session);
}

static void test_revisions_choose_among_all_that_is_stored(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 9);
  moonpad_session *views[] = {session, get_view(self, 0, 0), get_view(self, 2, 1005)};
  static const struct {
    int64_t first, last;
    const char *oldest_first, *newest_first;
  } ranges[] = {{3, 5, "3 4 5", "5 4 3"}, {1, 1, "1", "1"},      {8, 0, "8 9", "9 8"},
                {0, 2, "1 2", "2 1"},     {9, 9, "9", "9"},      {10, 0, "", ""},
                {5, 4, "", ""},           {10, 20, "", ""},      {8, INT64_MAX, "8 9", "9 8"},
                {INT64_MAX, 1, "", ""},   {INT64_MAX, 0, "", ""}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    for (size_t j = 0; j < 3; j++) {
      assert_string_equal(rest_of(open_at(views[j], ranges[i].first, ranges[i].last, false)), ranges[i].oldest_first);
      assert_string_equal(rest_of(open_at(views[j], ranges[i].first, ranges[i].last, true)), ranges[i].newest_first);
    }
  }
  moonpad_event_cursor *cursor = (moonpad_event_cursor *)1;
  moonpad_event_cursor_options wrong[] = {choice(-1, 0, false), choice(1, -1, true), choice(INT64_MIN, 3, false)};
  for (size_t i = 0; i < 3; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_event_cursor_open(session, &wrong[i], &cursor, &failure));
    assert_null(cursor);
  }
  assert_string_equal(failure.message, "first_revision: must not be negative");
  for (size_t j = 0; j < 3; j++) moonpad_session_free(views[j]);
}

/* ---- How long ---- */

static void test_it_shows_what_was_there_when_it_was_opened(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 3);
  moonpad_event_cursor *oldest = open_at(session, 0, 0, false), *newest = open_at(session, 0, 0, true);
  moonpad_event_cursor *open_end = open_at(session, 2, 0, false);
  assert_int_equal(next_revision(oldest), 1);
  append_numbered(session, 4, 5);
  OK(moonpad_refresh(session, &failure));
  moonpad_session_free(session); /* needs it no more */
  assert_string_equal(rest_of(oldest), "2 3");
  assert_string_equal(rest_of(newest), "3 2 1");
  assert_string_equal(rest_of(open_end), "2 3");
  moonpad_event_cursor_free(NULL);
}

static void test_a_cursor_over_a_deleted_session_finds_nothing(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 40);
  moonpad_event_cursor *cursors[] = {open_at(session, 0, 0, false), open_at(session, 0, 0, true)};
  assert_int_equal(next_revision(cursors[0]), 1);
  assert_int_equal(next_revision(cursors[1]), 40);
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  moonpad_session *again = host_create(self, "s", "{}");
  append_numbered(again, 1, 40); /* of another creation */
  for (int i = 0; i < 2; i++) {
    const moonpad_event *event;
    moonpad_status status;
    int read = 1;
    while ((status = moonpad_event_cursor_next(cursors[i], &event, &failure)) == MOONPAD_OK && event != NULL) read++;
    assert_int_equal(read, 16); /* what had been read already */
    expect_failure(MOONPAD_NOT_FOUND, status, __LINE__);
    assert_string_equal(failure.message, i == 0 ? "event 17 of this session is not stored any more"
                                                : "event 24 of this session is not stored any more");
    FAILS(MOONPAD_NOT_FOUND, moonpad_event_cursor_next(cursors[i], &event, &failure));
    assert_null(event);
    moonpad_event_cursor_free(cursors[i]);
  }
  moonpad_session_free(again);
  moonpad_session_free(session);
}

/* The oldest events go, as they do where a history is trimmed. */
static void test_an_event_that_is_gone_is_not_found(void **state) {
  host *self = *state;
  if (self->folder[0] == '\0') return; /* nobody else gets at a store in memory */
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 60);
  moonpad_event_cursor *oldest = open_at(session, 0, 0, false), *newest = open_at(session, 0, 0, true);
  sqlite3 *file;
  assert_int_equal(sqlite3_open(self->url + strlen("sqlite:"), &file), SQLITE_OK);
  static const char trim[] = "DELETE FROM events WHERE rowid IN (SELECT rowid FROM events ORDER BY rowid LIMIT 30)";
  assert_int_equal(sqlite3_exec(file, trim, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(file);
  const moonpad_event *event;
  FAILS(MOONPAD_NOT_FOUND, moonpad_event_cursor_next(oldest, &event, &failure));
  assert_string_equal(failure.message, "event 1 of this session is not stored any more");
  for (int64_t i = 60; i > 30; i--) assert_int_equal(next_revision(newest), i);
  FAILS(MOONPAD_NOT_FOUND, moonpad_event_cursor_next(newest, &event, &failure));
  assert_string_equal(failure.message, "event 30 of this session is not stored any more");
  assert_string_equal(rest_of(open_at(session, 57, 0, true)), "60 59 58 57");
  moonpad_event_cursor_free(oldest);
  moonpad_event_cursor_free(newest);
  moonpad_session_free(session);
}

static void test_a_closed_service_is_closed_for_cursors(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 3);
  moonpad_event_cursor *cursor = open_at(session, 0, 0, false), *other = (moonpad_event_cursor *)1;
  moonpad_event_cursor *at_its_end = open_at(session, 4, 0, false);
  assert_int_equal(next_revision(cursor), 1);
  moonpad_service_close(self->service);
  const moonpad_event *event = (const moonpad_event *)1;
  /* also what it had read */
  FAILS(MOONPAD_CLOSED, moonpad_event_cursor_next(cursor, &event, &failure));
  assert_null(event);
  FAILS(MOONPAD_CLOSED, moonpad_event_cursor_next(at_its_end, &event, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_event_cursor_open(session, NULL, &other, &failure));
  assert_null(other);
  moonpad_session_free(session);
  moonpad_event_cursor_free(at_its_end);
  /* It holds the service, which may go before it. */
  moonpad_service_release(self->service);
  self->service = NULL;
  FAILS(MOONPAD_CLOSED, moonpad_event_cursor_next(cursor, &event, &failure));
  moonpad_event_cursor_free(cursor);
}

/* ---- Memory ---- */

static void test_it_goes_on_after_it_had_no_memory(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  append_numbered(session, 1, 120);
  for (int newest_first = 0; newest_first <= 1; newest_first++) {
    moonpad_event_cursor *cursor = open_at(session, 0, 0, newest_first == 1);
    int64_t expected = newest_first ? 120 : 1;
    int refused = 0;
    for (int i = 0; i < 120; i++) {
      const moonpad_event *event = NULL;
      moonpad_status status = MOONPAD_NO_MEMORY;
      for (long allowed = 0; status == MOONPAD_NO_MEMORY; allowed++) {
        self->allowed = allowed;
        status = moonpad_event_cursor_next(cursor, &event, &failure);
        self->allowed = -1;
        if (status == MOONPAD_NO_MEMORY) refused++;
      }
      expect_ok(status, __LINE__);
      assert_int_equal(moonpad_event_revision(event), expected);
      assert_int_equal(moonpad_json_read(moonpad_event_json(event), T("n"), NULL, &(moonpad_value){0}, NULL), 0);
      expected += newest_first ? -1 : 1;
    }
    assert_true(refused > 3);
    moonpad_event_cursor_free(cursor);
  }
  moonpad_session_free(session);
}

typedef struct meter {
  size_t bytes, peak;
} meter;

static void *note(meter *self, void *block) {
  if (block != NULL) self->bytes += malloc_usable_size(block);
  if (self->bytes > self->peak) self->peak = self->bytes;
  return block;
}
static void *meter_allocate(void *context, size_t size) {
  return note(context, malloc(size));
}
static void *meter_resize(void *context, void *block, size_t size) {
  meter *self = context;
  size_t before = block == NULL ? 0 : malloc_usable_size(block);
  void *grown = realloc(block, size);
  if (grown != NULL) self->bytes -= before;
  return note(self, grown);
}
static void meter_release(void *context, void *block) {
  if (block != NULL) ((meter *)context)->bytes -= malloc_usable_size(block);
  free(block);
}

/* Small events make the pages long, before large ones come. */
static void test_a_long_history_of_large_events_takes_little_memory(void **state) {
  enum { SMALL = 600, LARGE = 60, BYTES = 300 * 1024 };
  host *self = *state;
  if (self->folder[0] == '\0') return; /* a store in memory holds them all */
  meter measured = {0, 0};
  moonpad_allocator allocator = {meter_allocate, meter_resize, meter_release, &measured};
  moonpad_options options = self->options;
  options.allocator = &allocator;
  moonpad_service *service = NULL;
  moonpad_session *session = host_create(self, "s", "{}");
  char *large = malloc(BYTES + 32);
  assert_non_null(large);
  strcpy(large, "{\"text\":\"");
  memset(large + 9, 'x', BYTES);
  strcpy(large + 9 + BYTES, "\"}");
  append_numbered(session, 1, SMALL);
  for (int i = 0; i < LARGE; i++) OK(moonpad_append_event(session, T(large), NULL, &failure));
  append_numbered(session, SMALL + LARGE + 1, 2 * SMALL + LARGE);
  moonpad_session_free(session);
  free(large);
  OK(moonpad_open(T(self->url), &options, &service, &failure));
  moonpad_session_name name = host_name("s");
  OK(moonpad_get_session(service, &name, NULL, &session, &failure));
  for (int newest_first = 0; newest_first <= 1; newest_first++) {
    size_t before = measured.peak = measured.bytes;
    moonpad_event_cursor *cursor = open_at(session, 0, 0, newest_first == 1);
    int64_t count = 0, revision;
    while ((revision = next_revision(cursor)) != 0) {
      count++;
      assert_int_equal(revision, newest_first ? 2 * SMALL + LARGE + 1 - count : count);
    }
    assert_int_equal(count, 2 * SMALL + LARGE);
    assert_in_range(measured.peak - before, BYTES, 4 * 1024 * 1024);
    moonpad_event_cursor_free(cursor);
    assert_int_equal(measured.bytes, before);
  }
  moonpad_session_free(session);
  moonpad_service_release(service);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_it_gives_what_is_read_by_index),
      ON_EVERY_STORE(test_it_gives_what_the_object_shows),
      ON_EVERY_STORE(test_revisions_choose_among_all_that_is_stored),
      ON_EVERY_STORE(test_it_shows_what_was_there_when_it_was_opened),
      ON_EVERY_STORE(test_a_cursor_over_a_deleted_session_finds_nothing),
      ON_EVERY_STORE(test_an_event_that_is_gone_is_not_found),
      ON_EVERY_STORE(test_a_closed_service_is_closed_for_cursors),
      ON_EVERY_STORE(test_it_goes_on_after_it_had_no_memory),
      ON_EVERY_STORE(test_a_long_history_of_large_events_takes_little_memory),
  };
  return HOST_RUN(tests);
}
