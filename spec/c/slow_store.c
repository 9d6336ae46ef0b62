/* A store behind a slow link. */
#include "slow_store.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "store/plan.h"
#include "timeout.h"

#define LONGEST_WAIT 60000

typedef struct slow_store {
  mp_store store; /* what the service sees */
  mp_store_ops ops;
  mp_env *env;
  mp_store *inner;
  long milliseconds;
} slow_store;

static atomic_long round_trips;
static _Thread_local long round_trips_here;
static atomic_bool held;
static atomic_int passes_left;
static atomic_int releases;
static atomic_int answers_to_lose;

long slow_store_round_trips(void) {
  return atomic_load(&round_trips);
}

long slow_store_round_trips_here(void) {
  return round_trips_here;
}

void slow_store_hold(bool is_held, int passes) {
  atomic_store(&passes_left, passes);
  atomic_store(&held, is_held);
  if (!is_held) atomic_fetch_add(&releases, 1);
}

void slow_store_lose_answers(int count) {
  atomic_store(&answers_to_lose, count);
}

static void wait_for(long milliseconds) {
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (milliseconds > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

/* Of a round trip that began after so many releases. */
static bool may_pass(int releases_before) {
  return !atomic_load(&held) || atomic_load(&releases) != releases_before ||
         (atomic_load(&passes_left) > 0 && atomic_fetch_sub(&passes_left, 1) > 0);
}

static void round_trip(const slow_store *self) {
  int releases_before = atomic_load(&releases);
  atomic_fetch_add(&round_trips, 1);
  round_trips_here++;
  wait_for(self->milliseconds);
  for (double limit = time_limit(); !may_pass(releases_before) && wait_before(limit);) continue;
}

/*
** ---- a transaction: its first question is sent with its begin, what it writes with its commit
** ----
*/

typedef struct slow_tx {
  mp_tx tx; /* what the transaction function sees */
  mp_tx_ops ops;
  mp_tx *inner;
  const slow_store *store;
  mp_tx_function function;
  void *context;
  int questions;
} slow_tx;

/* A question that needs an answer now. */
static mp_tx *ask(mp_tx *tx) {
  slow_tx *self = (slow_tx *)tx;
  if (self->questions++ > 0) round_trip(self->store);
  return self->inner;
}

/* A write, which is sent with the commit. */
static mp_tx *send_later(mp_tx *tx) {
  return ((slow_tx *)tx)->inner;
}

static moonpad_status slow_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->look(inner, look, facts, error);
}

static moonpad_status slow_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                       moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->each_listed(inner, query, listing, error);
}

static moonpad_status slow_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                      mp_each_event each, void *context, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->each_event(inner, session, query, each, context, error);
}

static moonpad_status slow_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                           int64_t *revision, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->find_invocation(inner, session, invocation, revision, error);
}

static moonpad_status slow_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                         moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->each_base_key(inner, session, each, context, error);
}

static moonpad_status slow_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                          mp_session_row *row, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->create_session(inner, name, create_time, row, error);
}

static moonpad_status slow_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->remove_session(inner, session, error);
}

static moonpad_status slow_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->remove_user(inner, user, sessions, error);
}

static moonpad_status slow_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->apply(inner, batch, error);
}

static moonpad_status slow_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                        moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->copy_history(inner, from, to, last, error);
}

static moonpad_status slow_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->trim(inner, session, last, error);
}

static moonpad_status slow_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                                 moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->purge(inner, ref, scope, last, error);
}

static moonpad_status slow_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_tx *inner = send_later(tx);
  return inner->ops->touch(inner, touches, count, error);
}

static moonpad_status slow_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->sweep(inner, sweep, error);
}

static moonpad_status slow_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                       moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->claim_token(inner, token, now, expired, error);
}

static moonpad_status slow_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->each_app(inner, each, context, error);
}

static moonpad_status slow_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                     moonpad_error *error) {
  mp_tx *inner = ask(tx);
  return inner->ops->each_user(inner, app_name, each, context, error);
}

static const mp_tx_ops slow_tx_ops = {
    sizeof(mp_tx_ops),  slow_look,           slow_each_listed,    slow_each_event,  slow_find_invocation,
    slow_each_base_key, slow_create_session, slow_remove_session, slow_remove_user, slow_apply,
    slow_copy_history,  slow_trim,           slow_purge,          slow_touch,       slow_sweep,
    slow_claim_token,   slow_each_app,       slow_each_user,
};

static moonpad_status in_slow_tx(mp_tx *inner, void *context, moonpad_error *error) {
  slow_tx *self = context;
  self->inner = inner;
  self->ops = slow_tx_ops;
  self->tx.ops = &self->ops;
  if (!MP_HAS(mp_tx_ops, inner->ops, trim)) self->ops.trim = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, purge)) self->ops.purge = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, touch)) self->ops.touch = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, sweep)) self->ops.sweep = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, claim_token)) self->ops.claim_token = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, each_app)) self->ops.each_app = NULL;
  if (!MP_HAS(mp_tx_ops, inner->ops, each_user)) self->ops.each_user = NULL;
  return self->function(&self->tx, self->context, error);
}

static mp_store *begin_tx(mp_store *store, slow_tx *tx) {
  tx->store = (const slow_store *)store;
  round_trip(tx->store);
  return tx->store->inner;
}

/* ---- operations of the store ---- */

static moonpad_status slow_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  slow_tx tx = {.function = function, .context = context};
  mp_store *inner = begin_tx(store, &tx);
  return inner->ops->write(inner, in_slow_tx, &tx, error);
}

static moonpad_status slow_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  slow_tx tx = {.function = function, .context = context};
  mp_store *inner = begin_tx(store, &tx);
  return inner->ops->read(inner, in_slow_tx, &tx, error);
}

static moonpad_status slow_backup(mp_store *store, moonpad_string path, moonpad_error *error) {
  const slow_store *self = (const slow_store *)store;
  round_trip(self);
  return self->inner->ops->backup(self->inner, path, error);
}

static void slow_close(mp_store *store) {
  slow_store *self = (slow_store *)store;
  self->inner->ops->close(self->inner);
}

static void slow_free(mp_store *store) {
  slow_store *self = (slow_store *)store;
  mp_env *env = self->env;
  self->inner->ops->free(self->inner);
  mp_release(env, self);
  mp_env_release(env);
}

typedef struct sent_plans {
  mp_env *env;
  mp_plan *plans;
  size_t count;
} sent_plans;

static moonpad_status run_plans(mp_tx *tx, void *context, moonpad_error *error) {
  const sent_plans *sent = context;
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < sent->count; i++) {
    status = mp_plan_run(tx, sent->env, &sent->plans[i], error);
  }
  return status;
}

static bool loses_answer(void) {
  int left = atomic_load(&answers_to_lose);
  while (left > 0 && !atomic_compare_exchange_weak(&answers_to_lose, &left, left - 1)) {
  }
  return left > 0;
}

/* In one transaction; where that fails, each in one of its own. */
static void run_all(const slow_store *self, mp_plan *plans, size_t count) {
  sent_plans sent = {self->env, plans, count};
  moonpad_error error;
  round_trip(self);
  if (self->inner->ops->write(self->inner, run_plans, &sent, &error) == MOONPAD_OK) return;
  for (size_t i = 0; i < count; i++) {
    sent_plans single = {self->env, &plans[i], 1};
    moonpad_status status = self->inner->ops->write(self->inner, run_plans, &single, &error);
    if (status == MOONPAD_OK) continue;
    mp_plan_forget(self->env, &plans[i]);
    plans[i].error = error;
  }
}

static void slow_append(mp_store *store, mp_plan *plans, size_t count) {
  const slow_store *self = (const slow_store *)store;
  run_all(self, plans, count);
  if (!loses_answer()) return;
  for (size_t i = 0; i < count; i++) plans[i].id_given = true; /* now any of them may exist */
  run_all(self, plans, count);
}

static const mp_store_ops slow_ops = {.size = sizeof(mp_store_ops),
                                      .write = slow_write,
                                      .read = slow_read,
                                      .backup = slow_backup,
                                      .close = slow_close,
                                      .free = slow_free,
                                      .append = slow_append};

/* ---- opening ---- */

static bool begins_with(moonpad_string text, const char *prefix) {
  size_t length = strlen(prefix);
  return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

static moonpad_status open_inner(mp_env *env, moonpad_string url, const moonpad_options *options, mp_store **inner,
                                 moonpad_error *error) {
  mp_store_open open = begins_with(url, "memory:")   ? mp_memory_open
                       : begins_with(url, "sqlite:") ? mp_sqlite_open
                                                     : NULL;
  if (open == NULL) return mp_fail(error, MOONPAD_UNSUPPORTED, "slow: write \"slow:MILLISECONDS:memory:\" or sqlite:");
  return open(env, (moonpad_string){url.data + 7, url.length - 7}, options, inner, error);
}

static bool take_milliseconds(moonpad_string *rest, long *milliseconds) {
  size_t at = 0;
  for (*milliseconds = 0; at < rest->length && rest->data[at] >= '0' && rest->data[at] <= '9'; at++) {
    *milliseconds = *milliseconds * 10 + (rest->data[at] - '0');
    if (*milliseconds > LONGEST_WAIT) return false;
  }
  if (at == 0 || at == rest->length || rest->data[at] != ':') return false;
  *rest = (moonpad_string){rest->data + at + 1, rest->length - at - 1};
  return true;
}

moonpad_status slow_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                               moonpad_error *error) {
  slow_store opened = {.ops = slow_ops, .env = env};
  *store = NULL;
  if (!take_milliseconds(&rest, &opened.milliseconds)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "slow: write \"slow:MILLISECONDS:URL\", at most %d of them",
                   LONGEST_WAIT);
  }
  moonpad_status status = open_inner(env, rest, options, &opened.inner, error);
  if (status != MOONPAD_OK) return status;
  slow_store *self = mp_allocate(env, sizeof *self);
  if (self == NULL) {
    opened.inner->ops->close(opened.inner);
    opened.inner->ops->free(opened.inner);
    return mp_no_memory(error);
  }
  *self = opened;
  if (!MP_HAS(mp_store_ops, self->inner->ops, backup)) self->ops.backup = NULL;
  self->store.ops = &self->ops;
  mp_env_retain(env);
  *store = &self->store;
  return MOONPAD_OK;
}

const struct moonpad_store_opener slow_store_opener = {MP_STORE_VERSION, slow_store_open};
