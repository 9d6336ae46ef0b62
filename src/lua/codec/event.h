/* Events as Lua tables (contract 3). */
#ifndef MP_LUA_CODEC_EVENT_H
#define MP_LUA_CODEC_EVENT_H

#include "lua/base/handles.h"
#include "lua/codec/codec.h"

/* Pushes a handle for what an append gives, which mp_push_stored takes. Raises m. */
mp_outcome *mp_push_outcome(lua_State *L, mp_lua *binding);
/* Gives back what is in one. Raises -. */
void mp_release_outcome(mp_outcome *outcome);
#define MP_STORED_WITHOUT_MEMORY "the event has been stored, but there is no memory left to show it"
/*
** Empties the handle at `index`, and caches it for the next append. It holds no conflicts.
** Raises -.
*/
void mp_cache_outcome(lua_State *L, mp_lua *binding, int index, mp_outcome *outcome);

/*
** Pushes a stored event as a table of its own, with methods and `revision`. The text must not move
** meanwhile. Raises e.
*/
void mp_push_event(lua_State *L, mp_lua *binding, moonpad_string json, int64_t revision);
/*
** The same of what runs keep of it (kept_event.c), without methods; tells whether there is a null
** in that. Raises e.
*/
bool mp_push_kept_event(lua_State *L, mp_lua *binding, moonpad_string json, int64_t revision);

/* core.isBase64(text): the usual alphabet, padding included and nothing else? Raises e. */
int mp_is_base64(lua_State *L);
/* Marks the files in the event, a table at the top: see inline_data.c. Raises m. */
void mp_mark_inline_data(lua_State *L);

/*
** Pushes the event of the outcome in the handle at `index`, which a successful append has filled,
** and empties the handle; returns 1, for `return`. Raises e.
*/
int mp_push_stored(lua_State *L, mp_lua *binding, int index, mp_outcome *outcome);

/*
** Writes the event table at `index` to binding->text: see mp_encode. `where` names the call.
** Raises e.
*/
moonpad_string mp_encode_event(lua_State *L, mp_lua *binding, int index, const char *where, int64_t limit);

/* Is the table at `index` a partial event? Raises -. */
bool mp_is_partial_event(lua_State *L, int index);

/* Adds functions to the module table at the top. Raises m. */
void mp_event_module(lua_State *L, int binding_index);

#endif
