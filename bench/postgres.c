/* PostgreSQL on a socket (servers.h). */
#include <libpq-fe.h>

#include "servers.h"

static const char raw_tables[] =
    "SET client_min_messages = error; DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw; SET search_path = raw;"
    "CREATE TABLE apps(id bigint PRIMARY KEY, revision bigint NOT NULL) WITH (fillfactor = 50);"
    "CREATE TABLE users(id bigint PRIMARY KEY, revision bigint NOT NULL) WITH (fillfactor = 70);"
    "CREATE TABLE sessions(id bigint PRIMARY KEY, revision bigint NOT NULL, last_update_time double precision)"
    " WITH (fillfactor = 70);"
    "CREATE TABLE state(scope int NOT NULL, owner bigint NOT NULL, key bytea NOT NULL, value text, revision bigint,"
    " PRIMARY KEY(scope, owner, key)) WITH (fillfactor = 70);"
    "CREATE TABLE events(session bigint NOT NULL, revision bigint NOT NULL, id bytea NOT NULL, timestamp"
    " double precision, event text NOT NULL, PRIMARY KEY(session, revision), UNIQUE(session, id));"
    "INSERT INTO apps VALUES (1, 0); INSERT INTO users SELECT n, 0 FROM generate_series(1, 8) n;"
    "INSERT INTO sessions SELECT n, 0, 0 FROM generate_series(1, 8) n;";

static const char raw_append_sql[] =
    "WITH s AS (UPDATE sessions SET revision = revision + 1, last_update_time = $5::float8 WHERE id = $1::int8"
    " AND revision = $2::int8 RETURNING revision), u AS (UPDATE users SET revision = users.revision + 1 FROM s"
    " WHERE users.id = $1::int8 RETURNING users.revision), a AS (UPDATE apps SET revision = apps.revision + 1 FROM u"
    " WHERE apps.id = 1 RETURNING apps.revision), e AS (INSERT INTO events SELECT $1::int8, s.revision, $3::bytea,"
    " $5::float8, $4::text FROM s), k AS (INSERT INTO state SELECT v.* FROM s, u, a, LATERAL (VALUES"
    " (0, $1::int8, 'step'::bytea, $6::text, s.revision), (1, $1::int8, 'wish'::bytea, $7::text, u.revision),"
    " (2, 1::int8, 'served'::bytea, $6::text, a.revision)) v ON CONFLICT (scope, owner, key)"
    " DO UPDATE SET value = excluded.value, revision = excluded.revision) SELECT revision FROM s";

static const char raw_get_sql[] =
    "SELECT 0, s.revision, NULL::bytea, NULL::text FROM sessions s, users u, apps a WHERE s.id = $1::int8"
    " AND u.id = s.id AND a.id = 1 UNION ALL SELECT 1, t.revision, t.key, t.value FROM state t"
    " WHERE (t.scope, t.owner) IN ((0, $1::int8), (1, $1::int8), (2, 1)) UNION ALL (SELECT 2, e.revision, e.id,"
    " e.event FROM events e WHERE e.session = $1::int8 ORDER BY e.revision DESC LIMIT 16)";

typedef struct raw_connection {
  PGconn *pg;
  bool is_prepared;
} raw_connection;

static void *raw_connect(const char *url, bool is_durable) {
  raw_connection *raw = calloc(1, sizeof *raw);
  must(raw != NULL, "memory");
  raw->pg = PQconnectdb(url);
  must(PQstatus(raw->pg) == CONNECTION_OK, PQerrorMessage(raw->pg));
  PQclear(PQexec(raw->pg, "SET client_min_messages = error; SET search_path = raw; SET plan_cache_mode = "
                          "force_generic_plan; SET jit = off"));
  PQclear(PQexec(raw->pg, is_durable ? "SET synchronous_commit = on" : "SET synchronous_commit = off"));
  return raw;
}

static void raw_disconnect(void *context) {
  raw_connection *raw = context;
  PQfinish(raw->pg);
  free(raw);
}

static void raw_make_tables(void *context) {
  PQclear(PQexec(((raw_connection *)context)->pg, raw_tables));
}

static void raw_prepare(raw_connection *raw) {
  static const char *const statements[][2] = {{"append", raw_append_sql}, {"get", raw_get_sql}};
  for (int i = 0; !raw->is_prepared && i < 2; i++) {
    PGresult *made = PQprepare(raw->pg, statements[i][0], statements[i][1], 0, NULL);
    must(PQresultStatus(made) == PGRES_COMMAND_OK, PQresultErrorMessage(made));
    PQclear(made);
  }
  raw->is_prepared = true;
}

static void raw_append(void *context, int session, long revision, const event_text *event, long number) {
  raw_connection *raw = context;
  char texts[5][64], id[EVENT_ID_BYTES + 1] = {0};
  write_event_id(id, number, (unsigned)session);
  snprintf(texts[0], 64, "%d", session);
  snprintf(texts[1], 64, "%ld", revision);
  snprintf(texts[2], 64, "%.3f", 1763700000.0 + (double)number * 1e-3);
  snprintf(texts[3], 64, "%ld", FIRST_STEP + number);
  snprintf(texts[4], 64, "\"taxi %ld\"", FIRST_STEP + number);
  const char *values[] = {texts[0], texts[1], id, event->text, texts[2], texts[3], texts[4]};
  raw_prepare(raw);
  PGresult *result = PQexecPrepared(raw->pg, "append", 7, values, NULL, NULL, 1);
  must(PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1, PQresultErrorMessage(result));
  PQclear(result);
}

static void raw_get(void *context) {
  raw_connection *raw = context;
  const char *values[] = {"1"};
  raw_prepare(raw);
  PGresult *result = PQexecPrepared(raw->pg, "get", 1, values, NULL, NULL, 1);
  must(PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 20, PQresultErrorMessage(result));
  PQclear(result);
}

int main(int count, char **arguments) {
  must(count == 2, "bench/servers.sh");
  const raw_server server = {.name = "PostgreSQL",
                             .scheme = {"postgresql", moonpad_postgres_store()},
                             .full_bound = 1.4,
                             .normal_bound = 1.45,
                             .threads_bound = 5,
                             .connect = raw_connect,
                             .disconnect = raw_disconnect,
                             .make_tables = raw_make_tables,
                             .append = raw_append,
                             .get = raw_get};
  measure_server(&server, arguments[1]);
  return 0;
}
