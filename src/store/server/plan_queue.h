/*
** Appends that wait at the same moment share a transaction, so that they share its wait for the
** disk. One thread, the leader, sends the plans of all that wait; the others sleep.
**
** Plans that change keys of one app wait for each other anyway, for the app's row stays locked
** until the commit: they go through one lane, one transaction at a time. All others have a lane
** together, in which as many transactions run as there are connections. The plans of one call go
** into the lanes that they belong into, one lane after the other.
*/
#ifndef MP_STORE_SERVER_PLAN_QUEUE_H
#define MP_STORE_SERVER_PLAN_QUEUE_H

#include "base/platform.h"
#include "store/plan.h"

#define MP_APP_LANES    16 /* apps share them, by the hash of their names */
#define MP_LARGEST_SEND 64 /* plans in one transaction */

/* Who waits in a lane until his plans are done. On the stack of its thread. */
typedef struct mp_plan_caller {
  mp_condition wake;
  size_t left; /* plans that are not done */
  bool leads;  /* he is to send the next transaction, whosever plans are in it */
} mp_plan_caller;

/* A plan on its way. On the stack of its caller. */
typedef struct mp_sent_plan {
  mp_plan *plan;
  bool is_resent; /* the answer to an earlier sending was lost */
  /* of the queue */
  mp_plan_caller *caller;
  struct mp_sent_plan *next;
} mp_sent_plan;

/* Sends plans, and gives each its outcome or its failure. On the leader's thread. */
typedef void (*mp_send_plans)(void *context, mp_sent_plan *const *plans, size_t count);

typedef struct mp_plan_lane {
  mp_sent_plan *first; /* those that wait */
  mp_sent_plan *last;
  size_t callers;          /* whose plans wait or are being sent */
  size_t last_served;      /* how many callers had no plan left after the last transaction */
  double last_seconds;     /* and how long it took */
  unsigned leaders, limit; /* transactions under way; at most */
} mp_plan_lane;

typedef struct mp_plan_queue {
  mp_mutex mutex; /* guards the lanes */
  mp_plan_lane apps[MP_APP_LANES];
  mp_plan_lane others;
  mp_send_plans send;
  void *context;
} mp_plan_queue;

/* `connections`: how many transactions may run at the same time. */
void mp_plan_queue_init(mp_plan_queue *queue, unsigned connections, mp_send_plans send, void *context);
void mp_plan_queue_destroy(mp_plan_queue *queue);

/* mp_store_ops.append of a store. Any thread. */
void mp_plan_queue_append(mp_plan_queue *queue, mp_plan *plans, size_t count);

#endif
