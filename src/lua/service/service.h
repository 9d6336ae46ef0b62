/* The calls of a service object, in groups; each group is a file. */
#ifndef MP_LUA_SERVICE_H
#define MP_LUA_SERVICE_H

#include "lua/base/arguments.h"
#include "lua/base/handles.h"
#include "lua/codec/event.h"

extern const luaL_Reg mp_service_session_calls[];
extern const luaL_Reg mp_service_history_calls[];
extern const luaL_Reg mp_service_shared_calls[];
extern const luaL_Reg mp_service_transfer_calls[];
extern const luaL_Reg mp_service_async_calls[];

/* The service that a method is called on, with no argument behind `last` (self is 1). Raises e. */
moonpad_service *mp_check_call(lua_State *L, mp_lua *binding, const char *where, int last);

/* The session at `index`, which must be one of this service. Raises e. */
mp_session_box *mp_check_session_of(lua_State *L, mp_lua *binding, moonpad_service *service, int index,
                                    const char *where);
/* Puts session and event of an append at 2 and 3, whichever way they were given. Raises e. */
void mp_sort_append_arguments(lua_State *L, mp_lua *binding, const char *where);
/* The session, at 2, of an update; at 3 its event, with an author, or nil. Raises e. */
mp_session_box *mp_check_update_arguments(lua_State *L, mp_lua *binding, moonpad_service *service, const char *where);

/* What an update appends: the event at 3, or nil, and what is pending. False: nothing. Raises e. */
bool mp_encode_update(lua_State *L, mp_lua *binding, moonpad_session *session, const char *where,
                      moonpad_changes **changes, moonpad_string *json);

/* core.idle(seconds) */
int mp_idle(lua_State *L);

#endif
