/* service: export and import (contract 2). */
#include "lua/service/calls.h"

#include "lua/async/drain.h"
#include "lua/async/store_call.h"
#include "service/binding/history.h"
#include "service/binding/session.h"
#include "service/binding/tasks.h"

/* ---- Export ---- */

/*
** Held by the iterator, and by the call that makes it ready for its next line: either may go first.
*/
typedef struct shared_export {
  unsigned references;
  mp_env *env;
  moonpad_service *service; /* counted by `exporting` */
  moonpad_export *exporting;
  mp_store_call *loader; /* the call that uses it on a worker, alone then; or NULL */
} shared_export;

static shared_export *new_shared(mp_env *env, moonpad_service *service) {
  shared_export *shared = mp_allocate_zeroed(env, sizeof *shared);
  if (shared == NULL) return NULL;
  shared->references = 1;
  shared->env = mp_env_retain(env);
  shared->service = service;
  return shared;
}

static void release_shared(shared_export *shared) {
  if (shared == NULL || --shared->references > 0) return;
  mp_env *env = shared->env;
  moonpad_export_free(shared->exporting);
  mp_release(env, shared);
  mp_env_release(env);
}

static void release_export(void *payload) {
  shared_export **slot = payload;
  shared_export *shared = *slot;
  *slot = NULL;
  release_shared(shared);
}

typedef struct export_call {
  mp_store_call call;      /* the first member */
  moonpad_session *origin; /* a reference of its own: the session object may be used meanwhile */
  shared_export *shared;
} export_call;

static void release_call(mp_store_call *call) {
  export_call *made = (export_call *)call;
  moonpad_session_free(made->origin);
  if (made->shared != NULL && made->shared->loader == call) made->shared->loader = NULL;
  release_shared(made->shared);
}

/* A line that is ready. Behind the last one the iterator forgets the export. */
static int push_line(lua_State *L, moonpad_export *exporting) {
  moonpad_string line;
  moonpad_error error;
  mp_check(L, moonpad_export_next(exporting, &line, &error), &error);
  if (line.data != NULL) {
    lua_pushlstring(L, line.data, line.length);
    return 1;
  }
  mp_handle_release(mp_handle_object(L, lua_upvalueindex(2)));
  lua_pushboolean(L, false);
  lua_replace(L, lua_upvalueindex(2));
  return 0;
}

static moonpad_status ask_line(mp_store_call *call, moonpad_error *error) {
  return mp_export_load(((export_call *)call)->shared->exporting, error);
}

static int finish_loaded_line(lua_State *L, mp_store_call *call) {
  shared_export *shared = ((export_call *)call)->shared;
  shared->loader = NULL;
  mp_check(L, call->status, &call->error);
  return push_line(L, shared->exporting);
}

/*
** Does somebody wait for the page that is being loaded? One that nobody waits for any more is
** waited for on the spot: it is as good as there.
*/
static bool is_awaited(shared_export *shared) {
  mp_task *task = shared->loader == NULL ? NULL : &shared->loader->task;
  if (task == NULL || task->taker != MP_TAKEN_BY_NONE) return task != NULL;
  moonpad_queue *queue = task->queue;
  mp_task_wait(task);
  mp_queue_drop_abandoned(queue);
  return false;
}

/* Upvalue 2: the handle of the export, or false behind its last line. */
static int next_line(lua_State *L) {
  static const mp_store_call_type type = {sizeof(export_call), ask_line, finish_loaded_line, release_call, false};
  mp_lua_of(L);
  if (!lua_toboolean(L, lua_upvalueindex(2))) return 0;
  shared_export *shared = *(shared_export **)mp_handle_object(L, lua_upvalueindex(2));
  if (shared == NULL) mp_raise_status(L, MOONPAD_CLOSED, "service:export: the export is closed");
  if (is_awaited(shared)) {
    mp_raise_argument(L, "service:export: another coroutine waits for the next line of this export");
  }
  if (mp_export_is_ready(shared->exporting) || !mp_may_yield_to_step(L)) return push_line(L, shared->exporting);
  export_call *call = (export_call *)mp_store_call_push(L, &type, shared->service);
  call->shared = shared;
  shared->references++;
  shared->loader = &call->call;
  return mp_ask_service(L, &call->call);
}

/* What an export holds as a rule, for the collector. */
#define EXPORT_BYTES ((size_t)64 * 1024)

static moonpad_status ask_export(mp_store_call *call, moonpad_error *error) {
  export_call *opened = (export_call *)call;
  return moonpad_export_open(opened->origin, &opened->shared->exporting, error);
}

static int finish_export(lua_State *L, mp_store_call *call) {
  export_call *opened = (export_call *)call;
  mp_check(L, call->status, &call->error);
  lua_pushvalue(L, lua_upvalueindex(1));
  shared_export **owned = mp_handle_push(L, sizeof *owned, release_export);
  *owned = opened->shared;
  opened->shared = NULL;
  lua_pushcclosure(L, next_line, 2);
  mp_report_memory(L, mp_lua_of(L), EXPORT_BYTES);
  return 1;
}

static int drained_export(lua_State *L) {
  static const mp_store_call_type type = {sizeof(export_call), ask_export, finish_export, release_call, false};
  mp_session_object *object = mp_check_session(L, mp_lua_of(L), 2, "service:export");
  export_call *call = (export_call *)mp_store_call_push(L, &type, moonpad_session_service(object->session));
  call->origin = mp_session_reference(object->session);
  call->shared = new_shared(call->call.env, call->call.service);
  if (call->origin == NULL || call->shared == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return mp_ask_service(L, &call->call);
}

/* service:export(session) -> iterator of lines */
static int export_session(lua_State *L) {
  static const char where[] = "service:export";
  mp_session_object *object = mp_check_session_call(L, where, 2);
  lua_settop(L, 2);
  return mp_when_drained(L, object, drained_export);
}

/* ---- Import ---- */

/* The stack of an import. */
enum { SERVICE = 1, OPTIONS, LINES, IMPORT, SESSION, IMPORT_TOP = SESSION };

static void release_import(void *payload) {
  moonpad_import **importing = payload;
  moonpad_import_free(*importing);
  *importing = NULL;
}

static moonpad_import *import_of(lua_State *L) {
  return *(moonpad_import **)mp_handle_object(L, IMPORT);
}

static void finish_line(lua_State *L, const char *text, size_t length) {
  moonpad_string line = {text, length};
  moonpad_error error;
  mp_check(L, moonpad_import_line(import_of(L), line, &error), &error);
}

/* Gives the line at the top and pops it; false: it is nil, and there are no more. */
static bool take_line(lua_State *L, lua_Integer number) {
  if (lua_isnil(L, -1)) return false;
  if (lua_type(L, -1) != LUA_TSTRING) {
    mp_raise_argument(L, "service:import: lines: line %d: expects a string, got %s", (int)number, mp_describe(L, -1));
  }
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  finish_line(L, text, length);
  lua_pop(L, 1);
  return true;
}

typedef struct import_call {
  mp_store_call call; /* the first member */
  moonpad_import *importing;
  moonpad_session *imported;
} import_call;

static void release_import_call(mp_store_call *call) {
  moonpad_import_free(((import_call *)call)->importing);
  moonpad_session_free(((import_call *)call)->imported);
}

static moonpad_status ask_commit(mp_store_call *call, moonpad_error *error) {
  import_call *commit = (import_call *)call;
  return moonpad_import_commit(commit->importing, &commit->imported, error);
}

static int finish_imported(lua_State *L, mp_store_call *call) {
  import_call *commit = (import_call *)call;
  mp_check(L, call->status, &call->error);
  lua_pushvalue(L, SESSION);
  mp_lua_session *session = lua_touserdata(L, SESSION);
  session->object->session = commit->imported;
  commit->imported = NULL;
  return mp_finish_session(L, mp_lua_of(L), session);
}

static int commit(lua_State *L) {
  static const mp_store_call_type type = {sizeof(import_call), ask_commit, finish_imported, release_import_call, true};
  moonpad_service *service = mp_check_service(L, mp_lua_of(L), "service:import");
  lua_settop(L, IMPORT_TOP);
  import_call *call = (import_call *)mp_store_call_push(L, &type, service);
  moonpad_import **importing = mp_handle_object(L, IMPORT);
  call->importing = *importing;
  *importing = NULL;
  return mp_ask_service(L, &call->call);
}

static int import_text(lua_State *L) {
  size_t left;
  const char *text = lua_tolstring(L, LINES, &left);
  while (left > 0) {
    const char *end = memchr(text, '\n', left);
    size_t length = end == NULL ? left : (size_t)(end - text) + 1;
    finish_line(L, text, length);
    text += length;
    left -= length;
  }
  return commit(L);
}

static int import_list(lua_State *L) {
  lua_Integer number = 1;
  for (lua_geti(L, LINES, number); take_line(L, number); lua_geti(L, LINES, number)) number++;
  return commit(L);
}

/*
** While the caller's iterator runs, this function owns nothing and has no data on the C stack: the
** iterator may raise, yield, and call moonpad.
*/
static int import_from_iterator(lua_State *L, int status, lua_KContext context) {
  /* The number of the line that comes next. */
  lua_Integer number = (lua_Integer)context;
  /* The line has come already: the iterator had yielded. */
  bool has_come = status == LUA_YIELD;
  for (;; has_come = false) {
    if (!has_come) {
      lua_pushvalue(L, LINES);
      lua_callk(L, 0, 1, (lua_KContext)number, import_from_iterator);
    }
    if (!take_line(L, number++)) return commit(L);
  }
}

static bool is_callable(lua_State *L, int index) {
  if (lua_isfunction(L, index)) return true;
  int type = luaL_getmetafield(L, index, "__call");
  if (type != LUA_TNIL) lua_pop(L, 1);
  return type == LUA_TFUNCTION;
}

/* Empty is not the same as left out. */
static moonpad_string given_name(mp_options_table options, const char *field) {
  moonpad_string name = mp_field_optional_string(options, field);
  if (name.data != NULL && name.length == 0) {
    mp_raise_argument(options.L, "%s: %s: must not be empty", options.where, field);
  }
  return name;
}

/* service:import{ lines, appName?, userId?, sessionId? } */
static int import_session(lua_State *L) {
  static const char where[] = "service:import";
  static const char *const known[] = {"lines", "appName", "userId", "sessionId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, OPTIONS);
  lua_settop(L, OPTIONS);
  mp_options_table options = mp_check_options(L, OPTIONS, where, known);
  if (mp_field_index(options, "lines") == 0) mp_raise_argument(L, "%s: lines is missing", where);
  bool is_iterator = is_callable(L, LINES);
  int type = lua_type(L, LINES);
  if (!is_iterator && type != LUA_TSTRING && type != LUA_TTABLE) {
    mp_raise_argument(L, "%s: lines: expects a string, a list or an iterator, got %s", where, mp_describe(L, LINES));
  }
  moonpad_import **importing = mp_handle_push(L, sizeof *importing, release_import);
  mp_push_session(L, binding);
  moonpad_session_name name = {given_name(options, "appName"), given_name(options, "userId"),
                               given_name(options, "sessionId")};
  moonpad_error error;
  mp_check(L, moonpad_import_begin(service, &name, importing, &error), &error);
  lua_settop(L, IMPORT_TOP);
  if (is_iterator) return import_from_iterator(L, LUA_OK, 1);
  return type == LUA_TSTRING ? import_text(L) : import_list(L);
}

const luaL_Reg mp_service_export_calls[] = {{"export", export_session}, {"import", import_session}, {NULL, NULL}};
