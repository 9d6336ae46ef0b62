/* Plans (store/plan.h), until it is known what became of each. */
#include <stdio.h>

#include "base/condition.h"
#include "base/error.h"
#include "store/server/remote.h"

bool mp_remote_is_untried(const mp_sent_plan *sent) {
  return sent->plan->error.code == MOONPAD_OK && sent->plan->outcome == MP_OUTCOME_NOT_TRIED;
}

static size_t untried(mp_sent_plan *const *plans, size_t count, mp_sent_plan **left) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (mp_remote_is_untried(plans[i])) left[found++] = plans[i];
  }
  return found;
}

static void fail_all(mp_sent_plan *const *plans, size_t count, const mp_remote_failure *failure, bool was_sent) {
  for (size_t i = 0; i < count; i++) {
    moonpad_error *error = &plans[i]->plan->error;
    *error = failure->error;
    if (!was_sent) continue;
    char reason[300];
    snprintf(reason, sizeof reason, "%.299s", failure->error.message);
    mp_fail(error, failure->status, "it may have been stored, the same event id will tell: %s", reason);
  }
}

void mp_remote_send_plans(void *context, mp_sent_plan *const *plans, size_t count) {
  mp_remote *remote = context;
  mp_sent_plan *left[MP_LARGEST_SEND];
  double until = mp_monotonic() + remote->patience;
  bool was_sent = false;
  for (size_t i = 0; i < count; i++) mp_plan_forget(remote->env, plans[i]->plan);
  for (int tries = 0;; tries++) {
    mp_remote_connection *connection;
    mp_remote_failure failure;
    size_t left_count = untried(plans, count, left);
    if (left_count == 0) return;
    mp_remote_take(remote, until, &connection, &failure);
    if (connection != NULL) {
      mp_remote_clear_failure(connection);
      remote->ops->send(connection, left, left_count);
      failure = connection->failure;
      mp_remote_give_back(remote, connection);
      was_sent = was_sent || failure.again == MP_AGAIN_RECONNECT;
    }
    left_count = untried(plans, count, left);
    if (left_count == 0) return;
    /* Now any of them may be stored. */
    for (size_t i = 0; was_sent && i < left_count; i++) left[i]->is_resent = true;
    if (mp_remote_try_again(remote, &failure, tries, until)) continue;
    fail_all(left, left_count, &failure, was_sent);
    return;
  }
}

void mp_remote_append(mp_store *base, mp_plan *plans, size_t count) {
  mp_remote *remote = (mp_remote *)base;
  moonpad_error error;
  if (mp_pool_enter(&remote->pool, &error) != MOONPAD_OK) {
    for (size_t i = 0; i < count; i++) plans[i].error = error;
    return;
  }
  mp_plan_queue_append(&remote->plans, plans, count);
  mp_pool_leave(&remote->pool);
}
