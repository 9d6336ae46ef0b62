/*
** moonpad in a host's own Lua 5.4: opening the module, sharing an open service.
**
** Every function runs on the Lua state's own thread. One that is marked [e] may raise a Lua error (a moonpad error object, or memory), so call it in protected mode;
** [-] raises nothing. One service may be shared by any number of Lua states on any threads.
*/
#ifndef MOONPAD_LUA_H
#define MOONPAD_LUA_H

#include <lua.h>

#include "moonpad.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pushes the C module `moonpad.core`, for luaL_requiref or package.preload. May be called again in the same Lua state. [e] */
MOONPAD_API int luaopen_moonpad_core(lua_State *L);

/*
** Pushes the whole module `moonpad` with its Lua files, which are compiled in: no file and no package.path is needed. After it,
** `require "moonpad"` and its submodules work in this Lua state. Needs `package` to be open (luaL_openlibs). [e]
*/
MOONPAD_API int luaopen_moonpad(lua_State *L);

/*
** Pushes a service object for an open service; the object holds a reference of its own. Its `close` closes the service for everybody: a host that
** shares it with untrusted scripts keeps the object to itself. [e]
*/
MOONPAD_API void moonpad_lua_push_service(lua_State *L, moonpad_service *service);

/* The service of the service object at `index`, borrowed from it; NULL when there is something else, or one that was closed. [-] */
MOONPAD_API moonpad_service *moonpad_lua_to_service(lua_State *L, int index);

#ifdef __cplusplus
}
#endif

#endif
