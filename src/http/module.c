/*
** The Lua module `moonpad.http_core`: clients and requests as userdata. It is a library of its own,
** so that the core needs no libcurl; for a page, whose client needs none (fetch/client.c), it is
** inside. Failures come back as nil, message, kind; only wrong arguments raise. What people use is
** lua/moonpad/http.
*/
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>

#include "http/client.h"
#include "http/library.h"

#define CLIENT_TYPE  "moonpad.http_client"
#define REQUEST_TYPE "moonpad.http_request"

#define DEFAULT_MAX_UNREAD ((lua_Integer)1024 * 1024)

typedef struct client_handle {
  mp_http_client *client; /* NULL: closed */
} client_handle;

typedef struct request_handle {
  mp_http_request *request; /* NULL: closed */
} request_handle;

/* ---- Results ---- */

static const char *kind_name(mp_http_failure failure) {
  static const char *const names[] = {"none",     "address", "resolve",   "connect", "tls",      "timeout",
                                      "transfer", "limit",   "no_memory", "closed",  "redirect", "unsupported"};
  return names[failure];
}

static int push_failure(lua_State *L, mp_http_failure failure, const char *message) {
  lua_pushnil(L);
  lua_pushstring(L, message);
  lua_pushstring(L, kind_name(failure));
  return 3;
}

/* ---- Clients ---- */

/* prepare(): initialises libcurl. If that fails, client() says so. */
static int prepare(lua_State *L) {
  (void)L;
  mp_http_prepare();
  return 0;
}

static mp_http_client *check_client(lua_State *L) {
  const client_handle *handle = luaL_checkudata(L, 1, CLIENT_TYPE);
  if (handle->client == NULL) luaL_error(L, "the HTTP client is closed");
  return handle->client;
}

static int client_new(lua_State *L) {
  client_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->client = NULL;
  luaL_setmetatable(L, CLIENT_TYPE);
  handle->client = mp_http_client_new();
  if (handle->client == NULL) return push_failure(L, MP_HTTP_NO_MEMORY, "libcurl could not be initialised");
  return 1;
}

static int client_close(lua_State *L) {
  client_handle *handle = luaL_checkudata(L, 1, CLIENT_TYPE);
  mp_http_client *client = handle->client;
  handle->client = NULL;
  mp_http_client_free(client);
  return 0;
}

/*
** client:descriptor() -> readable when something has happened since drain(); nil in a page, and in
** a forked process, whose client it is not
*/
static int client_descriptor(lua_State *L) {
  int fd = mp_http_descriptor(check_client(L));
  if (fd < 0) return 0;
  lua_pushinteger(L, fd);
  return 1;
}

/* client:drain() -> as activity(); the descriptor is not readable until something else happens */
static int client_drain(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mp_http_drain(check_client(L)));
  return 1;
}

/* client:activity() -> a number that changes whenever something happens to a request */
static int client_activity(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mp_http_activity(check_client(L)));
  return 1;
}

/* ---- Starting ---- */

/*
** The array of "Name: value" strings in options.headers as C strings. The Lua values that keep them
** alive stay on the stack.
*/
static const char *const *read_headers(lua_State *L) {
  if (lua_getfield(L, 2, "headers") == LUA_TNIL) lua_newtable(L);
  luaL_checktype(L, -1, LUA_TTABLE);
  int index = lua_gettop(L);
  lua_Unsigned count = lua_rawlen(L, index);
  const char **headers = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *headers, 0);
  for (lua_Unsigned i = 0; i < count; i++) {
    if (lua_rawgeti(L, index, (lua_Integer)(i + 1)) != LUA_TSTRING) luaL_error(L, "headers: expected strings");
    headers[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  headers[count] = NULL;
  return headers;
}

/* The string stays on the stack, which keeps it alive. */
static const char *text_option(lua_State *L, const char *name, size_t *length) {
  if (lua_getfield(L, 2, name) == LUA_TNIL) return NULL;
  if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "%s: expected a string", name);
  return lua_tolstring(L, -1, length);
}

/* The pieces of options.body, a string or an array of strings, which stay on the stack. */
static void read_body(lua_State *L, mp_http_options *options) {
  int type = lua_getfield(L, 2, "body");
  if (type == LUA_TNIL) return;
  if (type == LUA_TSTRING) {
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
  }
  luaL_checktype(L, -1, LUA_TTABLE);
  int list = lua_gettop(L);
  options->body_count = (size_t)lua_rawlen(L, list);
  moonpad_string *pieces = lua_newuserdatauv(L, (options->body_count + 1) * sizeof *pieces, 0);
  for (size_t i = 0; i < options->body_count; i++) {
    if (lua_rawgeti(L, list, (lua_Integer)(i + 1)) != LUA_TSTRING) luaL_error(L, "body: expected strings");
    pieces[i].data = lua_tolstring(L, -1, &pieces[i].length);
    lua_pop(L, 1);
  }
  options->body = pieces;
}

static lua_Integer integer_option(lua_State *L, const char *name, lua_Integer fallback) {
  lua_Integer value = fallback;
  if (lua_getfield(L, 2, name) != LUA_TNIL) {
    int is_integer;
    value = lua_tointegerx(L, -1, &is_integer);
    if (!is_integer || value < 0 || value > INT_MAX)
      luaL_error(L, "%s: expected an integer from 0 to %d", name, INT_MAX);
  }
  lua_pop(L, 1);
  return value;
}

static mp_http_options read_options(lua_State *L) {
  mp_http_options options = {0};
  options.url = text_option(L, "url", NULL);
  options.method = text_option(L, "method", NULL);
  if (options.url == NULL || options.method == NULL) luaL_error(L, "url and method are needed");
  read_body(L, &options);
  options.ca_file = text_option(L, "caFile", NULL);
  options.timeout = (long)integer_option(L, "timeoutMs", 0);
  options.connect_timeout = (long)integer_option(L, "connectTimeoutMs", 0);
  options.idle_timeout = (long)integer_option(L, "idleTimeoutMs", 0);
  options.max_unread = (size_t)integer_option(L, "maxUnreadBytes", DEFAULT_MAX_UNREAD);
  lua_getfield(L, 2, "sendOnce");
  options.is_sent_once = lua_toboolean(L, -1);
  lua_pop(L, 1);
  options.headers = read_headers(L);
  return options;
}

/*
** client:start{ url, method, headers = { "Name: value" }, body? = "text" or { "pieces" }, caFile?,
** timeoutMs?, connectTimeoutMs?, idleTimeoutMs?, maxUnreadBytes?, sendOnce? }
*/
static int client_start(lua_State *L) {
  mp_http_client *client = check_client(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, 16, NULL);
  mp_http_options options = read_options(L);
  request_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
  handle->request = NULL;
  luaL_setmetatable(L, REQUEST_TYPE);
  /* The request refers to its client: so the client is not collected during a transfer. */
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  mp_http_failure failure;
  const char *message;
  handle->request = mp_http_start(client, &options, &failure, &message);
  if (handle->request == NULL) return push_failure(L, failure, message);
  return 1;
}

/* ---- Requests ---- */

static mp_http_request *check_request(lua_State *L) {
  const request_handle *handle = luaL_checkudata(L, 1, REQUEST_TYPE);
  if (handle->request == NULL) luaL_error(L, "the HTTP request is closed");
  return handle->request;
}

static int request_close(lua_State *L) {
  request_handle *handle = luaL_checkudata(L, 1, REQUEST_TYPE);
  mp_http_request *request = handle->request;
  handle->request = NULL;
  mp_http_request_free(request);
  return 0;
}

/* request:status() -> integer, or nil until all headers have arrived */
static int request_status(lua_State *L) {
  long status = mp_http_status(check_request(L));
  if (status == 0) return 0;
  lua_pushinteger(L, status);
  return 1;
}

/* request:retryAfter() -> seconds, or nil: the server asks for no pause */
static int request_retry_after(lua_State *L) {
  int64_t seconds = mp_http_retry_after(check_request(L));
  if (seconds == 0) return 0;
  lua_pushnumber(L, seconds < 0 ? 0 : (lua_Number)seconds);
  return 1;
}

static void push_lower(lua_State *L, const char *text) {
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  for (; *text != '\0'; text++)
    luaL_addchar(&buffer, (char)(*text >= 'A' && *text <= 'Z' ? *text + ('a' - 'A') : *text));
  luaL_pushresult(&buffer);
}

/* Adds a header to the table at the top; the values of a repeated name are joined by ", ". */
static void add_header(lua_State *L, const char *name, const char *value) {
  push_lower(L, name);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) == LUA_TSTRING) {
    lua_pushfstring(L, "%s, %s", lua_tostring(L, -1), value);
    lua_remove(L, -2);
  } else {
    lua_pop(L, 1);
    lua_pushstring(L, value);
  }
  lua_rawset(L, -3);
}

/* request:headers() -> { [lower-case name] = value }, or nil until all have arrived */
static int request_headers(lua_State *L) {
  mp_http_request *request = check_request(L);
  if (mp_http_status(request) == 0) return 0;
  moonpad_string headers = mp_http_headers(request);
  lua_newtable(L);
  for (const char *name = headers.data; name < headers.data + headers.length;) {
    const char *value = name + strlen(name) + 1;
    add_header(L, name, value);
    name = value + strlen(value) + 1;
  }
  return 1;
}

/* request:redirect() -> absolute URL or nil; once the request is done */
static int request_redirect(lua_State *L) {
  lua_pushstring(L, mp_http_redirect(check_request(L)));
  return 1;
}

/* request:read() -> what has arrived since the last call, or nil */
static int request_read(lua_State *L) {
  mp_http_request *request = check_request(L);
  moonpad_string unread = mp_http_unread(request);
  if (unread.length == 0) return 0;
  /* Copy before consuming: if that raises for want of memory, nothing is lost. */
  lua_pushlstring(L, unread.data, unread.length);
  mp_http_consume(request);
  return 1;
}

static int request_done(lua_State *L) {
  lua_pushboolean(L, mp_http_is_done(check_request(L)));
  return 1;
}

/* request:isReady(): is there something to read, or an end? */
static int request_is_ready(lua_State *L) {
  mp_http_request *request = check_request(L);
  lua_pushboolean(L, mp_http_unread(request).length > 0 || mp_http_is_done(request));
  return 1;
}

/* request:failure() -> message, kind; or nothing: it has not failed */
static int request_failure(lua_State *L) {
  const char *message;
  mp_http_failure failure = mp_http_failure_of(check_request(L), &message);
  if (failure == MP_HTTP_NO_FAILURE) return 0;
  lua_pushstring(L, message);
  lua_pushstring(L, kind_name(failure));
  return 2;
}

/* ---- The module ---- */

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction close) {
  if (luaL_newmetatable(L, name)) {
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__close");
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "close");
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
}

MOONPAD_API int luaopen_moonpad_http_core(lua_State *L);

int luaopen_moonpad_http_core(lua_State *L) {
  static const luaL_Reg client_methods[] = {{"start", client_start},
                                            {"descriptor", client_descriptor},
                                            {"drain", client_drain},
                                            {"activity", client_activity},
                                            {NULL, NULL}};
  static const luaL_Reg request_methods[] = {
      {"status", request_status},     {"headers", request_headers}, {"retryAfter", request_retry_after},
      {"redirect", request_redirect}, {"read", request_read},       {"done", request_done},
      {"isReady", request_is_ready},  {"failure", request_failure}, {NULL, NULL}};
  luaL_checkversion(L);
  make_type(L, CLIENT_TYPE, client_methods, client_close);
  make_type(L, REQUEST_TYPE, request_methods, request_close);
  lua_createtable(L, 0, 3);
  lua_pushcfunction(L, client_new);
  lua_setfield(L, -2, "client");
  lua_pushboolean(L, mp_http_can_be_awaited());
  lua_setfield(L, -2, "canBeAwaited");
  lua_pushcfunction(L, prepare);
  lua_setfield(L, -2, "prepare");
  return 1;
}
