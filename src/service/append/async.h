/* Asynchronous appends (contract 6). */
#ifndef MP_SERVICE_APPEND_ASYNC_H
#define MP_SERVICE_APPEND_ASYNC_H

#include "service/append/append.h"

/* One of them, from its call until a poll has told of it. */
typedef struct mp_job mp_job;

/*
** How one is appended, and who is told what became of it: `callback`, or else `watch`, or else
** the log.
*/
typedef struct mp_async_way {
  bool is_trusted;           /* as of mp_append_prepare */
  int64_t expected_revision; /* the same */
  bool apart;                /* no key may be pending and in the event's own delta */
  /*
  ** For a step of a run, which asks with mp_job_poll: nothing of it is shown before it is
  ** stored. Until then its change set takes no writes, and what is pending there stays so; if it
  ** fails, nothing has changed. It begins when those of its session object before it are done, and
  ** all calls that settle these wait for it.
  */
  bool when_stored;
  moonpad_append_callback callback;
  const struct mp_append_watch *watch;
  void *context;
} mp_async_way;

/* For the Lua layer, whose object has to be told in any case. */
typedef struct mp_append_watch {
  /* In a poll, or in mp_job_poll. error NULL: stored. `session` as in moonpad_append_callback. */
  void (*done)(void *context, mp_append *append, moonpad_session *session, const moonpad_error *error);
  /* Instead, where nobody polls any more, or waits for it (mp_job_abandon). */
  void (*dropped)(void *context);
} mp_append_watch;

void mp_backlog_init(mp_backlog *backlog, moonpad_service *service);

/*
** As moonpad_append_event_async; the change set (may be NULL) is clean at once, unless
** `when_stored`. `job` may be NULL.
*/
moonpad_status mp_append_event_later(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                     mp_async_way way, mp_job **job, moonpad_error *error);

/*
** The event that a refused append was to store, as stored events are written: what it was to add
** to is what the session object showed, which is not to be freed yet. Without memory nothing.
*/
void mp_append_write_refused(const mp_append *append, mp_buffer *out);

/*
** Does at once what the next poll would do for this one, and for those before it of its session
** object. False: it is not done yet. On the thread that polls.
*/
bool mp_job_poll(mp_job *job);

/*
** Nobody waits for an append `when_stored` any more. It is finished all the same, and its
** outcome goes into the session object as ever; its watch is told that it was dropped, now or by a
** later poll, and its failure goes to the log. On the thread that polls.
*/
void mp_job_abandon(mp_job *job);

#endif
