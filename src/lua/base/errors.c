/* Error objects, and the answer to a field that a call does not know. */
#include "lua/base/errors.h"

#include <stdio.h>

#include "base/nearest.h"

/* ---- Making and raising ---- */

void mp_push_error(lua_State *L, const char *code, const char *message) {
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, code);
  lua_setfield(L, -2, "code");
  lua_pushstring(L, message);
  lua_setfield(L, -2, "message");
  mp_push_slot_anywhere(L, MP_LUA_SLOT_ERROR_META);
  lua_setmetatable(L, -2);
}

/* Lua writes paths of modules with the system's slash, those of folders are as they were given. */
static bool begins_with(const char *path, moonpad_string folder) {
  for (size_t i = 0; i < folder.length; i++) {
    bool is_slash = LUA_DIRSEP[0] == '\\' && folder.data[i] == '/';
    if (path[i] != folder.data[i] && !(is_slash && path[i] == '\\')) return false;
  }
  return true;
}

/*
** Is this a function of moonpad's own Lua files? Compiled in they have the names of their modules.
*/
static bool is_canonical(const lua_Debug *function, moonpad_string folder) {
  const char *source = function->source;
  if (*source == '=') return strcmp(source, "=moonpad") == 0 || strncmp(source, "=moonpad.", 9) == 0;
  return folder.length > 0 && *source == '@' && begins_with(source + 1, folder);
}

/*
** The nearest caller outside of moonpad: its own lines say nothing to users. A tail call has left
** none behind.
*/
static bool find_caller(lua_State *L, moonpad_string folder, lua_Debug *caller) {
  for (int level = 1; lua_getstack(L, level, caller); level++) {
    lua_getinfo(L, "Slt", caller);
    if (!is_canonical(caller, folder)) return caller->currentline > 0;
    if (caller->istailcall) return false;
  }
  return false;
}

/* Notes the line of the caller in the error object at the top: "app.lua:12". */
static void set_where(lua_State *L) {
  lua_Debug caller;
  moonpad_string folder = {NULL, 0};
  luaL_checkstack(L, 4, NULL);
  mp_push_slot_anywhere(L, MP_LUA_SLOT_FOLDER);
  if (lua_type(L, -1) == LUA_TSTRING) folder.data = lua_tolstring(L, -1, &folder.length);
  bool found = find_caller(L, folder, &caller);
  lua_pop(L, 1);
  if (!found) return;
  lua_pushfstring(L, "%s:%d", caller.short_src, caller.currentline);
  lua_setfield(L, -2, "where");
}

_Noreturn void mp_raise(lua_State *L, const moonpad_error *error) {
  mp_push_error(L, moonpad_status_name(error->code), error->message);
  set_where(L);
  while (true) lua_error(L);
}

_Noreturn void mp_raise_status(lua_State *L, moonpad_status status, const char *format, ...) {
  moonpad_error error;
  va_list arguments;
  va_start(arguments, format);
  char message[sizeof error.message];
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  mp_fail(&error, status, "%s", message);
  mp_raise(L, &error);
}

const char *mp_describe(lua_State *L, int index) {
  switch (lua_type(L, index)) {
  case LUA_TNONE:
  case LUA_TNIL:
    return "nil";
  case LUA_TBOOLEAN:
    return "a boolean";
  case LUA_TNUMBER:
    return "a number";
  case LUA_TSTRING:
    return "a string";
  case LUA_TFUNCTION:
    return "a function";
  case LUA_TTHREAD:
    return "a coroutine";
  case LUA_TLIGHTUSERDATA:
    return lua_touserdata(L, index) == NULL ? "null" : "a light userdata";
  default:
    break;
  }
  int type = luaL_getmetafield(L, index, "__name");
  const char *name = type == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  if (type != LUA_TNIL) lua_pop(L, 1);
  if (name != NULL && strcmp(name, "moonpad.session") == 0) return "a session";
  if (name != NULL && strcmp(name, "moonpad.service") == 0) return "a service";
  if (name != NULL && strcmp(name, "moonpad.state") == 0) return "a state object";
  if (name != NULL && strcmp(name, "moonpad.node") == 0) return "a state node";
  if (name != NULL && strcmp(name, "moonpad.pendingAppend") == 0) return "a pending append";
  if (name != NULL && strcmp(name, "moonpad") == 0) return "the module moonpad (call its functions with a dot)";
  return lua_istable(L, index) ? "a table" : "a userdata";
}

/* ---- Fields ---- */

void mp_refuse_module(lua_State *L, int index, const char *where) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TNIL) return;
  const char *name = lua_tostring(L, -1);
  bool is_module = name != NULL && strcmp(name, "moonpad") == 0;
  lua_pop(L, 1);
  if (is_module)
    mp_raise_argument(L, "%s: got the module moonpad: call its functions with a dot, not with a colon", where);
}

static _Noreturn void refuse_field(lua_State *L, const char *where, moonpad_string given, const char *const *known) {
  const char *nearest = mp_nearest_name(given, known);
  bool plain = given.length > 0 && given.length <= 60;
  for (size_t i = 0; i < given.length && plain; i++) plain = (unsigned char)given.data[i] > ' ' && given.data[i] < 127;
  mp_quoted quoted = mp_quote(given);
  char bare[64];
  if (plain) snprintf(bare, sizeof bare, "%.*s", (int)given.length, given.data);
  const char *name = plain ? bare : quoted.text;
  if (nearest != NULL) mp_raise_argument(L, "%s: %s: unknown field, did you mean %s?", where, name, nearest);
  char list[512] = "none";
  size_t used = 0;
  for (size_t i = 0; known[i] != NULL && used < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", known[i]);
  }
  mp_raise_argument(L, "%s: %s: unknown field (known: %s)", where, name, list);
}

void mp_check_fields(lua_State *L, int index, const char *where, const char *const *known) {
  index = lua_absindex(L, index);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) {
      mp_raise_argument(L, "%s: fields are given by name, not by position (found %s as a key)", where,
                        mp_describe(L, -1));
    }
    moonpad_string given;
    given.data = lua_tolstring(L, -1, &given.length);
    size_t i = 0;
    while (known[i] != NULL && !(strlen(known[i]) == given.length && memcmp(known[i], given.data, given.length) == 0))
      i++;
    if (known[i] != NULL) continue;
    mp_refuse_module(L, index, where);
    refuse_field(L, where, given, known);
  }
}

void mp_refuse_near_miss(lua_State *L, const char *where, int index, const char *const *known) {
  /* To a shorter name, some other is always near. */
  const size_t shortest = 5;
  if (lua_type(L, index) != LUA_TSTRING) return;
  moonpad_string given;
  given.data = lua_tolstring(L, index, &given.length);
  if (given.length >= shortest && mp_nearest_name(given, known) != NULL) refuse_field(L, where, given, known);
}

/* ---- For Lua ---- */

/* core.newError(code, message [, extra]) */
static int new_error(lua_State *L) {
  const char *code = luaL_checkstring(L, 1);
  const char *message = luaL_tolstring(L, 2, NULL);
  mp_push_error(L, code, message);
  if (lua_istable(L, 3)) {
    lua_pushnil(L);
    while (lua_next(L, 3)) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
  }
  return 1;
}

/* core.error(code, message [, extra]): raises. */
static int raise_error(lua_State *L) {
  new_error(L);
  set_where(L);
  return lua_error(L);
}

/* core.setFolder(path): where moonpad's own Lua files are, with the separator at its end. */
static int set_folder(lua_State *L) {
  luaL_checktype(L, 1, LUA_TSTRING);
  lua_settop(L, 1);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_FOLDER);
  return 0;
}

static bool is_error(lua_State *L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
  bool same = lua_topointer(L, -1) == mp_lua_of(L)->error_meta;
  lua_pop(L, 1);
  return same;
}

static int is_error_value(lua_State *L) {
  lua_pushboolean(L, is_error(L, 1));
  return 1;
}

/*
** The names of a list, ended by NULL: a userdata at the top. The strings live as long as the list
** holds them.
*/
static const char *const *push_names(lua_State *L, int index) {
  lua_Unsigned count = lua_rawlen(L, index);
  const char **names = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *names, 0);
  for (lua_Unsigned i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)(i + 1));
    if (lua_type(L, -1) != LUA_TSTRING) luaL_argerror(L, index, "expects a list of names");
    names[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  names[count] = NULL;
  return names;
}

/* core.checkFields(table, where, { "known", ... }) */
static int check_fields(lua_State *L) {
  const char *where = luaL_checkstring(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  if (!lua_istable(L, 1)) mp_raise_argument(L, "%s: expects a table, got %s", where, mp_describe(L, 1));
  mp_check_fields(L, 1, where, push_names(L, 3));
  return 0;
}

/* core.nearestName(name, { "known", ... }): a string, or nil where none is near. */
static int find_nearest(lua_State *L) {
  moonpad_string given;
  given.data = luaL_checklstring(L, 1, &given.length);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushstring(L, mp_nearest_name(given, push_names(L, 2)));
  return 1;
}

static void push_text_field(lua_State *L, int index, const char *field) {
  lua_pushstring(L, field);
  lua_rawget(L, index);
  if (lua_type(L, -1) == LUA_TSTRING) return;
  lua_pop(L, 1);
  lua_pushliteral(L, "?");
}

static int error_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  push_text_field(L, 1, "code");
  push_text_field(L, 1, "message");
  lua_pushfstring(L, "%s: %s", lua_tostring(L, 2), lua_tostring(L, 3));
  lua_pushliteral(L, "where");
  if (lua_rawget(L, 1) != LUA_TSTRING) {
    lua_pop(L, 1);
    return 1;
  }
  lua_pushfstring(L, "%s (at %s)", lua_tostring(L, 4), lua_tostring(L, 5));
  return 1;
}

/* "failed: " .. err works as it does with string errors. */
static int error_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

void mp_error_setup(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {{"__tostring", error_tostring}, {"__concat", error_concat}, {NULL, NULL}};
  mp_set_functions(L, binding_index, methods);
}

void mp_error_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"error", raise_error},
                                       {"newError", new_error},
                                       {"isError", is_error_value},
                                       {"checkFields", check_fields},
                                       {"setFolder", set_folder},
                                       {"nearestName", find_nearest},
                                       {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
