/* The queue of appends that share a transaction. */
#include "store/server/plan_queue.h"

#include <sched.h>

#include "base/bytes.h"
#include "base/condition.h"

enum { PLAN_WAITS, PLAN_FOLLOWS, PLAN_LEADS, PLAN_DONE };

#define LONGEST_PAUSE 0.0005 /* seconds */

static void init_lane(mp_plan_lane *lane, unsigned limit) {
  *lane = (mp_plan_lane){.limit = limit};
}

void mp_plan_queue_init(mp_plan_queue *queue, unsigned connections, mp_send_plans send, void *context) {
  pthread_mutex_init(&queue->mutex, NULL);
  for (size_t i = 0; i < MP_APP_LANES; i++) init_lane(&queue->apps[i], 1);
  init_lane(&queue->others, connections);
  queue->send = send;
  queue->context = context;
}

void mp_plan_queue_destroy(mp_plan_queue *queue) {
  pthread_mutex_destroy(&queue->mutex);
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
  lane->waiting++;
}

static mp_sent_plan *dequeue(mp_plan_lane *lane) {
  mp_sent_plan *sent = lane->first;
  lane->first = sent->next;
  if (lane->first == NULL) lane->last = NULL;
  sent->next = NULL;
  lane->waiting--;
  return sent;
}

static void wait_in_lane(mp_plan_queue *queue, mp_plan_lane *lane, mp_sent_plan *sent) {
  pthread_cond_init(&sent->wake, NULL);
  enqueue(lane, sent);
  while (sent->state <= PLAN_FOLLOWS) pthread_cond_wait(&sent->wake, &queue->mutex);
  pthread_cond_destroy(&sent->wake);
}

/*
** Those who shared the last transaction have just been woken, and are likely to come back at once:
** it is worth a part of a transaction's time to have them in the next one. As in the store on
** SQLite (group_commit.c).
*/
static void wait_for_returning(mp_plan_queue *queue, mp_plan_lane *lane) {
  if (lane->limit > 1 || lane->last_send < 2) return;
  double pause = lane->last_seconds / 2 < LONGEST_PAUSE ? lane->last_seconds / 2 : LONGEST_PAUSE;
  double until = mp_monotonic() + pause;
  while (lane->waiting + 1 < lane->last_send && mp_monotonic() < until) {
    pthread_mutex_unlock(&queue->mutex);
    sched_yield();
    pthread_mutex_lock(&queue->mutex);
  }
}

/* The leader's plan and those that go along, in `plans`. */
static size_t collect(mp_plan_queue *queue, mp_plan_lane *lane, mp_sent_plan *leader, mp_sent_plan **plans) {
  size_t count = 0;
  wait_for_returning(queue, lane);
  plans[count++] = leader;
  while (count < MP_LARGEST_SEND && lane->first != NULL) {
    plans[count] = dequeue(lane);
    plans[count++]->state = PLAN_FOLLOWS;
  }
  lane->last_send = count;
  return count;
}

/* A plan is gone as soon as the mutex is unlocked: it is on the stack of its caller. */
static void finish(mp_plan_lane *lane, mp_sent_plan *const *plans, size_t count) {
  for (size_t i = 1; i < count; i++) {
    plans[i]->state = PLAN_DONE;
    pthread_cond_signal(&plans[i]->wake);
  }
  if (lane->first == NULL) {
    lane->leaders--;
    return;
  }
  mp_sent_plan *leader = dequeue(lane);
  leader->state = PLAN_LEADS;
  pthread_cond_signal(&leader->wake);
}

static void submit(mp_plan_queue *queue, mp_sent_plan *sent) {
  mp_plan_lane *lane = lane_of(queue, sent->plan);
  mp_sent_plan *plans[MP_LARGEST_SEND];
  pthread_mutex_lock(&queue->mutex);
  if (lane->leaders < lane->limit) {
    lane->leaders++;
    sent->state = PLAN_LEADS;
  } else {
    wait_in_lane(queue, lane, sent);
  }
  size_t count = sent->state == PLAN_LEADS ? collect(queue, lane, sent, plans) : 0;
  pthread_mutex_unlock(&queue->mutex);
  if (count == 0) return;

  double started = mp_monotonic();
  queue->send(queue->context, plans, count);
  pthread_mutex_lock(&queue->mutex);
  lane->last_seconds = mp_monotonic() - started;
  finish(lane, plans, count);
  pthread_mutex_unlock(&queue->mutex);
}

/* Several plans of one call belong together: they go in transactions of their own. */
static moonpad_status append_several(mp_plan_queue *queue, mp_plan *plans, size_t count, moonpad_error *error) {
  mp_sent_plan sent[MP_LARGEST_SEND], *list[MP_LARGEST_SEND];
  for (size_t done = 0; done < count;) {
    size_t part = count - done < MP_LARGEST_SEND ? count - done : MP_LARGEST_SEND;
    for (size_t i = 0; i < part; i++) {
      sent[i] = (mp_sent_plan){.plan = &plans[done + i]};
      list[i] = &sent[i];
    }
    queue->send(queue->context, list, part);
    for (size_t i = 0; i < part; i++) {
      if (sent[i].status == MOONPAD_OK) continue;
      if (error != NULL) *error = sent[i].error;
      return sent[i].status;
    }
    done += part;
  }
  return MOONPAD_OK;
}

moonpad_status mp_plan_queue_append(mp_plan_queue *queue, mp_plan *plans, size_t count, moonpad_error *error) {
  if (count != 1) return append_several(queue, plans, count, error);
  mp_sent_plan sent = {.plan = plans};
  submit(queue, &sent);
  if (sent.status != MOONPAD_OK && error != NULL) *error = sent.error;
  return sent.status;
}
