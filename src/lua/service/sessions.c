/* service: sessions and appends. */
#include "lua/service/calls.h"

#include "lua/async/drain.h"
#include "lua/async/stepped_append.h"
#include "lua/objects/objects.h"
#include "service/binding/append.h"
#include "service/binding/service.h"
#include "service/binding/session.h"

/* ---- Create, get, delete ---- */

/* What the calls of this file need and give. */
typedef struct session_call {
  mp_store_call call; /* the first member */
  moonpad_session_name name;
  moonpad_string state;
  moonpad_get_options choice;
  moonpad_session *made;
  bool existed;
  int64_t count;
} session_call;

static void release_session(mp_store_call *call) {
  moonpad_session_free(((session_call *)call)->made);
}

static session_call *push_session_call(lua_State *L, const mp_store_call_type *type, moonpad_service *service,
                                       moonpad_session_name name) {
  session_call *made = (session_call *)mp_store_call_push(L, type, service);
  made->name = name;
  mp_store_call_keep(&made->call, &made->name.app_name);
  mp_store_call_keep(&made->call, &made->name.user_id);
  mp_store_call_keep(&made->call, &made->name.session_id);
  return made;
}

/* Into the session object below the call. */
static int finish_session(lua_State *L, mp_store_call *call) {
  session_call *done = (session_call *)call;
  mp_check(L, call->status, &call->error);
  lua_pushvalue(L, call->index - 1);
  mp_lua_session *session = lua_touserdata(L, -1);
  session->object->session = done->made;
  done->made = NULL;
  return mp_finish_session(L, mp_lua_of(L), session);
}

static moonpad_status ask_create(mp_store_call *call, moonpad_error *error) {
  session_call *create = (session_call *)call;
  return moonpad_create_session(call->service, &create->name, create->state, &create->made, error);
}

/* service:createSession{ appName, userId, sessionId?, state? } */
static int create_session(lua_State *L) {
  static const char where[] = "service:createSession";
  static const char *const known[] = {"appName", "userId", "sessionId", "state", NULL};
  static const mp_store_call_type type = {sizeof(session_call), ask_create, finish_session, release_session, true};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_session_name name = {mp_field_string(options, "appName"), mp_field_string(options, "userId"),
                               mp_field_optional_string(options, "sessionId")};
  int state = mp_field_index(options, "state");
  /* First: what has been stored must not fail for lack of memory. */
  mp_push_session(L, binding);
  session_call *create = push_session_call(L, &type, service, name);
  if (state != 0) {
    moonpad_error error;
    moonpad_type type_of_state;
    mp_buffer_clear(&binding->text);
    mp_check(L,
             mp_encode(L, binding, state, mp_value_path_state(), MP_ENCODE_VALUE,
                       mp_service_options(service)->max_value_bytes, &binding->text, &type_of_state, &error),
             &error);
    if (type_of_state != MOONPAD_OBJECT) mp_raise_argument(L, "%s: state: expects a table of state keys", where);
    create->state = mp_buffer_text(&binding->text);
    mp_store_call_keep(&create->call, &create->state);
  }
  return mp_ask_service(L, &create->call);
}

static moonpad_status ask_get(mp_store_call *call, moonpad_error *error) {
  session_call *get = (session_call *)call;
  return moonpad_get_session(call->service, &get->name, &get->choice, &get->made, error);
}

static int finish_session_or_nil(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_NOT_FOUND) return finish_session(L, call);
  lua_pushnil(L);
  return 1;
}

/* service:getSession{ appName, userId, sessionId, numRecentEvents?, afterTimestamp? } */
static int get_session(lua_State *L) {
  static const char where[] = "service:getSession";
  static const char *const known[] = {"appName", "userId", "sessionId", "numRecentEvents", "afterTimestamp", NULL};
  static const mp_store_call_type type = {sizeof(session_call), ask_get, finish_session_or_nil, release_session, false};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_session_name name = {mp_field_string(options, "appName"), mp_field_string(options, "userId"),
                               mp_field_string(options, "sessionId")};
  moonpad_get_options choice;
  moonpad_get_options_init(&choice);
  if (mp_field_integer(options, "numRecentEvents", &choice.num_recent_events) && choice.num_recent_events < 0) {
    mp_raise_argument(L, "%s: numRecentEvents: must not be negative", where);
  }
  choice.has_after_timestamp = mp_field_number(options, "afterTimestamp", &choice.after_timestamp);
  mp_push_session(L, binding);
  session_call *get = push_session_call(L, &type, service, name);
  get->choice = choice;
  return mp_ask_service(L, &get->call);
}

static moonpad_status ask_delete(mp_store_call *call, moonpad_error *error) {
  session_call *delete = (session_call *)call;
  return moonpad_delete_session(call->service, &delete->name, &delete->existed, error);
}

static int finish_existed(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  lua_pushboolean(L, ((session_call *)call)->existed);
  return 1;
}

/* service:deleteSession{ appName, userId, sessionId } */
static int delete_session(lua_State *L) {
  static const char where[] = "service:deleteSession";
  static const char *const known[] = {"appName", "userId", "sessionId", NULL};
  static const mp_store_call_type type = {sizeof(session_call), ask_delete, finish_existed, NULL, true};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_session_name name = {mp_field_string(options, "appName"), mp_field_string(options, "userId"),
                               mp_field_string(options, "sessionId")};
  return mp_ask_service(L, &push_session_call(L, &type, service, name)->call);
}

static moonpad_status ask_delete_user(mp_store_call *call, moonpad_error *error) {
  session_call *delete = (session_call *)call;
  return moonpad_delete_user(call->service, delete->name.app_name, delete->name.user_id, &delete->count, error);
}

static int finish_count(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  lua_pushinteger(L, ((session_call *)call)->count);
  return 1;
}

/* service:deleteUser{ appName, userId } */
static int delete_user(lua_State *L) {
  static const char where[] = "service:deleteUser";
  static const char *const known[] = {"appName", "userId", NULL};
  static const mp_store_call_type type = {sizeof(session_call), ask_delete_user, finish_count, NULL, true};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_session_name name = {mp_field_string(options, "appName"), mp_field_string(options, "userId"), {NULL, 0}};
  return mp_ask_service(L, &push_session_call(L, &type, service, name)->call);
}

/* ---- List ---- */

typedef struct list_call {
  mp_store_call call; /* the first member */
  moonpad_string app_name;
  moonpad_list_options choice;
  moonpad_session_list *list;
} list_call;

static void release_list(mp_store_call *call) {
  moonpad_session_list_free(((list_call *)call)->list);
}

static moonpad_status ask_list(mp_store_call *call, moonpad_error *error) {
  list_call *list = (list_call *)call;
  return moonpad_list_sessions(call->service, list->app_name, &list->choice, &list->list, error);
}

static void push_listed(lua_State *L, mp_lua *binding, moonpad_session_list *list) {
  size_t count = moonpad_session_list_count(list);
  size_t bytes = 0;
  lua_createtable(L, (int)(count < 1000000 ? count : 1000000), 0);
  for (size_t i = 0; i < count; i++) {
    mp_lua_session *session = mp_push_session(L, binding);
    session->object->session = moonpad_session_list_take(list, i);
    bytes += mp_session_memory(session->object->session);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  mp_report_memory(L, binding, bytes);
}

static int finish_list(lua_State *L, mp_store_call *call) {
  moonpad_session_list *list = ((list_call *)call)->list;
  mp_check(L, call->status, &call->error);
  push_listed(L, mp_lua_of(L), list);
  moonpad_string cursor = moonpad_session_list_cursor(list);
  if (cursor.length > 0)
    lua_pushlstring(L, cursor.data, cursor.length);
  else
    lua_pushnil(L);
  return 2;
}

/* service:listSessions{ appName, userId?, limit?, after?, order? } */
static int list_sessions(lua_State *L) {
  static const char where[] = "service:listSessions";
  static const char *const known[] = {"appName", "userId", "limit", "after", "order", NULL};
  static const char *const orders[] = {"oldest", "newest", NULL};
  static const mp_store_call_type type = {sizeof(list_call), ask_list, finish_list, release_list, false};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_call(L, binding, where, 2);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_list_options choice;
  moonpad_list_options_init(&choice);
  moonpad_string app_name = mp_field_string(options, "appName");
  choice.user_id = mp_field_optional_string(options, "userId");
  choice.has_user_id = choice.user_id.data != NULL;
  choice.after = mp_field_optional_string(options, "after");
  choice.newest_first = mp_field_choice(options, "order", orders, 0) == 1;
  if (mp_field_integer(options, "limit", &choice.limit) && choice.limit < 1) {
    mp_raise_argument(L, "%s: limit: must be at least 1", where);
  }
  list_call *list = (list_call *)mp_store_call_push(L, &type, service);
  list->app_name = app_name;
  list->choice = choice;
  mp_store_call_keep(&list->call, &list->app_name);
  mp_store_call_keep(&list->call, &list->choice.user_id);
  mp_store_call_keep(&list->call, &list->choice.after);
  return mp_ask_service(L, &list->call);
}

/* ---- Append ---- */

void mp_sort_append_arguments(lua_State *L, mp_lua *binding, const char *where) {
  static const char *const known[] = {"session", "event", NULL};
  if (lua_gettop(L) > 2 || mp_test_session(L, binding, 2) != NULL || !lua_istable(L, 2)) {
    mp_refuse_more(L, 3, where);
    lua_settop(L, 3);
    return;
  }
  mp_options_table options = mp_check_options(L, 2, where, known);
  lua_getfield(L, options.index, "session");
  lua_getfield(L, options.index, "event");
  lua_remove(L, 2);
}

/* In a stepped run, with the session at 2 and the event at 3. */
static int append_in_step(lua_State *L) {
  static const char where[] = "service:appendEvent";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_stepped_append *stepped = mp_stepped_append_push(L, binding, mp_check_session(L, binding, 2, where));
  stepped->event = 3;
  moonpad_string json = mp_encode_event(L, binding, 3, where, mp_service_options(service)->max_event_bytes);
  mp_append_request request = {.event = json, .is_trusted = true};
  return mp_stepped_append_make(L, stepped, lua_touserdata(L, 1), &request);
}

/* service:appendEvent(session, event), service:appendEvent{ session =, event = } */
static int append_event(lua_State *L) {
  static const char where[] = "service:appendEvent";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_sort_append_arguments(L, binding, where);
  mp_session_object *object = mp_check_session_of(L, binding, service, 2, where);
  if (mp_is_partial_event(L, 3)) return 1;
  if (mp_appends_in_step(L, service)) return mp_when_drained(L, object, append_in_step);
  mp_outcome *outcome = mp_push_outcome(L, binding);
  int outcome_index = lua_gettop(L);
  moonpad_string json = mp_encode_event(L, binding, 3, where, mp_service_options(service)->max_event_bytes);
  moonpad_error error;
  mp_append_request request = {.event = json, .is_trusted = true};
  if (mp_append_now(object->session, &request, &outcome->event, &error) != MOONPAD_OK) {
    mp_raise_append(L, outcome, object->session, &error, 3);
  }
  return mp_push_stored(L, binding, outcome_index, outcome);
}

/* ---- Update ---- */

/* Puts a copy of the event at 3, which names no author, in its place: by the system. */
static void name_author(lua_State *L, const mp_lua *binding) {
  lua_createtable(L, 0, 8);
  int copy = lua_gettop(L);
  lua_pushliteral(L, "author");
  lua_pushliteral(L, "system");
  lua_rawset(L, copy);
  lua_pushnil(L);
  while (lua_next(L, 3)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, copy);
  }
  if (lua_getmetatable(L, 3)) {
    if (lua_topointer(L, -1) == binding->array_meta)
      lua_setmetatable(L, copy);
    else
      lua_pop(L, 1);
  }
  lua_replace(L, 3);
}

static bool is_without_author(lua_State *L) {
  /* A list will be refused as one. */
  if (!lua_istable(L, 3) || lua_rawlen(L, 3) > 0) return false;
  lua_pushliteral(L, "author");
  bool without = lua_rawget(L, 3) == LUA_TNIL;
  lua_pop(L, 1);
  return without;
}

/* Pushes a field of the table at the top, made a table where it is none. */
static void push_table_field(lua_State *L, const char *field) {
  lua_pushstring(L, field);
  if (lua_rawget(L, -2) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, field);
}

/*
** The event that a failed updateSession would have appended, for the error object: a copy of what
** was given, with what is pending.
*/
static void push_pending_event(lua_State *L, mp_lua *binding, moonpad_session *session) {
  moonpad_changes *changes;
  moonpad_error error;
  mp_check(L, moonpad_session_changes(session, &changes, &error), &error);
  luaL_checkstack(L, 12, NULL);
  if (lua_isnil(L, 3)) {
    lua_newtable(L);
    lua_pushliteral(L, "system");
    lua_setfield(L, -2, "author");
  } else {
    mp_push_copy(L, binding, 3);
  }
  int event = lua_gettop(L);
  push_table_field(L, "actions");
  push_table_field(L, "stateDelta");
  int delta = lua_gettop(L);
  mp_push_delta(L, binding, changes);
  lua_pushnil(L);
  while (lua_next(L, delta + 1)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, delta);
  }
  lua_settop(L, event);
}

static moonpad_status update(lua_State *L, mp_lua *binding, const char *where, moonpad_session *session,
                             mp_outcome *outcome, moonpad_error *error) {
  if (lua_isnil(L, 3)) return moonpad_update_session(session, &outcome->event, error);
  moonpad_string json = mp_encode_event(L, binding, 3, where, mp_session_options(session)->max_event_bytes);
  mp_append_request request = {.event = json, .is_trusted = true, .refuses_shared_keys = true};
  moonpad_status status = moonpad_session_changes(session, &request.changes, error);
  return status == MOONPAD_OK ? mp_append_now(session, &request, &outcome->event, error) : status;
}

mp_session_object *mp_check_update_arguments(lua_State *L, mp_lua *binding, moonpad_service *service,
                                             const char *where) {
  mp_session_object *object = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, 3, where);
  lua_settop(L, 3);
  if (is_without_author(L)) name_author(L, binding);
  if (mp_is_partial_event(L, 3)) mp_raise_argument(L, "%s: event.partial: a partial event is never stored", where);
  return object;
}

bool mp_encode_update(lua_State *L, mp_lua *binding, moonpad_session *session, const char *where,
                      moonpad_changes **changes, moonpad_string *json) {
  moonpad_error error;
  mp_check(L, moonpad_session_changes(session, changes, &error), &error);
  if (lua_isnil(L, 3)) {
    *json = moonpad_text("{\"author\":\"system\"}");
    return moonpad_changes_pending(*changes);
  }
  *json = mp_encode_event(L, binding, 3, where, mp_session_options(session)->max_event_bytes);
  return true;
}

/* In a stepped run, with the session at 2 and the event, or nil, at 3. */
static int update_in_step(lua_State *L) {
  static const char where[] = "service:updateSession";
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = mp_check_session(L, binding, 2, where);
  mp_stepped_append *stepped = mp_stepped_append_push(L, binding, object);
  stepped->push_event = push_pending_event;
  mp_append_request request = {.is_trusted = true, .refuses_shared_keys = true};
  if (!mp_encode_update(L, binding, object->session, where, &request.changes, &request.event)) {
    lua_pushnil(L);
    return 1;
  }
  return mp_stepped_append_make(L, stepped, lua_touserdata(L, 1), &request);
}

/* service:updateSession(session [, event]) */
static int update_session(lua_State *L) {
  static const char where[] = "service:updateSession";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_object *object = mp_check_update_arguments(L, binding, service, where);
  if (mp_appends_in_step(L, service)) return mp_when_drained(L, object, update_in_step);
  mp_outcome *outcome = mp_push_outcome(L, binding);
  int outcome_index = lua_gettop(L);
  moonpad_changes *changes;
  moonpad_error error;
  mp_check(L, moonpad_session_changes(object->session, &changes, &error), &error);
  /* Asked last: a finalizer that ran may have stored what was pending. */
  if (lua_isnil(L, 3) && !moonpad_changes_pending(changes)) {
    mp_cache_outcome(L, binding, outcome_index, outcome);
    lua_pushnil(L);
    return 1;
  }
  if (update(L, binding, where, object->session, outcome, &error) != MOONPAD_OK) {
    mp_take_conflicts(outcome, object->session);
    if (error.code == MOONPAD_CONFLICT) push_pending_event(L, binding, object->session);
    mp_raise_append(L, outcome, object->session, &error, -1);
  }
  return mp_push_stored(L, binding, outcome_index, outcome);
}

/* ---- Refresh ---- */

typedef struct refresh_call {
  mp_store_call call; /* the first member */
  mp_refreshing refreshing;
} refresh_call;

static void release_refresh(mp_store_call *call) {
  mp_refresh_end(&((refresh_call *)call)->refreshing);
}

static moonpad_status ask_refresh(mp_store_call *call, moonpad_error *error) {
  return mp_refresh_read(&((refresh_call *)call)->refreshing, error);
}

static int drained_refresh(lua_State *L);

/* What has been used meanwhile may hold something else now: then the answer is no use. */
static int finish_refreshed(lua_State *L, mp_store_call *call) {
  mp_refreshing *refreshing = &((refresh_call *)call)->refreshing;
  moonpad_session *session = call->session->session;
  moonpad_error error;
  mp_check(L, call->status, &call->error);
  if (!mp_refresh_fits(refreshing, session)) return mp_when_drained(L, call->session, drained_refresh);
  mp_check(L, mp_refresh_apply(refreshing, session, &error), &error);
  lua_pushvalue(L, 2);
  return 1;
}

static int drained_refresh(lua_State *L) {
  static const mp_store_call_type type = {sizeof(refresh_call), ask_refresh, finish_refreshed, release_refresh, false};
  luaL_checkstack(L, 20, NULL);
  mp_session_object *object = mp_check_session(L, mp_lua_of(L), 2, "service:refresh");
  refresh_call *call = (refresh_call *)mp_store_call_push(L, &type, moonpad_session_service(object->session));
  call->call.session = mp_session_object_retain(object);
  mp_refresh_begin(&call->refreshing, object->session);
  return mp_ask_service(L, &call->call);
}

/* service:refresh(session) */
static int refresh(lua_State *L) {
  static const char where[] = "service:refresh";
  mp_session_object *object = mp_check_session_call(L, where, 2);
  lua_settop(L, 2);
  return mp_when_drained(L, object, drained_refresh);
}

const luaL_Reg mp_service_session_calls[] = {{"createSession", create_session},
                                             {"getSession", get_session},
                                             {"deleteSession", delete_session},
                                             {"deleteUser", delete_user},
                                             {"listSessions", list_sessions},
                                             {"appendEvent", append_event},
                                             {"updateSession", update_session},
                                             {"refresh", refresh},
                                             {NULL, NULL}};
