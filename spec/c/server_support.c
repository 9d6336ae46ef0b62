/* Places on the servers that tests use. */
#include "server_support.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool server_is_there(const char *variable) {
  static bool is_told;
  if (getenv(variable) != NULL) return true;
  if (!is_told) fprintf(stderr, "%s is not set: nothing runs on that server\n", variable);
  is_told = true;
  return false;
}

void server_make_url(const char *variable, char *rest, size_t size) {
  static int number;
  const char *url = getenv(variable), *behind = strchr(url, ':');
  snprintf(rest, size, "%s%cschema=test_%ld_%d", behind + 1, strchr(url, '?') == NULL ? '?' : '&', (long)getpid(),
           ++number);
}

void server_forget_url(const char *rest) {
  char url[256], text[128];
  const char *schema = strstr(rest, "schema=");
  if (schema == NULL) return;
  snprintf(url, sizeof url, "postgresql:%.*s", (int)(schema - rest - 1), rest);
  snprintf(text, sizeof text, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE", schema + 7);
  PGconn *connection = PQconnectdb(url);
  PQclear(PQexec(connection, text));
  PQfinish(connection);
}
