/* Session objects (contract 2). */
#include "lua/base/errors.h"
#include "lua/codec/codec.h"
#include "lua/objects/objects.h"

enum { USER_STATE = 1, USER_EVENTS, USER_COUNT = MP_SESSION_USER_VALUES };

static int session_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_session *session = mp_test_userdata(L, 1, binding->session_meta);
  if (session == NULL) return 0;
  mp_session_object *object = session->object;
  session->object = NULL;
  mp_session_object_release(object);
  return 0;
}

/* ---- Fields ---- */

typedef void (*push_field)(lua_State *L, const moonpad_session *session);

static void push_text(lua_State *L, moonpad_string text) {
  lua_pushlstring(L, text.data, text.length);
}
static void push_id(lua_State *L, const moonpad_session *session) {
  push_text(L, moonpad_session_id(session));
}
static void push_app_name(lua_State *L, const moonpad_session *session) {
  push_text(L, moonpad_session_app_name(session));
}
static void push_user_id(lua_State *L, const moonpad_session *session) {
  push_text(L, moonpad_session_user_id(session));
}
static void push_last_update_time(lua_State *L, const moonpad_session *session) {
  lua_pushnumber(L, moonpad_session_last_update_time(session));
}
static void push_create_time(lua_State *L, const moonpad_session *session) {
  lua_pushnumber(L, moonpad_session_create_time(session));
}
static void push_revision(lua_State *L, const moonpad_session *session) {
  lua_pushinteger(L, moonpad_session_revision(session));
}
static void push_conversation_count(lua_State *L, const moonpad_session *session) {
  lua_pushinteger(L, moonpad_session_conversation_count(session));
}
static void push_save_key(lua_State *L, const moonpad_session *session) {
  push_app_name(L, session);
  lua_pushliteral(L, "/");
  push_user_id(L, session);
  lua_concat(L, 3);
}

/* Position 0 is `state`, 1 is `events`: objects that are kept. */
static const struct {
  const char *name;
  push_field push;
} fields[] = {{"state", NULL},
              {"events", NULL},
              {"id", push_id},
              {"appName", push_app_name},
              {"userId", push_user_id},
              {"lastUpdateTime", push_last_update_time},
              {"createTime", push_create_time},
              {"revision", push_revision},
              {"conversationCount", push_conversation_count},
              {"saveKey", push_save_key}};
#define FIELD_COUNT ((int)(sizeof fields / sizeof *fields))

static int push_kept(lua_State *L, mp_lua *binding, mp_session_object *object, int user_value) {
  if (lua_getiuservalue(L, 1, user_value) == LUA_TUSERDATA) return 1;
  lua_pop(L, 1);
  if (user_value == USER_STATE)
    mp_push_session_state(L, binding, object);
  else
    mp_push_events(L, binding, object);
  /* A finalizer that ran meanwhile may have asked for it, too. */
  if (lua_getiuservalue(L, 1, user_value) == LUA_TUSERDATA) return 1;
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, user_value);
  return 1;
}

static mp_session_object *check_self(lua_State *L, mp_lua *binding) {
  return mp_check_session(L, binding, 1, "session");
}

/* A method, which is written in Lua: core.sessionMethods. */
static bool push_method(lua_State *L, int index) {
  lua_getiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_SESSION_METHODS);
  lua_pushvalue(L, index);
  if (lua_rawget(L, -2) != LUA_TNIL) return true;
  lua_pop(L, 2);
  return false;
}

/* A misspelt field would be nil without a word. */
static int push_unknown(lua_State *L, int index) {
  const char *known[FIELD_COUNT + 2] = {NULL};
  for (int i = 0; i < FIELD_COUNT; i++) known[i] = fields[i].name;
  known[FIELD_COUNT] = "summary";
  mp_refuse_near_miss(L, "session", index, known);
  lua_pushnil(L);
  return 1;
}

/* Upvalue 2: name -> position in `fields`. */
static int session_index(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = check_self(L, binding);
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNUMBER) return push_method(L, 2) ? 1 : push_unknown(L, 2);
  int position = (int)lua_tointeger(L, -1);
  if (position < USER_COUNT) return push_kept(L, binding, object, position + 1);
  fields[position].push(L, object->session);
  return 1;
}

static int session_newindex(lua_State *L) {
  check_self(L, mp_lua_of(L));
  const char *field = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "field";
  if (strcmp(field, "state") == 0) {
    mp_raise_argument(L, "session.state: assign to its keys (session.state.key = value, or session.state:update{...})");
  }
  if (strcmp(field, "events") == 0) {
    mp_raise_argument(L, "session.events: events are added by service:appendEvent");
  }
  mp_raise_argument(L, "session.%s: the fields of a session object cannot be assigned; state goes into session.state",
                    field);
}

static int session_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_session *session = mp_test_userdata(L, 1, binding->session_meta);
  if (session == NULL || session->object == NULL || session->object->session == NULL) {
    lua_pushliteral(L, "moonpad.session (closed)");
    return 1;
  }
  const moonpad_session *open = session->object->session;
  lua_settop(L, 1);
  lua_pushliteral(L, "moonpad.session (");
  push_save_key(L, open);
  lua_pushliteral(L, "/");
  push_id(L, open);
  lua_pushfstring(L, ", revision %I)", (LUAI_UACINT)moonpad_session_revision(open));
  lua_concat(L, 5);
  return 1;
}

/* core.serviceOf(session [, where]) -> the service object that it belongs to */
static int service_of(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  const mp_session_object *object = mp_check_session(L, binding, 1, luaL_optstring(L, 2, "core.serviceOf"));
  mp_push_shared_service(L, binding, moonpad_session_service(object->session));
  return 1;
}

void mp_session_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, service_of);
  lua_setfield(L, -2, "serviceOf");
  lua_getiuservalue(L, binding_index, MP_LUA_SLOT_SESSION_METHODS);
  lua_setfield(L, -2, "sessionMethods");
}

void mp_session_setup(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {
      {"__newindex", session_newindex}, {"__tostring", session_tostring}, {"__gc", session_gc}, {NULL, NULL}};
  mp_set_functions(L, binding_index, methods);
  lua_pushvalue(L, binding_index);
  lua_createtable(L, 0, FIELD_COUNT);
  for (int i = 0; i < FIELD_COUNT; i++) {
    lua_pushinteger(L, i);
    lua_setfield(L, -2, fields[i].name);
  }
  lua_pushcclosure(L, session_index, 2);
  lua_setfield(L, -2, "__index");
}
