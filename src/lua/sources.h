/*
** The Lua modules that are compiled in for embedders: generated from lua/moonpad
** by scripts/embed_lua.lua.
*/
#ifndef MP_LUA_SOURCES_H
#define MP_LUA_SOURCES_H

#include <stddef.h>

typedef struct mp_lua_source {
  const char *module; /* what `require` is given: "moonpad", "moonpad.agents.agent" */
  const char *chunk;  /* Lua source text */
  size_t length;
} mp_lua_source;

/* Ends with an entry whose `module` is NULL. */
extern const mp_lua_source mp_lua_sources[];

#endif
