/*
** moonpad in a host's own Lua 5.4 states. Include it after lua.h, link libmoonpad_lua and libmoonpad.
**
** A lua_State is used by one thread at a time; a service may be shared by any number of them. Nothing here keeps the lua_State: a coroutine may open the module and die.
** Every function says what it does to the stack as the Lua manual does: [-popped, +pushed, raises], where raises is `-` never, `m` memory errors only, `e` any error.
*/
#ifndef MOONPAD_LUA_H
#define MOONPAD_LUA_H

#include <lua.h>

#include "moonpad.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
** Opens the module `moonpad` with everything it needs compiled in, no file is read: the loaders of its Lua modules go into package.preload, then
** the module itself is run. Use it as `luaL_requiref(L, "moonpad", luaopen_moonpad, 0)`; the standard libraries are to be open. A loader that is in
** package.preload already is left there. [-0, +1, e]
*/
MOONPAD_API int luaopen_moonpad(lua_State *L);

/* Opens `moonpad.core`, the C module alone, which `moonpad` is built on. May be opened any number of times in one Lua state. [-0, +1, m] */
MOONPAD_API int luaopen_moonpad_core(lua_State *L);

/*
** Pushes a service object over `service`, which is retained: it stays open until the host and all Lua objects have let go of it, or until somebody closes it
** (`service:close()` in Lua closes it for all). NULL pushes nil. [-0, +1, m]
*/
MOONPAD_API void moonpad_lua_push_service(lua_State *L, moonpad_service *service);

/* The service behind a service object at `index`, borrowed: valid while that object lives. NULL when there is none at that index. [-0, +0, m] */
MOONPAD_API moonpad_service *moonpad_lua_to_service(lua_State *L, int index);

#ifdef __cplusplus
}
#endif

#endif
