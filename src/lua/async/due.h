/* What tells that a run is to be stepped. */
#ifndef MP_LUA_ASYNC_DUE_H
#define MP_LUA_ASYNC_DUE_H

#include "lua/base/handles.h"

/* The metatable of these objects; what core.* has of them. Raise m. */
void mp_due_setup(lua_State *L, int binding_index);
void mp_due_module(lua_State *L, int binding_index);

#endif
