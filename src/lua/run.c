/*
** Runs of Lua agents for a host in C: moonpad_lua.h. Whatever may raise is called in
** protected mode.
*/
#include <stdio.h>

#include "lua/base/handles.h"

#include "base/error.h"
#include "base/options.h"
#include "moonpad_lua.h"

/* A userdata that the registry holds, under its own address. */
struct moonpad_lua_run {
  /* its stack has room when the host's has none, so that a run can always be forgotten */
  lua_State *reserve;
};

/* Its user values; the event keeps the JSON alive that was handed out last. */
enum { RUN_INVOCATION = 1, RUN_EVENT, RUN_RESERVE, RUN_VALUES = RUN_RESERVE };

/* What goes into a protected call and comes out of it. */
typedef struct run_call {
  const moonpad_lua_run_options *options;
  moonpad_lua_run *run;
  moonpad_lua_progress progress;
  moonpad_string event;
  bool is_refused; /* the error is about an argument of the host */
} run_call;

/* ---- Errors ---- */

static moonpad_status status_named(const char *name) {
  for (int status = MOONPAD_OK + 1; status <= MOONPAD_UNSUPPORTED; status++) {
    if (strcmp(moonpad_status_name((moonpad_status)status), name) == 0) return (moonpad_status)status;
  }
  return MOONPAD_TOOL;
}

/*
** What Lua raises when it has no memory; an error that a coroutine passed on is told by
** nothing else.
*/
static bool is_lack_of_memory(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TSTRING && strcmp(lua_tostring(L, index), "not enough memory") == 0;
}

/*
** (error object, moonpad_error*): by its code and message when it is one of moonpad's, else
** as text.
*/
static int describe_error(lua_State *L) {
  moonpad_error *error = lua_touserdata(L, 2);
  moonpad_status status = is_lack_of_memory(L, 1) ? MOONPAD_NO_MEMORY : MOONPAD_TOOL;
  const mp_lua *binding = mp_lua_find_binding(L);
  if (binding != NULL && lua_getmetatable(L, 1)) {
    if (lua_topointer(L, -1) == binding->error_meta) {
      lua_getfield(L, 1, "code");
      if (lua_type(L, -1) == LUA_TSTRING) status = status_named(lua_tostring(L, -1));
      lua_getfield(L, 1, "message");
      lua_replace(L, 1);
    }
  }
  mp_fail(error, status, "%s", luaL_tolstring(L, 1, NULL));
  return 0;
}

/* Takes the error object from the top. `result` is what lua_pcall returned. */
static moonpad_status take_error(lua_State *L, int result, bool is_refused, moonpad_error *error) {
  moonpad_error described = {MOONPAD_NO_MEMORY, ""};
  if (result != LUA_ERRMEM) {
    lua_pushcfunction(L, describe_error);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, &described);
    result = lua_pcall(L, 2, 0, 0);
  }
  if (result != LUA_OK) lua_pop(L, 1);
  if (result == LUA_ERRMEM) return mp_no_memory(error);
  if (result != LUA_OK) mp_fail(&described, MOONPAD_TOOL, "(an error object that cannot be shown as text)");
  if (is_refused) described.code = MOONPAD_INVALID_ARGUMENT;
  if (error != NULL) *error = described;
  return described.code;
}

/* Calls function(value at `index`, call) in protected mode; an index of 0 stands for nil. */
static moonpad_status call_protected(lua_State *L, lua_CFunction function, int index, run_call *call,
                                     moonpad_error *error) {
  if (index != 0) index = lua_absindex(L, index);
  if (!lua_checkstack(L, 8)) return mp_no_memory(error);
  lua_pushcfunction(L, function);
  if (index != 0) {
    lua_pushvalue(L, index);
  } else {
    lua_pushnil(L);
  }
  lua_pushlightuserdata(L, call);
  int result = lua_pcall(L, 2, 0, 0);
  return result == LUA_OK ? MOONPAD_OK : take_error(L, result, call->is_refused, error);
}

/* ---- Starting ---- */

static int refuse(lua_State *L, run_call *call, const char *message) {
  call->is_refused = true;
  lua_pushstring(L, message);
  return lua_error(L);
}

/* Calls moonpad.json.encode or decode on the value at the top, which the result replaces. */
static void convert(lua_State *L, const char *function) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "moonpad.core");
  lua_getfield(L, -1, "json");
  lua_getfield(L, -1, function);
  lua_replace(L, -4);
  lua_pop(L, 2);
  lua_insert(L, -2);
  lua_call(L, 1, 1);
}

static void set_text(lua_State *L, const char *field, moonpad_string text) {
  if (text.length == 0) return;
  lua_pushlstring(L, text.data, text.length);
  lua_setfield(L, -2, field);
}

static void set_json(lua_State *L, const char *field, moonpad_string json) {
  if (json.length == 0) return;
  lua_pushlstring(L, json.data, json.length);
  convert(L, "decode");
  lua_setfield(L, -2, field);
}

static void push_options(lua_State *L, const moonpad_lua_run_options *options) {
  lua_createtable(L, 0, 5);
  set_text(L, "userId", options->user_id);
  set_text(L, "sessionId", options->session_id);
  set_text(L, "newMessage", options->new_message);
  set_json(L, "newMessage", options->new_content);
  set_json(L, "stateDelta", options->state_delta);
  if (options->num_recent_events == MOONPAD_DEFAULT || options->num_recent_events == MOONPAD_ALL_EVENTS) return;
  lua_pushinteger(L, options->num_recent_events);
  lua_setfield(L, -2, "numRecentEvents");
}

/* (runner, call) */
static int start(lua_State *L) {
  run_call *call = lua_touserdata(L, 2);
  luaL_checkstack(L, 10, NULL);
  bool has_methods =
      lua_type(L, 1) == LUA_TTABLE && lua_getmetatable(L, 1) && lua_getfield(L, -1, "__name") == LUA_TSTRING;
  if (!has_methods || strcmp(lua_tostring(L, -1), "moonpad.runner") != 0) {
    return refuse(L, call, "moonpad_lua_run_start: there is no moonpad.runner at this index");
  }
  lua_getfield(L, 1, "start");
  lua_pushvalue(L, 1);
  push_options(L, call->options);
  lua_call(L, 2, 1);
  moonpad_lua_run *run = lua_newuserdatauv(L, sizeof *run, RUN_VALUES);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, RUN_INVOCATION);
  run->reserve = lua_newthread(L);
  lua_setiuservalue(L, -2, RUN_RESERVE);
  lua_rawsetp(L, LUA_REGISTRYINDEX, run);
  call->run = run;
  return 0;
}

static moonpad_status check_options(const moonpad_lua_run_options *given, moonpad_lua_run_options *options,
                                    moonpad_error *error) {
  if (given == NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "moonpad_lua_run_start: options are needed: start from moonpad_lua_run_options_init");
  }
  moonpad_lua_run_options_init(options);
  moonpad_status status =
      mp_take_options("moonpad_lua_run_options", MP_SIZE_UP_TO(moonpad_lua_run_options, num_recent_events), given,
                      options, sizeof *options, error);
  if (status != MOONPAD_OK) return status;
  if (options->new_message.length > 0 && options->new_content.length > 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "moonpad_lua_run_start: new_message and new_content exclude each other");
  }
  return MOONPAD_OK;
}

moonpad_status moonpad_lua_run_start(lua_State *L, int index, const moonpad_lua_run_options *given,
                                     moonpad_lua_run **run, moonpad_error *error) {
  moonpad_lua_run_options options;
  run_call call = {.options = &options};
  *run = NULL;
  moonpad_status status = check_options(given, &options, error);
  if (status != MOONPAD_OK) return status;
  status = call_protected(L, start, index, &call, error);
  if (status == MOONPAD_OK) *run = call.run;
  return status;
}

/* ---- Stepping ---- */

/* Pushes the run's userdata, the method and the invocation. */
static void push_method(lua_State *L, const moonpad_lua_run *run, const char *method) {
  luaL_checkstack(L, 10, NULL);
  lua_rawgetp(L, LUA_REGISTRYINDEX, run);
  lua_getiuservalue(L, -1, RUN_INVOCATION);
  lua_getfield(L, -1, method);
  lua_insert(L, -2);
}

/* (nil, call) */
static int step(lua_State *L) {
  run_call *call = lua_touserdata(L, 2);
  push_method(L, call->run, "step");
  lua_call(L, 1, 1);
  if (lua_isnil(L, -1)) {
    call->progress = MOONPAD_LUA_RUN_DONE;
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    call->progress = MOONPAD_LUA_RUN_WAITING;
  } else {
    convert(L, "encode");
    call->progress = MOONPAD_LUA_RUN_EVENT;
    call->event.data = lua_tolstring(L, -1, &call->event.length);
    lua_setiuservalue(L, -2, RUN_EVENT);
  }
  return 0;
}

moonpad_status moonpad_lua_run_step(lua_State *L, moonpad_lua_run *run, moonpad_lua_progress *progress,
                                    moonpad_string *event, moonpad_error *error) {
  run_call call = {.run = run, .progress = MOONPAD_LUA_RUN_DONE};
  moonpad_status status = call_protected(L, step, 0, &call, error);
  *progress = call.progress;
  if (event != NULL) *event = call.event;
  return status;
}

/* ---- Ending ---- */

/* (nil, call) */
static int cancel(lua_State *L) {
  const run_call *call = lua_touserdata(L, 2);
  push_method(L, call->run, "cancel");
  lua_call(L, 1, 0);
  return 0;
}

moonpad_status moonpad_lua_run_cancel(lua_State *L, moonpad_lua_run *run, moonpad_error *error) {
  run_call call = {.run = run};
  return call_protected(L, cancel, 0, &call, error);
}

void moonpad_lua_run_free(lua_State *L, moonpad_lua_run *run) {
  if (run == NULL) return;
  /* Should memory be too short even for this, the collector ends the run. */
  moonpad_lua_run_cancel(L, run, NULL);
  lua_pushnil(run->reserve);
  /* The key is there: nothing is allocated. */
  lua_rawsetp(run->reserve, LUA_REGISTRYINDEX, run);
}
