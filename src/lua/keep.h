/* The tables of artifacts and memories, for lua/moonpad/artifacts.lua and memory.lua. */
#ifndef MP_LUA_KEEP_H
#define MP_LUA_KEEP_H

#include "lua/binding.h"

/* Adds core.artifacts(url [, config]) and core.memories(url [, config]) to the module table at the top of the stack. Raises m. */
void mp_keep_module(lua_State *L, int binding_index);

#endif
