/*
** agent_stores/: stores for artifacts and memories, and the Lua module moonpad.agent_stores_core.
** Belongs here: what such stores do (artifacts.h, memories.h), which URL means which (this file),
** what a word is and which memories are the best (words.c, lookup.c, ranking.c), the SQLite stores
** (sqlite_*.c), those of servers (a folder each, and a module each, handed in by opener.h), and the
** Lua module (module.c, lua_*.c), which alone knows Lua.
** Does not belong here: sessions (src/service, src/store), what is a memory
** (lua/moonpad/services/memory.lua).
** Arrows: module -> lua_* -> open -> sqlite_* -> src/store/sqlite and src/base; postgres/ ->
** src/store/postgres; mysql/ -> src/store/mysql; redis/ -> src/store/redis; lua_* also use
** src/lua's store calls. Nothing of the core uses this folder.
*/
#ifndef MP_AGENT_STORES_OPEN_H
#define MP_AGENT_STORES_OPEN_H

#include "agent_stores/opener.h"

/*
** Opens the store that a URL names. The caller ends it with `free`; it retains `env`. `opener` is
** that of the URL's scheme, NULL for those that are built in. Of `options` it uses `durability`,
** and `busy_timeout_ms`, which is how long opening and every call wait for a lock. Errors:
** unsupported (no such store; or for memories, no means to search), invalid_argument, corrupt,
** storage, busy, no_memory. Messages show no more of the URL than its scheme: the rest may hold a
** password.
*/
moonpad_status mp_artifacts_open(mp_env *env, moonpad_string url, const mp_agent_opener *opener,
                                 const moonpad_options *options, mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_memories_open(mp_env *env, moonpad_string url, const mp_agent_opener *opener,
                                const moonpad_options *options, mp_memories **memories, moonpad_error *error);

#endif
