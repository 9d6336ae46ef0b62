/* service: export and import (contract 2). */
#include "lua/service.h"

/* ---- Export ---- */

static void release_export(void *payload) {
  moonpad_export **exporting = payload;
  moonpad_export_free(*exporting);
  *exporting = NULL;
}

/* Upvalue 2: the box of the export, or false behind its last line. */
static int next_line(lua_State *L) {
  mp_lua_of(L);
  if (!lua_toboolean(L, lua_upvalueindex(2))) return 0;
  moonpad_export *exporting = *(moonpad_export **)mp_box_payload(L, lua_upvalueindex(2));
  if (exporting == NULL) mp_raise_status(L, MOONPAD_CLOSED, "service:export: the export is closed");
  moonpad_string line;
  moonpad_error error;
  mp_check(L, moonpad_export_next(exporting, &line, &error), &error);
  if (line.data != NULL) {
    lua_pushlstring(L, line.data, line.length);
    return 1;
  }
  mp_box_release(mp_box_payload(L, lua_upvalueindex(2)));
  lua_pushboolean(L, false);
  lua_replace(L, lua_upvalueindex(2));
  return 0;
}

/* What an export holds as a rule, for the collector. */
#define EXPORT_BYTES ((size_t)64 * 1024)

/* service:export(session) -> iterator of lines */
static int export_session(lua_State *L) {
  static const char where[] = "service:export";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_box *box = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, 2, where);
  lua_pushvalue(L, lua_upvalueindex(1));
  moonpad_export **exporting = mp_box_push(L, sizeof *exporting, release_export);
  moonpad_error error;
  mp_check(L, moonpad_export_open(box->session, exporting, &error), &error);
  lua_pushcclosure(L, next_line, 2);
  mp_weigh(L, binding, EXPORT_BYTES);
  return 1;
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
  return *(moonpad_import **)mp_box_payload(L, IMPORT);
}

static void give_line(lua_State *L, const char *text, size_t length) {
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
  give_line(L, text, length);
  lua_pop(L, 1);
  return true;
}

static int commit(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, IMPORT_TOP);
  mp_lua_session *session = lua_touserdata(L, SESSION);
  moonpad_error error;
  mp_check(L, moonpad_import_commit(import_of(L), &session->box->session, &error), &error);
  mp_box_release(mp_box_payload(L, IMPORT));
  return mp_finish_session(L, binding, session);
}

static int import_text(lua_State *L) {
  size_t left;
  const char *text = lua_tolstring(L, LINES, &left);
  while (left > 0) {
    const char *end = memchr(text, '\n', left);
    size_t length = end == NULL ? left : (size_t)(end - text) + 1;
    give_line(L, text, length);
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
** Nothing of ours is held or on the C stack while the iterator runs: it may raise, yield, and call
** moonpad.
*/
static int import_from_iterator(lua_State *L, int status, lua_KContext context) {
  lua_Integer number = (lua_Integer)context; /* of the line that comes next */
  bool has_come = status == LUA_YIELD;       /* while the iterator had yielded */
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
  moonpad_import **importing = mp_box_push(L, sizeof *importing, release_import);
  mp_push_session(L, binding);
  moonpad_session_name name = {given_name(options, "appName"), given_name(options, "userId"),
                               given_name(options, "sessionId")};
  moonpad_error error;
  mp_check(L, moonpad_import_begin(service, &name, importing, &error), &error);
  lua_settop(L, IMPORT_TOP);
  if (is_iterator) return import_from_iterator(L, LUA_OK, 1);
  return type == LUA_TSTRING ? import_text(L) : import_list(L);
}

const luaL_Reg mp_service_transfer_calls[] = {{"export", export_session}, {"import", import_session}, {NULL, NULL}};
