/*
** Service objects: opening, closing, and what they are (contract 2, 5). Their calls are
** in the other files of this folder.
*/
#include "lua/service/service.h"

#include <math.h>

#include "lua/async/store_call.h"
#include "lua/base/clock.h"
#include "lua/service/calls.h"
#include "service/binding/service.h"

/* ---- Its end ---- */

/* service:close(), <close>. Closed for everybody who shares it; closing twice is no error. */
static int service_close(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL) mp_raise_self(L, 1, "service:close");
  service->closed = true;
  if (service->service != NULL) moonpad_service_close(service->service);
  return 0;
}

static int service_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_service *object = mp_test_userdata(L, 1, binding->service_meta);
  if (object == NULL) return 0;
  moonpad_service *service = object->service;
  moonpad_queue *queue = object->queue;
  object->service = NULL;
  object->queue = NULL;
  object->closed = true;
  moonpad_queue_free(queue);
  moonpad_service_release(service);
  return 0;
}

static int service_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL || service->closed || service->service == NULL) {
    lua_pushliteral(L, "moonpad.service (closed)");
  } else if (lua_getiuservalue(L, 1, 1) == LUA_TSTRING) {
    lua_pushfstring(L, "moonpad.service (%s)", lua_tostring(L, -1));
  } else {
    lua_pushliteral(L, "moonpad.service");
  }
  return 1;
}

/* ---- Opening ---- */

/* Pushes the URL without what stands before an '@' in its authority: there a password may be. */
static void push_safe_url(lua_State *L, moonpad_string url) {
  const char *authority = strstr(url.data, "://"), *query = strchr(url.data, '?');
  const char *at = authority != NULL ? strrchr(authority, '@') : NULL;
  /* A server's URL may have it among its parameters, too. */
  const char *end = query != NULL && strstr(query, "password=") != NULL ? query : url.data + url.length;
  if (at == NULL || at > end) {
    lua_pushlstring(L, url.data, (size_t)(end - url.data));
    return;
  }
  lua_pushlstring(L, url.data, (size_t)(authority + 3 - url.data));
  lua_pushlstring(L, at + 1, (size_t)(end - at - 1));
  lua_concat(L, 2);
}

static void read_count(mp_options_table config, const char *field, int64_t *value) {
  int64_t given;
  if (!mp_field_integer(config, field, &given)) return;
  if (given < 0) mp_raise_argument(config.L, "%s: %s: must not be negative", config.where, field);
  *value = given;
}

static void read_seconds(mp_options_table config, const char *field, double *value) {
  double given;
  if (!mp_field_number(config, field, &given)) return;
  if (given < 0) mp_raise_argument(config.L, "%s: %s: must not be negative", config.where, field);
  if (!isfinite(given)) mp_raise_argument(config.L, "%s: %s: must be finite (0: for ever)", config.where, field);
  *value = given;
}

/* What has its time, and how many there may be (contract 5). */
static void read_housekeeping(mp_options_table config, moonpad_options *options) {
  static const char *const choices[] = {"refuse", "deleteOldest", NULL};
  read_seconds(config, "sessionTtlSeconds", &options->session_ttl_seconds);
  read_seconds(config, "userTtlSeconds", &options->user_ttl_seconds);
  read_seconds(config, "appTtlSeconds", &options->app_ttl_seconds);
  read_seconds(config, "sweepIntervalSeconds", &options->sweep_interval_seconds);
  read_count(config, "maxEvents", &options->max_events);
  read_seconds(config, "eventTtlSeconds", &options->event_ttl_seconds);
  read_count(config, "maxSessionsPerUser", &options->max_sessions_per_user);
  options->on_max_sessions = (moonpad_on_max_sessions)mp_field_choice(config, "onMaxSessions", choices, 0);
}

/* What the config of every service has. */
static void read_store_config(mp_options_table config, moonpad_options *options) {
  static const char *const durabilities[] = {"full", "normal", NULL};
  options->durability = (moonpad_durability)mp_field_choice(config, "durability", durabilities, 0);
  read_count(config, "busyTimeoutMs", &options->busy_timeout_ms);
  int clock = mp_field_index(config, "clock");
  if (clock != 0) mp_use_clock(config.L, clock, config.where, options);
}

/* `history_bytes`: historyCacheBytes; stays as it is where that is absent. */
static void read_config(lua_State *L, int index, moonpad_options *options, int64_t *history_bytes) {
  static const char *const known[] = {
      "durability",     "busyTimeoutMs",        "onConflict", "numRecentEvents",   "maxValueBytes",
      "maxEventBytes",  "maxStateBytes",        "clock",      "historyCacheBytes", "sessionTtlSeconds",
      "userTtlSeconds", "appTtlSeconds",        "maxEvents",  "eventTtlSeconds",   "maxSessionsPerUser",
      "onMaxSessions",  "sweepIntervalSeconds", NULL};
  static const char *const conflicts[] = {"error", "overwrite", NULL};
  mp_options_table config = mp_check_options(L, index, "open", known);
  read_store_config(config, options);
  options->on_conflict = (moonpad_on_conflict)mp_field_choice(config, "onConflict", conflicts, 0);
  read_count(config, "numRecentEvents", &options->num_recent_events);
  read_count(config, "maxValueBytes", &options->max_value_bytes);
  read_count(config, "maxEventBytes", &options->max_event_bytes);
  read_count(config, "maxStateBytes", &options->max_state_bytes);
  read_count(config, "historyCacheBytes", history_bytes);
  read_housekeeping(config, options);
}

/* ---- Decoded events, which the Lua layer keeps with the service ---- */

#define HISTORY_CACHE 2 /* the user value */

static void push_history_cache(lua_State *L, int service) {
  service = lua_absindex(L, service);
  if (lua_getiuservalue(L, service, HISTORY_CACHE) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, service, HISTORY_CACHE);
}

/*
** core.historyCache(service): a table that lives as long as the service object; `limit` is
** historyCacheBytes of the config, or nil. A weak table would not do: the collector would go over
** all that is in it in one step.
*/
static int history_cache(lua_State *L) {
  mp_check_service(L, mp_lua_of(L), "core.historyCache");
  push_history_cache(L, 1);
  return 1;
}

/* The arguments are url [, config]; `given` (may be NULL) is a store that is not built in. */
static int open_with(lua_State *L, const moonpad_store_scheme *given) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_string url = mp_argument_string(L, 1, "open", "url");
  moonpad_options options;
  moonpad_options_init(&options);
  mp_refuse_more(L, 2, "open");
  lua_settop(L, 2);
  int64_t history_bytes = -1;
  if (!lua_isnil(L, 2)) read_config(L, 2, &options, &history_bytes);
  options.stores = given;
  options.store_count = given == NULL ? 0 : 1;
  mp_lua_service *service = mp_push_service(L, binding);
  push_safe_url(L, url);
  lua_setiuservalue(L, -2, 1);
  if (history_bytes >= 0) {
    push_history_cache(L, -1);
    lua_pushinteger(L, history_bytes);
    lua_setfield(L, -2, "limit");
    lua_pop(L, 1);
  }
  moonpad_error error;
  mp_check(L, moonpad_open(url, &options, &service->service, &error), &error);
  mp_keep_clock(mp_service_env(service->service));
  mp_register_service(L, service);
  return 1;
}

/* core.open(url [, config]) */
static int open_service(lua_State *L) {
  return open_with(L, NULL);
}

/* core.openOn(opener, url [, config]): the opener is what a store's module hands over. */
static int open_on(lua_State *L) {
  char scheme[32];
  luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
  const char *url = luaL_checkstring(L, 2);
  moonpad_store_scheme given = {scheme, lua_touserdata(L, 1)};
  snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(url, ":"), url);
  lua_remove(L, 1);
  return open_with(L, &given);
}

/*
** core.checkStore(where, url, config, timeToLive) -> an mp_store_config: of a service that another
** module opens; `timeToLive` is the name of that field.
*/
static int check_store(lua_State *L) {
  const char *where = luaL_checkstring(L, 1), *time_to_live = luaL_checkstring(L, 4);
  const char *const known[] = {"durability", "busyTimeoutMs", "clock", time_to_live, NULL};
  mp_argument_string(L, 2, where, "url");
  lua_settop(L, 4);
  mp_store_config *read = lua_newuserdatauv(L, sizeof *read, 0);
  moonpad_options_init(&read->options);
  read->time_to_live = 0;
  if (lua_isnil(L, 3)) return 1;
  mp_options_table config = mp_check_options(L, 3, where, known);
  read_store_config(config, &read->options);
  read_seconds(config, time_to_live, &read->time_to_live);
  lua_pushvalue(L, 5);
  return 1;
}

/* core.openScratch(session): a service in memory with the hooks and limits of the session's one. */
static int open_scratch(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *session = mp_check_session(L, binding, 1, "core.openScratch");
  mp_lua_service *service = mp_push_service(L, binding);
  moonpad_error error;
  mp_check(L, mp_service_open_scratch(moonpad_session_service(session->session), &service->service, &error), &error);
  return 1;
}

/* ---- Registration ---- */

/* The names of a table of methods, ended by NULL: a userdata at the top. */
static const char *const *push_method_names(lua_State *L, int methods) {
  size_t count = 0;
  for (lua_pushnil(L); lua_next(L, methods); lua_pop(L, 1)) count++;
  const char **names = lua_newuserdatauv(L, (count + 1) * sizeof *names, 0);
  count = 0;
  for (lua_pushnil(L); lua_next(L, methods); lua_pop(L, 1)) names[count++] = lua_tostring(L, -2);
  names[count] = NULL;
  return names;
}

/* Asked for a name that is none of the methods at argument 1. */
static int unknown_method(lua_State *L) {
  if (lua_istable(L, 1)) mp_refuse_near_miss(L, "service", 2, push_method_names(L, 1));
  lua_pushnil(L);
  return 1;
}

void mp_service_setup(lua_State *L, int binding_index) {
  static const luaL_Reg events[] = {
      {"__gc", service_gc}, {"__close", service_close}, {"__tostring", service_tostring}, {NULL, NULL}};
  mp_set_functions(L, binding_index, events);
  lua_newtable(L);
  mp_push_function(L, binding_index, service_close);
  lua_setfield(L, -2, "close");
  mp_set_functions(L, binding_index, mp_service_session_calls);
  mp_set_functions(L, binding_index, mp_service_history_calls);
  mp_set_functions(L, binding_index, mp_service_shared_calls);
  mp_set_functions(L, binding_index, mp_service_export_calls);
  mp_set_functions(L, binding_index, mp_service_async_calls);
  mp_set_functions(L, binding_index, mp_service_store_calls);
  lua_createtable(L, 0, 1);
  mp_push_function(L, binding_index, unknown_method);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "__index");
}

void mp_service_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, open_service);
  lua_setfield(L, -2, "open");
  mp_push_function(L, binding_index, open_on);
  lua_setfield(L, -2, "openOn");
  mp_push_function(L, binding_index, check_store);
  lua_setfield(L, -2, "checkStore");
  mp_push_function(L, binding_index, open_scratch);
  lua_setfield(L, -2, "openScratch");
  mp_push_function(L, binding_index, history_cache);
  lua_setfield(L, -2, "historyCache");
  mp_service_history_module(L, binding_index);
  mp_service_store_module(L, binding_index);
  mp_push_function(L, binding_index, mp_idle);
  lua_setfield(L, -2, "idle");
}
