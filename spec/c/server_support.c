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
