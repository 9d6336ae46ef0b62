/* Time for the Lua layer, and clocks for tests. */
#ifndef MP_LUA_BASE_CLOCK_H
#define MP_LUA_BASE_CLOCK_H

#include "lua/base/binding.h"

/*
** At the start of a call from Lua: if the clock of `env` is a function of this Lua state, asks it,
** for all that reads the time until it is asked again. True: it was asked, and may have closed
** anything. Raises e, and whatever the function raises.
*/
bool mp_ask_clock(lua_State *L, const mp_env *env);
/* Now, by the clock of whoever is asked. Raises e where that gives no time. */
double mp_check_now(lua_State *L, mp_env *env);
/* Adds `clock` to the module table at the top. Raises m. */
void mp_clock_module(lua_State *L, int binding_index);
/* Makes `options` use the clock at `index`, or the function, which is asked. Raises e. */
void mp_use_clock(lua_State *L, int index, const char *where, moonpad_options *options);
/* What was opened with such options keeps the time, even when the Lua state has been closed. */
void mp_keep_clock(mp_env *env);

#endif
