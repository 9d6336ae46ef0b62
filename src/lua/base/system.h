/* Files and variables of the environment, in UTF-8 on Windows as well, where Lua's own are not. */
#ifndef MP_LUA_BASE_SYSTEM_H
#define MP_LUA_BASE_SYSTEM_H

#include "lua/base/binding.h"

/* Adds `openFile` and `environment` to the module table at the top. Raises m. */
void mp_system_module(lua_State *L, int binding_index);

#endif
