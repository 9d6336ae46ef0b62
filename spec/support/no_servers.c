/*
** In the place of servers, where C tests are built without their libraries (WITHOUT_SERVERS=1):
** there is no server, and the tests on servers, which alone would call the rest, are left out.
*/
#include <stdlib.h>

#include "../c/mysql_support.h"
#include "../c/redis_support.h"
#include "../c/server_support.h"
#include "agent_stores/opener.h"
#include "moonpad_stores.h"

bool server_is_there(const char *variable) {
  (void)variable;
  return false;
}

/* ---- The stores ---- */

const moonpad_store_opener *moonpad_postgres_store(void) {
  return NULL;
}

const moonpad_store_opener *moonpad_mysql_store(void) {
  return NULL;
}

const moonpad_store_opener *moonpad_redis_store(void) {
  return NULL;
}

const moonpad_store_opener *moonpad_redis_cluster_store(void) {
  return NULL;
}

const mp_agent_opener mp_postgres_agent_stores, mp_mysql_agent_stores, mp_redis_agent_stores,
    mp_redis_cluster_agent_stores;

/* ---- Places on servers ---- */

void server_make_url(const char *variable, char *rest, size_t size) {
  (void)variable, (void)rest, (void)size;
  abort();
}

void server_borrow_url(const char *variable, char *rest, size_t size) {
  server_make_url(variable, rest, size);
}

void server_forget_url(const char *rest) {
  (void)rest;
  abort();
}

void server_return_url(const char *rest) {
  server_forget_url(rest);
}

server_connection *server_connect(const char *rest) {
  (void)rest;
  abort();
}

void server_disconnect(server_connection *connection) {
  (void)connection;
  abort();
}

void server_run(server_connection *connection, const char *sql) {
  (void)connection, (void)sql;
  abort();
}

void mysql_run(const char *rest, const char *sql) {
  (void)rest, (void)sql;
  abort();
}

void redis_keep(const char *rest) {
  (void)rest;
  abort();
}

void redis_put_back(const char *rest) {
  (void)rest;
  abort();
}
