/*
** Imports: any lines are given as a session. Either nothing is there afterwards, or a session
** whose state is that after its last event, which can be appended to, and whose export gives the
** same session and the same lines again. Now and then SQLite has its turn, with the same answer. An
** input that begins with '+' holds events only: a header that fits them is put before.
*/
#include "fuzz.h"

#define SQLITE_EVERY         16
#define SESSIONS_PER_SERVICE 2000

typedef struct fixture {
  const char *url;
  moonpad_service *service;
  unsigned number; /* of imports */
} fixture;

/* ---- Lines ---- */

typedef struct lines {
  moonpad_string header; /* empty: the first line of `left` is it */
  moonpad_string left;
} lines;

static bool next_line(void *context, moonpad_string *line) {
  lines *given = context;
  if (given->header.length != 0) {
    *line = given->header;
    given->header.length = 0;
    return true;
  }
  if (given->left.length == 0) return false;
  const char *end = memchr(given->left.data, '\n', given->left.length);
  line->data = given->left.data;
  line->length = end == NULL ? given->left.length : (size_t)(end - given->left.data) + 1;
  given->left.data += line->length;
  given->left.length -= line->length;
  return true;
}

typedef struct text {
  char *data;
  size_t length;
} text;

static bool keep_line(void *context, moonpad_string line) {
  text *kept = context;
  HOLDS(line.length > 1 && memchr(line.data, '\n', line.length) == line.data + line.length - 1);
  kept->data = realloc(kept->data, kept->length + line.length);
  HOLDS(kept->data != NULL);
  memcpy(kept->data + kept->length, line.data, line.length);
  kept->length += line.length;
  return true;
}

static text export_of(moonpad_session *session) {
  text kept = {NULL, 0};
  HOLDS(moonpad_export_session(session, keep_line, &kept, NULL) == MOONPAD_OK);
  return kept;
}

/* ---- One import ---- */

static void delete (moonpad_session *session) {
  moonpad_session_name name = {moonpad_session_app_name(session), moonpad_session_user_id(session),
                               moonpad_session_id(session)};
  bool existed;
  HOLDS(moonpad_delete_session(moonpad_session_service(session), &name, &existed, NULL) == MOONPAD_OK && existed);
  moonpad_session_free(session);
}

static bool begins_like_user_or_app(moonpad_string json) {
  return strstr(json.data, "\"user:") != NULL || strstr(json.data, "\"app:") != NULL;
}

/*
** User and app state of other sessions may show as well: only what is the session's own can
** be compared.
*/
static void expect_state_after_last(moonpad_session *session) {
  moonpad_buffer now, after;
  HOLDS(moonpad_session_state(session, &now, NULL) == MOONPAD_OK);
  HOLDS(moonpad_state_at(session, moonpad_session_revision(session), &after, NULL) == MOONPAD_OK);
  moonpad_string a = {now.data, now.length}, b = {after.data, after.length};
  if (!begins_like_user_or_app(a)) HOLDS(same_text(a, b));
  moonpad_buffer_free(&now);
  moonpad_buffer_free(&after);
}

static void expect_same_again(fixture *self, moonpad_session *session) {
  text first = export_of(session);
  delete (session);
  lines again = {{NULL, 0}, {first.data, first.length}};
  moonpad_error error = {MOONPAD_OK, ""};
  if (moonpad_import_session(self->service, NULL, next_line, &again, &session, &error) != MOONPAD_OK) {
    broken("what was exported is refused: %s", error.message);
  }
  text second = export_of(session);
  moonpad_string a = {first.data, first.length}, b = {second.data, second.length};
  HOLDS(same_text(a, b));
  int64_t revision = moonpad_session_revision(session);
  moonpad_event *event = NULL;
  moonpad_status status =
      moonpad_append_event(session, moonpad_text("{\"actions\":{\"stateDelta\":{\"z\":1}}}"), &event, &error);
  HOLDS(status == MOONPAD_OK ? moonpad_event_revision(event) == revision + 1 : status == MOONPAD_LIMIT);
  moonpad_event_free(event);
  delete (session);
  free(first.data);
  free(second.data);
}

static moonpad_error try_import(fixture *self, lines given) {
  moonpad_error error = {MOONPAD_OK, ""};
  if (self->number++ % SESSIONS_PER_SERVICE == 0) { /* users and apps would pile up */
    moonpad_service_release(self->service);
    HOLDS(moonpad_open(moonpad_text(self->url), NULL, &self->service, NULL) == MOONPAD_OK);
  }
  moonpad_session *session = NULL;
  moonpad_status status = moonpad_import_session(self->service, NULL, next_line, &given, &session, &error);
  if (status == MOONPAD_OK) {
    error = (moonpad_error){MOONPAD_OK, ""};
    expect_state_after_last(session);
    expect_same_again(self, session);
  } else {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_UNSUPPORTED);
    HOLDS(session == NULL);
  }
  return error;
}

/*
** As many events have gone before as there are now: then any number of them may be messages of
** the user.
*/
static size_t write_header(char *out, size_t room, moonpad_string events) {
  lines counted = {{NULL, 0}, events};
  moonpad_string line;
  int count = 0;
  while (next_line(&counted, &line)) count++;
  int written =
      snprintf(out, room,
               "{\"moonpadSession\":1,\"appName\":\"app\",\"userId\":\"u\",\"sessionId\":\"s\",\"createTime\":1.5,"
               "\"baseRevision\":%d,\"revision\":%d,\"conversationCount\":%d,\"baseState\":{\"k\":[1]}}\n",
               count, 2 * count, count);
  HOLDS(written > 0 && (size_t)written < room);
  return (size_t)written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fixture memory = {.url = "memory:"}, sqlite = {.url = "sqlite::memory:"};
  static unsigned number;
  char header[256];
  lines given = {{NULL, 0}, input_text(data, size)};
  if (size != 0 && data[0] == '+') {
    given.left = input_text(data + 1, size - 1);
    given.header = (moonpad_string){header, write_header(header, sizeof header, given.left)};
  }
  moonpad_error error = try_import(&memory, given);
  if (number++ % SQLITE_EVERY != 0) return 0;
  moonpad_error other = try_import(&sqlite, given);
  if (other.code != error.code || strcmp(other.message, error.message) != 0) {
    broken("memory: %d %s, SQLite: %d %s", error.code, error.message, other.code, other.message);
  }
  return 0;
}
