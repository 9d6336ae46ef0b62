/* Service objects: the calls of contract 2. Each takes one table of named fields, or a session object and what goes with it. */
#include "core/json.h"
#include "lua/arguments.h"
#include "lua/codec.h"
#include "lua/event.h"
#include "lua/handles.h"
#include "service/append.h"

/* ---- Handles ---- */

mp_lua_service *mp_push_service(lua_State *L, mp_lua *binding) {
  (void)binding;
  mp_lua_service *service = lua_newuserdatauv(L, sizeof *service, 1);
  service->service = NULL;
  service->closed = false;
  mp_push_anchor(L, MP_ANCHOR_SERVICE_META);
  lua_setmetatable(L, -2);
  return service;
}

moonpad_service *mp_check_service(lua_State *L, mp_lua *binding, const char *where) {
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL) mp_raise_self(L, 1, where);
  if (service->closed || service->service == NULL) {
    mp_raise_status(L, MOONPAD_CLOSED, "%s: attempt to use a closed service", where);
  }
  return service->service;
}

/* service:close(), __close */
static int service_close(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL) mp_raise_self(L, 1, "service:close");
  if (service->service != NULL && !service->closed) {
    service->closed = true;
    moonpad_service_close(service->service);
  }
  return 0;
}

static int service_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL) return 0;
  moonpad_service *held = service->service;
  service->service = NULL;
  moonpad_service_release(held);
  return 0;
}

static int service_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL || service->service == NULL || service->closed) {
    lua_pushliteral(L, "moonpad.service (closed)");
    return 1;
  }
  lua_getiuservalue(L, 1, 1);
  const char *url = lua_tostring(L, -1);
  lua_pushfstring(L, "moonpad.service (%s)", url != NULL ? url : "shared by its host");
  return 1;
}

/* A session object of this very service. */
static mp_session_box *check_own_session(lua_State *L, mp_lua *binding, const moonpad_service *service, int index,
                                         const char *where) {
  mp_session_box *box = mp_check_session(L, binding, index, where);
  if (moonpad_session_service(box->session) != service) {
    mp_raise_argument(L, "%s: the session object belongs to another service", where);
  }
  return box;
}

/* ---- open ---- */

static const char *const config_fields[] = {"durability",           "busyTimeoutMs",
                                            "onConflict",           "numRecentEvents",
                                            "maxValueBytes",        "maxEventBytes",
                                            "maxStateBytes",        "maxEvents",
                                            "eventTtlSeconds",      "userTtlSeconds",
                                            "appTtlSeconds",        "sessionTtlSeconds",
                                            "sweepIntervalSeconds", NULL};

/* Housekeeping is not part of this build: better an error than a file that grows against its owner's wish. */
static void refuse_housekeeping(mp_options_table config) {
  for (int i = 7; config_fields[i] != NULL; i++) {
    if (mp_field_index(config, config_fields[i]) == 0) continue;
    mp_raise_status(config.L, MOONPAD_UNSUPPORTED, "%s: %s: this build does not trim or expire yet", config.where,
                    config_fields[i]);
  }
}

static void read_config(lua_State *L, int index, moonpad_options *options) {
  static const char *const durabilities[] = {"full", "normal", NULL};
  static const char *const conflicts[] = {"error", "overwrite", NULL};
  mp_options_table config = mp_check_options(L, index, "moonpad.open", config_fields);
  refuse_housekeeping(config);
  options->durability = (moonpad_durability)mp_field_choice(config, "durability", durabilities, 0);
  options->on_conflict = (moonpad_on_conflict)mp_field_choice(config, "onConflict", conflicts, 0);
  mp_field_integer(config, "busyTimeoutMs", &options->busy_timeout_ms);
  if (mp_field_integer(config, "numRecentEvents", &options->num_recent_events) && options->num_recent_events < 0) {
    mp_raise_argument(L, "moonpad.open: numRecentEvents: must not be negative");
  }
  mp_field_integer(config, "maxValueBytes", &options->max_value_bytes);
  mp_field_integer(config, "maxEventBytes", &options->max_event_bytes);
  mp_field_integer(config, "maxStateBytes", &options->max_state_bytes);
}

/* The URL with what may be a password replaced: scheme://user:***@host. */
static void push_shown_url(lua_State *L, moonpad_string url) {
  const char *end = url.data + url.length;
  const char *at = NULL;
  for (const char *byte = url.data; byte < end; byte++) {
    if (*byte == '@') at = byte;
  }
  const char *authority = strstr(url.data, "://");
  if (at == NULL || authority == NULL || authority > at) {
    lua_pushlstring(L, url.data, url.length);
    return;
  }
  lua_pushlstring(L, url.data, (size_t)(authority + 3 - url.data));
  lua_pushliteral(L, "***");
  lua_pushlstring(L, at, (size_t)(end - at));
  lua_concat(L, 3);
}

/* core.open(url [, config]) */
static int core_open(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 2);
  moonpad_string url = mp_argument_string(L, 1, "moonpad.open", "url");
  moonpad_options options;
  moonpad_options_init(&options);
  if (!lua_isnil(L, 2)) read_config(L, 2, &options);
  mp_lua_service *service = mp_push_service(L, binding);
  push_shown_url(L, url);
  lua_setiuservalue(L, -2, 1);
  moonpad_error error;
  mp_check(L, moonpad_open(url, &options, &service->service, &error), &error);
  return 1;
}

/* ---- sessions ---- */

static moonpad_session_name read_name(mp_options_table options, bool needs_id) {
  moonpad_session_name name;
  name.app_name = mp_field_string(options, "appName");
  name.user_id = mp_field_string(options, "userId");
  name.session_id = needs_id ? mp_field_string(options, "sessionId") : mp_field_optional_string(options, "sessionId");
  return name;
}

/* Writes the table of state keys in `field` to binding->text; empty when absent. */
static moonpad_string read_state(mp_options_table options, mp_lua *binding, const char *field, mp_encode_kind kind) {
  mp_buffer_clear(&binding->text);
  mp_buffer_clear(&binding->removed_keys);
  int index = mp_field_index(options, field);
  if (index == 0) return moonpad_text(NULL);
  bool table = lua_istable(options.L, index) || lua_type(options.L, index) == LUA_TUSERDATA;
  moonpad_type type = MOONPAD_OBJECT;
  moonpad_error error;
  if (table) {
    mp_check(options.L, mp_encode(options.L, binding, index, mp_place_state(), kind, &binding->text, &type, &error),
             &error);
  }
  if (!table || type != MOONPAD_OBJECT) {
    mp_raise_argument(options.L, "%s: %s: expects a table of string keys, got %s", options.where, field,
                      table ? "a list" : mp_describe(options.L, index));
  }
  return mp_buffer_text(&binding->text);
}

/* service:createSession{ appName, userId, sessionId?, state? } */
static int service_create_session(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "sessionId", "state", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:createSession");
  mp_options_table options = mp_check_options(L, 2, "service:createSession", known);
  moonpad_session_name name = read_name(options, false);
  mp_lua_session *session = mp_push_session(L, binding);
  int result = lua_gettop(L);
  moonpad_string state = read_state(options, binding, "state", MP_ENCODE_VALUE);
  moonpad_error error;
  mp_check(L, moonpad_create_session(service, &name, state, &session->box->session, &error), &error);
  lua_settop(L, result);
  return mp_finish_session(L, binding, session);
}

static void read_get_options(mp_options_table options, const moonpad_service *service, moonpad_get_options *get) {
  moonpad_get_options_init(get);
  get->num_recent_events = service->options.num_recent_events;
  if (mp_field_integer(options, "numRecentEvents", &get->num_recent_events) && get->num_recent_events < 0) {
    mp_raise_argument(options.L, "%s: numRecentEvents: must not be negative", options.where);
  }
  get->has_after_timestamp = mp_field_number(options, "afterTimestamp", &get->after_timestamp);
}

/* service:getSession{ appName, userId, sessionId, numRecentEvents?, afterTimestamp? } */
static int service_get_session(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "sessionId", "numRecentEvents", "afterTimestamp", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:getSession");
  mp_options_table options = mp_check_options(L, 2, "service:getSession", known);
  moonpad_session_name name = read_name(options, true);
  moonpad_get_options get;
  read_get_options(options, service, &get);
  mp_lua_session *session = mp_push_session(L, binding);
  moonpad_error error;
  moonpad_status status = moonpad_get_session(service, &name, &get, &session->box->session, &error);
  if (status == MOONPAD_NOT_FOUND) {
    lua_pushnil(L);
    return 1;
  }
  mp_check(L, status, &error);
  return mp_finish_session(L, binding, session);
}

/* service:deleteSession{ appName, userId, sessionId } */
static int service_delete_session(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "sessionId", NULL};
  moonpad_service *service = mp_check_service(L, mp_lua_of(L), "service:deleteSession");
  mp_options_table options = mp_check_options(L, 2, "service:deleteSession", known);
  moonpad_session_name name = read_name(options, true);
  bool existed = false;
  moonpad_error error;
  mp_check(L, moonpad_delete_session(service, &name, &existed, &error), &error);
  lua_pushboolean(L, existed);
  return 1;
}

static void release_list(void *payload) {
  moonpad_session_list_free(*(moonpad_session_list **)payload);
}

static void push_listed(lua_State *L, mp_lua *binding, moonpad_session_list *list) {
  size_t count = moonpad_session_list_count(list);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    mp_lua_session *session = mp_push_session(L, binding);
    session->box->session = moonpad_session_list_take(list, i);
    mp_finish_session(L, binding, session);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* service:listSessions{ appName, userId?, limit?, after?, order? } -> list, cursor */
static int service_list_sessions(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "limit", "after", "order", NULL};
  static const char *const orders[] = {"oldest", "newest", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:listSessions");
  mp_options_table options = mp_check_options(L, 2, "service:listSessions", known);
  moonpad_list_options query;
  moonpad_list_options_init(&query);
  moonpad_string app_name = mp_field_string(options, "appName");
  query.user_id = mp_field_optional_string(options, "userId");
  query.has_user_id = query.user_id.data != NULL;
  if (mp_field_integer(options, "limit", &query.limit) && query.limit < 1) {
    mp_raise_argument(L, "service:listSessions: limit: must be at least 1");
  }
  query.after = mp_field_optional_string(options, "after");
  query.newest_first = mp_field_choice(options, "order", orders, 0) == 1;
  moonpad_session_list **list = mp_box_push(L, sizeof(moonpad_session_list *), release_list);
  moonpad_error error;
  mp_check(L, moonpad_list_sessions(service, app_name, &query, list, &error), &error);
  push_listed(L, binding, *list);
  moonpad_string cursor = moonpad_session_list_cursor(*list);
  if (cursor.length == 0) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, cursor.data, cursor.length);
  }
  mp_box_release(list);
  return 2;
}

/* ---- events ---- */

/* What an append stored: it is, whether or not there is memory left to show it. */
static int push_stored(lua_State *L, mp_lua *binding, moonpad_event **stored) {
  if (*stored == NULL) {
    mp_raise_status(L, MOONPAD_NO_MEMORY, "the event is stored, but there is no memory to return it");
  }
  mp_push_event(L, binding, *stored);
  mp_box_release(stored);
  return 1;
}

/* service:appendEvent(session, event), service:appendEvent{ session =, event = } */
static int service_append_event(lua_State *L) {
  static const char *const known[] = {"session", "event", NULL};
  static const char where[] = "service:appendEvent";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  if (lua_istable(L, 2)) {
    mp_options_table options = mp_check_options(L, 2, where, known);
    lua_settop(L, 2);
    if (mp_field_index(options, "session") == 0) mp_raise_argument(L, "%s: session is missing", where);
    if (mp_field_index(options, "event") == 0) mp_raise_argument(L, "%s: event is missing", where);
    lua_remove(L, 2);
  }
  lua_settop(L, 3);
  mp_session_box *session = check_own_session(L, binding, service, 2, where);
  moonpad_event **stored = mp_box_push_event(L);
  moonpad_string event = mp_encode_event(L, binding, 3, where);
  moonpad_error error;
  moonpad_status status = mp_append_event_now(session->session, NULL, event, true, stored, &error);
  if (status != MOONPAD_OK) mp_raise_append(L, session->session, &error, 3);
  if (mp_is_partial_event(L, 3)) {
    lua_settop(L, 3);
    return 1;
  }
  return push_stored(L, binding, stored);
}

/* service:updateSession(session) */
static int service_update_session(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:updateSession");
  mp_session_box *session = check_own_session(L, binding, service, 2, "service:updateSession");
  moonpad_event **stored = mp_box_push_event(L);
  moonpad_error error;
  moonpad_changes *own;
  mp_check(L, moonpad_session_changes(session->session, &own, &error), &error);
  if (!moonpad_changes_pending(own)) {
    lua_pushnil(L);
    return 1;
  }
  moonpad_status status = moonpad_update_session(session->session, stored, &error);
  if (status == MOONPAD_CONFLICT) {
    lua_createtable(L, 0, 2);
    lua_pushliteral(L, "system");
    lua_setfield(L, -2, "author");
    lua_createtable(L, 0, 1);
    mp_push_delta(L, binding, own);
    lua_setfield(L, -2, "stateDelta");
    lua_setfield(L, -2, "actions");
    mp_raise_append(L, session->session, &error, lua_gettop(L));
  }
  mp_check(L, status, &error);
  return push_stored(L, binding, stored);
}

/* service:refresh(session) */
static int service_refresh(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:refresh");
  mp_session_box *session = check_own_session(L, binding, service, 2, "service:refresh");
  moonpad_error error;
  mp_check(L, moonpad_refresh(session->session, &error), &error);
  lua_settop(L, 2);
  return 1;
}

/* ---- user and app state ---- */

static void release_public_buffer(void *payload) {
  moonpad_buffer_free(payload);
}

static int push_json_buffer(lua_State *L, mp_lua *binding, moonpad_buffer *json) {
  moonpad_string text = {json->data, json->length};
  mp_decode_own(L, binding, text);
  mp_box_release(json);
  return 1;
}

static int get_shared(lua_State *L, const char *where, const char *const *known, bool of_user) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app_name = mp_field_string(options, "appName");
  moonpad_string user_id = moonpad_text(NULL);
  moonpad_error error;
  if (of_user) {
    user_id = mp_field_string(options, "userId");
    mp_check(L, mp_check_name("userId", user_id, &error), &error);
  }
  moonpad_buffer *json = mp_box_push(L, sizeof *json, release_public_buffer);
  mp_check(L, moonpad_get_shared_state(service, app_name, user_id, json, &error), &error);
  return push_json_buffer(L, binding, json);
}

/* service:getAppState{ appName } */
static int service_get_app_state(lua_State *L) {
  static const char *const known[] = {"appName", NULL};
  return get_shared(L, "service:getAppState", known, false);
}

/* service:getUserState{ appName, userId } */
static int service_get_user_state(lua_State *L) {
  static const char *const known[] = {"appName", "userId", NULL};
  return get_shared(L, "service:getUserState", known, true);
}

static int update_shared(lua_State *L, const char *where, const char *const *known, bool of_user) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app_name = mp_field_string(options, "appName");
  moonpad_string user_id = moonpad_text(NULL);
  moonpad_error error;
  if (of_user) {
    user_id = mp_field_string(options, "userId");
    mp_check(L, mp_check_name("userId", user_id, &error), &error);
  }
  mp_buffer *removed = mp_box_push_buffer(L, binding);
  moonpad_string state = read_state(options, binding, "state", MP_ENCODE_SHARED);
  if (state.length == 0) mp_raise_argument(L, "%s: state is missing", where);
  mp_buffer_add_char(removed, '[');
  mp_buffer_add_string(removed, mp_buffer_text(&binding->removed_keys));
  mp_buffer_add_char(removed, ']');
  moonpad_status status =
      removed->failed ? mp_no_memory(&error)
                      : moonpad_update_shared_state(service, app_name, user_id, state, mp_buffer_text(removed), &error);
  mp_check(L, status, &error);
  return 0;
}

/* service:updateAppState{ appName, state } */
static int service_update_app_state(lua_State *L) {
  static const char *const known[] = {"appName", "state", NULL};
  return update_shared(L, "service:updateAppState", known, false);
}

/* service:updateUserState{ appName, userId, state } */
static int service_update_user_state(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "state", NULL};
  return update_shared(L, "service:updateUserState", known, true);
}

/* service:incrementState{ appName, userId?, key, by? } -> number */
static int service_increment_state(lua_State *L) {
  static const char *const known[] = {"appName", "userId", "key", "by", NULL};
  static const char where[] = "service:incrementState";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_options_table options = mp_check_options(L, 2, where, known);
  moonpad_string app_name = mp_field_string(options, "appName");
  moonpad_string user_id = mp_field_optional_string(options, "userId");
  moonpad_error error;
  if (user_id.data != NULL) mp_check(L, mp_check_name("userId", user_id, &error), &error);
  moonpad_string key = mp_field_string(options, "key");
  moonpad_value by = moonpad_integer(1), result;
  double number;
  if (mp_field_number(options, "by", &number)) {
    by = lua_isinteger(L, -1) ? moonpad_integer(lua_tointeger(L, -1)) : moonpad_float(number);
  }
  mp_check(L, moonpad_increment_state(service, app_name, user_id, key, &by, &result, &error), &error);
  mp_push_value(L, binding, &result);
  return 1;
}

/* ---- history ---- */

/* service:stateAt(session, revision) */
static int service_state_at(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:stateAt");
  mp_session_box *session = check_own_session(L, binding, service, 2, "service:stateAt");
  int64_t revision = mp_argument_integer(L, 3, "service:stateAt", "revision");
  moonpad_buffer *json = mp_box_push(L, sizeof *json, release_public_buffer);
  moonpad_error error;
  mp_check(L, moonpad_state_at(session->session, revision, json, &error), &error);
  return push_json_buffer(L, binding, json);
}

/* service:fork(session, { at = revision, sessionId? }); without `at`: the revision that the session object holds */
static int service_fork(lua_State *L) {
  static const char *const known[] = {"at", "sessionId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:fork");
  mp_session_box *session = check_own_session(L, binding, service, 2, "service:fork");
  int64_t revision = moonpad_session_revision(session->session);
  moonpad_string session_id = moonpad_text(NULL);
  lua_settop(L, 3);
  if (!lua_isnil(L, 3)) {
    mp_options_table options = mp_check_options(L, 3, "service:fork", known);
    mp_field_integer(options, "at", &revision);
    session_id = mp_field_optional_string(options, "sessionId");
  }
  mp_lua_session *forked = mp_push_session(L, binding);
  moonpad_error error;
  mp_check(L, moonpad_fork(session->session, revision, session_id, &forked->box->session, &error), &error);
  return mp_finish_session(L, binding, forked);
}

/* service:rewind(session, { invocationId }) */
static int service_rewind(lua_State *L) {
  static const char *const known[] = {"invocationId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, "service:rewind");
  mp_session_box *session = check_own_session(L, binding, service, 2, "service:rewind");
  mp_options_table options = mp_check_options(L, 3, "service:rewind", known);
  moonpad_string invocation = mp_field_string(options, "invocationId");
  moonpad_event **stored = mp_box_push_event(L);
  moonpad_error error;
  moonpad_status status = moonpad_rewind(session->session, invocation, stored, &error);
  if (status != MOONPAD_OK) mp_raise_append(L, session->session, &error, 0);
  return push_stored(L, binding, stored);
}

/* service:backup(path) */
static int service_backup(lua_State *L) {
  moonpad_service *service = mp_check_service(L, mp_lua_of(L), "service:backup");
  moonpad_string path = mp_argument_string(L, 2, "service:backup", "path");
  moonpad_error error;
  mp_check(L, moonpad_backup(service, path, &error), &error);
  return 0;
}

/* service:sweep() */
static int service_sweep(lua_State *L) {
  mp_check_service(L, mp_lua_of(L), "service:sweep");
  mp_raise_status(L, MOONPAD_UNSUPPORTED, "service:sweep: this build does not expire anything yet");
}

/* ---- the type ---- */

void mp_service_setup(lua_State *L, int binding_index) {
  static const luaL_Reg events[] = {
      {"__close", service_close}, {"__gc", service_gc}, {"__tostring", service_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", service_close},
                                     {"createSession", service_create_session},
                                     {"getSession", service_get_session},
                                     {"listSessions", service_list_sessions},
                                     {"deleteSession", service_delete_session},
                                     {"appendEvent", service_append_event},
                                     {"updateSession", service_update_session},
                                     {"refresh", service_refresh},
                                     {"getAppState", service_get_app_state},
                                     {"getUserState", service_get_user_state},
                                     {"updateAppState", service_update_app_state},
                                     {"updateUserState", service_update_user_state},
                                     {"incrementState", service_increment_state},
                                     {"stateAt", service_state_at},
                                     {"fork", service_fork},
                                     {"rewind", service_rewind},
                                     {"backup", service_backup},
                                     {"sweep", service_sweep},
                                     {NULL, NULL}};
  mp_set_functions(L, binding_index, events);
  lua_newtable(L);
  mp_set_functions(L, binding_index, methods);
  lua_setfield(L, -2, "__index");
}

void mp_service_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"open", core_open}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
