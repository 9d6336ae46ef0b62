/*
** What artifacts and memories in Lua share: the userdata of a store, and its calls.
**
** Every function of a type has two upvalues: the mp_store_calls, and the name of the type. Failures
** come back as nil, message, code. Wrong arguments raise, and so does a call that is cancelled.
** Functions say what they raise: - nothing, m for want of memory, e any error.
*/
#ifndef MP_AGENT_STORES_LUA_STORE_H
#define MP_AGENT_STORES_LUA_STORE_H

#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"
#include "lua/async/store_call.h"

/* ---- Stores ---- */

/* Owned by its userdata, and by the calls made with it that are not done. */
typedef struct mp_agent_store {
  unsigned references; /* counted on the thread of the Lua state only */
  mp_env *env;
  mp_artifacts *artifacts; /* one of these two; the other is NULL */
  mp_memories *memories;
  double time_to_live; /* of what is in it, in seconds; 0: for ever */
} mp_agent_store;

/* Makes the metatable of a type: the methods given, `close`, and __gc. Raises m. */
void mp_agent_make_type(lua_State *L, const mp_store_calls *calls, const char *name, const luaL_Reg *methods);
/* The mp_store_config at an index. Raises e. */
const mp_store_config *mp_agent_check_config(lua_State *L, int index);
/* Pushes a userdata of the type, with a store that is not open yet. NULL: no memory. Raises m. */
mp_agent_store *mp_agent_push_store(lua_State *L, const char *type, const mp_store_config *config);

/* ---- Arguments and results ---- */

/* Raises e. */
moonpad_string mp_agent_check_string(lua_State *L, int index);
/* Sets a field of the table at the top. Raises m. */
void mp_agent_set_string(lua_State *L, const char *field, moonpad_string text);
/* These push nil, message, code, and return how many that is. Raise m. */
int mp_agent_push_failure(lua_State *L, const moonpad_error *error);
int mp_agent_push_closed(lua_State *L);
int mp_agent_push_no_memory(lua_State *L);

/* ---- Calls ---- */

/* Begins the struct of every call. */
typedef struct mp_agent_call {
  mp_store_call call; /* the first member */
  mp_agent_store *store;
  mp_agent_time time; /* when it is made */
  int64_t number;     /* a version, a revision, or a count */
  mp_buffer found;    /* what was read */
  bool exists;        /* did what was loaded or deleted exist? */
} mp_agent_call;

const mp_store_calls *mp_agent_calls_of(lua_State *L);
/*
** Pushes the call of a method, whose userdata and arguments are the first `count` values on the
** stack. NULL: the store is closed. Raises e.
*/
mp_agent_call *mp_agent_push_call(lua_State *L, const mp_store_call_type *type, int count);
/* The method's last act: looks what time it is, and makes the call. Raises e. */
int mp_agent_make_call(lua_State *L, mp_agent_call *made, bool in_memory);
/* Called by the `release` of every call type. Raises -. */
void mp_agent_release_call(mp_agent_call *done);
/* Reads a string argument that must last as long as the call. Raises e. */
void mp_agent_keep_argument(lua_State *L, mp_agent_call *made, int index, moonpad_string *text);
/* The `finish` of a call whose result is `number`, or `exists`. */
int mp_agent_push_number(lua_State *L, mp_store_call *call);
int mp_agent_push_exists(lua_State *L, mp_store_call *call);

/* ---- The two types ---- */

#define MP_ARTIFACTS_TYPE "moonpad.artifacts"
#define MP_MEMORIES_TYPE  "moonpad.memories"

/* Make the types. Raise m. */
void mp_agent_artifacts_type(lua_State *L, const mp_store_calls *calls);
void mp_agent_memories_type(lua_State *L, const mp_store_calls *calls);
/* The functions of the module: (url, what core.checkStore gave) -> userdata | failure. */
int mp_agent_open_artifacts(lua_State *L);
int mp_agent_open_memories(lua_State *L);

#endif
