/* service: appends that do not wait, and the polls that complete them (contract 2). */
#include <math.h>

#include "base/platform.h"
#include "lua/async/drain.h"
#include "lua/async/store_call.h"
#include "lua/base/clock.h"
#include "lua/objects/pending_append.h"
#include "lua/service/calls.h"
#include "service/binding/append.h"
#include "service/binding/service.h"
#include "service/binding/session.h"
#include "service/binding/tasks.h"

/* ---- Appending ---- */

/* Goes on with `next`, which queues it, once the session object takes one: as a rule at once. */
static int when_it_queues(lua_State *L, mp_session_object *object, int (*next)(lua_State *L)) {
  return mp_session_queues_nothing(object->session) ? mp_when_drained(L, object, next) : next(L);
}

/* With the session at 2 and the event at 3. */
static int queue_append(lua_State *L) {
  static const char where[] = "service:appendEventAsync";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_lua_append *append = mp_push_pending(L, binding, mp_check_session(L, binding, 2, where));
  moonpad_error error;
  moonpad_string json = mp_encode_event(L, binding, 3, where, mp_service_options(service)->max_event_bytes);
  mp_append_request request = {.event = json, .is_trusted = true};
  mp_check(L, mp_lua_append_begin(append, lua_touserdata(L, 1), &request, false, &error), &error);
  return 1;
}

/* service:appendEventAsync(session, event), also { session =, event = } */
static int append_event_async(lua_State *L) {
  static const char where[] = "service:appendEventAsync";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_sort_append_arguments(L, binding, where);
  mp_session_object *object = mp_check_session_of(L, binding, service, 2, where);
  if (mp_is_partial_event(L, 3)) mp_raise_argument(L, "%s: event.partial: a partial event is never stored", where);
  return when_it_queues(L, object, queue_append);
}

/* With the session at 2 and the event, or nil, at 3. */
static int queue_update(lua_State *L) {
  static const char where[] = "service:updateSessionAsync";
  mp_lua *binding = mp_lua_of(L);
  mp_check_service(L, binding, where);
  mp_session_object *object = mp_check_session(L, binding, 2, where);
  mp_lua_append *append = mp_push_pending(L, binding, object);
  mp_append_request request = {.is_trusted = true, .refuses_shared_keys = true};
  moonpad_error error;
  if (!mp_encode_update(L, binding, object->session, where, &request.changes, &request.event)) {
    lua_pushnil(L);
    return 1;
  }
  mp_check(L, mp_lua_append_begin(append, lua_touserdata(L, 1), &request, false, &error), &error);
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
  /* Turned round, for NaN as well. */
  if (!(wanted > 0)) return 0;
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
  /* Without threads a poll does what is due, such as a sweep, also where nothing is under way. */
  if (!MP_HAS_THREADS && handle->service != NULL) mp_need_queue(handle, NULL);
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
  mp_push_slot(L, MP_LUA_SLOT_SERVICES);
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
