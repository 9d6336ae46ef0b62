/* Plans (store/plan.h), until it is known what became of each. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/platform.h"
#include "store/server/remote.h"

bool mp_remote_is_untried(const mp_sent_plan *sent) {
  return sent->plan->error.code == MOONPAD_OK && sent->plan->outcome == MP_OUTCOME_NOT_TRIED;
}

/* ---- what a store needs to know of a plan ---- */

bool mp_plan_adds(const mp_guarded *operation) {
  return operation->kind == MP_GUARDED_ADD || operation->kind == MP_GUARDED_EXTEND;
}

unsigned mp_plan_heads(const mp_plan *plan) {
  unsigned heads = MP_HEAD(MP_SCOPE_SESSION);
  for (size_t i = 0; i < plan->count; i++) heads |= MP_HEAD(plan->operations[i].scope);
  return heads;
}

bool mp_plan_reserve_sums(mp_env *env, mp_plan *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    mp_guarded *operation = &plan->operations[i];
    if (operation->kind != MP_GUARDED_ADD) continue;
    operation->result = mp_value_new_integer(env, 0);
    if (operation->result == NULL) return false;
  }
  return true;
}

void mp_plan_note_whole(mp_plan *plan) {
  mp_facts *facts = &plan->facts;
  const int64_t revisions[] = {facts->row.revision, facts->row.user_revision, facts->row.app_revision};
  unsigned heads = mp_plan_heads(plan);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    int64_t before = revisions[scope] - ((heads & MP_HEAD(scope)) != 0);
    facts->whole[scope] = plan->snapshot[scope] < before && plan->snapshot[scope] < facts->forgotten[scope];
  }
}

/* ---- in order ---- */

static int compare_sessions(const void *a, const void *b) {
  const mp_session_ref *first = &(*(mp_sent_plan *const *)a)->plan->ref,
                       *second = &(*(mp_sent_plan *const *)b)->plan->ref;
  return (first->session > second->session) - (first->session < second->session);
}

static int compare_apps(const void *a, const void *b) {
  const mp_session_ref *first = &(*(mp_sent_plan *const *)a)->plan->ref,
                       *second = &(*(mp_sent_plan *const *)b)->plan->ref;
  return (first->app > second->app) - (first->app < second->app);
}

static void sort(mp_sent_plan **plans, size_t count) {
  unsigned heads = 0;
  for (size_t i = 0; i < count; i++) heads |= mp_plan_heads(plans[i]->plan);
  bool has_sessions_alone = heads == MP_HEAD(MP_SCOPE_SESSION);
  if (count > 1) qsort(plans, count, sizeof *plans, has_sessions_alone ? compare_sessions : compare_apps);
}

/* ---- sending ---- */

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
      sort(left, left_count);
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
