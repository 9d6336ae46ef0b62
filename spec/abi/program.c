/*
** A program that gives every option struct to the calls that take it. scripts/check_abi.sh
** builds it with the header as it is and with one whose structs have grown (-DGROWN), and runs it
** with libraries of both. Each struct is a block of its own, so that AddressSanitizer finds whoever
** goes beyond it.
*/
#include <lauxlib.h>
#include <lualib.h>
#include <moonpad_lua.h>
#include <stdio.h>
#include <stdlib.h>

static const char runner[] =
    "local moonpad = require 'moonpad'\n"
    "return moonpad.runner { appName = 'app', sessionService = moonpad.open 'memory:', agent = moonpad.agent {\n"
    "  name = 'A', model = moonpad.models.scripted { 'Hello' } } }";

static lua_State *L;
static moonpad_service *service;
static moonpad_session *session;

static void expect(const char *what, moonpad_status expected, moonpad_status status, const moonpad_error *error) {
  if (status == expected) return;
  fprintf(stderr, "%s: expected %s, got %s: %s\n", what, moonpad_status_name(expected), moonpad_status_name(status),
          status == MOONPAD_OK ? "" : error->message);
  exit(1);
}

static bool find_nothing(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  (void)context, (void)name, (void)value, (void)error;
  return true;
}

/* NAME(status) calls with fresh options, which has to answer `status`. */
#ifdef GROWN
#define SET_GROWN(options, value) (options)->grown = (value)
#else
#define SET_GROWN(options, value) (void)(value)
#endif
#define DEFINE(name, type, call)                                                                                       \
  static void name(int64_t grown, moonpad_status expected) {                                                           \
    moonpad_error error = {MOONPAD_OK, ""};                                                                            \
    type *options = malloc(sizeof *options);                                                                           \
    if (options == NULL) exit(1);                                                                                      \
    type##_init(options);                                                                                              \
    SET_GROWN(options, grown);                                                                                         \
    expect(#type, expected, call(options, &error), &error);                                                            \
    free(options);                                                                                                     \
  }

static moonpad_status call_open(const moonpad_options *options, moonpad_error *error) {
  moonpad_service *opened;
  moonpad_status status = moonpad_open(moonpad_text("memory:"), options, &opened, error);
  moonpad_service_release(opened);
  return status;
}

static moonpad_status call_get(const moonpad_get_options *options, moonpad_error *error) {
  moonpad_session *got;
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("u"), moonpad_text("s")};
  moonpad_status status = moonpad_get_session(service, &name, options, &got, error);
  moonpad_session_free(got);
  return status;
}

static moonpad_status call_list(const moonpad_list_options *options, moonpad_error *error) {
  moonpad_session_list *list;
  moonpad_status status = moonpad_list_sessions(service, moonpad_text("app"), options, &list, error);
  moonpad_session_list_free(list);
  return status;
}

static moonpad_status call_cursor(const moonpad_event_cursor_options *options, moonpad_error *error) {
  moonpad_event_cursor *cursor;
  moonpad_status status = moonpad_event_cursor_open(session, options, &cursor, error);
  moonpad_event_cursor_free(cursor);
  return status;
}

static moonpad_status call_render(const moonpad_template_options *options, moonpad_error *error) {
  moonpad_buffer result;
  moonpad_status status = moonpad_render(moonpad_text("{a?}"), options, find_nothing, NULL, &result, error);
  moonpad_buffer_free(&result);
  return status;
}

static moonpad_status call_session_render(const moonpad_template_options *options, moonpad_error *error) {
  moonpad_buffer result;
  moonpad_status status = moonpad_session_render(session, moonpad_text("{a?}"), options, &result, error);
  moonpad_buffer_free(&result);
  return status;
}

static moonpad_status call_run(const moonpad_lua_run_options *given, moonpad_error *error) {
  moonpad_lua_run *run;
  moonpad_lua_run_options *options = (moonpad_lua_run_options *)given;
  options->user_id = moonpad_text("u");
  options->new_message = moonpad_text("Hi");
  moonpad_status status = moonpad_lua_run_start(L, 1, options, &run, error);
  if (status == MOONPAD_OK) moonpad_lua_run_free(L, run);
  return status;
}

DEFINE(open_service, moonpad_options, call_open)
DEFINE(get_session, moonpad_get_options, call_get)
DEFINE(list_sessions, moonpad_list_options, call_list)
DEFINE(open_cursor, moonpad_event_cursor_options, call_cursor)
DEFINE(render, moonpad_template_options, call_render)
DEFINE(session_render, moonpad_template_options, call_session_render)
DEFINE(start_run, moonpad_lua_run_options, call_run)

static void use_all(int64_t grown, moonpad_status expected) {
  open_service(grown, expected);
  get_session(grown, expected);
  list_sessions(grown, expected);
  open_cursor(grown, expected);
  render(grown, expected);
  session_render(grown, expected);
  start_run(grown, expected);
}

/* The argument is the status of calls that set what has grown. */
int main(int count, char **arguments) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("u"), moonpad_text("s")};
  expect("open", MOONPAD_OK, moonpad_open(moonpad_text("memory:"), NULL, &service, &error), &error);
  expect("create", MOONPAD_OK, moonpad_create_session(service, &name, moonpad_text("{}"), &session, &error), &error);
  L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_pop(L, 1);
  if (luaL_dostring(L, runner)) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    return 1;
  }
  use_all(0, MOONPAD_OK);
#ifdef GROWN
  use_all(1, count > 1 && *arguments[1] == 'u' ? MOONPAD_UNSUPPORTED : MOONPAD_OK);
#else
  (void)count, (void)arguments;
#endif
  lua_close(L);
  moonpad_session_free(session);
  moonpad_service_release(service);
  return 0;
}
