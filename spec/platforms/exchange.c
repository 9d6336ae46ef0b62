/*
** A SQLite file that one machine writes and another one reads: byte order, sizes of types, numbers
** to the last bit.
**   exchange write FILE      makes it
**   exchange read FILE       says what in it is not what was written, and appends one more event
*/
#include <stdio.h>
#include <string.h>

#include "moonpad.h"

/* As JSON, and as it must be again. Doubles are the shortest texts of their bits. */
static const char *const values[] = {"0",
                                     "-1",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "9007199254740993",
                                     "0.1",
                                     "-0.0",
                                     "5e-324",
                                     "2.2250738585072014e-308",
                                     "1.7976931348623157e+308",
                                     "123456789.12345679",
                                     "true",
                                     "null",
                                     "\"\"",
                                     "\"gr\xC3\xBC\xC3\x9F dich \xF0\x9F\x90\xBA\"",
                                     "\"\\u0000\\n\\\"\"",
                                     "[1,[2,{\"a\":3.5}],\"x\"]",
                                     "{\"b\":1,\"a\":[],\"\":{}}"};
#define VALUES (sizeof values / sizeof *values)

static moonpad_error error;

static int fail(const char *what) {
  fprintf(stderr, "exchange: %s: %s\n", what, error.message);
  return 1;
}

/* All of the values as a stateDelta, in the session and in the user's state. */
static void write_event(char *event, size_t size) {
  size_t length = (size_t)snprintf(event, size, "{\"author\":\"user\",\"actions\":{\"stateDelta\":{");
  for (size_t i = 0; i < VALUES; i++) {
    length += (size_t)snprintf(event + length, size - length, "%s\"v%zu\":%s,\"user:v%zu\":%s", i == 0 ? "" : ",", i,
                               values[i], i, values[i]);
  }
  snprintf(event + length, size - length, "}}}");
}

static int append(moonpad_session *session, const char *event) {
  return moonpad_append_event(session, moonpad_text(event), NULL, &error) == MOONPAD_OK ? 0 : fail("append");
}

static int write_session(moonpad_service *service, const moonpad_session_name *name) {
  moonpad_session *session;
  char event[8192];
  if (moonpad_create_session(service, name, moonpad_text("{\"begun\":1.5}"), &session, &error) != MOONPAD_OK) {
    return fail("create");
  }
  write_event(event, sizeof event);
  int failed = append(session, event);
  moonpad_session_free(session);
  return failed;
}

/* The event that is stored holds what the state holds: both as text. */
static int expect_values(moonpad_session *session) {
  moonpad_buffer state = {NULL, 0, NULL};
  if (moonpad_session_state(session, &state, &error) != MOONPAD_OK) return fail("state");
  int failed = 0;
  for (size_t i = 0; i < VALUES; i++) {
    char in_session[256], of_user[256];
    snprintf(in_session, sizeof in_session, "\"v%zu\":%s", i, values[i]);
    snprintf(of_user, sizeof of_user, "\"user:v%zu\":%s", i, values[i]);
    if (strstr(state.data, in_session) != NULL && strstr(state.data, of_user) != NULL) continue;
    fprintf(stderr, "exchange: no %s in %s\n", in_session, state.data);
    failed = 1;
  }
  moonpad_buffer_free(&state);
  return failed;
}

static int read_session(moonpad_service *service, const moonpad_session_name *name) {
  moonpad_session *session;
  if (moonpad_get_session(service, name, NULL, &session, &error) != MOONPAD_OK) return fail("get");
  int failed = expect_values(session) || append(session, "{\"author\":\"reader\"}");
  printf("%d events, all values as they were written\n", (int)moonpad_session_revision(session));
  moonpad_session_free(session);
  return failed;
}

int main(int count, char **arguments) {
  moonpad_service *service;
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("user"), moonpad_text("s")};
  char url[4096];
  if (count != 3) return 2;
  snprintf(url, sizeof url, "sqlite:%s", arguments[2]);
  if (moonpad_open(moonpad_text(url), NULL, &service, &error) != MOONPAD_OK) return fail("open");
  int failed = strcmp(arguments[1], "write") == 0 ? write_session(service, &name) : read_session(service, &name);
  moonpad_service_release(service);
  return failed;
}
