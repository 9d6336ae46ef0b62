/* Opens and closes connections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/error.h"
#include "store/postgres/postgres.h"

/* ---- why there is no connection ---- */

typedef struct refusal {
  const char *text; /* a part of the message */
  moonpad_status status;
  mp_postgres_again again;
} refusal;

/*
** libpq tells no SQLSTATE of a connection that could not be made. In another language than English
** a refusal is tried again for a while.
*/
static const refusal refusals[] = {
    {"authentication failed", MOONPAD_STORAGE, MP_PG_NEVER},
    {"no password supplied", MOONPAD_STORAGE, MP_PG_NEVER},
    {"no pg_hba.conf entry", MOONPAD_STORAGE, MP_PG_NEVER},
    {"does not exist", MOONPAD_STORAGE, MP_PG_NEVER},
    {"permission denied", MOONPAD_STORAGE, MP_PG_NEVER},
    {"certificate", MOONPAD_STORAGE, MP_PG_NEVER},
    {"does not support SSL", MOONPAD_STORAGE, MP_PG_NEVER},
    {"invalid ", MOONPAD_INVALID_ARGUMENT, MP_PG_NEVER},
    {"too many ", MOONPAD_BUSY, MP_PG_AGAIN},
    {"remaining connection slots", MOONPAD_BUSY, MP_PG_AGAIN},
    {"starting up", MOONPAD_STORAGE, MP_PG_AGAIN},
    {"shutting down", MOONPAD_STORAGE, MP_PG_AGAIN},
    {"in recovery", MOONPAD_STORAGE, MP_PG_AGAIN},
    {"read-only", MOONPAD_STORAGE, MP_PG_RECONNECT},
};

static void refuse(const mp_postgres *store, const char *message, mp_postgres_failure *failure) {
  static const refusal other = {"", MOONPAD_STORAGE, MP_PG_RECONNECT};
  const refusal *found = &other;
  char said[300];
  snprintf(said, sizeof said, "%s", message);
  size_t length = strlen(said);
  while (length > 0 && said[length - 1] == '\n') said[--length] = '\0';
  mp_postgres_scrub(store, said);
  for (size_t i = 0; found == &other && i < sizeof refusals / sizeof *refusals; i++) {
    if (strstr(said, refusals[i].text) != NULL) found = &refusals[i];
  }
  /* One line for each host, and hints behind a tab. */
  for (char *at = said; *at != '\0'; at++) {
    if (*at == '\n' || *at == '\t') *at = ' ';
  }
  failure->again = found->again;
  failure->was_connecting = true;
  failure->status = mp_fail(&failure->error, found->status, "%s: no connection: %s", store->place, said);
}

/* ---- opening ---- */

#define MOST_SECONDS_TO_CONNECT 10

static PGconn *open_pg(const mp_postgres *store) {
  char seconds[16], milliseconds[16];
  double patience = ceil(store->patience);
  /* libpq counts in whole seconds, at least 2. For each host. */
  snprintf(seconds, sizeof seconds, "%.0f", fmin(fmax(patience, 2), MOST_SECONDS_TO_CONNECT));
  snprintf(milliseconds, sizeof milliseconds, "%.0f", store->silence * 1000);
  /* What the URL says has the last word, but for the encoding. */
  const char *const names[] = {"fallback_application_name", "password", "connect_timeout", "target_session_attrs",
                               "tcp_user_timeout",          "dbname",   "client_encoding", NULL};
  const char *const values[] = {"moonpad",    store->password, seconds, "read-write",
                                milliseconds, store->url,      "UTF8",  NULL};
  return PQconnectdbParams(names, values, 1);
}

static moonpad_status check_server(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  int version = PQserverVersion(connection->pg);
  if (version < 130000) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: PostgreSQL %d.%d: moonpad needs 13 or later", store->place,
                   version / 10000, version / 100 % 100);
  }
  const char *encoding = PQparameterStatus(connection->pg, "server_encoding");
  if (encoding != NULL && strcmp(encoding, "UTF8") == 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: the database's encoding is %.40s, and moonpad needs UTF8",
                 store->place, encoding == NULL ? "not known" : encoding);
}

static void ignore_notice(void *context, const PGresult *result) {
  (void)context, (void)result;
}

/*
** Without parallel workers: rows come in the order of the statement. A plan is made once, perhaps
** while a table is small, and still holds when it is large: so all rows are looked up by their
** keys. A transaction whose client says nothing is ended, so that its locks do not outlive a
** machine that sleeps.
*/
static moonpad_status set_up(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  char text[1280], *slot = NULL;
  double wait = fmax(store->patience * 1000, 1);
  char *literal = PQescapeLiteral(connection->pg, store->schema, strlen(store->schema));
  if (literal == NULL) return mp_no_memory(error);
  snprintf(text, sizeof text,
           "SELECT hashtextextended(clock_timestamp()::text || random()::text || pg_backend_pid()::text, 0);"
           " SET search_path = %s; SET moonpad.schema = %s; SET lock_timeout = %.0f;"
           " SET idle_in_transaction_session_timeout = %.0f; SET plan_cache_mode = force_generic_plan;"
           " SET max_parallel_workers_per_gather = 0; SET jit = off; SET client_min_messages = error;"
           " SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;"
           " SELECT set_config('synchronous_commit', '%s', false) WHERE '%s' = 'off'"
           " OR current_setting('synchronous_commit') = 'off'",
           store->quoted_schema, literal, fmin(wait, 2e9), store->silence * 1000,
           store->durability == MOONPAD_DURABILITY_FULL ? "on" : "off",
           store->durability == MOONPAD_DURABILITY_FULL ? "on" : "off");
  PQfreemem(literal);
  moonpad_status status = mp_postgres_ask_text(connection, text, &slot, error);
  if (slot != NULL) connection->slot = strtoll(slot, NULL, 10);
  free(slot);
  return status;
}

mp_postgres_connection *mp_postgres_connect(mp_postgres *store, mp_postgres_failure *failure) {
  memset(failure, 0, sizeof *failure);
  mp_postgres_connection *connection = mp_allocate_zeroed(store->env, sizeof *connection);
  if (connection != NULL) connection->pg = open_pg(store);
  if (connection == NULL || connection->pg == NULL) {
    failure->status = mp_no_memory(&failure->error);
    mp_release(store->env, connection);
    return NULL;
  }
  connection->store = store;
  mp_buffer_init(&connection->scratch, store->env);
  if (PQstatus(connection->pg) != CONNECTION_OK) {
    refuse(store, PQerrorMessage(connection->pg), failure);
    mp_postgres_disconnect(connection);
    return NULL;
  }
  PQsetNoticeReceiver(connection->pg, ignore_notice, NULL);
  moonpad_error error;
  moonpad_status status = check_server(connection, &error);
  if (status == MOONPAD_OK) status = set_up(connection, &error);
  if (status == MOONPAD_OK) return connection;
  mp_postgres_note(connection, status, &error);
  *failure = connection->failure;
  mp_postgres_disconnect(connection);
  return NULL;
}

moonpad_status mp_postgres_start(mp_postgres_connection *connection, moonpad_error *error) {
  if (PQsetnonblocking(connection->pg, 1) == 0 && PQenterPipelineMode(connection->pg) == 1) return MOONPAD_OK;
  return mp_postgres_lost(connection, NULL, error);
}

/* In a forked child it is left as it is: to end it would end the parent's. */
void mp_postgres_disconnect(mp_postgres_connection *connection) {
  if (connection == NULL) return;
  mp_env *env = connection->store->env;
  if (getpid() == connection->store->pool.owner) PQfinish(connection->pg);
  mp_buffer_free(&connection->scratch);
  mp_release(env, connection->pending);
  mp_release(env, connection);
}

void mp_postgres_disconnect_all(mp_pooled *list) {
  while (list != NULL) {
    mp_pooled *next = list->next;
    mp_postgres_disconnect((mp_postgres_connection *)list);
    list = next;
  }
}

/* ---- the pool ---- */

void mp_postgres_take(mp_postgres *store, double until, mp_postgres_connection **connection,
                      mp_postgres_failure *failure) {
  mp_pooled *pooled = NULL;
  memset(failure, 0, sizeof *failure);
  *connection = NULL;
  failure->status = mp_pool_take(&store->pool, until, &pooled, &failure->error);
  if (failure->status != MOONPAD_OK) return;
  *connection = (mp_postgres_connection *)pooled;
  if (pooled == NULL) {
    *connection = mp_postgres_connect(store, failure);
    if (*connection != NULL && mp_postgres_start(*connection, NULL) != MOONPAD_OK) {
      *failure = (*connection)->failure;
      mp_postgres_disconnect(*connection);
      *connection = NULL;
    }
  }
  if (*connection == NULL) mp_pool_give_back(&store->pool, NULL);
}

void mp_postgres_give_back(mp_postgres_connection *connection) {
  mp_postgres *store = connection->store;
  bool is_broken = mp_postgres_is_broken(connection) || PQstatus(connection->pg) != CONNECTION_OK;
  bool is_over = is_broken || connection->must_close;
  mp_postgres_clear_failure(connection);
  /* The others to that server are most likely lost as well. */
  if (is_broken) mp_postgres_disconnect_all(mp_pool_drain(&store->pool));
  if (is_over) mp_postgres_disconnect(connection);
  mp_pool_give_back(&store->pool, is_over ? NULL : &connection->pooled);
}

/* ---- trying again ---- */

#define FIRST_PAUSE   0.01
#define LONGEST_PAUSE 1.0

bool mp_postgres_try_again(mp_postgres *store, const mp_postgres_failure *failure, int attempt, double until) {
  if (failure->again == MP_PG_NEVER || failure->again == MP_PG_SNAPSHOT) return false;
  double left = until - mp_monotonic();
  if (left <= 0) return false;
  /* A lost connection is made again at once: mostly the server is there. */
  if (attempt == 0 && failure->again == MP_PG_RECONNECT) return true;
  double pause = fmin(LONGEST_PAUSE, FIRST_PAUSE * pow(2, fmin(attempt, 8)));
  double now = mp_monotonic() * 1e6;
  pause *= 0.5 + 0.5 * (now - floor(now)); /* not all at the same time */
  pause = fmin(pause, left);
  if (failure->was_connecting) {
    mp_pool_wait_for_free(&store->pool, pause);
  } else {
    mp_pool_pause(&store->pool, pause);
  }
  return true;
}
