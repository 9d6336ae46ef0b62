/* service: what concerns the store as a whole: backup, expiry (contract 2, 5). */
#include "lua/service/calls.h"

#include <string.h>

#include "lua/async/store_call.h"
#include "service/binding/service.h"
#include "service/binding/session.h"

typedef struct backup_call {
  mp_store_call call;
  moonpad_string path;
} backup_call;

static moonpad_status ask_backup(mp_store_call *call, moonpad_error *error) {
  return moonpad_backup(call->service, ((backup_call *)call)->path, error);
}

static int finish_true(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  lua_pushboolean(L, true);
  return 1;
}

/* service:backup(path) */
static int backup(lua_State *L) {
  static const char where[] = "service:backup";
  static const mp_store_call_type type = {sizeof(backup_call), ask_backup, finish_true, NULL, false};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), where, 2);
  moonpad_string path = mp_argument_string(L, 2, where, "path");
  backup_call *call = (backup_call *)mp_store_call_push(L, &type, service);
  call->path = path;
  mp_store_call_keep(&call->call, &call->path);
  return mp_ask_service(L, &call->call);
}

static moonpad_status ask_vacuum(mp_store_call *call, moonpad_error *error) {
  return mp_vacuum(call->service, error);
}

/* core.vacuum(service): leaves no byte of what was deleted on disk. */
static int vacuum(lua_State *L) {
  static const mp_store_call_type type = {sizeof(mp_store_call), ask_vacuum, finish_true, NULL, true};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), "vacuum", 1);
  return mp_ask_service(L, mp_store_call_push(L, &type, service));
}

typedef struct sweep_call {
  mp_store_call call;
  moonpad_swept swept;
} sweep_call;

static moonpad_status ask_sweep(mp_store_call *call, moonpad_error *error) {
  return moonpad_sweep(call->service, &((sweep_call *)call)->swept, error);
}

static void set_count(lua_State *L, const char *field, int64_t count) {
  lua_pushinteger(L, (lua_Integer)count);
  lua_setfield(L, -2, field);
}

static int finish_sweep(lua_State *L, mp_store_call *call) {
  const moonpad_swept *swept = &((sweep_call *)call)->swept;
  mp_check(L, call->status, &call->error);
  lua_createtable(L, 0, 4);
  set_count(L, "sessions", swept->sessions);
  set_count(L, "users", swept->users);
  set_count(L, "apps", swept->apps);
  set_count(L, "events", swept->events);
  return 1;
}

/* service:sweep() -> { sessions, users, apps, events } */
static int sweep(lua_State *L) {
  static const mp_store_call_type type = {sizeof(sweep_call), ask_sweep, finish_sweep, NULL, true};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), "service:sweep", 1);
  sweep_call *call = (sweep_call *)mp_store_call_push(L, &type, service);
  return mp_ask_service(L, &call->call);
}

typedef struct names_call {
  mp_store_call call;
  moonpad_string app_name; /* of users */
  mp_buffer names;
} names_call;

static moonpad_status ask_apps(mp_store_call *call, moonpad_error *error) {
  mp_buffer *names = &((names_call *)call)->names;
  mp_buffer_init(names, mp_service_env(call->service));
  return mp_list_apps(call->service, names, error);
}

static moonpad_status ask_users(mp_store_call *call, moonpad_error *error) {
  names_call *users = (names_call *)call;
  mp_buffer_init(&users->names, mp_service_env(call->service));
  return mp_list_users(call->service, users->app_name, &users->names, error);
}

static int finish_names(lua_State *L, mp_store_call *call) {
  const mp_buffer *names = &((names_call *)call)->names;
  mp_check(L, call->status, &call->error);
  lua_newtable(L);
  lua_Integer count = 0;
  for (size_t first = 0; first < names->length;) {
    const char *name = names->data + first;
    size_t length = strlen(name);
    lua_pushlstring(L, name, length);
    lua_rawseti(L, -2, ++count);
    first += length + 1;
  }
  return 1;
}

static void release_names(mp_store_call *call) {
  mp_buffer_free(&((names_call *)call)->names);
}

/* core.listApps(service): a list of names, in any order. */
static int list_apps(lua_State *L) {
  static const mp_store_call_type type = {sizeof(names_call), ask_apps, finish_names, release_names, false};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), "listApps", 1);
  names_call *call = (names_call *)mp_store_call_push(L, &type, service);
  return mp_ask_service(L, &call->call);
}

/* core.listUsers(service, appName): the same of the users of an app. */
static int list_users(lua_State *L) {
  static const mp_store_call_type type = {sizeof(names_call), ask_users, finish_names, release_names, false};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), "listUsers", 2);
  moonpad_string app_name = mp_argument_string(L, 2, "listUsers", "appName");
  names_call *call = (names_call *)mp_store_call_push(L, &type, service);
  call->app_name = app_name;
  mp_store_call_keep(&call->call, &call->app_name);
  return mp_ask_service(L, &call->call);
}

/* core.log(session, code, message): tells the host's log hook of a failure that no call reports. */
static int log_failure(lua_State *L) {
  const mp_session_object *object = mp_check_session(L, mp_lua_of(L), 1, "core.log");
  const char *code = luaL_checkstring(L, 2);
  int status = MOONPAD_UNSUPPORTED;
  while (status > MOONPAD_OK && strcmp(moonpad_status_name((moonpad_status)status), code) != 0) status--;
  if (status == MOONPAD_OK) status = MOONPAD_MODEL;
  mp_log(mp_session_env(object->session), (moonpad_status)status, luaL_checkstring(L, 3));
  return 0;
}

void mp_service_store_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, list_apps);
  lua_setfield(L, -2, "listApps");
  mp_push_function(L, binding_index, list_users);
  lua_setfield(L, -2, "listUsers");
  mp_push_function(L, binding_index, vacuum);
  lua_setfield(L, -2, "vacuum");
  mp_push_function(L, binding_index, log_failure);
  lua_setfield(L, -2, "log");
}

const luaL_Reg mp_service_store_calls[] = {{"backup", backup}, {"sweep", sweep}, {NULL, NULL}};
