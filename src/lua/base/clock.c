/*
** A clock that stands still until it is set, for tests (moonpad.testing.clock): a service opened
** with it takes the time of its events from it. A service may outlive every Lua object that stands
** on it, so a clock that one has been opened with stays until the Lua state is closed.
*/
#include <time.h>

#include "lua/base/clock.h"

#include <math.h>
#include <stdatomic.h>

#include "lua/base/arguments.h"

#define TYPE_NAME "moonpad.clock"

typedef struct clock_object {
  _Atomic double now; /* seconds; read from any thread of the service */
} clock_object;

static double read_clock(void *context) {
  clock_object *clock = context;
  return atomic_load(&clock->now);
}

double mp_check_now(lua_State *L, mp_env *env) {
  double now;
  moonpad_error error;
  mp_check(L, mp_now(env, &now, &error), &error);
  return now;
}

static clock_object *check_clock(lua_State *L, const char *method) {
  clock_object *clock = luaL_testudata(L, 1, TYPE_NAME);
  if (clock == NULL) mp_raise_argument(L, "clock.%s: call it with a colon, clock:%s(...)", method, method);
  return clock;
}

static double check_seconds(lua_State *L, int index, const char *method) {
  double seconds = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : NAN;
  if (!isfinite(seconds)) mp_raise_argument(L, "clock:%s: expects seconds, got %s", method, mp_describe(L, index));
  return seconds;
}

static int clock_now(lua_State *L) {
  lua_pushnumber(L, read_clock(check_clock(L, "now")));
  return 1;
}

static int clock_set(lua_State *L) {
  clock_object *clock = check_clock(L, "set");
  atomic_store(&clock->now, check_seconds(L, 2, "set"));
  return 0;
}

static int clock_advance(lua_State *L) {
  clock_object *clock = check_clock(L, "advance");
  atomic_store(&clock->now, read_clock(clock) + check_seconds(L, 2, "advance"));
  return 0;
}

/* core.clock([seconds]) */
static int new_clock(lua_State *L) {
  static const luaL_Reg methods[] = {{"now", clock_now}, {"set", clock_set}, {"advance", clock_advance}, {NULL, NULL}};
  mp_lua *binding = mp_lua_of(L);
  double now = lua_isnoneornil(L, 1) ? mp_check_now(L, binding->env) : check_seconds(L, 1, "new");
  clock_object *clock = lua_newuserdatauv(L, sizeof *clock, 0);
  atomic_init(&clock->now, now);
  if (luaL_newmetatable(L, TYPE_NAME)) {
    lua_newtable(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    luaL_setfuncs(L, methods, 1);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
  return 1;
}

void mp_clock_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, new_clock);
  lua_setfield(L, -2, "clock");
}

void mp_use_clock(lua_State *L, int index, const char *where, moonpad_options *options) {
  clock_object *clock = luaL_testudata(L, index, TYPE_NAME);
  if (clock == NULL) {
    mp_raise_argument(L, "%s: clock: expects a moonpad.testing.clock, got %s", where, mp_describe(L, index));
  }
  lua_pushvalue(L, index);
  lua_rawsetp(L, LUA_REGISTRYINDEX, clock);
  options->clock = read_clock;
  options->clock_context = clock;
}

void mp_sleep(double seconds) {
  const double longest = 1e9;
  if (!(seconds > 0)) return;
  if (seconds > longest) seconds = longest;
  struct timespec time;
  time.tv_sec = (time_t)seconds;
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  nanosleep(&time, NULL);
}
