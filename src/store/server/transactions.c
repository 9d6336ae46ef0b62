/*
** A transaction, and doing it again when the server fails.
**
** The answer to a COMMIT may be lost. Then nobody knows whether it was carried out, and to do it
** again might do it twice. So each transaction that writes notes a number on the server, and the
** number is asked for.
*/
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/platform.h"
#include "store/server/remote.h"

moonpad_status mp_remote_check_revisions(const mp_batch *batch, moonpad_error *error) {
  for (size_t i = 0; i < batch->event_count; i++) {
    if (batch->events[i].revision <= MP_MAX_REVISION) continue;
    return mp_fail(error, MOONPAD_LIMIT, "revision %" PRId64 ": a session counts no further than %" PRId64,
                   batch->events[i].revision, MP_MAX_REVISION);
  }
  return MOONPAD_OK;
}

/* ---- one attempt ---- */

static moonpad_status run(mp_remote *remote, mp_remote_attempt *once, mp_remote_connection *connection) {
  bool sent = false;
  mp_remote_clear_failure(connection);
  moonpad_status status = remote->ops->run(connection, once, &sent);
  once->failure = connection->failure;
  once->is_unknown = sent && mp_remote_is_broken(connection);
  once->slot = connection->slot;
  once->number = connection->number;
  if (once->failure.status == MOONPAD_OK) return status;
  if (once->error != NULL) *once->error = once->failure.error;
  return once->failure.status;
}

static moonpad_status run_once(mp_remote_attempt *once, mp_remote *remote, double until) {
  mp_remote_connection *connection;
  once->is_unknown = false;
  if (once->error != NULL) *once->error = (moonpad_error){MOONPAD_OK, ""};
  mp_remote_take(remote, until, &connection, &once->failure);
  if (connection == NULL) {
    if (once->error != NULL) *once->error = once->failure.error;
    return once->failure.status;
  }
  moonpad_status status = run(remote, once, connection);
  mp_remote_give_back(remote, connection);
  return status;
}

/* ---- a COMMIT whose answer was lost ---- */

/* False: nobody knows, and `once` says so. */
static bool find_out(mp_remote_attempt *once, mp_remote *remote, double until, bool *is_done) {
  mp_remote_failure failure;
  for (int tries = 0;; tries++) {
    mp_remote_connection *connection;
    mp_remote_take(remote, until, &connection, &failure);
    if (connection != NULL) {
      mp_remote_clear_failure(connection);
      moonpad_status status = remote->ops->find_commit(connection, once, is_done);
      failure = connection->failure;
      mp_remote_give_back(remote, connection);
      if (status == MOONPAD_OK) return true;
    }
    if (!mp_remote_try_again(remote, &failure, tries, until)) break;
  }
  char reason[300];
  snprintf(reason, sizeof reason, "%.299s", failure.error.message);
  once->failure.again = MP_AGAIN_NEVER;
  once->failure.status =
      mp_fail(once->error, MOONPAD_STORAGE, "it may have been stored: the answer was lost (%s)", reason);
  return false;
}

/* ---- the whole ---- */

static moonpad_status try_until(mp_remote_attempt *once, mp_remote *remote) {
  double until = mp_monotonic() + (once->is_hurried ? 0 : remote->patience);
  for (int tries = 0;; tries++) {
    bool is_done = false;
    moonpad_status status = run_once(once, remote, until);
    if (once->failure.status == MOONPAD_OK) return status;
    if (once->is_unknown && !find_out(once, remote, until, &is_done)) return once->failure.status;
    if (is_done) {
      if (once->error != NULL) *once->error = (moonpad_error){MOONPAD_OK, ""};
      return MOONPAD_OK;
    }
    if (once->failure.again == MP_AGAIN_SNAPSHOT) {
      once->is_snapshot = true;
      continue;
    }
    if (!mp_remote_try_again(remote, &once->failure, tries, until)) return once->failure.status;
  }
}

static moonpad_status run_call(mp_remote_attempt *once, mp_remote *remote) {
  moonpad_status status = mp_pool_enter(&remote->pool, once->error);
  if (status != MOONPAD_OK) return status;
  mp_buffer_init(&once->where, remote->env);
  status = try_until(once, remote);
  mp_buffer_free(&once->where);
  mp_pool_leave(&remote->pool);
  return status;
}

moonpad_status mp_remote_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  mp_remote_attempt once = {.function = function, .context = context, .error = error, .is_write = true};
  return run_call(&once, (mp_remote *)store);
}

moonpad_status mp_remote_write_in_a_hurry(mp_store *store, mp_tx_function function, void *context,
                                          moonpad_error *error) {
  mp_remote_attempt once = {
      .function = function, .context = context, .error = error, .is_write = true, .is_hurried = true};
  return run_call(&once, (mp_remote *)store);
}

moonpad_status mp_remote_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  mp_remote_attempt once = {.function = function, .context = context, .error = error};
  return run_call(&once, (mp_remote *)store);
}
