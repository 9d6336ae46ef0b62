/*
** Belongs here: the service object and its calls, in groups; each group is a file.
** Does not belong here: the objects that they give (lua/objects), how a call waits for a store
** (lua/async), reading arguments (lua/base/arguments.h).
** Arrows: to objects, async, codec and base; service.c -> the groups; async_calls -> sessions.
*/
#ifndef MP_LUA_SERVICE_CALLS_H
#define MP_LUA_SERVICE_CALLS_H

#include "lua/base/arguments.h"
#include "lua/base/handles.h"
#include "lua/codec/event.h"

extern const luaL_Reg mp_service_session_calls[];
extern const luaL_Reg mp_service_history_calls[];
extern const luaL_Reg mp_service_shared_calls[];
extern const luaL_Reg mp_service_export_calls[];
extern const luaL_Reg mp_service_async_calls[];
extern const luaL_Reg mp_service_store_calls[];

/*
** At the start of a call: checks the service, at 1, its session, at 2, and that nothing follows the
** argument `last`. Raises e.
*/
static inline mp_session_object *mp_check_session_call(lua_State *L, const char *where, int last) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_object *object = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, last, where);
  return object;
}

/* Puts session and event of an append at 2 and 3, whichever way they were given. Raises e. */
void mp_sort_append_arguments(lua_State *L, mp_lua *binding, const char *where);
/* The session, at 2, of an update; at 3 its event, with an author, or nil. Raises e. */
mp_session_object *mp_check_update_arguments(lua_State *L, mp_lua *binding, moonpad_service *service,
                                             const char *where);

/* What an update appends: the event at 3, or nil, and what is pending. False: nothing. Raises e. */
bool mp_encode_update(lua_State *L, mp_lua *binding, moonpad_session *session, const char *where,
                      moonpad_changes **changes, moonpad_string *json);

/* core.idle(seconds) */
int mp_idle(lua_State *L);
/* Adds the functions of history.c to the module table at the top. Raises m. */
void mp_service_history_module(lua_State *L, int binding_index);

/* The same for store.c. */
void mp_service_store_module(lua_State *L, int binding_index);

#endif
