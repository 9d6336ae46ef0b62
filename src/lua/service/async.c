/* service: appends that do not wait, and the polls that complete them (contract 2). */
#include <math.h>

#include "lua/async/pending.h"
#include "lua/async/store_call.h"
#include "lua/base/clock.h"
#include "lua/service/service.h"

/* ---- Pending appends ---- */

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
static int give_result(lua_State *L, mp_lua *binding, mp_lua_append *append) {
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
  if (append->state != MP_APPEND_WAITS) return give_result(L, binding, append);
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
  give_result(L, binding, append);
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
  mp_append_wait *wait = mp_box_push(L, sizeof *wait, end_wait);
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

/* ---- Appending ---- */

/* Pushes the object of an append that is to be made. The service is at 1. */
static mp_lua_append *push_pending(lua_State *L, mp_lua *binding, mp_session_box *session) {
  mp_lua_pending *pending = lua_newuserdatauv(L, sizeof *pending, PENDING_USER_VALUES);
  pending->append = NULL;
  mp_push_anchor(L, MP_ANCHOR_PENDING_META);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, PENDING_SERVICE);
  pending->append = mp_lua_append_new(binding, session);
  if (pending->append == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return pending->append;
}

moonpad_status mp_need_queue(mp_lua_service *handle, moonpad_error *error) {
  if (handle->queue != NULL) return MOONPAD_OK;
  return moonpad_queue_new(handle->service, &handle->queue, error);
}

/* Goes on with `next`, which queues it, once the session object takes one: as a rule at once. */
static int when_it_queues(lua_State *L, mp_session_box *box, int (*next)(lua_State *L)) {
  return mp_session_queues_nothing(box->session) ? mp_when_drained(L, box, next) : next(L);
}

/* With the session at 2 and the event at 3. */
static int queue_append(lua_State *L) {
  static const char where[] = "service:appendEventAsync";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_lua_append *append = push_pending(L, binding, mp_check_session(L, binding, 2, where));
  moonpad_error error;
  moonpad_string json = mp_encode_event(L, binding, 3, where, mp_service_options(service)->max_event_bytes);
  mp_async_way way = {0};
  mp_check(L, mp_lua_append_begin(append, lua_touserdata(L, 1), NULL, json, way, &error), &error);
  return 1;
}

/* service:appendEventAsync(session, event), also { session =, event = } */
static int append_event_async(lua_State *L) {
  static const char where[] = "service:appendEventAsync";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_sort_append_arguments(L, binding, where);
  mp_session_box *box = mp_check_session_of(L, binding, service, 2, where);
  if (mp_is_partial_event(L, 3)) mp_raise_argument(L, "%s: event.partial: a partial event is never stored", where);
  return when_it_queues(L, box, queue_append);
}

/* With the session at 2 and the event, or nil, at 3. */
static int queue_update(lua_State *L) {
  static const char where[] = "service:updateSessionAsync";
  mp_lua *binding = mp_lua_of(L);
  mp_check_service(L, binding, where);
  mp_session_box *box = mp_check_session(L, binding, 2, where);
  mp_lua_append *append = push_pending(L, binding, box);
  moonpad_changes *changes;
  moonpad_string json;
  moonpad_error error;
  if (!mp_encode_update(L, binding, box->session, where, &changes, &json)) {
    lua_pushnil(L);
    return 1;
  }
  mp_async_way way = {.apart = true};
  mp_check(L, mp_lua_append_begin(append, lua_touserdata(L, 1), changes, json, way, &error), &error);
  return 1;
}

/* service:updateSessionAsync(session [, event]) */
static int update_session_async(lua_State *L) {
  static const char where[] = "service:updateSessionAsync";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  return when_it_queues(L, mp_check_update_arguments(L, binding, service, where), queue_update);
}

/* ---- Polling ---- */

#define LONGEST_WAIT_MS 1e15

/* Up: who waits for a moment must not ask again and again. */
static int64_t milliseconds(double seconds) {
  double wanted = ceil(seconds * 1000);
  if (!(wanted > 0)) return 0; /* NaN as well */
  return wanted < LONGEST_WAIT_MS ? (int64_t)wanted : (int64_t)LONGEST_WAIT_MS;
}

static mp_lua_service *check_handle(lua_State *L, mp_lua *binding, const char *where) {
  mp_lua_service *handle = mp_test_userdata(L, 1, binding->service_meta);
  if (handle == NULL) mp_raise_self(L, 1, where);
  return handle;
}

/* service:poll([seconds]) -> how many, how many of them failed */
static int poll_service(lua_State *L) {
  static const char where[] = "service:poll";
  mp_lua_service *handle = check_handle(L, mp_lua_of(L), where);
  mp_refuse_more(L, 2, where);
  if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TNUMBER) {
    mp_raise_argument(L, "%s: seconds: expected a number, got %s", where, mp_describe(L, 2));
  }
  size_t failed = 0, count = 0;
  if (handle->queue != NULL) count = mp_queue_poll(handle->queue, milliseconds(lua_tonumber(L, 2)), &failed);
  lua_pushinteger(L, (lua_Integer)count);
  lua_pushinteger(L, (lua_Integer)failed);
  return 2;
}

/* service:fd() */
static int service_fd(lua_State *L) {
  static const char where[] = "service:fd";
  mp_lua_service *handle = check_handle(L, mp_lua_of(L), where);
  mp_refuse_more(L, 1, where);
  moonpad_error error;
  int fd;
  /* What was begun before it was closed can still be polled. */
  if (handle->queue == NULL) mp_check_service(L, mp_lua_of(L), where);
  mp_check(L, mp_need_queue(handle, &error), &error);
  mp_check(L, moonpad_queue_fd(handle->queue, &fd, &error), &error);
  lua_pushinteger(L, fd);
  return 1;
}

/*
** core.idle(seconds): as core.sleep, but ends when something is done that this Lua state has begun
** and does not know of yet.
*/
int mp_idle(lua_State *L) {
  lua_Number seconds = luaL_checknumber(L, 1);
  mp_lua_of(L);
  mp_push_anchor(L, MP_ANCHOR_SERVICES);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const mp_lua_service *handle = lua_touserdata(L, -1);
    if (handle->queue != NULL && mp_queue_await(handle->queue, milliseconds(seconds))) return 0;
  }
  mp_sleep(seconds);
  return 0;
}

const luaL_Reg mp_service_async_calls[] = {{"appendEventAsync", append_event_async},
                                           {"updateSessionAsync", update_session_async},
                                           {"poll", poll_service},
                                           {"fd", service_fd},
                                           {NULL, NULL}};
