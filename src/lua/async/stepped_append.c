/* Appends of stepped runs. */
#include "lua/async/stepped_append.h"

#include "lua/base/errors.h"
#include "lua/codec/event.h"
#include "service/binding/service.h"

bool mp_appends_in_step(lua_State *L, const moonpad_service *service) {
  return !mp_service_is_in_memory(service) && mp_may_yield_to_step(L);
}

/* One that nobody waits for any more is stored all the same. */
static void release(void *payload) {
  mp_stepped_append *stepped = payload;
  mp_lua_append *append = stepped->append;
  stepped->append = NULL;
  mp_append_wait_end(&stepped->wait);
  if (append != NULL && append->job != NULL) mp_job_abandon(append->job);
  mp_lua_append_release(append);
  mp_session_object_release(stepped->session);
  stepped->session = NULL;
}

mp_stepped_append *mp_stepped_append_push(lua_State *L, mp_lua *binding, mp_session_object *session) {
  mp_stepped_append *stepped = mp_handle_push(L, sizeof *stepped, release);
  stepped->index = lua_gettop(L);
  stepped->session = mp_session_object_retain(session);
  stepped->append = mp_lua_append_new(binding, session);
  if (stepped->append == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return stepped;
}

static int finish_event(lua_State *L, mp_stepped_append *stepped) {
  const moonpad_event *event = stepped->append->stored.event;
  if (event == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, MP_STORED_WITHOUT_MEMORY);
  mp_push_event(L, mp_lua_of(L), moonpad_event_json(event), moonpad_event_revision(event));
  return 1;
}

static int raise_failure(lua_State *L, mp_stepped_append *stepped) {
  moonpad_error error = mp_lua_append_error(stepped->append);
  int event = stepped->event;
  if (error.code == MOONPAD_CONFLICT && stepped->on_conflict != NULL) return stepped->on_conflict(L);
  if (error.code == MOONPAD_CONFLICT && stepped->push_event != NULL) {
    stepped->push_event(L, mp_lua_of(L), stepped->session->session);
    event = lua_gettop(L);
  }
  mp_push_append_error(L, &stepped->append->stored, &error, event);
  return lua_error(L);
}

static int go_on(lua_State *L, int status, lua_KContext context);

static int wait_for_step(lua_State *L, mp_stepped_append *stepped) {
  mp_append_wait_begin(&stepped->wait, stepped->session);
  return mp_yield_to_step(L, (lua_KContext)stepped, go_on);
}

static int go_on(lua_State *L, int status, lua_KContext context) {
  mp_stepped_append *stepped = (mp_stepped_append *)context;
  (void)status;
  mp_append_wait_end(&stepped->wait);
  if (mp_is_cancelled(L, stepped->top)) {
    mp_handle_release(stepped);
    mp_raise_cancelled(L);
  }
  mp_lua_append *append = stepped->append;
  if (append == NULL) mp_raise_finalized(L);
  if (append->job != NULL && !mp_job_poll(append->job)) return wait_for_step(L, stepped);
  if (append->state == MP_APPEND_STORED) return finish_event(L, stepped);
  return raise_failure(L, stepped);
}

int mp_stepped_append_make(lua_State *L, mp_stepped_append *stepped, mp_lua_service *handle,
                           const mp_append_request *request) {
  moonpad_error error;
  stepped->top = lua_gettop(L);
  mp_check(L, mp_lua_append_begin(stepped->append, handle, request, true, &error), &error);
  /* So that a coroutine which is closed meanwhile lets go of it at once. */
  lua_toclose(L, stepped->index);
  return wait_for_step(L, stepped);
}
