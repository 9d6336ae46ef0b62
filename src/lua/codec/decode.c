/*
** JSON text of others to Lua values, made compact first and then read by trusted.c; scalars; deep
** copies of Lua values.
*/
#include "core/json_compact.h"
#include "core/json_scan.h"
#include "lua/base/arguments.h"
#include "lua/base/errors.h"
#include "lua/base/handles.h"
#include "lua/codec/codec.h"
#include "service/binding/session.h"
#include "service/binding/state.h"

/*
** Spelt as this library writes it? No: it is spelt otherwise, or wrong, or has more keys than the
** scan cares to compare.
*/
static bool is_canonical(moonpad_string text) {
  mp_scan scan;
  moonpad_string value;
  uint64_t digest;
  mp_scan_init(&scan, text, MOONPAD_MAX_DEPTH, MP_SCAN_CANONICAL);
  return mp_scan_value(&scan, &value, &digest) && scan.at == scan.end;
}

/* As mp_decode_trusted for any text, strictly checked; `where` begins the message. Raises e. */
static void decode_checked(lua_State *L, mp_lua *binding, moonpad_string text, const char *where) {
  if (is_canonical(text)) {
    mp_decode_trusted(L, binding, text);
    return;
  }
  luaL_checkstack(L, 8, NULL);
  mp_buffer *compact = mp_handle_push_buffer(L, binding);
  moonpad_type type;
  moonpad_error error;
  mp_check(L, mp_json_compact(binding->env, text, MOONPAD_MAX_DEPTH, where, compact, &type, &error), &error);
  mp_decode_trusted(L, binding, mp_buffer_text(compact));
  mp_handle_release(compact);
  lua_remove(L, -2);
}

void mp_push_value(lua_State *L, mp_lua *binding, const moonpad_value *value) {
  switch (value->type) {
  case MOONPAD_NULL:
    lua_pushlightuserdata(L, NULL);
    break;
  case MOONPAD_BOOLEAN:
    lua_pushboolean(L, value->as.boolean);
    break;
  case MOONPAD_INTEGER:
    lua_pushinteger(L, value->as.integer);
    break;
  case MOONPAD_FLOAT:
    lua_pushnumber(L, value->as.number);
    break;
  case MOONPAD_STRING:
    lua_pushlstring(L, value->as.text.data, value->as.text.length);
    break;
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    mp_decode_trusted(L, binding, value->as.text);
    break;
  default:
    lua_pushnil(L);
    break;
  }
}

/* ---- Deep copies ---- */

#define COPY_DEPTH 190

typedef struct copier {
  lua_State *L;
  mp_lua *binding;
  size_t made; /* tables */
} copier;

static void count_tables(copier *c, size_t more) {
  c->made += more;
  if (c->made <= MP_COPY_TABLES) return;
  mp_raise_argument(c->L, "toTable: more than %d tables, each counted wherever it stands", MP_COPY_TABLES);
}

/* Makes tables of what a proxy holds. */
static void push_proxy_copy(copier *c, int index) {
  lua_State *L = c->L;
  mp_lua *binding = c->binding;
  mp_lua_node *node = mp_read_node(L, binding, index);
  mp_lua_state *state = node == NULL ? mp_test_userdata(L, index, binding->state_meta) : NULL;
  if (node == NULL && (state == NULL || state->set == NULL)) {
    lua_pushvalue(L, index);
    return;
  }
  mp_buffer *text = mp_handle_push_buffer(L, binding);
  moonpad_error error;
  moonpad_status status = MOONPAD_OK;
  if (node != NULL)
    mp_node_write(node->node, text);
  else
    status = mp_changes_write_all(state->set->changes, true, text, &error);
  if (status == MOONPAD_OK && text->failed) status = mp_no_memory(&error);
  mp_check(L, status, &error);
  /*
  ** Inside a table it counts by its size, for it is made anew wherever it stands. Alone it may be
  ** of any size.
  */
  if (c->made > 0) count_tables(c, 1 + text->length / 64);
  mp_decode_trusted(L, binding, mp_buffer_text(text));
  mp_handle_release(text);
  lua_remove(L, -2);
}

/* The tables that are being copied are counted in `depth`: a cycle runs into the limit. */
static void push_copy(copier *c, int index, int depth) {
  lua_State *L = c->L;
  if (lua_type(L, index) == LUA_TUSERDATA) {
    push_proxy_copy(c, index);
    return;
  }
  if (!lua_istable(L, index)) {
    lua_pushvalue(L, index);
    return;
  }
  if (depth == COPY_DEPTH) mp_raise_argument(L, "toTable: the table contains itself, or is nested too deep");
  count_tables(c, 1);
  luaL_checkstack(L, 8, NULL);
  lua_newtable(L);
  int copy = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pushvalue(L, -2);
    push_copy(c, copy + 2, depth + 1);
    lua_rawset(L, copy);
    lua_pop(L, 1);
  }
  if (lua_getmetatable(L, index)) {
    const void *address = lua_topointer(L, -1);
    if (address == c->binding->array_meta || address == c->binding->event_meta || address == c->binding->inline_meta)
      lua_setmetatable(L, copy);
    else
      lua_pop(L, 1);
  }
}

void mp_push_copy(lua_State *L, mp_lua *binding, int index) {
  luaL_checkstack(L, 8, NULL);
  copier c = {L, binding, 0};
  push_copy(&c, lua_absindex(L, index), 0);
}

/* ---- For Lua ---- */

/*
** One that was handed out or made by moonpad.event: its JSON says in its own way what has
** been removed.
*/
static bool is_event(lua_State *L, const mp_lua *binding, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
  bool same = lua_topointer(L, -1) == binding->event_meta;
  lua_pop(L, 1);
  return same;
}

/* json.encode(value) */
static int json_encode(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  luaL_checkstack(L, 8, NULL);
  moonpad_error error;
  mp_buffer_clear(&binding->text);
  if (lua_isnone(L, 1)) lua_settop(L, 1);
  mp_encode_kind kind = is_event(L, binding, 1) ? MP_ENCODE_SHOWN_EVENT : MP_ENCODE_JSON;
  mp_check(L, mp_encode(L, binding, 1, mp_value_path_named("value"), kind, MP_LIMIT_TEXT, &binding->text, NULL, &error),
           &error);
  lua_pushlstring(L, binding->text.data, binding->text.length);
  return 1;
}

/* The limit that argument 2 stands for: a session's for events, a number of bytes, or nil. */
static int64_t event_limit(lua_State *L, mp_lua *binding) {
  if (lua_isnoneornil(L, 2)) return MP_LIMIT_TEXT;
  if (lua_type(L, 2) == LUA_TNUMBER) return mp_argument_integer(L, 2, "core.encodeWithin", "limit");
  return mp_session_options(mp_check_session(L, binding, 2, "core.encodeWithin")->session)->max_event_bytes;
}

/*
** core.encodeWithin(value [, session or bytes]): as json.encode, for what is to be part of an event
*/
static int encode_within(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  luaL_checkstack(L, 8, NULL);
  int64_t limit = event_limit(L, binding);
  moonpad_error error;
  mp_buffer_clear(&binding->text);
  mp_check(L,
           mp_encode(L, binding, 1, mp_value_path_named("value"), MP_ENCODE_JSON, limit, &binding->text, NULL, &error),
           &error);
  lua_pushlstring(L, binding->text.data, binding->text.length);
  return 1;
}

/* json.decode(text) */
static int json_decode(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  if (lua_type(L, 1) != LUA_TSTRING) mp_raise_argument(L, "json.decode: expects a string, got %s", mp_describe(L, 1));
  moonpad_string text;
  text.data = lua_tolstring(L, 1, &text.length);
  decode_checked(L, binding, text, "json");
  return 1;
}

/* core.toTable(value) */
static int to_table(lua_State *L) {
  if (lua_isnone(L, 1)) mp_raise_argument(L, "toTable: expects a value, got nothing");
  mp_refuse_module(L, 1, "toTable");
  mp_push_copy(L, mp_lua_of(L), 1);
  return 1;
}

/* core.array([table]) */
static int make_array(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_newtable(L);
  }
  if (!lua_istable(L, 1)) mp_raise_argument(L, "array: expects a table, got %s", mp_describe(L, 1));
  lua_settop(L, 1);
  mp_refuse_module(L, 1, "array");
  mp_push_slot(L, MP_LUA_SLOT_ARRAY_META);
  lua_setmetatable(L, 1);
  return 1;
}

void mp_codec_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {
      {"toTable", to_table}, {"array", make_array}, {"encodeWithin", encode_within}, {NULL, NULL}};
  static const luaL_Reg json[] = {{"encode", json_encode}, {"decode", json_decode}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
  lua_newtable(L);
  mp_set_functions(L, binding_index, json);
  lua_setfield(L, -2, "json");
  lua_pushinteger(L, MP_COPY_TABLES);
  lua_setfield(L, -2, "maxCopyTables");
}
