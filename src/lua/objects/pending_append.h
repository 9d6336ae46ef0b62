/* The object of an append under way. */
#ifndef MP_LUA_OBJECTS_PENDING_APPEND_H
#define MP_LUA_OBJECTS_PENDING_APPEND_H

#include "lua/async/append.h"

/* Pushes the object of an append that is to be made. The service is at 1. Raises m. */
mp_lua_append *mp_push_pending(lua_State *L, mp_lua *binding, mp_session_object *session);

#endif
