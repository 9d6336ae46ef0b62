/* What appendEventAsync and updateSessionAsync give: an append under way (contract 2). */
#include "lua/objects/pending_append.h"

#include "lua/base/arguments.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"
#include "service/binding/append.h"

/* User values: 1 the service, 2 the event or the error, once it has been asked for. */
typedef struct mp_lua_pending {
  mp_lua_append *append;
} mp_lua_pending;
enum { PENDING_SERVICE = 1, PENDING_RESULT, PENDING_USER_VALUES = PENDING_RESULT };

static mp_lua_append *check_pending(lua_State *L, mp_lua *binding, const char *where) {
  mp_lua_pending *pending = mp_test_userdata(L, 1, binding->pending_meta);
  if (pending == NULL) mp_raise_self(L, 1, where);
  if (pending->append == NULL) mp_raise_status(L, MOONPAD_CLOSED, "%s: the pending append is closed", where);
  return pending->append;
}

static void push_failure(lua_State *L, mp_lua *binding, mp_lua_append *append) {
  moonpad_error error = mp_lua_append_error(append);
  int event = 0;
  if (append->refused.length > 0 && !append->refused.failed) {
    mp_push_event(L, binding, mp_buffer_text(&append->refused), 0);
    event = lua_gettop(L);
  }
  mp_push_append_error(L, &append->stored, &error, event);
}

/* Pushes the event or the error object: the same one each time. */
static void push_result(lua_State *L, mp_lua *binding, mp_lua_append *append) {
  if (lua_getiuservalue(L, 1, PENDING_RESULT) != LUA_TNIL) return;
  lua_pop(L, 1);
  if (append->state != MP_APPEND_STORED) {
    push_failure(L, binding, append);
  } else if (append->stored.event != NULL) {
    const moonpad_event *event = append->stored.event;
    mp_push_event(L, binding, moonpad_event_json(event), moonpad_event_revision(event));
  } else {
    mp_push_error(L, moonpad_status_name(MOONPAD_NO_MEMORY), MP_STORED_WITHOUT_MEMORY);
  }
  /* A finalizer that ran meanwhile may have asked for it, too. */
  if (lua_getiuservalue(L, 1, PENDING_RESULT) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, PENDING_RESULT);
}

/* Pushes the event, or raises the error. */
static int push_result_or_raise(lua_State *L, mp_lua *binding, mp_lua_append *append) {
  bool is_event = append->state == MP_APPEND_STORED && append->stored.event != NULL;
  lua_settop(L, 1);
  push_result(L, binding, append);
  return is_event ? 1 : lua_error(L);
}

/* pending:result() */
static int pending_result(lua_State *L) {
  static const char where[] = "pending:result";
  mp_lua *binding = mp_lua_of(L);
  mp_lua_append *append = check_pending(L, binding, where);
  mp_refuse_more(L, 1, where);
  if (append->state != MP_APPEND_WAITS) return push_result_or_raise(L, binding, append);
  lua_pushnil(L);
  return 1;
}

/*
** pending:poll() -> done, event: what context:await asks. Completes it, and what is before it on
** its session.
*/
static int pending_poll(lua_State *L) {
  static const char where[] = "pending:poll";
  mp_lua *binding = mp_lua_of(L);
  mp_lua_append *append = check_pending(L, binding, where);
  mp_refuse_more(L, 1, where);
  if (append->job != NULL && !mp_job_poll(append->job)) {
    lua_pushboolean(L, false);
    return 1;
  }
  push_result_or_raise(L, binding, append);
  lua_pushboolean(L, true);
  lua_insert(L, -2);
  return 2;
}

static void end_wait(void *payload) {
  mp_append_wait_end(payload);
}

/*
** core.awaitAppend(job) -> wait, or nil where `job` is no pending append that waits: until the
** wait is closed, the descriptor tells when the append has been found done by somebody else.
*/
static int await_append(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  const mp_lua_pending *pending = mp_test_userdata(L, 1, binding->pending_meta);
  if (pending == NULL || pending->append == NULL) return 0;
  mp_append_wait *wait = mp_handle_push(L, sizeof *wait, end_wait);
  /* A finalizer may have run meanwhile. */
  if (pending->append != NULL && pending->append->session != NULL) {
    mp_append_wait_begin(wait, pending->append->session);
    return 1;
  }
  return 0;
}

static int pending_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_pending *pending = mp_test_userdata(L, 1, binding->pending_meta);
  if (pending == NULL) return 0;
  mp_lua_append *append = pending->append;
  pending->append = NULL;
  mp_lua_append_release(append);
  return 0;
}

static int pending_tostring(lua_State *L) {
  static const char *const outcomes[] = {"waiting", "stored", "failed", "dropped"};
  mp_lua_pending *pending = mp_test_userdata(L, 1, mp_lua_of(L)->pending_meta);
  bool known = pending != NULL && pending->append != NULL;
  lua_pushfstring(L, "moonpad.pendingAppend (%s)", known ? outcomes[pending->append->state] : "closed");
  return 1;
}

mp_lua_append *mp_push_pending(lua_State *L, mp_lua *binding, mp_session_object *session) {
  mp_lua_pending *pending = lua_newuserdatauv(L, sizeof *pending, PENDING_USER_VALUES);
  pending->append = NULL;
  mp_push_slot(L, MP_LUA_SLOT_PENDING_META);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, PENDING_SERVICE);
  pending->append = mp_lua_append_new(binding, session);
  if (pending->append == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return pending->append;
}

void mp_pending_setup(lua_State *L, int binding_index) {
  static const luaL_Reg events[] = {{"__gc", pending_gc}, {"__tostring", pending_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"result", pending_result}, {"poll", pending_poll}, {NULL, NULL}};
  mp_set_functions(L, binding_index, events);
  lua_newtable(L);
  mp_set_functions(L, binding_index, methods);
  lua_setfield(L, -2, "__index");
}

void mp_pending_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, await_append);
  lua_setfield(L, -2, "awaitAppend");
}
