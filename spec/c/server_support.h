/*
** The servers that tests use. scripts/run_tests.sh starts them and says where they are in the
** environment; a test has a place of its own on its server, which is removed again.
*/
#ifndef SERVER_SUPPORT_H
#define SERVER_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Is the variable set? Without it the tests of that server are left out, which is printed once. */
bool server_is_there(const char *variable);
/* The URL behind its scheme, with an empty schema of this test's own. */
void server_make_url(const char *variable, char *rest, size_t size);
/* Removes the schema of such a URL, behind its scheme. */
void server_forget_url(const char *rest);

/*
** The same where it need not be new: its tables may be there, without rows. To make them takes
** longer than most tests.
*/
void server_borrow_url(const char *variable, char *rest, size_t size);
void server_return_url(const char *rest);

/*
** A connection of the test's own, in the schema or the database of such a URL. Whatever fails ends
** the program.
*/
typedef struct server_connection server_connection;
server_connection *server_connect(const char *rest);
void server_disconnect(server_connection *connection);
void server_run(server_connection *connection, const char *sql);
/* The number that a query answers. */
long server_number(server_connection *connection, const char *sql);

#endif
