/* service: state of users and apps. */
#include "lua/service.h"

static void release_owned(void *payload) {
  moonpad_buffer_free(payload);
}

/* An empty name would mean the app's state to the C library. */
static moonpad_string check_user(mp_options_table options) {
  moonpad_string user = mp_field_string(options, "userId");
  moonpad_error error;
  mp_check(options.L, mp_check_name("userId", user, &error), &error);
  return user;
}

/* ---- Reading ---- */

static int push_shared_state(lua_State *L, mp_lua *binding, moonpad_service *service, moonpad_string app,
                             moonpad_string user) {
  moonpad_buffer *json = mp_box_push(L, sizeof *json, release_owned);
  moonpad_error error;
  mp_check(L, moonpad_get_shared_state(service, app, user, json, &error), &error);
  moonpad_string text = {json->data, json->length};
  mp_decode_own(L, binding, text);
  mp_box_release(json);
  return 1;
}

/* service:getAppState{ appName } */
static int get_app_state(lua_State *L) {
  static const char where[] = "service:getAppState";
  static const char *const known[] = {"appName", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  return push_shared_state(L, binding, service, mp_field_string(options, "appName"), moonpad_text(NULL));
}

/* service:getUserState{ appName, userId } */
static int get_user_state(lua_State *L) {
  static const char where[] = "service:getUserState";
  static const char *const known[] = {"appName", "userId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app = mp_field_string(options, "appName");
  return push_shared_state(L, binding, service, app, check_user(options));
}

/* ---- Writing ---- */

/* Merges the table at options.state; the keys that moonpad.removed marks are deleted. */
static int write_shared_state(lua_State *L, mp_lua *binding, moonpad_service *service, mp_options_table options,
                              moonpad_string app, moonpad_string user) {
  int state = mp_field_index(options, "state");
  if (state == 0) mp_raise_argument(L, "%s: state is missing", options.where);
  mp_buffer *removed = mp_box_push_buffer(L, binding);
  moonpad_error error;
  moonpad_type type;
  mp_buffer_clear(&binding->text);
  mp_check(L,
           mp_encode(L, binding, state, mp_value_path_state(), MP_ENCODE_SHARED, service->options.max_value_bytes,
                     &binding->text, &type, &error),
           &error);
  if (type != MOONPAD_OBJECT) mp_raise_argument(L, "%s: state: expects a table of state keys", options.where);
  if (binding->removed_keys.length > 0) {
    mp_buffer_add_char(removed, '[');
    mp_buffer_add_string(removed, mp_buffer_text(&binding->removed_keys));
    mp_buffer_add_char(removed, ']');
  }
  moonpad_status status = removed->failed
                              ? mp_no_memory(&error)
                              : moonpad_update_shared_state(service, app, user, mp_buffer_text(&binding->text),
                                                            mp_buffer_text(removed), &error);
  mp_box_release(removed);
  mp_check(L, status, &error);
  return 0;
}

/* service:updateAppState{ appName, state } */
static int update_app_state(lua_State *L) {
  static const char where[] = "service:updateAppState";
  static const char *const known[] = {"appName", "state", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app = mp_field_string(options, "appName");
  return write_shared_state(L, binding, service, options, app, moonpad_text(NULL));
}

/* service:updateUserState{ appName, userId, state } */
static int update_user_state(lua_State *L) {
  static const char where[] = "service:updateUserState";
  static const char *const known[] = {"appName", "userId", "state", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app = mp_field_string(options, "appName");
  moonpad_string user = check_user(options);
  return write_shared_state(L, binding, service, options, app, user);
}

/* service:incrementState{ appName, userId?, key, by? } */
static int increment_state(lua_State *L) {
  static const char where[] = "service:incrementState";
  static const char *const known[] = {"appName", "userId", "key", "by", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app = mp_field_string(options, "appName");
  moonpad_string user = {NULL, 0};
  if (mp_field_index(options, "userId") != 0) user = check_user(options);
  moonpad_string key = mp_field_string(options, "key");
  moonpad_value by = moonpad_integer(1), result;
  double number;
  if (mp_field_number(options, "by", &number)) {
    by = lua_isinteger(L, -1) ? moonpad_integer(lua_tointeger(L, -1)) : moonpad_float(number);
  }
  moonpad_error error;
  mp_check(L, moonpad_increment_state(service, app, user, key, &by, &result, &error), &error);
  mp_push_value(L, binding, &result);
  return 1;
}

const luaL_Reg mp_service_shared_calls[] = {
    {"getAppState", get_app_state},         {"getUserState", get_user_state},    {"updateAppState", update_app_state},
    {"updateUserState", update_user_state}, {"incrementState", increment_state}, {NULL, NULL}};
