/* Places of tests on MySQL or MariaDB. */
#include "mysql_support.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE "/test_" /* the begin of a database's name, in a URL */

typedef struct mysql_place {
  char user[64], password[64], host[64], database[64];
  unsigned port;
} mysql_place;

/* "//USER:PASSWORD@HOST:PORT/DATABASE", as spec/servers/mariadb.sh writes it. */
static bool read_place(const char *rest, mysql_place *place) {
  return sscanf(rest, "//%63[^:]:%63[^@]@%63[^:]:%u/%63[^?]", place->user, place->password, place->host, &place->port,
                place->database) == 5;
}

static void give_up(const char *what, MYSQL *my) {
  fprintf(stderr, "%s: %s\n", what, my == NULL ? "out of memory" : mysql_error(my));
  abort();
}

static MYSQL *connect_to(const mysql_place *place, const char *database) {
  MYSQL *my = mysql_init(NULL);
  if (my == NULL || mysql_real_connect(my, place->host, place->user, place->password, database, place->port, NULL,
                                       CLIENT_MULTI_STATEMENTS) == NULL) {
    give_up("no connection", my);
  }
  return my;
}

void mysql_make_url(const char *url, char *rest, size_t size) {
  static int number;
  mysql_place place;
  char sql[128];
  if (!read_place(strchr(url, ':') + 1, &place)) {
    fprintf(stderr, "the URL of the server is not as spec/servers/mariadb.sh writes it\n");
    abort();
  }
  snprintf(rest, size, "//%s:%s@%s:%u" PLACE "%ld_%d", place.user, place.password, place.host, place.port,
           (long)getpid(), ++number);
  /* Without a server each test fails by itself, when it opens the store. */
  MYSQL *my = mysql_init(NULL);
  if (my != NULL && mysql_real_connect(my, place.host, place.user, place.password, NULL, place.port, NULL, 0) != NULL) {
    snprintf(sql, sizeof sql, "CREATE DATABASE %s", strrchr(rest, '/') + 1);
    if (mysql_query(my, sql) != 0) give_up(sql, my);
  }
  mysql_close(my);
}

bool mysql_is_url(const char *rest) {
  return strstr(rest, PLACE) != NULL;
}

void mysql_forget_url(const char *rest) {
  mysql_place place;
  char sql[128];
  if (!read_place(rest, &place)) return;
  MYSQL *my = mysql_init(NULL);
  if (my != NULL && mysql_real_connect(my, place.host, place.user, place.password, NULL, place.port, NULL, 0) != NULL) {
    /* A test that has failed may leave a transaction open. */
    mysql_query(my, "SET lock_wait_timeout = 2");
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s", place.database);
    mysql_query(my, sql);
  }
  mysql_close(my);
}

/* ---- a mysql_link is a MYSQL ---- */

mysql_link *mysql_link_open(const char *rest) {
  mysql_place place;
  if (!read_place(rest, &place)) give_up(rest, NULL);
  return (mysql_link *)connect_to(&place, place.database);
}

void mysql_link_close(mysql_link *connection) {
  mysql_close((MYSQL *)connection);
}

long mysql_link_number(mysql_link *connection, const char *sql) {
  MYSQL *my = (MYSQL *)connection;
  long number = -1;
  if (mysql_query(my, sql) != 0) give_up(sql, my);
  for (int more = 0; more == 0; more = mysql_next_result(my)) {
    MYSQL_RES *result = mysql_store_result(my);
    MYSQL_ROW row = result == NULL ? NULL : mysql_fetch_row(result);
    if (row != NULL && row[0] != NULL) number = atol(row[0]);
    mysql_free_result(result);
  }
  if (mysql_errno(my) != 0) give_up(sql, my);
  return number;
}

long mysql_number(const char *rest, const char *sql) {
  mysql_link *connection = mysql_link_open(rest);
  long number = mysql_link_number(connection, sql);
  mysql_link_close(connection);
  return number;
}

void mysql_run(const char *rest, const char *sql) {
  mysql_number(rest, sql);
}
