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

/* Runs SQL in the database of such a URL. Whatever fails ends the program. */
void mysql_run(const char *rest, const char *sql);
/* The number that a query answers. */
long mysql_number(const char *rest, const char *sql);

#endif
