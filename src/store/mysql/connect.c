/* Opens and closes connections. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

#define MOST_SECONDS_TO_CONNECT 10
#define LARGEST_PACKET          ((size_t)1 << 30)

static void start_library(void) {
  mysql_library_init(0, NULL, NULL);
}

static unsigned whole_seconds(double seconds, double least) {
  return (unsigned)fmax(ceil(seconds), least);
}

static MYSQL *new_handle(const mp_mysql *store) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_library);
  MYSQL *my = mysql_init(NULL);
  if (my == NULL) return NULL;
  unsigned patience = whole_seconds(fmin(store->remote.patience, MOST_SECONDS_TO_CONNECT), 2);
  unsigned silence = whole_seconds(store->remote.silence, 1), none = 0;
  size_t packet = LARGEST_PACKET;
  unsigned tcp = MYSQL_PROTOCOL_TCP;
  my_bool yes = 1, no = 0;
  mysql_options(my, MYSQL_SET_CHARSET_NAME, "binary");
  mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &patience);
  mysql_options(my, MYSQL_OPT_READ_TIMEOUT, &silence);
  mysql_options(my, MYSQL_OPT_WRITE_TIMEOUT, &silence);
  mysql_options(my, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
  mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &none); /* no server reads files here */
  mysql_options(my, MYSQL_OPT_RECONNECT, &no);
  mysql_optionsv(my, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "moonpad");
  /* To libmariadb "localhost" is a socket, whatever the port. */
  if (store->socket == NULL && store->url.host_count > 0) mysql_optionsv(my, MYSQL_OPT_PROTOCOL, &tcp);
  /* Newer ones verify unless they are told not to. */
  mysql_optionsv(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, store->verifies ? &yes : &no);
  if (store->has_tls) mysql_ssl_set(my, store->key, store->cert, store->ca, NULL, NULL);
  if (store->has_tls) mysql_optionsv(my, MYSQL_OPT_SSL_ENFORCE, &yes);
  return my;
}

/* NULL: why is in *failure. */
static MYSQL *open_host(const mp_mysql *store, const char *host, int port, mp_remote_failure *failure) {
  MYSQL *my = new_handle(store);
  if (my == NULL) {
    failure->status = mp_no_memory(&failure->error);
    return NULL;
  }
  const mp_url_parts *url = &store->url;
  if (mysql_real_connect(my, host, url->user, store->remote.password, url->path, (unsigned)port, store->socket,
                         CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS) != NULL) {
    return my;
  }
  mp_mysql_refuse(store, my, failure);
  mysql_close(my);
  return NULL;
}

/* ---- what a connection is like ---- */

typedef struct server_settings {
  char version[64];
  bool is_mariadb;
  int major, minor;
  bool is_read_only;
  int64_t max_packet;
  int64_t slot;
} server_settings;

static moonpad_status take_settings(void *context, const mp_mysql_row *row, moonpad_error *error) {
  server_settings *settings = context;
  (void)error;
  moonpad_string version = mp_mysql_bytes_of(row, 0);
  snprintf(settings->version, sizeof settings->version, "%.*s", (int)version.length,
           version.data == NULL ? "" : version.data);
  settings->is_mariadb = strstr(settings->version, "MariaDB") != NULL;
  if (sscanf(settings->version, "%d.%d", &settings->major, &settings->minor) != 2) settings->major = 0;
  settings->is_read_only = mp_mysql_integer_of(row, 1) != 0;
  settings->max_packet = mp_mysql_integer_of(row, 2);
  settings->slot = mp_mysql_integer_of(row, 3);
  return MOONPAD_OK;
}

static moonpad_status take_wsrep_on(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  moonpad_string value = mp_mysql_bytes_of(row, 1);
  *(bool *)context = value.length == 2 && memcmp(value.data, "ON", 2) == 0;
  return MOONPAD_OK;
}

static moonpad_status check_settings(const mp_mysql *store, const server_settings *found, moonpad_error *error) {
  bool is_new_enough =
      found->is_mariadb ? found->major > 10 || (found->major == 10 && found->minor >= 6) : found->major >= 8;
  if (is_new_enough) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: version %.40s: moonpad needs MariaDB 10.6 or MySQL 8, or later",
                 store->remote.place, found->version);
}

/*
** READ COMMITTED: without it a statement locks gaps between rows, and writers of different sessions
** wait for each other. A client that says nothing loses its transaction, so that its locks do not
** outlive a machine that sleeps: MySQL ignores what is written for MariaDB here. A node of Galera
** that is no part of its cluster answers what needs no table, but not DO.
*/
static moonpad_status set_up(mp_mysql_connection *connection, server_settings *found, moonpad_error *error) {
  const mp_mysql *store = connection->store;
  char text[640];
  unsigned wait = whole_seconds(fmin(store->remote.patience, 1e6), 1);
  snprintf(text, sizeof text,
           "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION',"
           " innodb_lock_wait_timeout = %u, autocommit = 1, completion_type = 0, group_concat_max_len = 1048576,"
           " wait_timeout = 28800 /*M! , idle_transaction_timeout = %u */",
           wait, whole_seconds(store->remote.silence, 1));
  mp_mysql_add(connection, text);
  mp_mysql_add(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  mp_mysql_begin(connection, take_settings, found);
  mp_mysql_sql(connection,
               "SELECT VERSION(), @@global.read_only, @@session.max_allowed_packet,"
               " CAST(CONV(LEFT(SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 224), 15), 16, 10) AS SIGNED)");
  mp_mysql_add(connection, "DO 0");
  mp_mysql_begin(connection, take_wsrep_on, &connection->is_galera);
  mp_mysql_sql(connection, "SHOW VARIABLES LIKE 'wsrep_on'");
  return mp_mysql_round_trip(connection, error);
}

/*
** What is written on one node of Galera is seen on another a little later. So all connections of a
** store are to one host, until that is gone. This comes before the first look at the new one.
*/
static void move(mp_mysql_connection *connection) {
  mp_mysql *store = connection->store;
  connection->move = atomic_load(&store->moves);
  if (atomic_exchange(&store->host, connection->host) == connection->host) return;
  connection->move = atomic_fetch_add(&store->moves, 1) + 1;
}

/* Waits for what has been acknowledged by other nodes. Without autocommit: see tx.c. */
static moonpad_status catch_up(mp_mysql_connection *connection, moonpad_error *error) {
  mp_mysql_add(connection, "SET SESSION autocommit = 0");
  mp_mysql_add(connection, "SET SESSION wsrep_sync_wait = 1");
  mp_mysql_add(connection, "START TRANSACTION");
  mp_mysql_add(connection, "COMMIT");
  mp_mysql_add(connection, "SET SESSION wsrep_sync_wait = DEFAULT");
  return mp_mysql_round_trip(connection, error);
}

/* A read-only server is none that was asked for. */
static moonpad_status check(mp_mysql_connection *connection, mp_remote_failure *failure) {
  server_settings found = {.major = 0};
  moonpad_error error;
  moonpad_status status = set_up(connection, &found, &error);
  if (status == MOONPAD_OK) status = check_settings(connection->store, &found, &error);
  connection->max_packet = found.max_packet;
  connection->base.slot = found.slot;
  if (status == MOONPAD_OK && found.is_read_only) {
    status = mp_fail(&error, MOONPAD_STORAGE, "%s: no connection: the server is read-only (a replica?)",
                     connection->store->remote.place);
    mp_remote_note(&connection->base, status, MP_AGAIN_RECONNECT, "", &error);
  }
  if (status == MOONPAD_OK) move(connection);
  if (status == MOONPAD_OK && connection->is_galera) status = catch_up(connection, &error);
  if (status != MOONPAD_OK) {
    mp_mysql_note(connection, status, &error);
    *failure = connection->base.failure;
    failure->was_connecting = true;
  }
  return status;
}

/* ---- opening ---- */

static mp_mysql_connection *new_connection(mp_mysql *store, MYSQL *my, unsigned host) {
  mp_mysql_connection *connection = mp_allocate_zeroed(store->remote.env, sizeof *connection);
  if (connection == NULL) return NULL;
  connection->store = store;
  connection->my = my;
  connection->host = host;
  connection->max_packet = 1 << 20;
  mp_buffer_init(&connection->text, store->remote.env);
  mp_buffer_init(&connection->scratch, store->remote.env);
  return connection;
}

/* NULL: why is in *failure. */
static mp_mysql_connection *connect_host(mp_mysql *store, unsigned host, mp_remote_failure *failure) {
  const mp_url_parts *url = &store->url;
  bool is_named = host < url->host_count;
  memset(failure, 0, sizeof *failure);
  MYSQL *my = open_host(store, is_named ? url->hosts[host].name : NULL, is_named ? url->hosts[host].port : 0, failure);
  if (my == NULL) return NULL;
  mp_mysql_connection *connection = new_connection(store, my, host);
  if (connection == NULL) {
    failure->status = mp_no_memory(&failure->error);
    mysql_close(my);
    return NULL;
  }
  if (check(connection, failure) == MOONPAD_OK) return connection;
  mp_mysql_disconnect(&connection->base);
  return NULL;
}

/*
** To the host at which the store is, or else to the first that is there and may be written to. One
** that has no connection left is waited for.
*/
mp_remote_connection *mp_mysql_connect(mp_remote *remote, mp_remote_failure *failure) {
  mp_mysql *store = (mp_mysql *)remote;
  unsigned present = atomic_load(&store->host);
  mp_mysql_connection *connection = connect_host(store, present, failure);
  for (unsigned i = 0; connection == NULL && i < store->url.host_count; i++) {
    if (failure->again != MP_AGAIN_RECONNECT) break;
    if (i != present) connection = connect_host(store, i, failure);
  }
  return connection == NULL ? NULL : &connection->base;
}

/*
** libmariadb says with the next call only that a connection is lost. One that has still written
** elsewhere after the store has moved makes the others look anew, as new ones do.
*/
bool mp_mysql_is_connected(const mp_remote_connection *base) {
  const mp_mysql_connection *connection = (const mp_mysql_connection *)base;
  mp_mysql *store = connection->store;
  if (connection->move == atomic_load(&store->moves)) return true;
  if (connection->host != atomic_load(&store->host)) atomic_fetch_add(&store->moves, 1);
  return false;
}

/* In a forked child it is left as it is: to end it would end the parent's. */
void mp_mysql_disconnect(mp_remote_connection *base) {
  mp_mysql_connection *connection = (mp_mysql_connection *)base;
  mp_env *env = connection->store->remote.env;
  if (mp_remote_is_owner(&connection->store->remote)) mysql_close(connection->my);
  mp_buffer_free(&connection->text);
  mp_buffer_free(&connection->scratch);
  mp_release(env, connection->pending);
  mp_release(env, connection);
}
