/*
** Appends of stepped runs. They wait as asynchronous appends do, together with those of others;
** but their session object shows them when they are stored, and the coroutine yields
** core.ASKS_STORE until then. What wakes it: the completion queue's file descriptor (store_call.h),
** or append_wait.h where somebody else took the append out of that queue first.
*/
#ifndef MP_LUA_ASYNC_STEPPED_APPEND_H
#define MP_LUA_ASYNC_STEPPED_APPEND_H

#include "lua/async/append.h"
#include "lua/async/store_call.h"
#include "service/binding/append.h"

typedef struct mp_stepped_append {
  mp_lua_append *append;
  mp_session_object *session;
  mp_append_wait wait;
  int index; /* of its userdata */
  int top;   /* of the stack */
  int event; /* the index of what a conflict's error carries; 0: nothing */
  /* Used where `event` is 0: pushes what a conflict's error carries. NULL: nothing. */
  void (*push_event)(lua_State *L, mp_lua *binding, moonpad_session *session);
  /* What to do about a conflict: results as of a C function. NULL: it is raised. */
  int (*on_conflict)(lua_State *L);
} mp_stepped_append;

/* Is an append that is made now to be made so? Raises -. */
bool mp_appends_in_step(lua_State *L, const moonpad_service *service);
/*
** Pushes one that is to be made; nothing of that session object is under way. Then its event can be
** encoded. Raises m.
*/
mp_stepped_append *mp_stepped_append_push(lua_State *L, mp_lua *binding, mp_session_object *session);
/*
** The C function's last act. `handle` is the service's in this Lua state. The result is the
** stored event. Raises e.
*/
int mp_stepped_append_make(lua_State *L, mp_stepped_append *stepped, mp_lua_service *handle,
                           const mp_append_request *request);

#endif
