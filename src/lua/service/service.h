/* Service objects, for module.c. */
#ifndef MP_LUA_SERVICE_SERVICE_H
#define MP_LUA_SERVICE_SERVICE_H

#include "lua/base/handles.h"

/* The metatable of service objects; what core.* has of them. Raise m. */
void mp_service_setup(lua_State *L, int binding_index);
void mp_service_module(lua_State *L, int binding_index);

#endif
