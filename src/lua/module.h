/* The binding of a Lua state, made where the module is first opened. */
#ifndef MP_LUA_MODULE_H
#define MP_LUA_MODULE_H

#include "lua/base/binding.h"

/* Pushes the binding of this Lua state, made when there is none. Raises m. */
mp_lua *mp_lua_push_binding(lua_State *L);

#endif
