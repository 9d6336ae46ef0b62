/* Places of tests on MySQL or MariaDB: a database each. */
#ifndef MYSQL_SUPPORT_H
#define MYSQL_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* The URL behind its scheme, with an empty database of this test's own. */
void mysql_make_url(const char *url, char *rest, size_t size);
/* Is it such a URL? */
bool mysql_is_url(const char *rest);
/* Removes its database. */
void mysql_forget_url(const char *rest);

/* A connection of a test's own to that database. Whatever fails ends the program. */
typedef struct mysql_link mysql_link;
mysql_link *mysql_link_open(const char *rest);
void mysql_link_close(mysql_link *connection);
/* Runs SQL, several statements too; the number that a query answers, or -1. */
long mysql_link_number(mysql_link *connection, const char *sql);

/* The same on a connection of its own. */
void mysql_run(const char *rest, const char *sql);
long mysql_number(const char *rest, const char *sql);

#endif
