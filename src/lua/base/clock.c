/*
** The clocks of services opened in Lua: one that stands still until it is set, for tests
** (moonpad.testing.clock), or a function. The time is read deep inside of C, on any thread, where
** no Lua can be called. So a function is asked on its Lua state's thread when a call begins; what
** reads the time later, there or on another thread, gets what it said last (contract 6).
** A service may outlive every Lua object that stands on it, and the Lua state. So a clock that one
** has been opened with stays until the state is closed, and the time that it gave last until nobody
** reads it.
*/

#include "lua/base/clock.h"

#include <math.h>
#include <stdatomic.h>

#include "lua/base/arguments.h"

#define TYPE_NAME "moonpad.clock"

/* What services read, from any thread. */
typedef struct clock_time {
  atomic_uint references;
  _Atomic double now; /* seconds */
  mp_env *env;        /* whose memory this is */
} clock_time;

typedef struct clock_object {
  clock_time *time;
  bool is_function; /* the user value is asked for the time; else it is set */
  bool is_asked;    /* the function runs, and what it calls asks it no more */
} clock_object;

#define FUNCTION 1 /* the user value */

static double read_clock(void *context) {
  clock_time *time = context;
  return atomic_load(&time->now);
}

static void release_time(void *context) {
  clock_time *time = context;
  if (time == NULL || atomic_fetch_sub_explicit(&time->references, 1, memory_order_acq_rel) != 1) return;
  mp_env *env = time->env;
  mp_release(env, time);
  mp_env_release(env);
}

void mp_keep_clock(mp_env *env) {
  clock_time *time = mp_context_of_clock(env, read_clock);
  if (time == NULL) return;
  atomic_fetch_add_explicit(&time->references, 1, memory_order_relaxed);
  mp_release_with_clock(env, release_time);
}

double mp_check_now(lua_State *L, mp_env *env) {
  double now;
  moonpad_error error;
  mp_check(L, mp_now(env, &now, &error), &error);
  return now;
}

/* The Lua state is being closed. */
static _Noreturn void raise_finalized(lua_State *L) {
  mp_raise_status(L, MOONPAD_CLOSED, "the clock is closed");
}

static clock_object *check_clock(lua_State *L, const char *method) {
  clock_object *clock = luaL_testudata(L, 1, TYPE_NAME);
  if (clock == NULL) mp_raise_argument(L, "clock.%s: call it with a colon, clock:%s(...)", method, method);
  if (clock->time == NULL) raise_finalized(L);
  return clock;
}

static double check_seconds(lua_State *L, int index, const char *method) {
  double seconds = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : NAN;
  if (!isfinite(seconds)) mp_raise_argument(L, "clock:%s: expects seconds, got %s", method, mp_describe(L, index));
  return seconds;
}

static int clock_now(lua_State *L) {
  lua_pushnumber(L, read_clock(check_clock(L, "now")->time));
  return 1;
}

static int clock_set(lua_State *L) {
  clock_object *clock = check_clock(L, "set");
  atomic_store(&clock->time->now, check_seconds(L, 2, "set"));
  return 0;
}

static int clock_advance(lua_State *L) {
  clock_object *clock = check_clock(L, "advance");
  atomic_store(&clock->time->now, read_clock(clock->time) + check_seconds(L, 2, "advance"));
  return 0;
}

static int collect(lua_State *L) {
  clock_object *clock = luaL_testudata(L, 1, TYPE_NAME);
  if (clock == NULL) return 0;
  release_time(clock->time);
  clock->time = NULL;
  return 0;
}

/*
** Its methods are those of a clock that is set: nobody in Lua sees one that is a function. Nobody
** can reach the metatable either: a clock that a service is about to read would be gone.
*/
static void make_metatable(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {{"now", clock_now}, {"set", clock_set}, {"advance", clock_advance}, {NULL, NULL}};
  luaL_newmetatable(L, TYPE_NAME);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  lua_pushvalue(L, binding_index);
  luaL_setfuncs(L, methods, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

static clock_object *push_clock(lua_State *L, double now) {
  mp_env *env = mp_lua_of(L)->env;
  clock_object *clock = lua_newuserdatauv(L, sizeof *clock, FUNCTION);
  memset(clock, 0, sizeof *clock);
  luaL_setmetatable(L, TYPE_NAME);
  clock->time = mp_allocate(env, sizeof *clock->time);
  if (clock->time == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  atomic_init(&clock->time->references, 1);
  atomic_init(&clock->time->now, now);
  clock->time->env = mp_env_retain(env);
  return clock;
}

/* core.clock([seconds]) */
static int new_clock(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  push_clock(L, lua_isnoneornil(L, 1) ? mp_check_now(L, binding->env) : check_seconds(L, 1, "new"));
  return 1;
}

void mp_clock_module(lua_State *L, int binding_index) {
  make_metatable(L, binding_index);
  mp_push_function(L, binding_index, new_clock);
  lua_setfield(L, -2, "clock");
}

/* ---- A function ---- */

/* Calls the function of the clock at the top. Raises what it raises. */
static void ask(lua_State *L, clock_object *clock) {
  lua_getiuservalue(L, -1, FUNCTION);
  clock->is_asked = true;
  int status = lua_pcall(L, 0, 1, 0);
  clock->is_asked = false;
  if (status != LUA_OK) lua_error(L);
  if (lua_type(L, -1) != LUA_TNUMBER) {
    mp_raise_argument(L, "clock: the function has to return seconds since 1970, it returned %s", mp_describe(L, -1));
  }
  atomic_store(&clock->time->now, lua_tonumber(L, -1));
  lua_pop(L, 1);
}

/* The registry has the clocks of this state, by what services read. */
bool mp_ask_clock(lua_State *L, const mp_env *env) {
  clock_time *time = mp_context_of_clock(env, read_clock);
  if (time == NULL) return false;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_rawgetp(L, LUA_REGISTRYINDEX, time);
  clock_object *clock = lua_touserdata(L, -1);
  bool is_due = clock != NULL && clock->time != NULL && clock->is_function && !clock->is_asked;
  if (is_due) ask(L, clock);
  lua_pop(L, 1);
  return is_due;
}

/* ---- Of a service that is opened ---- */

/* Pushes the clock of the function at `index`: services that are opened with it share it. */
static void push_function_clock(lua_State *L, int index) {
  static const char clocks = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &clocks) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &clocks);
  }
  lua_pushvalue(L, index);
  if (lua_rawget(L, -2) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    push_clock(L, 0)->is_function = true;
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, FUNCTION);
    lua_pushvalue(L, index);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
}

void mp_use_clock(lua_State *L, int index, const char *where, moonpad_options *options) {
  bool is_function = lua_isfunction(L, index);
  index = lua_absindex(L, index);
  if (is_function) {
    push_function_clock(L, index);
  } else {
    lua_pushvalue(L, index);
  }
  clock_object *clock = luaL_testudata(L, -1, TYPE_NAME);
  if (clock == NULL) {
    mp_raise_argument(L, "%s: clock: expects a function or a moonpad.testing.clock, got %s", where,
                      mp_describe(L, index));
  }
  if (clock->time == NULL) raise_finalized(L);
  if (is_function && !clock->is_asked) ask(L, clock);
  lua_rawsetp(L, LUA_REGISTRYINDEX, clock->time);
  options->clock = read_clock;
  options->clock_context = clock->time;
}
