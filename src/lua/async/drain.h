/* Waiting until no append of a session object is under way. */
#ifndef MP_LUA_ASYNC_DRAIN_H
#define MP_LUA_ASYNC_DRAIN_H

#include "lua/base/handles.h"

/*
** Goes on with `next`, a C function's second half, once no append of the session object is under
** way: waits for them as a store call does. The session is to stay on the stack. Raises e.
*/
int mp_when_drained(lua_State *L, mp_session_object *session, int (*next)(lua_State *L));

/* What core.* the scheduler needs of it. Raises m. */
void mp_drain_module(lua_State *L, int binding_index);

#endif
