/* Finding secrets in texts, for what shows and stores the texts of others. */
#ifndef MP_LUA_BASE_SECRETS_H
#define MP_LUA_BASE_SECRETS_H

#include "lua/base/binding.h"

/* Adds `secretFinder` to the module table at the top. Raises m. */
void mp_secrets_module(lua_State *L, int binding_index);

#endif
