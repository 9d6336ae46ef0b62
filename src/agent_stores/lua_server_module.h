/* What the Lua modules of stores on servers have in common. */
#ifndef MP_AGENT_STORES_LUA_SERVER_MODULE_H
#define MP_AGENT_STORES_LUA_SERVER_MODULE_H

#include <lua.h>

#include "agent_stores/opener.h"

/* Writes the SQL that makes all tables of a URL, of which `rest` is what follows its scheme. */
typedef moonpad_status (*mp_schema_writer)(moonpad_string rest, mp_buffer *sql, moonpad_error *error);

/*
** Pushes such a module. `opener`, a light userdata: it lives as long as the module is loaded.
** schema(url behind its scheme) -> SQL | nil, message, code
*/
int mp_push_server_module(lua_State *L, const mp_agent_opener *opener, mp_schema_writer write);

#endif
