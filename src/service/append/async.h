/*
** Asynchronous appends (contract 6). The host's thread prepares an append and, as a rule, shows it
** in the session object at once. A worker stores it, together with others (store_queued.c); a store
** in memory is asked at once, on the host's thread. Its outcome is put into the session object on
** the host's thread, in a poll or where somebody waits for it.
**
** If one fails, those behind it of the same session object fail, too: mp_failure in
** session/in_flight.h, decided in store_queued.c.
*/
#ifndef MP_SERVICE_APPEND_ASYNC_H
#define MP_SERVICE_APPEND_ASYNC_H

#include "service/append/outcome.h"
#include "service/append/request.h"

/* One of them, from its call until a poll has reported it. */
typedef struct mp_job mp_job;

/* For the Lua binding, whose object has to be told in any case. */
typedef struct mp_append_watch {
  /* In a poll, or in mp_job_poll. error NULL: stored. `session` as in moonpad_append_callback. */
  void (*done)(void *context, mp_append *append, moonpad_session *session, const moonpad_error *error);
  /* Instead, where nobody polls any more, or waits for it (mp_job_abandon). */
  void (*dropped)(void *context);
} mp_append_watch;

/* When it is shown, and who is told the outcome: `watch`, or else `callback`, or else the log. */
typedef struct mp_async_way {
  /*
  ** For a step of a run, which asks with mp_job_poll. Nothing of it is shown before it is stored.
  ** Until then its change set takes no writes, and what is pending there stays so; if it fails,
  ** nothing has changed. It begins when the session object's earlier appends are done, and all
  ** calls that drain these wait for it.
  */
  bool when_stored;
  moonpad_append_callback callback;
  const mp_append_watch *watch;
  void *context;
} mp_async_way;

/*
** As moonpad_append_event_async. The event's text is copied. The change set is clean at once,
** unless `when_stored`. `job` may be NULL.
*/
moonpad_status mp_append_later(moonpad_session *session, const mp_append_request *request, const mp_async_way *way,
                               mp_job **job, moonpad_error *error);

/* Both on the thread that polls. */

/*
** Does at once what the next poll would do for this one, and for those before it of its session
** object. False: it is not done yet.
*/
bool mp_job_poll(mp_job *job);
/*
** Nobody waits for an append `when_stored` any more. It is stored and applied all the same; its
** watch is told that it was dropped, now or by a later poll, and a failure goes to the log.
*/
void mp_job_abandon(mp_job *job);

#endif
