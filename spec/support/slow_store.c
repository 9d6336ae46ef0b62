/*
** The store behind a slow link (spec/c/slow_store.h) for Lua specs and benches: a module of its
** own, which hands an opened service to the module that is loaded as moonpad.core.
*/
#include <lauxlib.h>
#include <lua.h>
#include <poll.h>

#include "../c/slow_store.h"

typedef void push_service(lua_State *L, moonpad_service *service);

/*
** open(push, url) -> service; push: moonpad_lua_push_service of that module, as package.loadlib
** finds it
*/
static int open_slow(lua_State *L) {
  push_service *push = (push_service *)(void (*)(void))lua_tocfunction(L, 1);
  moonpad_string url;
  url.data = luaL_checklstring(L, 2, &url.length);
  luaL_argcheck(L, push != NULL, 1, "a C function expected");
  const moonpad_store_scheme stores[] = {{"slow", &slow_store_opener}};
  moonpad_options options;
  moonpad_options_init(&options);
  options.stores = stores;
  options.store_count = 1;
  moonpad_service *service;
  moonpad_error error;
  if (moonpad_open(url, &options, &service, &error) != MOONPAD_OK) return luaL_error(L, "%s", error.message);
  push(L, service);
  moonpad_service_release(service);
  return 1;
}

static int round_trips(lua_State *L) {
  lua_pushinteger(L, slow_store_round_trips());
  return 1;
}

static int round_trips_here(lua_State *L) {
  lua_pushinteger(L, slow_store_round_trips_here());
  return 1;
}

static int hold(lua_State *L) {
  slow_store_hold(lua_toboolean(L, 1), (int)luaL_optinteger(L, 2, 0));
  return 0;
}

/* isReadable(fd) -> boolean: what an event loop would be told now */
static int is_readable(lua_State *L) {
  struct pollfd watched = {.fd = (int)luaL_checkinteger(L, 1), .events = POLLIN};
  lua_pushboolean(L, poll(&watched, 1, 0) == 1);
  return 1;
}

static int lose_answers(lua_State *L) {
  slow_store_lose_answers((int)luaL_checkinteger(L, 1));
  return 0;
}

MOONPAD_API int luaopen_spec_slow_store(lua_State *L);

int luaopen_spec_slow_store(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open", open_slow}, {"roundTrips", round_trips}, {"roundTripsHere", round_trips_here},
      {"hold", hold},      {"isReadable", is_readable}, {"loseAnswers", lose_answers},
      {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
