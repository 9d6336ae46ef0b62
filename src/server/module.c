/*
** The Lua module `moonpad.server_core`: servers and exchanges as userdata. It is a library of its
** own, so that the core needs neither libevent nor http_parser. Only wrong arguments raise. What
** people use is lua/moonpad/server.
*/
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "server/server.h"

#define SERVER_TYPE   "moonpad.server_core.server"
#define EXCHANGE_TYPE "moonpad.server_core.exchange"

typedef struct server_handle {
  mp_server *server; /* NULL: closed */
} server_handle;

typedef struct exchange_handle {
  mp_exchange *exchange;
} exchange_handle;

/* ---- Servers ---- */

static mp_server *check_server(lua_State *L) {
  const server_handle *handle = luaL_checkudata(L, 1, SERVER_TYPE);
  if (handle->server == NULL) luaL_error(L, "the server is closed");
  return handle->server;
}

static lua_Number number_field(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  lua_Number value = luaL_checknumber(L, -1);
  luaL_argcheck(L, value >= 0 && value < 1e15, 1, name);
  return value;
}

/* Its exchanges by their numbers, as long as somebody has them: each stays one userdata. */
static void set_exchanges(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, -2, 1);
}

/*
** new{ host, port, maxHeaderBytes, maxBodyBytes, timeout, maxConnections } -> server, or nil and a
** message
*/
static int server_new(lua_State *L) {
  mp_server_options options;
  char message[256];
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  options.port = (int)number_field(L, "port");
  options.limits.max_header = (size_t)number_field(L, "maxHeaderBytes");
  options.limits.max_body = (size_t)number_field(L, "maxBodyBytes");
  options.limits.timeout = number_field(L, "timeout");
  options.max_connections = (size_t)number_field(L, "maxConnections");
  lua_getfield(L, 1, "host");
  options.host = luaL_checkstring(L, -1);
  server_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
  handle->server = NULL;
  luaL_setmetatable(L, SERVER_TYPE);
  set_exchanges(L);
  handle->server = mp_server_new(&options, message, sizeof message);
  if (handle->server != NULL) return 1;
  lua_pushnil(L);
  lua_pushstring(L, message);
  return 2;
}

static int server_close(lua_State *L) {
  server_handle *handle = luaL_checkudata(L, 1, SERVER_TYPE);
  mp_server *server = handle->server;
  handle->server = NULL;
  mp_server_free(server);
  return 0;
}

static int server_port(lua_State *L) {
  lua_pushinteger(L, mp_server_port(check_server(L)));
  return 1;
}

static int server_connections(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mp_server_connections(check_server(L)));
  return 1;
}

static int server_stop_listening(lua_State *L) {
  mp_server_stop_listening(check_server(L));
  return 0;
}

static void read_descriptors(lua_State *L, int index, mp_server_descriptor *list, size_t count, bool is_for_writing) {
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    list[i].fd = (int)luaL_checkinteger(L, -1);
    list[i].is_for_writing = is_for_writing;
    lua_pop(L, 1);
  }
}

/*
** server:wait(seconds, readable, writable) -> { [fd] = true } of those that are ready; seconds
** below 0 have no end
*/
static int server_wait(lua_State *L) {
  mp_server *server = check_server(L);
  lua_Number seconds = luaL_checknumber(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  size_t readable = (size_t)lua_rawlen(L, 3), writable = (size_t)lua_rawlen(L, 4), count = readable + writable;
  mp_server_descriptor *list = lua_newuserdatauv(L, (count + 1) * sizeof *list, 0);
  memset(list, 0, (count + 1) * sizeof *list);
  read_descriptors(L, 3, list, readable, false);
  read_descriptors(L, 4, list + readable, writable, true);
  mp_server_wait(server, seconds, list, count);
  lua_newtable(L);
  for (size_t i = 0; i < count; i++) {
    if (!list[i].is_ready) continue;
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, list[i].fd);
  }
  return 1;
}

/* server:news() -> an exchange of which something is new, or nil */
static int server_news(lua_State *L) {
  mp_exchange *exchange = mp_server_news(check_server(L));
  if (exchange == NULL) return 0;
  lua_getiuservalue(L, 1, 1);
  if (lua_rawgeti(L, -1, (lua_Integer)mp_exchange_id(exchange)) == LUA_TUSERDATA) {
    mp_exchange_release(exchange);
    return 1;
  }
  lua_pop(L, 1);
  exchange_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->exchange = exchange;
  luaL_setmetatable(L, EXCHANGE_TYPE);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, (lua_Integer)mp_exchange_id(exchange));
  return 1;
}

/* ---- Requests ---- */

static mp_exchange *check_exchange(lua_State *L) {
  return ((const exchange_handle *)luaL_checkudata(L, 1, EXCHANGE_TYPE))->exchange;
}

/* Whoever drops one unanswered has no answer: its client must not wait for one. */
static int exchange_collect(lua_State *L) {
  exchange_handle *handle = luaL_checkudata(L, 1, EXCHANGE_TYPE);
  if (handle->exchange == NULL) return 0;
  mp_exchange_abort(handle->exchange);
  mp_exchange_release(handle->exchange);
  handle->exchange = NULL;
  return 0;
}

static int push_text(lua_State *L, moonpad_string text) {
  lua_pushlstring(L, text.data == NULL ? "" : text.data, text.length);
  return 1;
}

static int exchange_method(lua_State *L) {
  lua_pushstring(L, mp_exchange_method(check_exchange(L)));
  return 1;
}

static int exchange_target(lua_State *L) {
  return push_text(L, mp_exchange_target(check_exchange(L)));
}

static int exchange_peer(lua_State *L) {
  lua_pushstring(L, mp_exchange_peer(check_exchange(L)));
  return 1;
}

/*
** exchange:headers() -> { [name in lower case] = value }; the values of a repeated name are joined
** by ", "
*/
static int exchange_headers(lua_State *L) {
  moonpad_string headers = mp_exchange_headers(check_exchange(L));
  const char *at = headers.data, *end = at + headers.length;
  lua_newtable(L);
  while (at < end) {
    const char *name = at, *value = name + strlen(name) + 1;
    at = value + strlen(value) + 1;
    if (lua_getfield(L, -1, name) == LUA_TSTRING) {
      lua_pushfstring(L, "%s, %s", lua_tostring(L, -1), value);
      lua_remove(L, -2);
    } else {
      lua_pop(L, 1);
      lua_pushstring(L, value);
    }
    lua_setfield(L, -2, name);
  }
  return 1;
}

static int exchange_receive(lua_State *L) {
  mp_exchange_receive(check_exchange(L));
  return 0;
}

static int exchange_is_received(lua_State *L) {
  lua_pushboolean(L, mp_exchange_is_received(check_exchange(L)));
  return 1;
}

static int exchange_body(lua_State *L) {
  return push_text(L, mp_exchange_body(check_exchange(L)));
}

/* ---- Answers ---- */

static moonpad_string check_text(lua_State *L, int index) {
  moonpad_string text;
  text.data = luaL_checklstring(L, index, &text.length);
  return text;
}

static int check_status(lua_State *L) {
  lua_Integer status = luaL_checkinteger(L, 2);
  luaL_argcheck(L, status >= 200 && status <= 599, 2, "a status from 200 to 599 expected");
  return (int)status;
}

/* No value may begin a header of its own. */
static void add_header(lua_State *L, luaL_Buffer *buffer, int index) {
  size_t length;
  const char *text = luaL_checklstring(L, index, &length);
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\r' || text[i] == '\n' || text[i] == '\0') luaL_error(L, "a header with a line end or a NUL byte");
  }
  luaL_addlstring(buffer, text, length);
  luaL_addchar(buffer, '\0');
}

/* The list { name, value, name, value, ... } at `index`; what it is made of is pushed. */
static moonpad_string check_headers(lua_State *L, int index) {
  luaL_Buffer buffer;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_Integer count = (lua_Integer)lua_rawlen(L, index);
  luaL_argcheck(L, count % 2 == 0, index, "names and values expected");
  lua_settop(L, 4);
  luaL_checkstack(L, (int)count + 8, "too many headers");
  int first = lua_gettop(L) + 1;
  for (lua_Integer i = 1; i <= count; i++) lua_rawgeti(L, index, i);
  luaL_buffinit(L, &buffer);
  for (lua_Integer i = 0; i < count; i++) add_header(L, &buffer, first + (int)i);
  luaL_pushresult(&buffer);
  return check_text(L, -1);
}

/* exchange:respond(status, headers, body) */
static int exchange_respond(lua_State *L) {
  mp_exchange *exchange = check_exchange(L);
  int status = check_status(L);
  moonpad_string body = check_text(L, 4), headers = check_headers(L, 3);
  mp_exchange_respond(exchange, status, headers, body);
  return 0;
}

/* exchange:begin(status, headers) */
static int exchange_begin(lua_State *L) {
  mp_exchange *exchange = check_exchange(L);
  int status = check_status(L);
  mp_exchange_begin(exchange, status, check_headers(L, 3));
  return 0;
}

/* exchange:write(piece) -> bytes that the client has not taken yet */
static int exchange_write(lua_State *L) {
  mp_exchange *exchange = check_exchange(L);
  mp_exchange_write(exchange, check_text(L, 2));
  lua_pushinteger(L, (lua_Integer)mp_exchange_unsent(exchange));
  return 1;
}

static int exchange_finish(lua_State *L) {
  mp_exchange_finish(check_exchange(L));
  return 0;
}

static int exchange_unsent(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mp_exchange_unsent(check_exchange(L)));
  return 1;
}

static int exchange_is_open(lua_State *L) {
  lua_pushboolean(L, mp_exchange_is_open(check_exchange(L)));
  return 1;
}

static int exchange_abort(lua_State *L) {
  mp_exchange_abort(check_exchange(L));
  return 0;
}

/* ---- The module ---- */

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction collect) {
  if (luaL_newmetatable(L, name)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
}

MOONPAD_API int luaopen_moonpad_server_core(lua_State *L);

int luaopen_moonpad_server_core(lua_State *L) {
  static const luaL_Reg server_methods[] = {{"port", server_port},
                                            {"connections", server_connections},
                                            {"stopListening", server_stop_listening},
                                            {"wait", server_wait},
                                            {"news", server_news},
                                            {"close", server_close},
                                            {NULL, NULL}};
  static const luaL_Reg exchange_methods[] = {
      {"method", exchange_method},  {"target", exchange_target},   {"headers", exchange_headers},
      {"peer", exchange_peer},      {"receive", exchange_receive}, {"isReceived", exchange_is_received},
      {"body", exchange_body},      {"respond", exchange_respond}, {"begin", exchange_begin},
      {"write", exchange_write},    {"finish", exchange_finish},   {"unsent", exchange_unsent},
      {"isOpen", exchange_is_open}, {"abort", exchange_abort},     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"new", server_new}, {NULL, NULL}};
  luaL_checkversion(L);
  make_type(L, SERVER_TYPE, server_methods, server_close);
  make_type(L, EXCHANGE_TYPE, exchange_methods, exchange_collect);
  luaL_newlib(L, functions);
  return 1;
}
