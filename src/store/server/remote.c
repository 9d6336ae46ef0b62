/* Connections of a store, its failures, and when to try again. */
#include "store/server/remote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"

#define SECONDS_OF_SILENCE 10 /* beyond busyTimeoutMs: then the server counts as gone */

/* ---- opening and closing ---- */

void mp_remote_init(mp_remote *remote, mp_env *env, const mp_store_ops *store_ops, const mp_remote_ops *ops,
                    const moonpad_options *options) {
  remote->base.ops = store_ops;
  remote->ops = ops;
  remote->env = mp_env_retain(env);
  remote->durability = options->durability;
  remote->patience = (double)options->busy_timeout_ms * 1e-3;
  remote->silence = remote->patience + SECONDS_OF_SILENCE;
}

void mp_remote_destroy(mp_remote *remote) {
  if (remote->has_pool) {
    mp_plan_queue_destroy(&remote->plans);
    mp_pool_destroy(&remote->pool);
  }
  if (remote->password != NULL) memset(remote->password, 0, strlen(remote->password));
  mp_release(remote->env, remote->password);
  mp_release(remote->env, remote->place);
}

static void disconnect_all(mp_remote *remote, mp_pooled *list) {
  while (list != NULL) {
    mp_pooled *next = list->next;
    remote->ops->disconnect((mp_remote_connection *)list);
    list = next;
  }
}

void mp_remote_close(mp_store *store) {
  mp_remote *remote = (mp_remote *)store;
  disconnect_all(remote, mp_pool_close(&remote->pool));
  mp_pool_closed(&remote->pool);
}

moonpad_status mp_remote_is_less_durable(const mp_remote *remote, const char *what, moonpad_error *error) {
  moonpad_error reason;
  if (remote->durability != MOONPAD_DURABILITY_FULL) return MOONPAD_OK;
  mp_fail(&reason, MOONPAD_UNSUPPORTED, "%s: the server runs %s", remote->place, what);
  if (!remote->strict) {
    mp_log(remote->env, MOONPAD_UNSUPPORTED, reason.message);
    return MOONPAD_OK;
  }
  if (error != NULL) *error = reason;
  return MOONPAD_UNSUPPORTED;
}

moonpad_status mp_remote_note_password(mp_remote *remote, const char *given, moonpad_error *error) {
  const char *password = given != NULL ? given : getenv("MOONPAD_PASSWORD");
  if (password == NULL || password[0] == '\0') return MOONPAD_OK;
  remote->password = mp_remote_copy_text(remote->env, password);
  return remote->password == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_remote_check_open(mp_store *store, moonpad_error *error) {
  mp_remote *remote = (mp_remote *)store;
  moonpad_status status = mp_pool_enter(&remote->pool, error);
  if (status == MOONPAD_OK) mp_pool_leave(&remote->pool);
  return status;
}

bool mp_remote_is_owner(const mp_remote *remote) {
  return getpid() == remote->pool.owner;
}

static moonpad_status prepare(mp_remote *remote, mp_remote_connection *connection, moonpad_error *error) {
  moonpad_status status = remote->ops->prepare(connection, error);
  return status == MOONPAD_OK ? remote->ops->start(connection, error) : status;
}

static moonpad_status connect_first(mp_remote *remote, moonpad_error *error) {
  mp_remote_failure failure;
  mp_pooled *none;
  double until = mp_monotonic() + remote->patience;
  moonpad_status status = mp_pool_take(&remote->pool, until, &none, error);
  if (status != MOONPAD_OK) return status;
  for (int tries = 0;; tries++) {
    mp_remote_connection *connection = remote->ops->connect(remote, &failure);
    if (connection != NULL) {
      status = prepare(remote, connection, &failure.error);
      if (status == MOONPAD_OK) {
        mp_remote_give_back(remote, connection);
        return MOONPAD_OK;
      }
      failure.status = status;
      failure.again = connection->failure.again;
      remote->ops->disconnect(connection);
    }
    if (failure.again == MP_AGAIN_RECONNECT && connection == NULL) break;
    if (!mp_remote_try_again(remote, &failure, tries, until)) break;
  }
  mp_pool_give_back(&remote->pool, NULL);
  if (error != NULL) *error = failure.error;
  return failure.status;
}

moonpad_status mp_remote_open(mp_remote *remote, int64_t connections, moonpad_error *error) {
  remote->has_pool = mp_pool_init(&remote->pool, (unsigned)connections);
  if (!remote->has_pool) return mp_no_memory(error);
  mp_plan_queue_init(&remote->plans, (unsigned)connections, mp_remote_send_plans, remote);
  return connect_first(remote, error);
}

/* ---- connections ---- */

static mp_remote_connection *connect_and_start(mp_remote *remote, mp_remote_failure *failure) {
  mp_remote_connection *connection = remote->ops->connect(remote, failure);
  if (connection == NULL || remote->ops->start(connection, NULL) == MOONPAD_OK) return connection;
  *failure = connection->failure;
  remote->ops->disconnect(connection);
  return NULL;
}

void mp_remote_take(mp_remote *remote, double until, mp_remote_connection **connection, mp_remote_failure *failure) {
  mp_pooled *pooled = NULL;
  memset(failure, 0, sizeof *failure);
  *connection = NULL;
  failure->status = mp_pool_take(&remote->pool, until, &pooled, &failure->error);
  if (failure->status != MOONPAD_OK) return;
  *connection = (mp_remote_connection *)pooled;
  if (pooled != NULL && !remote->ops->is_connected(*connection)) {
    remote->ops->disconnect(*connection);
    *connection = NULL;
  }
  if (*connection == NULL) *connection = connect_and_start(remote, failure);
  if (*connection == NULL) mp_pool_give_back(&remote->pool, NULL);
}

void mp_remote_give_back(mp_remote *remote, mp_remote_connection *connection) {
  bool is_broken = mp_remote_is_broken(connection) || !remote->ops->is_connected(connection);
  bool is_over = is_broken || connection->must_close;
  mp_remote_clear_failure(connection);
  /* The others to that server are most likely lost as well. */
  if (is_broken) disconnect_all(remote, mp_pool_drain(&remote->pool));
  if (is_over) remote->ops->disconnect(connection);
  mp_pool_give_back(&remote->pool, is_over ? NULL : &connection->pooled);
}

/* ---- texts ---- */

char *mp_remote_copy_text(mp_env *env, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = mp_allocate(env, size);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

/* ---- failures ---- */

moonpad_status mp_remote_note(mp_remote_connection *connection, moonpad_status status, mp_remote_again again,
                              const char *code, const moonpad_error *error) {
  mp_remote_failure *failure = &connection->failure;
  bool is_first = failure->status == MOONPAD_OK;
  if (is_first) {
    failure->status = status;
    failure->error = *error;
    snprintf(failure->code, sizeof failure->code, "%s", code);
  }
  if (is_first || again == MP_AGAIN_RECONNECT) failure->again = again;
  return status;
}

void mp_remote_clear_failure(mp_remote_connection *connection) {
  memset(&connection->failure, 0, sizeof connection->failure);
}

bool mp_remote_is_broken(const mp_remote_connection *connection) {
  return connection->failure.status != MOONPAD_OK && connection->failure.again == MP_AGAIN_RECONNECT;
}

void mp_remote_scrub(const mp_remote *remote, char *text) {
  size_t length = remote->password == NULL ? 0 : strlen(remote->password);
  if (length == 0) return;
  for (char *found = text; (found = strstr(found, remote->password)) != NULL;) {
    size_t shown = length < 3 ? length : 3;
    memcpy(found, "...", shown);
    memmove(found + shown, found + length, strlen(found + length) + 1);
    found += shown;
  }
}

/* ---- trying again ---- */

#define FIRST_PAUSE   0.01
#define LONGEST_PAUSE 1.0

bool mp_remote_try_again(mp_remote *remote, const mp_remote_failure *failure, int attempt, double until) {
  if (failure->again == MP_AGAIN_NEVER || failure->again == MP_AGAIN_SNAPSHOT) return false;
  double left = until - mp_monotonic();
  if (left <= 0) return false;
  /* A lost connection is made again at once: mostly the server is there. */
  if (attempt == 0 && failure->again == MP_AGAIN_RECONNECT) return true;
  double pause = fmin(LONGEST_PAUSE, FIRST_PAUSE * pow(2, fmin(attempt, 8)));
  double now = mp_monotonic() * 1e6;
  pause *= 0.5 + 0.5 * (now - floor(now)); /* not all at the same time */
  pause = fmin(pause, left);
  if (failure->was_connecting) {
    mp_pool_wait_for_free(&remote->pool, pause);
  } else {
    mp_pool_pause(&remote->pool, pause);
  }
  return true;
}
