/* Places on the servers that tests use. */
#include "server_support.h"

#include "mysql_support.h"
#include "redis_support.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool server_is_there(const char *variable) {
  static const char *told[8];
  if (getenv(variable) != NULL) return true;
  for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
    if (told[i] != NULL && strcmp(told[i], variable) == 0) return false;
    if (told[i] != NULL) continue;
    fprintf(stderr, "%s is not set: nothing runs on that server\n", variable);
    told[i] = variable;
    return false;
  }
  return false;
}

void server_make_url(const char *variable, char *rest, size_t size) {
  static int number;
  const char *url = getenv(variable), *behind = strchr(url, ':');
  if (strncmp(url, "mysql:", 6) == 0) {
    mysql_make_url(url, rest, size);
    return;
  }
  if (strncmp(url, "redis", 5) == 0) {
    redis_make_url(url, rest, size);
    return;
  }
  snprintf(rest, size, "%s%cschema=test_%ld_%d", behind + 1, strchr(url, '?') == NULL ? '?' : '&', (long)getpid(),
           ++number);
}

/* The connection is the caller's; *schema points into `rest`, or is NULL. */
static PGconn *connect_to(const char *rest, const char **schema) {
  char url[256];
  *schema = strstr(rest, "schema=");
  if (*schema == NULL) return NULL;
  snprintf(url, sizeof url, "postgresql:%.*s", (int)(*schema - rest - 1), rest);
  *schema += strlen("schema=");
  return PQconnectdb(url);
}

void server_forget_url(const char *rest) {
  char text[128];
  const char *schema;
  if (mysql_is_url(rest)) {
    mysql_forget_url(rest);
    return;
  }
  if (redis_is_url(rest)) {
    redis_forget_url(rest);
    return;
  }
  PGconn *connection = connect_to(rest, &schema);
  if (connection == NULL) return;
  snprintf(text, sizeof text, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE", schema);
  PQclear(PQexec(connection, text));
  PQfinish(connection);
}

/* ---- schemas of PostgreSQL that are used again ---- */

#define MOST_KEPT 8
#define MOST_USES 50 /* then what has been deleted slows it down */

typedef struct kept_schema {
  char rest[256]; /* "": none */
  int uses;
  bool is_lent;
  bool is_visited; /* a test has gone there by itself, and may have done anything */
} kept_schema;

static kept_schema kept[MOST_KEPT];
static PGconn *housekeeper;

/* By its name: over a link the server has another port. */
static kept_schema *find_kept(const char *rest) {
  const char *schema = strstr(rest, "schema=");
  for (size_t i = 0; schema != NULL && i < MOST_KEPT; i++) {
    const char *other = strstr(kept[i].rest, "schema=");
    size_t length = strcspn(schema, "&");
    if (other != NULL && strcspn(other, "&") == length && strncmp(other, schema, length) == 0) return &kept[i];
  }
  return NULL;
}

static void forget_kept(void) {
  for (size_t i = 0; i < MOST_KEPT; i++) {
    if (kept[i].rest[0] != '\0') server_forget_url(kept[i].rest);
  }
  PQfinish(housekeeper);
}

/* False: somebody still holds something there, say. */
static bool make_empty(const kept_schema *place) {
  char text[512];
  const char *schema;
  if (housekeeper == NULL) {
    housekeeper = connect_to(place->rest, &schema);
    atexit(forget_kept);
  }
  schema = strstr(place->rest, "schema=") + strlen("schema=");
  snprintf(text, sizeof text,
           "SET lock_timeout = 2000; DO $$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM pg_tables"
           " WHERE schemaname = '%s' AND tablename <> 'meta' LOOP EXECUTE format('DELETE FROM %s.%%I', name);"
           " END LOOP; END $$",
           schema, schema);
  PGresult *result = PQexec(housekeeper, text);
  bool is_done = PQresultStatus(result) == PGRES_COMMAND_OK;
  PQclear(result);
  return is_done;
}

void server_borrow_url(const char *variable, char *rest, size_t size) {
  kept_schema *place = NULL;
  bool is_postgres = strncmp(getenv(variable), "postgresql:", 11) == 0;
  for (size_t i = 0; is_postgres && i < MOST_KEPT && place == NULL; i++) {
    if (!kept[i].is_lent) place = &kept[i];
  }
  if (place == NULL || place->rest[0] == '\0') server_make_url(variable, rest, size);
  if (place == NULL) return;
  if (place->rest[0] == '\0') {
    *place = (kept_schema){.uses = 0};
    snprintf(place->rest, sizeof place->rest, "%s", rest);
  }
  snprintf(rest, size, "%s", place->rest);
  place->is_lent = true;
}

void server_return_url(const char *rest) {
  kept_schema *place = find_kept(rest);
  if (place != NULL && !place->is_visited && ++place->uses < MOST_USES && make_empty(place)) {
    place->is_lent = false;
    return;
  }
  server_forget_url(place != NULL ? place->rest : rest);
  if (place != NULL) *place = (kept_schema){.uses = 0};
}

/* ---- connections of a test's own ---- */

struct server_connection {
  PGconn *pg; /* one of both */
  mysql_link *my;
};

static PGresult *run_or_abort(server_connection *connection, const char *sql) {
  PGresult *result = PQexec(connection->pg, sql);
  ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
  fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(connection->pg));
  abort();
}

server_connection *server_connect(const char *rest) {
  char text[128];
  const char *schema;
  server_connection *connection = calloc(1, sizeof *connection);
  if (connection == NULL) abort();
  if (mysql_is_url(rest)) {
    connection->my = mysql_link_open(rest);
    return connection;
  }
  kept_schema *place = find_kept(rest);
  if (place != NULL) place->is_visited = true;
  connection->pg = connect_to(rest, &schema);
  snprintf(text, sizeof text, "SET search_path = %.*s", (int)strcspn(schema, "&"), schema);
  server_run(connection, text);
  return connection;
}

void server_disconnect(server_connection *connection) {
  if (connection->my != NULL) mysql_link_close(connection->my);
  PQfinish(connection->pg);
  free(connection);
}

void server_run(server_connection *connection, const char *sql) {
  if (connection->my != NULL) {
    mysql_link_number(connection->my, sql);
  } else {
    PQclear(run_or_abort(connection, sql));
  }
}

long server_number(server_connection *connection, const char *sql) {
  if (connection->my != NULL) return mysql_link_number(connection->my, sql);
  PGresult *result = run_or_abort(connection, sql);
  long number = atol(PQgetvalue(result, 0, 0));
  PQclear(result);
  return number;
}
