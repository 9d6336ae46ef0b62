/*
** Belongs here: the objects that scripts hold besides services (sessions, their events, states,
** nodes, appends under way) with their metamethods, and what the runner's contexts are made of.
** Does not belong here: the calls of a service (lua/service), what several of them check or count
** (lua/base/handles.h), and values that are no proxies (lua/codec).
** Arrows: to async, codec and base; session -> events, context -> state -> node. Only module.c and
** lua/service use objects.
*/
#ifndef MP_LUA_OBJECTS_OBJECTS_H
#define MP_LUA_OBJECTS_OBJECTS_H

#include "lua/base/handles.h"

/* ---- session.events (events.c) ---- */

/* Pushes the list of a session's events. Raises m. */
void mp_push_events(lua_State *L, mp_lua *binding, mp_session_object *object);

/* ---- States (state.c) ---- */

/* Pushes the state object of a session's own pending writes. Raises e. */
void mp_push_session_state(lua_State *L, mp_lua *binding, mp_session_object *object);
/* Pushes what is pending as a table: removals are moonpad.removed. Raises e. */
void mp_push_delta(lua_State *L, mp_lua *binding, moonpad_changes *changes);
/* Writes the value at `index` (nil removes). `last_writer_wins`: never conflicts. Raises e. */
void mp_state_write(lua_State *L, mp_lua *binding, const mp_lua_state *state, moonpad_string key, int index,
                    bool last_writer_wins);
/*
** Writes the pairs of the table at `index` into it, all or nothing; keys must be strings. Raises e.
*/
void mp_state_update(lua_State *L, mp_lua *binding, mp_lua_state *state, int index);

/* ---- Nodes (node.c) ---- */

/* To be called before a slot is read whose node may be pushed. Raises m. */
void mp_prepare_node(lua_State *L, mp_lua *binding);
/* Pushes what a slot holds: nil, a scalar, or the node's one userdata. Raises m. */
void mp_push_item(lua_State *L, mp_lua *binding, const mp_item *item, mp_change_set *object, bool read_only);

/* What limits a value of its state: see mp_encode. */
int64_t mp_value_limit(const mp_change_set *object);

/* ---- For module.c ---- */

/* Each fills the metatable at the top of the stack, once per Lua state. Raises m. */
void mp_session_setup(lua_State *L, int binding_index);
void mp_events_setup(lua_State *L, int binding_index);
void mp_state_setup(lua_State *L, int binding_index);
void mp_node_setup(lua_State *L, int binding_index);
void mp_pending_setup(lua_State *L, int binding_index);

/* Each adds functions to the module table at the top of the stack. Raises m. */
void mp_session_module(lua_State *L, int binding_index);
void mp_context_module(lua_State *L, int binding_index);
void mp_events_module(lua_State *L, int binding_index);
void mp_transaction_module(lua_State *L, int binding_index);
void mp_pending_module(lua_State *L, int binding_index);

#endif
