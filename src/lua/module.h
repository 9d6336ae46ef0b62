/*
** src/lua: the Lua module moonpad.core, and what embeds it in a C host.
** Belongs here: C that speaks to Lua: values (codec/), waiting (async/), the objects of scripts
** (objects/), the calls of a service (service/), on base/. In this folder itself: module.c opens
** the module, embed.c and run.c are moonpad_lua.h (opening it in a host's Lua state, running
** agents).
** Does not belong here: rules of moonpad (src/service), agents, runners, tools (lua/moonpad).
** Arrows: module -> service -> objects -> async -> codec -> base -> service/binding/, src/core and
** src/base.
**
** This header: the binding of a Lua state, made where the module is first opened.
*/
#ifndef MP_LUA_MODULE_H
#define MP_LUA_MODULE_H

#include "lua/base/binding.h"

/* Pushes the binding of this Lua state, made when there is none. Raises m. */
mp_lua *mp_lua_push_binding(lua_State *L);

#endif
