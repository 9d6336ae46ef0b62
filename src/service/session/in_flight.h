/*
** The in-flight queue of a session object: its asynchronous appends, in the order of their calls.
** They are stored on a worker, in order; their outcomes are applied to the object on its own
** thread, in order as well, whatever completion queues they are in. What an append is, is not
** known here: it brings a function that applies it.
*/
#ifndef MP_SERVICE_SESSION_IN_FLIGHT_H
#define MP_SERVICE_SESSION_IN_FLIGHT_H

#include "service/service.h"

typedef struct mp_in_flight mp_in_flight;

/*
** What made an append of the object fail: those behind it were built on it, and fail with it, until
** none is in flight. Used only by the thread that stores them, as long as one is.
*/
typedef struct mp_failure {
  /* Code MOONPAD_OK: none has failed. */
  moonpad_error error;
  /* False: it was found in a transaction that may still be rolled back and run again. */
  bool is_final;
  /*
  ** Scopes that one of them was ahead in (ahead.h): those behind it were prepared with revisions of
  ** the same history, which is gone.
  */
  unsigned ahead_scopes;
} mp_failure;

/* One append, from its call until a poll has reported it. Its maker embeds it as first member. */
struct mp_in_flight {
  mp_task task;
  /* Not counted. */
  moonpad_service *service;
  /* Of the same object: called later. */
  mp_in_flight *next;
  /* Whose pending writes it stores; NULL: nobody's, or that has been freed since. */
  moonpad_changes *writer;
  /* NULL once the session object has been freed, which waits until the append is done. */
  struct mp_in_flight_queue *owner;
  /* Puts the outcome into the session object. */
  void (*apply)(mp_in_flight *append, moonpad_session *session);
  bool is_applied;
  /* Nobody waits for it any more. */
  bool is_abandoned;
};

typedef struct mp_in_flight_queue {
  moonpad_session *session;
  moonpad_service *service;
  /* Those that no poll has reported yet, in order. */
  mp_in_flight *first;
  mp_in_flight *last;
  /* How many of them are not applied yet. */
  size_t unapplied;
  /* One of these has failed, so that those behind it fail as well. */
  bool has_failed;
  /* One is in flight that is shown only once it is stored. */
  bool has_unshown;
  /* NULL: there has been no append yet. */
  mp_failure *failure;
  /* Counted: the completion queue that reports them; NULL: the service's own. */
  moonpad_queue *completions;
} mp_in_flight_queue;

/* On the session object's thread, all of them. */

/* Appends one. It is linked before it is submitted, and unlinked if that fails. */
void mp_in_flight_link(mp_in_flight_queue *queue, mp_in_flight *append);
/* Takes one out, also one whose session object has been freed. */
void mp_in_flight_unlink(mp_in_flight *append);
/* It was not submitted after all. */
void mp_in_flight_withdraw(mp_in_flight *append);
/* That change set is about to be freed. */
void mp_in_flight_forget_writer(mp_in_flight_queue *queue, const moonpad_changes *writer);
/* False without memory. */
bool mp_in_flight_reserve_failure(mp_in_flight_queue *queue);

/* Applies one that is done, and those before it. Nothing where the object has been freed. */
void mp_in_flight_apply(mp_in_flight *append);
/*
** Nobody waits for it any more. It is stored and applied all the same; it is dropped now where it
** is done, else by a later poll.
*/
void mp_in_flight_abandon(mp_in_flight *append);

/* Waits until all are done, and applies them. Their callbacks stay for moonpad_poll. */
void mp_in_flight_drain(mp_in_flight_queue *queue);
/* Applies those that are done, in order, and waits for none. True: none is in flight any more. */
bool mp_in_flight_try_drain(mp_in_flight_queue *queue);
/*
** First drops the abandoned ones that are done, then does the same. `is_awaited`: somebody waits
** for the others all the same, so the descriptor of the completion queue becomes readable when one
** is done; else a poll drops them.
*/
bool mp_in_flight_drain_abandoned(mp_in_flight_queue *queue, bool is_awaited);
/*
** Waits until all are done, but applies none, for the session object is about to be freed: their
** callbacks get no session.
*/
void mp_in_flight_detach(mp_in_flight_queue *queue);

#endif
