/* Waiting until no append of a session object is under way: at once, or as a step does. */
#include "lua/async/drain.h"

#include "lua/async/append_wait.h"
#include "lua/async/store_call.h"
#include "service/binding/session.h"

typedef struct draining {
  mp_session_object *session;
  mp_append_wait wait;
  int (*next)(lua_State *L);
  int top;
} draining;

/* What was abandoned is nobody's again, unless others wait for it as well. */
static void stop_draining(void *payload) {
  draining *wait = payload;
  mp_session_object *session = wait->session;
  wait->session = NULL;
  mp_append_wait_end(&wait->wait);
  if (session != NULL) mp_session_drain_abandoned(session->session, session->waits != NULL);
  mp_session_object_release(session);
}

static int go_on_draining(lua_State *L, int status, lua_KContext context) {
  draining *wait = (draining *)context;
  (void)status;
  mp_append_wait_end(&wait->wait);
  if (mp_is_cancelled(L, wait->top)) {
    mp_handle_release(wait);
    mp_raise_cancelled(L);
  }
  if (wait->session == NULL) mp_raise_finalized(L);
  if (!mp_session_drain_abandoned(wait->session->session, true)) {
    mp_append_wait_begin(&wait->wait, wait->session);
    return mp_yield_to_step(L, context, go_on_draining);
  }
  int (*next)(lua_State *) = wait->next;
  mp_handle_release(wait);
  lua_settop(L, wait->top - 1);
  return next(L);
}

int mp_when_drained(lua_State *L, mp_session_object *session, int (*next)(lua_State *L)) {
  if (mp_session_try_drain(session->session)) return next(L);
  if (!mp_may_yield_to_step(L)) {
    mp_session_drain(session->session);
    return next(L);
  }
  draining *wait = mp_handle_push(L, sizeof *wait, stop_draining);
  wait->next = next;
  wait->top = lua_gettop(L);
  wait->session = mp_session_object_retain(session);
  return go_on_draining(L, LUA_YIELD, (lua_KContext)wait);
}

/* ---- For the scheduler ---- */

/* core.isDrained(session, isAwaited) */
static int is_drained(lua_State *L) {
  mp_session_object *session = mp_check_session(L, mp_lua_of(L), 1, "core.isDrained");
  lua_pushboolean(L, mp_session_drain_abandoned(session->session, lua_toboolean(L, 2)));
  return 1;
}

void mp_drain_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, is_drained);
  lua_setfield(L, -2, "isDrained");
}
