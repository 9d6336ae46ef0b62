/* The queue of appends that share a transaction. */
#include "store/server/plan_queue.h"

#include "base/bytes.h"
#include "base/platform.h"

#define LONGEST_PAUSE 0.0005 /* seconds */

static void init_lane(mp_plan_lane *lane, unsigned limit) {
  *lane = (mp_plan_lane){.limit = limit};
}

void mp_plan_queue_init(mp_plan_queue *queue, unsigned connections, mp_send_plans send, void *context) {
  mp_mutex_init(&queue->mutex);
  for (size_t i = 0; i < MP_APP_LANES; i++) init_lane(&queue->apps[i], 1);
  init_lane(&queue->others, connections);
  queue->send = send;
  queue->context = context;
}

void mp_plan_queue_destroy(mp_plan_queue *queue) {
  mp_mutex_destroy(&queue->mutex);
}

static mp_plan_lane *lane_of(mp_plan_queue *queue, const mp_plan *plan) {
  moonpad_string app = plan->ref.name.app_name;
  for (size_t i = 0; i < plan->count; i++) {
    if (plan->operations[i].scope == MP_SCOPE_APP) return &queue->apps[mp_hash(app.data, app.length) % MP_APP_LANES];
  }
  return &queue->others;
}

/* ---- a lane; the mutex is held ---- */

static void enqueue(mp_plan_lane *lane, mp_sent_plan *sent) {
  if (lane->last == NULL) {
    lane->first = sent;
  } else {
    lane->last->next = sent;
  }
  lane->last = sent;
}

static mp_sent_plan *dequeue(mp_plan_lane *lane) {
  mp_sent_plan *sent = lane->first;
  lane->first = sent->next;
  if (lane->first == NULL) lane->last = NULL;
  sent->next = NULL;
  return sent;
}

/*
** Those who shared the last transaction have just been woken, and are likely to come back at once:
** it is worth a part of a transaction's time to have them in the next one. As in the store on
** SQLite (group_commit.c).
*/
static void wait_for_returning(mp_plan_queue *queue, mp_plan_lane *lane) {
  if (lane->limit > 1 || lane->last_served < 2) return;
  double pause = lane->last_seconds / 2 < LONGEST_PAUSE ? lane->last_seconds / 2 : LONGEST_PAUSE;
  double until = mp_monotonic() + pause;
  while (lane->callers < lane->last_served && mp_monotonic() < until) {
    mp_mutex_unlock(&queue->mutex);
    mp_thread_yield();
    mp_mutex_lock(&queue->mutex);
  }
}

/* A plan whose caller has none left is gone as soon as the mutex is unlocked. */
static void finish(mp_plan_lane *lane, mp_sent_plan *const *plans, size_t count) {
  lane->last_served = 0;
  for (size_t i = 0; i < count; i++) {
    mp_plan_caller *caller = plans[i]->caller;
    if (--caller->left > 0) continue;
    lane->last_served++;
    mp_condition_signal(&caller->wake);
  }
}

/* The next leader is the first who waits and does not lead already. */
static void hand_over(mp_plan_lane *lane, mp_plan_caller *leader) {
  mp_sent_plan *next = lane->first;
  leader->leads = false;
  while (next != NULL && next->caller->leads) next = next->next;
  if (next == NULL) {
    lane->leaders--;
    return;
  }
  next->caller->leads = true;
  mp_condition_signal(&next->caller->wake);
}

/* Sends what waits; that may be nothing any more, where another leader has taken it. */
static void lead(mp_plan_queue *queue, mp_plan_lane *lane, mp_plan_caller *leader) {
  mp_sent_plan *plans[MP_LARGEST_SEND];
  size_t count = 0;
  wait_for_returning(queue, lane);
  while (count < MP_LARGEST_SEND && lane->first != NULL) plans[count++] = dequeue(lane);
  if (count > 0) {
    mp_mutex_unlock(&queue->mutex);
    double started = mp_monotonic();
    queue->send(queue->context, plans, count);
    double seconds = mp_monotonic() - started;
    mp_mutex_lock(&queue->mutex);
    lane->last_seconds = seconds;
    finish(lane, plans, count);
  }
  hand_over(lane, leader);
}

/* Until all of these plans are done. */
static void submit(mp_plan_queue *queue, mp_plan_lane *lane, mp_sent_plan *sent, size_t count) {
  mp_plan_caller caller = {.left = count};
  mp_condition_init(&caller.wake);
  mp_mutex_lock(&queue->mutex);
  for (size_t i = 0; i < count; i++) {
    sent[i].caller = &caller;
    enqueue(lane, &sent[i]);
  }
  lane->callers++;
  caller.leads = lane->leaders < lane->limit;
  if (caller.leads) lane->leaders++;
  while (caller.leads || caller.left > 0) {
    if (caller.leads) {
      lead(queue, lane, &caller);
    } else {
      mp_condition_wait(&caller.wake, &queue->mutex);
    }
  }
  lane->callers--;
  mp_mutex_unlock(&queue->mutex);
  mp_condition_destroy(&caller.wake);
}

/* ---- a call ---- */

/* At most MP_LARGEST_SEND plans. */
static void append_some(mp_plan_queue *queue, mp_plan *plans, size_t count) {
  mp_sent_plan sent[MP_LARGEST_SEND];
  mp_plan_lane *lanes[MP_LARGEST_SEND];
  for (size_t i = 0; i < count; i++) lanes[i] = lane_of(queue, &plans[i]);
  for (size_t i = 0; i < count; i++) {
    mp_plan_lane *lane = lanes[i];
    size_t together = 0;
    for (size_t j = i; lane != NULL && j < count; j++) {
      if (lanes[j] != lane) continue;
      sent[together++] = (mp_sent_plan){.plan = &plans[j]};
      lanes[j] = NULL;
    }
    if (together > 0) submit(queue, lane, sent, together);
  }
}

void mp_plan_queue_append(mp_plan_queue *queue, mp_plan *plans, size_t count) {
  for (size_t done = 0; done < count; done += MP_LARGEST_SEND) {
    append_some(queue, plans + done, count - done < MP_LARGEST_SEND ? count - done : MP_LARGEST_SEND);
  }
}
