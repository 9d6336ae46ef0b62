/*
** session.events: reads as a list, fetches what it is asked for. Every access gives a table of
** its own.
*/
#include "base/error.h"
#include "lua/async/store_call.h"
#include "lua/base/errors.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"
#include "service/binding/service.h"
#include "service/binding/session.h"

void mp_push_events(lua_State *L, mp_lua *binding, mp_session_object *object) {
  (void)binding;
  mp_lua_events *events = lua_newuserdatauv(L, sizeof *events, 0);
  events->object = NULL;
  mp_push_slot(L, MP_LUA_SLOT_EVENTS_META);
  lua_setmetatable(L, -2);
  events->object = mp_session_object_retain(object);
}

static mp_session_object *check_events(lua_State *L, mp_lua *binding) {
  mp_lua_events *events = mp_test_userdata(L, 1, binding->events_meta);
  if (events == NULL) mp_raise_argument(L, "session.events: got %s", mp_describe(L, 1));
  if (events->object == NULL) mp_raise_status(L, MOONPAD_CLOSED, "session.events: the session object is closed");
  return events->object;
}

static size_t count_of(lua_State *L, moonpad_session *session) {
  size_t count = 0;
  moonpad_error error;
  mp_check(L, moonpad_session_event_count(session, &count, &error), &error);
  return count;
}

#define SHORT_EVENT 2048

static moonpad_string text_at(lua_State *L, moonpad_session *session, lua_Integer position, int64_t *revision) {
  moonpad_string json = {NULL, 0};
  moonpad_error error;
  mp_check(L, mp_session_event_text(session, (size_t)(position - 1), &json, revision, &error), &error);
  return json;
}

/* What is asked for: #events, events[i], a step of pairs(events), core.readEvent. */
typedef enum wanted { WANTED_COUNT, WANTED_EVENT, WANTED_PAIR, WANTED_KEPT } wanted;

/* Pushes what is wanted of an event; returns how many values. */
static int push_text(lua_State *L, mp_lua *binding, wanted what, moonpad_string json, int64_t revision) {
  if (what != WANTED_KEPT) {
    mp_push_event(L, binding, json, revision);
    return 1;
  }
  bool has_null = mp_push_kept_event(L, binding, json, revision);
  lua_pushinteger(L, (lua_Integer)json.length);
  lua_pushboolean(L, has_null);
  return 3;
}

/* To make the buffer may run a finalizer that reads events too: the text is asked for after it. */
static int push_long(lua_State *L, mp_lua *binding, moonpad_session *session, wanted what, lua_Integer position) {
  mp_buffer *copied = mp_handle_push_buffer(L, binding);
  int handle = lua_gettop(L), count = 1;
  int64_t revision = 0;
  moonpad_error error;
  mp_buffer_add_string(copied, text_at(L, session, position, &revision));
  if (copied->failed) mp_check(L, mp_no_memory(&error), &error);
  if (copied->length > 0)
    count = push_text(L, binding, what, mp_buffer_text(copied), revision);
  else
    lua_pushnil(L);
  mp_handle_release(copied);
  lua_remove(L, handle);
  return count;
}

/*
** Pushes the event at `position` (from 1), or nil. Its text belongs to the session, and making
** tables may run a finalizer that reads events too: it is brought to safety first.
*/
static int push_at(lua_State *L, mp_lua *binding, moonpad_session *session, wanted what, lua_Integer position) {
  char copy[SHORT_EVENT];
  int64_t revision = 0;
  moonpad_string json = position >= 1 ? text_at(L, session, position, &revision) : (moonpad_string){NULL, 0};
  if (json.data == NULL) {
    lua_pushnil(L);
    return 1;
  }
  if (json.length > sizeof copy) return push_long(L, binding, session, what, position);
  memcpy(copy, json.data, json.length);
  return push_text(L, binding, what, (moonpad_string){copy, json.length}, revision);
}

static int push_wanted(lua_State *L, mp_lua *binding, moonpad_session *session, wanted what, lua_Integer position) {
  if (what == WANTED_COUNT) {
    lua_pushinteger(L, (lua_Integer)count_of(L, session));
    return 1;
  }
  if (what != WANTED_PAIR) return push_at(L, binding, session, what, position);
  lua_pushinteger(L, position);
  push_at(L, binding, session, what, position);
  return lua_isnil(L, -1) ? 1 : 2;
}

typedef struct event_call {
  mp_store_call call; /* the first member */
  mp_event_read read;
  wanted what;
  lua_Integer position;
} event_call;

static size_t index_of(wanted what, lua_Integer position) {
  return what == WANTED_COUNT || position < 1 ? SIZE_MAX : (size_t)(position - 1);
}

static void begin_read(lua_State *L, event_call *wait) {
  moonpad_error error;
  size_t index = index_of(wait->what, wait->position);
  mp_check(L, mp_event_read_begin(&wait->read, wait->call.session->session, index, true, &error), &error);
}

static moonpad_status ask_events(mp_store_call *call, moonpad_error *error) {
  return mp_event_read_run(&((event_call *)call)->read, error);
}

/* Behind the filter a page may be to be read. */
static int finish_events(lua_State *L, mp_store_call *call) {
  event_call *wait = (event_call *)call;
  moonpad_session *session = call->session->session;
  mp_event_read_end(&wait->read, session, call->status == MOONPAD_OK);
  mp_check(L, call->status, &call->error);
  if (mp_session_event_is_ready(session, index_of(wait->what, wait->position))) {
    return push_wanted(L, mp_lua_of(L), session, wait->what, wait->position);
  }
  begin_read(L, wait);
  return MP_ASK_AGAIN;
}

static void release_read(mp_store_call *call) {
  if (call->session != NULL) mp_event_read_end(&((event_call *)call)->read, call->session->session, false);
}

static int read_or_wait(lua_State *L, mp_lua *binding, mp_session_object *object, wanted what, lua_Integer position) {
  static const mp_store_call_type type = {sizeof(event_call), ask_events, finish_events, release_read, false};
  moonpad_session *session = object->session;
  bool at_once = binding->stepper == NULL || mp_service_is_in_memory(moonpad_session_service(session)) ||
                 (what != WANTED_COUNT && position < 1);
  if (at_once || mp_session_event_is_ready(session, index_of(what, position)) || !mp_may_yield_to_step(L)) {
    return push_wanted(L, binding, session, what, position);
  }
  event_call *wait = (event_call *)mp_store_call_push(L, &type, moonpad_session_service(session));
  wait->call.session = mp_session_object_retain(object);
  wait->what = what;
  wait->position = position;
  begin_read(L, wait);
  return mp_ask_service(L, &wait->call);
}

static int events_len(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  return read_or_wait(L, binding, check_events(L, binding), WANTED_COUNT, 0);
}

static int events_index(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = check_events(L, binding);
  int exact = 0;
  lua_Integer position = lua_type(L, 2) == LUA_TNUMBER ? lua_tointegerx(L, 2, &exact) : 0;
  return read_or_wait(L, binding, object, WANTED_EVENT, exact ? position : 0);
}

/* ---- History as runs read it ---- */

/* core.readEvent(session, revision) -> what runs keep of it, bytes of its text, is a null in it? */
static int read_event(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = mp_check_session(L, binding, 1, "core.readEvent");
  lua_Integer position = luaL_checkinteger(L, 2) - mp_session_first_event(object->session) + 1;
  return read_or_wait(L, binding, object, WANTED_KEPT, position);
}

/*
** core.historyOf(session) -> the id of its creation, the revision of the first event it shows, how
** often the store has lost events
*/
static int history_of(lua_State *L) {
  const mp_session_object *object = mp_check_session(L, mp_lua_of(L), 1, "core.historyOf");
  lua_pushinteger(L, mp_session_number(object->session));
  lua_pushinteger(L, mp_session_first_event(object->session));
  lua_pushinteger(L, mp_session_times_lost(object->session));
  return 3;
}

void mp_events_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"readEvent", read_event}, {"historyOf", history_of}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}

/* ---- session.events ---- */

static int events_newindex(lua_State *L) {
  mp_raise_argument(L, "session.events: history is only appended to, by service:appendEvent");
}

static int next_event(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = check_events(L, binding);
  return read_or_wait(L, binding, object, WANTED_PAIR, luaL_checkinteger(L, 2) + 1);
}

static int events_pairs(lua_State *L) {
  check_events(L, mp_lua_of(L));
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushcclosure(L, next_event, 1);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

static int events_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_string id = moonpad_session_id(check_events(L, binding)->session);
  lua_pushliteral(L, "moonpad.events (of session ");
  lua_pushlstring(L, id.data, id.length);
  lua_pushliteral(L, ")");
  lua_concat(L, 3);
  return 1;
}

static int events_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_events *events = mp_test_userdata(L, 1, binding->events_meta);
  if (events == NULL) return 0;
  mp_session_object *object = events->object;
  events->object = NULL;
  mp_session_object_release(object);
  return 0;
}

void mp_events_setup(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {{"__index", events_index},
                                     {"__newindex", events_newindex},
                                     {"__len", events_len},
                                     {"__pairs", events_pairs},
                                     {"__tostring", events_tostring},
                                     {"__gc", events_gc},
                                     {NULL, NULL}};
  mp_set_functions(L, binding_index, methods);
}
