/* service: state of users and apps. */
#include "lua/service/calls.h"

#include "lua/async/store_call.h"
#include "service/binding/service.h"

/* Whose state. */
typedef struct shared_owner {
  moonpad_string app_name;
  moonpad_string user_id; /* of a user only */
  bool is_user;
} shared_owner;

static shared_owner app_of(mp_options_table options) {
  return (shared_owner){.app_name = mp_field_string(options, "appName")};
}

static shared_owner user_of(mp_options_table options) {
  shared_owner owner = app_of(options);
  owner.user_id = mp_field_string(options, "userId");
  owner.is_user = true;
  return owner;
}

/* What the calls of this file need and give. */
typedef struct shared_call {
  mp_store_call call; /* the first member */
  shared_owner owner;
  moonpad_buffer read;
  moonpad_string state;
  mp_buffer removed; /* keys, as a JSON array; empty: none */
  moonpad_string key;
  moonpad_value by;
  moonpad_value sum;
} shared_call;

static void release_shared(mp_store_call *call) {
  shared_call *shared = (shared_call *)call;
  moonpad_buffer_free(&shared->read);
  mp_buffer_free(&shared->removed);
}

static shared_call *push_shared_call(lua_State *L, const mp_store_call_type *type, moonpad_service *service,
                                     shared_owner owner) {
  shared_call *made = (shared_call *)mp_store_call_push(L, type, service);
  mp_buffer_init(&made->removed, made->call.env);
  made->owner = owner;
  mp_store_call_keep(&made->call, &made->owner.app_name);
  mp_store_call_keep(&made->call, &made->owner.user_id);
  return made;
}

/* ---- Reading ---- */

static moonpad_status ask_read(mp_store_call *call, moonpad_error *error) {
  shared_call *read = (shared_call *)call;
  const shared_owner *of = &read->owner;
  if (of->is_user) return moonpad_get_user_state(call->service, of->app_name, of->user_id, &read->read, error);
  return moonpad_get_app_state(call->service, of->app_name, &read->read, error);
}

static int finish_read(lua_State *L, mp_store_call *call) {
  const moonpad_buffer *json = &((shared_call *)call)->read;
  mp_check(L, call->status, &call->error);
  mp_decode_trusted(L, mp_lua_of(L), (moonpad_string){json->data, json->length});
  return 1;
}

static const mp_store_call_type read_type = {sizeof(shared_call), ask_read, finish_read, release_shared, false};

/* service:getAppState{ appName } */
static int get_app_state(lua_State *L) {
  static const char where[] = "service:getAppState";
  static const char *const known[] = {"appName", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  return mp_ask_service(L, &push_shared_call(L, &read_type, service, app_of(options))->call);
}

/* service:getUserState{ appName, userId } */
static int get_user_state(lua_State *L) {
  static const char where[] = "service:getUserState";
  static const char *const known[] = {"appName", "userId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  return mp_ask_service(L, &push_shared_call(L, &read_type, service, user_of(options))->call);
}

/* ---- Writing ---- */

static moonpad_status ask_write(mp_store_call *call, moonpad_error *error) {
  const shared_call *write = (shared_call *)call;
  const shared_owner *of = &write->owner;
  moonpad_string removed = mp_buffer_text(&write->removed);
  if (!of->is_user) return moonpad_update_app_state(call->service, of->app_name, write->state, removed, error);
  return moonpad_update_user_state(call->service, of->app_name, of->user_id, write->state, removed, error);
}

static int finish_nothing(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  return 0;
}

/* Merges the table at options.state; the keys that moonpad.removed marks are deleted. */
static int write_shared_state(lua_State *L, mp_lua *binding, moonpad_service *service, mp_options_table options,
                              shared_owner owner) {
  static const mp_store_call_type type = {sizeof(shared_call), ask_write, finish_nothing, release_shared, true};
  int state = mp_field_index(options, "state");
  if (state == 0) mp_raise_argument(L, "%s: state is missing", options.where);
  shared_call *write = push_shared_call(L, &type, service, owner);
  moonpad_error error;
  moonpad_type type_of_state;
  mp_buffer_clear(&binding->text);
  mp_check(L,
           mp_encode(L, binding, state, mp_value_path_state(), MP_ENCODE_SHARED,
                     mp_service_options(service)->max_value_bytes, &binding->text, &type_of_state, &error),
           &error);
  if (type_of_state != MOONPAD_OBJECT) mp_raise_argument(L, "%s: state: expects a table of state keys", options.where);
  if (binding->removed_keys.length > 0) {
    mp_buffer_add_char(&write->removed, '[');
    mp_buffer_add_string(&write->removed, mp_buffer_text(&binding->removed_keys));
    mp_buffer_add_char(&write->removed, ']');
  }
  if (write->removed.failed) mp_check(L, mp_no_memory(&error), &error);
  write->state = mp_buffer_text(&binding->text);
  mp_store_call_keep(&write->call, &write->state);
  return mp_ask_service(L, &write->call);
}

/* service:updateAppState{ appName, state } */
static int update_app_state(lua_State *L) {
  static const char where[] = "service:updateAppState";
  static const char *const known[] = {"appName", "state", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  return write_shared_state(L, binding, service, options, app_of(options));
}

/* service:updateUserState{ appName, userId, state } */
static int update_user_state(lua_State *L) {
  static const char where[] = "service:updateUserState";
  static const char *const known[] = {"appName", "userId", "state", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  return write_shared_state(L, binding, service, options, user_of(options));
}

static moonpad_status ask_increment(mp_store_call *call, moonpad_error *error) {
  shared_call *increment = (shared_call *)call;
  const shared_owner *of = &increment->owner;
  moonpad_string key = increment->key;
  const moonpad_value *by = &increment->by;
  if (!of->is_user) return moonpad_increment_app_state(call->service, of->app_name, key, by, &increment->sum, error);
  return moonpad_increment_user_state(call->service, of->app_name, of->user_id, key, by, &increment->sum, error);
}

static int finish_sum(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  mp_push_value(L, mp_lua_of(L), &((shared_call *)call)->sum);
  return 1;
}

/* service:incrementState{ appName, userId?, key, by? } */
static int increment_state(lua_State *L) {
  static const char where[] = "service:incrementState";
  static const char *const known[] = {"appName", "userId", "key", "by", NULL};
  static const mp_store_call_type type = {sizeof(shared_call), ask_increment, finish_sum, release_shared, true};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  shared_owner owner = mp_field_index(options, "userId") != 0 ? user_of(options) : app_of(options);
  moonpad_string key = mp_field_string(options, "key");
  moonpad_value by = moonpad_integer(1);
  double number;
  if (mp_field_number(options, "by", &number)) {
    by = lua_isinteger(L, -1) ? moonpad_integer(lua_tointeger(L, -1)) : moonpad_float(number);
  }
  shared_call *increment = push_shared_call(L, &type, service, owner);
  increment->key = key;
  increment->by = by;
  mp_store_call_keep(&increment->call, &increment->key);
  return mp_ask_service(L, &increment->call);
}

const luaL_Reg mp_service_shared_calls[] = {
    {"getAppState", get_app_state},         {"getUserState", get_user_state},    {"updateAppState", update_app_state},
    {"updateUserState", update_user_state}, {"incrementState", increment_state}, {NULL, NULL}};
