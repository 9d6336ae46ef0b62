/* Stepped runs that wait for the end of a session object's appends. */
#ifndef MP_LUA_ASYNC_APPEND_WAIT_H
#define MP_LUA_ASYNC_APPEND_WAIT_H

#include "lua/base/handles.h"

/*
** A stepped run waits for an append of a session object. If a poll or another run takes that append
** out of the completion queue first, the queue no longer tells anybody that it is done: this does.
*/
typedef struct mp_append_wait {
  mp_session_object *session; /* counted; NULL: it does not wait */
  moonpad_queue *due;         /* counted; NULL: it has not been told */
  struct mp_append_wait *next;
  struct mp_append_wait *previous;
} mp_append_wait;
void mp_append_wait_begin(mp_append_wait *wait, mp_session_object *session);
/* Before the run looks for itself, or goes away. What was told is taken back. */
void mp_append_wait_end(mp_append_wait *wait);
/* One of the session's appends is done: tells the queue of each that waits. Raises -. */
void mp_append_wait_tell(const mp_session_object *session);

#endif
