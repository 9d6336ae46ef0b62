/* Opens and closes connections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

/* ---- why there is no connection ---- */

typedef struct refusal {
  const char *text; /* a part of the message */
  moonpad_status status;
  mp_remote_again again;
} refusal;

/*
** libpq tells no SQLSTATE of a connection that could not be made. In another language than English
** a refusal is tried again for a while.
*/
static const refusal refusals[] = {
    {"authentication failed", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"no password supplied", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"no pg_hba.conf entry", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"does not exist", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"permission denied", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"certificate", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"does not support SSL", MOONPAD_STORAGE, MP_AGAIN_NEVER},
    {"invalid ", MOONPAD_INVALID_ARGUMENT, MP_AGAIN_NEVER},
    {"too many ", MOONPAD_BUSY, MP_AGAIN_CALL},
    {"remaining connection slots", MOONPAD_BUSY, MP_AGAIN_CALL},
    {"starting up", MOONPAD_STORAGE, MP_AGAIN_CALL},
    {"shutting down", MOONPAD_STORAGE, MP_AGAIN_CALL},
    {"in recovery", MOONPAD_STORAGE, MP_AGAIN_CALL},
    {"read-only", MOONPAD_STORAGE, MP_AGAIN_RECONNECT},
};

static void refuse(const mp_postgres *store, const char *message, mp_remote_failure *failure) {
  static const refusal other = {"", MOONPAD_STORAGE, MP_AGAIN_RECONNECT};
  const refusal *found = &other;
  char said[300];
  snprintf(said, sizeof said, "%s", message);
  size_t length = strlen(said);
  while (length > 0 && said[length - 1] == '\n') said[--length] = '\0';
  mp_remote_scrub(&store->remote, said);
  for (size_t i = 0; found == &other && i < sizeof refusals / sizeof *refusals; i++) {
    if (strstr(said, refusals[i].text) != NULL) found = &refusals[i];
  }
  /* One line for each host, and hints behind a tab. */
  for (char *at = said; *at != '\0'; at++) {
    if (*at == '\n' || *at == '\t') *at = ' ';
  }
  failure->again = found->again;
  failure->was_connecting = true;
  failure->status = mp_fail(&failure->error, found->status, "%s: no connection: %s", store->remote.place, said);
}

/* ---- opening ---- */

#define MOST_SECONDS_TO_CONNECT 10

static PGconn *open_pg(const mp_postgres *store) {
  char seconds[16], milliseconds[16];
  double patience = ceil(store->remote.patience);
  /* libpq counts in whole seconds, at least 2. For each host. */
  snprintf(seconds, sizeof seconds, "%.0f", fmin(fmax(patience, 2), MOST_SECONDS_TO_CONNECT));
  snprintf(milliseconds, sizeof milliseconds, "%.0f", store->remote.silence * 1000);
  /* What the URL says has the last word, but for the encoding. */
  const char *const names[] = {"fallback_application_name", "password", "connect_timeout", "target_session_attrs",
                               "tcp_user_timeout",          "dbname",   "client_encoding", NULL};
  const char *const values[] = {
      "moonpad", store->remote.password, seconds, "read-write", milliseconds, store->url, "UTF8", NULL};
  return PQconnectdbParams(names, values, 1);
}

static moonpad_status check_server(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  int version = PQserverVersion(connection->pg);
  if (version < 130000) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: PostgreSQL %d.%d: moonpad needs 13 or later", store->remote.place,
                   version / 10000, version / 100 % 100);
  }
  const char *encoding = PQparameterStatus(connection->pg, "server_encoding");
  if (encoding != NULL && strcmp(encoding, "UTF8") == 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: the database's encoding is %.40s, and moonpad needs UTF8",
                 store->remote.place, encoding == NULL ? "not known" : encoding);
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
  double wait = fmax(store->remote.patience * 1000, 1);
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
           store->quoted_schema, literal, fmin(wait, 2e9), store->remote.silence * 1000,
           store->remote.durability == MOONPAD_DURABILITY_FULL ? "on" : "off",
           store->remote.durability == MOONPAD_DURABILITY_FULL ? "on" : "off");
  PQfreemem(literal);
  moonpad_status status = mp_postgres_ask_text(connection, text, &slot, error);
  if (slot != NULL) connection->base.slot = strtoll(slot, NULL, 10);
  free(slot);
  return status;
}

mp_remote_connection *mp_postgres_connect(mp_remote *remote, mp_remote_failure *failure) {
  mp_postgres *store = (mp_postgres *)remote;
  memset(failure, 0, sizeof *failure);
  mp_postgres_connection *connection = mp_allocate_zeroed(remote->env, sizeof *connection);
  if (connection != NULL) connection->pg = open_pg(store);
  if (connection == NULL || connection->pg == NULL) {
    failure->status = mp_no_memory(&failure->error);
    mp_release(remote->env, connection);
    return NULL;
  }
  connection->store = store;
  mp_buffer_init(&connection->scratch, remote->env);
  if (PQstatus(connection->pg) != CONNECTION_OK) {
    refuse(store, PQerrorMessage(connection->pg), failure);
    mp_postgres_disconnect(&connection->base);
    return NULL;
  }
  PQsetNoticeReceiver(connection->pg, ignore_notice, NULL);
  moonpad_error error;
  moonpad_status status = check_server(connection, &error);
  if (status == MOONPAD_OK) status = set_up(connection, &error);
  if (status == MOONPAD_OK) return &connection->base;
  mp_postgres_note(connection, status, &error);
  *failure = connection->base.failure;
  mp_postgres_disconnect(&connection->base);
  return NULL;
}

moonpad_status mp_postgres_start(mp_remote_connection *base, moonpad_error *error) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  if (PQsetnonblocking(connection->pg, 1) == 0 && PQenterPipelineMode(connection->pg) == 1) return MOONPAD_OK;
  return mp_postgres_lost(connection, NULL, error);
}

bool mp_postgres_is_connected(const mp_remote_connection *connection) {
  return PQstatus(((const mp_postgres_connection *)connection)->pg) == CONNECTION_OK;
}

/* In a forked child it is left as it is: to end it would end the parent's. */
void mp_postgres_disconnect(mp_remote_connection *base) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  mp_env *env = connection->store->remote.env;
  if (mp_remote_is_owner(&connection->store->remote)) PQfinish(connection->pg);
  mp_buffer_free(&connection->scratch);
  mp_release(env, connection->pending);
  mp_release(env, connection);
}
