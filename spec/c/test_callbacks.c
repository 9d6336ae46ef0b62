/* What the functions of a host may call of moonpad (moonpad.h, "May call"), on every store. */
#include <string.h>

#include "service_support.h"

/* ---- The callback of an append ---- */

/* What the callbacks were given. */
typedef struct callback_record {
  host *self;
  moonpad_session *session; /* what the first one frees */
  moonpad_changes *changes;
  int count; /* of callbacks */
  moonpad_status outcome;
} callback_record;

static void note(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  callback_record *noted = context;
  (void)session, (void)event;
  noted->count++;
  noted->outcome = error == NULL ? MOONPAD_OK : error->code;
}

static void poll_until(host *self, const callback_record *noted, int count) {
  while (noted->count < count && moonpad_poll(self->service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(noted->count, count);
}

/* Whatever a program may want to do with the session and the service in the middle of a poll. */
static void use_everything(void *context, moonpad_session *session, const moonpad_event *event,
                           const moonpad_error *error) {
  callback_record *noted = context;
  moonpad_buffer json = {0};
  assert_null(error);
  assert_ptr_equal(session, noted->session);
  noted->count++;
  assert_int_equal(moonpad_event_revision(event), moonpad_session_revision(session));
  SAYS(host_read(session, "list", "").as.text, "[1]");
  host_append(session, "{\"sync\":1}");
  OK(moonpad_refresh(session, &failure));
  OK(moonpad_state_at(session, 0, &json, &failure));
  GIVES(json, "{}");
  set_json(noted->changes, "mine", "", "[2]");
  OK(moonpad_changes_commit(noted->changes, T("{}"), NULL, &failure));
  moonpad_changes_free(noted->changes);
  OK(moonpad_append_event_async(session, T("{}"), note, noted, &failure));
  /* A poll within a poll tells what is done. */
  poll_until(noted->self, noted, 2);
  assert_int_equal(noted->outcome, MOONPAD_OK);
  STORED(noted->self, "s", "{\"list\":[1],\"mine\":[2],\"sync\":1}");
  OK(moonpad_append_event_async(session, T("{}"), note, noted, &failure));
  moonpad_session_free(session);
  moonpad_service_close(noted->self->service);
}

static void test_the_callback_of_an_append_may_call_everything(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  callback_record noted = {.self = self, .session = session};
  OK(moonpad_changes_begin(session, &noted.changes, &failure));
  OK(moonpad_append_event_async(session, T("{\"actions\":{\"stateDelta\":{\"list\":[1]}}}"), use_everything, &noted,
                                &failure));
  /* The last append is told after its session has been freed and its service closed. */
  poll_until(self, &noted, 3);
  assert_int_equal(noted.outcome, MOONPAD_OK);
}

/* ---- The lines of an export and an import ---- */

typedef struct lines {
  host *self;
  moonpad_session *session; /* that is exported */
  char text[4000];
  size_t length, read;
} lines;

static bool keep_line(lines *kept, moonpad_string line) {
  assert_true(kept->length + line.length < sizeof kept->text);
  memcpy(kept->text + kept->length, line.data, line.length);
  kept->length += line.length;
  return true;
}

/* After the header the session is appended to, and freed after the first event. */
static bool write_and_use(void *context, moonpad_string line) {
  lines *kept = context;
  if (kept->length == 0) {
    host_append(kept->session, "{\"k\":3}");
    assert_int_equal(host_event_count(kept->session), 3);
  } else {
    moonpad_session_free(kept->session);
    kept->session = NULL;
  }
  return keep_line(kept, line);
}

static bool write_plainly(void *context, moonpad_string line) {
  return keep_line(context, line);
}

/* Before each line somebody else uses the service, and makes a session of his own. */
static bool read_and_use(void *context, moonpad_string *line) {
  lines *kept = context;
  moonpad_session *other = host_create(kept->self, "", "{\"user:lines\":1}");
  host_append(other, "{\"user:lines\":2}");
  moonpad_session_free(other);
  const char *begin = kept->text + kept->read, *end = memchr(begin, '\n', kept->length - kept->read);
  if (end == NULL) return false;
  *line = (moonpad_string){begin, (size_t)(end - begin) + 1};
  kept->read += line->length;
  return true;
}

static void test_who_takes_and_gives_lines_may_call_everything(void **state) {
  host *self = *state;
  lines before = {.self = self}, used = {.self = self};
  moonpad_session *session = host_create(self, "s", "{\"k\":0}"), *imported = NULL;
  host_append(session, "{\"k\":1}");
  host_append(session, "{\"k\":2}");
  OK(moonpad_export_session(session, write_plainly, &before, &failure));
  used.session = session;
  OK(moonpad_export_session(session, write_and_use, &used, &failure));
  assert_int_equal(used.length, before.length);
  assert_memory_equal(used.text, before.text, before.length);
  STORED(self, "s", "{\"k\":3}");
  moonpad_session_name name = host_name("copy");
  OK(moonpad_import_session(self->service, &name, read_and_use, &used, &imported, &failure));
  assert_int_equal(host_event_count(imported), 2);
  STATE(imported, "{\"k\":2,\"user:lines\":2}");
  moonpad_session_free(imported);
}

/* ---- Who looks up for a template ---- */

/* From a session object, whose texts are good until the next look. */
static bool look_in_session(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  moonpad_session *session = context;
  moonpad_buffer inner = {0};
  moonpad_value stays = moonpad_string_value(T("rendered"));
  OK(moonpad_session_render(session, T("{a.x}"), NULL, &inner, &failure));
  GIVES(inner, "one\ntwo");
  host_append(session, "{\"looks\":1}");
  if (name.length == 4 && memcmp(name.data, "this", 4) == 0) {
    *value = stays;
    return true;
  }
  return moonpad_session_read(session, name, T("x"), value, error) == MOONPAD_OK;
}

static void test_who_looks_up_for_a_template_may_call_everything(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"a\":{\"x\":\"one\\ntwo\"},\"b\":{\"x\":\"\\\"3\\\"\"}}");
  moonpad_buffer text = {0};
  OK(moonpad_render(T("{a} {b} {a} {this}"), NULL, look_in_session, session, &text, &failure));
  GIVES(text, "one\ntwo \"3\" one\ntwo rendered");
  assert_int_equal(moonpad_session_revision(session), 4);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_the_callback_of_an_append_may_call_everything),
      ON_EVERY_STORE(test_who_takes_and_gives_lines_may_call_everything),
      ON_EVERY_STORE(test_who_looks_up_for_a_template_may_call_everything),
  };
  return HOST_RUN(tests);
}
