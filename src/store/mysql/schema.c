/*
** Finds the tables and procedures (tables.c) in a database and checks them, or makes them; the same
** for those of other stores beside them (mp_mysql_tables).
**
** A table or a procedure cannot be made in a transaction: what was begun and not finished is
** finished by the next who opens the store. The version in `meta` is written last.
*/
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

#define SCHEMA_VERSION 1
#define STRINGIZE(x)   #x
#define NUMBER(x)      STRINGIZE(x)

/* ---- what a database says it has ---- */

typedef struct found_schema {
  bool has_meta;      /* it has the table that tells the versions */
  long version;       /* 0: it is not moonpad's, or not finished */
  long other_version; /* of mp_mysql_tables; 0: they are not there */
} found_schema;

static moonpad_status take_versions(void *context, const mp_mysql_row *row, moonpad_error *error) {
  found_schema *found = context;
  (void)error;
  found->has_meta = true;
  found->version = (long)mp_mysql_integer_of(row, 0);
  found->other_version = (long)mp_mysql_integer_of(row, 1);
  return MOONPAD_OK;
}

static moonpad_status find_schema(mp_mysql_connection *connection, found_schema *found, moonpad_error *error) {
  const mp_mysql_tables *tables = connection->store->tables;
  *found = (found_schema){.has_meta = false};
  mp_mysql_begin(connection, take_versions, found);
  mp_mysql_sql(connection, "SELECT MAX(IF(name = 'schema', value, '0')), MAX(IF(name = ");
  mp_mysql_bytes(connection, moonpad_text(tables == NULL ? "schema" : tables->name));
  mp_mysql_sql(connection, ", value, '0')) FROM #meta");
  moonpad_status status = mp_mysql_round_trip(connection, error);
  char missing[8];
  snprintf(missing, sizeof missing, "%d", ER_NO_SUCH_TABLE);
  if (status == MOONPAD_OK || strcmp(connection->base.failure.code, missing) != 0) return status;
  mp_remote_clear_failure(&connection->base);
  return MOONPAD_OK;
}

static bool is_complete(const mp_mysql *store, const found_schema *found) {
  return found->version != 0 && (store->tables == NULL || found->other_version != 0);
}

static moonpad_status judge(const mp_mysql *store, const found_schema *found, moonpad_error *error) {
  long newest = found->version > found->other_version ? found->version : found->other_version;
  if (newest <= SCHEMA_VERSION) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "%s: the tables %s... were written by a newer moonpad: schema %ld, this build knows %d",
                 store->remote.place, store->prefix, newest, SCHEMA_VERSION);
}

/* ---- making it ---- */

static moonpad_status missing_right(mp_mysql_connection *connection, moonpad_error *error) {
  if (connection->base.failure.status != MOONPAD_UNSUPPORTED) return connection->base.failure.status;
  char said[200];
  snprintf(said, sizeof said, "%.199s", connection->base.failure.error.message);
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "%s: the account may not make moonpad's tables and procedures in this database (it needs CREATE, "
                 "CREATE ROUTINE, and to use them SELECT, INSERT, UPDATE, DELETE, EXECUTE): %s",
                 connection->store->remote.place, said);
}

/* A procedure that is there is the same: its name has a version. */
static moonpad_status create_each(mp_mysql_connection *connection, const char *const *statements,
                                  moonpad_error *error) {
  char there[8];
  snprintf(there, sizeof there, "%d", ER_SP_ALREADY_EXISTS);
  for (size_t i = 0; statements[i] != NULL; i++) {
    mp_mysql_add(connection, statements[i]);
    moonpad_status status = mp_mysql_round_trip(connection, error);
    if (status != MOONPAD_OK && strcmp(connection->base.failure.code, there) != 0) return status;
    mp_remote_clear_failure(&connection->base);
  }
  return MOONPAD_OK;
}

static moonpad_status note_version(mp_mysql_connection *connection, const char *name, moonpad_error *error) {
  mp_mysql_add_begin(connection);
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "INSERT INTO #meta VALUES(");
  mp_mysql_bytes(connection, moonpad_text(name));
  mp_mysql_sql(connection, ", '" NUMBER(SCHEMA_VERSION) "') ON DUPLICATE KEY UPDATE name = name");
  return mp_mysql_commit(connection, error);
}

static moonpad_status create_what_is_missing(mp_mysql_connection *connection, moonpad_error *error) {
  const mp_mysql_tables *tables = connection->store->tables;
  found_schema found;
  moonpad_status status = find_schema(connection, &found, error);
  if (status == MOONPAD_OK) status = judge(connection->store, &found, error);
  if (status == MOONPAD_OK && found.version == 0) {
    status = create_each(connection, mp_mysql_create_all, error);
    if (status == MOONPAD_OK) status = note_version(connection, "schema", error);
  }
  if (status != MOONPAD_OK || tables == NULL || found.other_version != 0) return status;
  status = create_each(connection, tables->create, error);
  return status == MOONPAD_OK ? note_version(connection, tables->name, error) : status;
}

/* One at a time makes it: who waited finds it made. A cluster of Galera has no such lock. */
static void lock(mp_mysql_connection *connection, const char *function) {
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "SELECT ");
  mp_mysql_sql(connection, function);
  if (mp_mysql_round_trip(connection, NULL) != MOONPAD_OK && !mp_remote_is_broken(&connection->base)) {
    mp_remote_clear_failure(&connection->base);
  }
}

static moonpad_status create(mp_mysql_connection *connection, moonpad_error *error) {
  char text[96];
  snprintf(text, sizeof text, "GET_LOCK(SHA2(CONCAT(DATABASE(), '#'), 224), %.0f)",
           connection->store->remote.patience + 1);
  lock(connection, text);
  moonpad_status status = create_what_is_missing(connection, error);
  if (status != MOONPAD_OK && connection->base.failure.status != MOONPAD_OK) status = missing_right(connection, error);
  if (mp_remote_is_broken(&connection->base)) return status;
  mp_remote_failure failure = connection->base.failure;
  mp_remote_clear_failure(&connection->base);
  lock(connection, "RELEASE_LOCK(SHA2(CONCAT(DATABASE(), '#'), 224))");
  if (failure.status != MOONPAD_OK) connection->base.failure = failure;
  return status;
}

moonpad_status mp_mysql_prepare_schema(mp_mysql_connection *connection, moonpad_error *error) {
  const mp_mysql *store = connection->store;
  found_schema found;
  moonpad_status status = find_schema(connection, &found, error);
  if (status != MOONPAD_OK) return status;
  if (is_complete(store, &found)) return judge(store, &found, error);
  if (store->remote.migrates) return create(connection, error);
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "%s: there are no tables %s... of moonpad%s%s, and none are to be made "
                 "(migrate=off)",
                 store->remote.place, store->prefix, store->tables == NULL ? "" : " with tables for ",
                 store->tables == NULL ? "" : store->tables->name);
}

/* ---- as SQL to read ---- */

static void write_each(const char *prefix, const char *const *statements, mp_buffer *sql) {
  for (size_t i = 0; statements[i] != NULL; i++) {
    mp_mysql_expand(sql, prefix, statements[i]);
    mp_buffer_add_literal(sql, "//\n");
  }
}

static void write_version(const char *prefix, const char *name, mp_buffer *sql) {
  char text[160];
  snprintf(text, sizeof text, "INSERT INTO %smeta VALUES('%.40s', '" NUMBER(SCHEMA_VERSION) "')//\n", prefix, name);
  mp_buffer_add(sql, text, strlen(text));
}

void mp_mysql_write_schema(const char *prefix, const mp_mysql_tables *const *tables, size_t count, mp_buffer *sql) {
  mp_buffer_add_literal(sql, "SET NAMES binary;\nSET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,"
                             "NO_ENGINE_SUBSTITUTION';\nDELIMITER //\n");
  write_each(prefix, mp_mysql_create_all, sql);
  write_version(prefix, "schema", sql);
  for (size_t i = 0; i < count; i++) {
    write_each(prefix, tables[i]->create, sql);
    write_version(prefix, tables[i]->name, sql);
  }
  mp_buffer_add_literal(sql, "DELIMITER ;\n");
}
