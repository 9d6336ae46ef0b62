/*
** Asynchronous appends that this Lua state has begun: those of appendEventAsync and
** updateSessionAsync, which polls complete, and those of stepped runs, whose steps wait for them.
*/
#ifndef MP_LUA_ASYNC_APPEND_H
#define MP_LUA_ASYNC_APPEND_H

#include "lua/async/append_wait.h"
#include "service/binding/append.h"

typedef enum mp_append_state {
  MP_APPEND_WAITS = 0,
  MP_APPEND_STORED,
  MP_APPEND_FAILED,
  MP_APPEND_DROPPED /* before anybody has heard what became of it */
} mp_append_state;

/*
** What is known of an append. Its object in Lua holds it, and the append itself until it is done:
** either may go first.
*/
typedef struct mp_lua_append {
  unsigned references;
  mp_env *env;
  mp_job *job; /* NULL once it is done */
  /* held until then: a session object that is collected must not wait for the disk */
  mp_session_object *session;
  mp_append_state state;
  /* the event, or the keys that conflicted; no event: there was no memory for it */
  mp_outcome stored;
  moonpad_error *error; /* NULL: there was no memory for it */
  mp_buffer refused;    /* of a conflict: the event that was to be appended */
} mp_lua_append;

/* One reference for the caller; NULL when out of memory. */
mp_lua_append *mp_lua_append_new(mp_lua *binding, mp_session_object *session);
void mp_lua_append_release(mp_lua_append *append);
/*
** Begins it. What completes it is told in the queue of `service`, which is this Lua state's.
** `when_stored` as in mp_async_way. Raises -.
*/
moonpad_status mp_lua_append_begin(mp_lua_append *append, mp_lua_service *service, const mp_append_request *request,
                                   bool when_stored, moonpad_error *error);
/* Why there is no event. */
moonpad_error mp_lua_append_error(const mp_lua_append *append);

#endif
