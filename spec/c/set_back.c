/* See set_back.h. */
#include "set_back.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "mysql_support.h"
#include "redis_support.h"
#include "server_support.h"
#include "timeout.h"

/* ---- a file ---- */

static void copy_file(const char *from, const char *to) {
  sqlite3 *source, *target;
  assert_int_equal(sqlite3_open(from, &source), SQLITE_OK);
  assert_int_equal(sqlite3_open(to, &target), SQLITE_OK);
  sqlite3_busy_timeout(target, TIMEOUT_MS);
  sqlite3_backup *backup = sqlite3_backup_init(target, "main", source, "main");
  assert_non_null(backup);
  assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
  sqlite3_close(source);
  sqlite3_close(target);
}

static void name_files(const host *self, char live[128], char kept[128]) {
  snprintf(live, 128, "%s/test.db", self->folder);
  snprintf(kept, 128, "%s/kept.db", self->folder);
}

/* ---- tables ---- */

static const char *const tables[] = {"apps", "users", "sessions", "state", "base_state", "events"};

static void run_for_each(const host *self, const char *first, const char *second) {
  server_connection *connection = server_connect(strchr(self->url, ':') + 1);
  server_run(connection, "BEGIN");
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    char sql[256];
    snprintf(sql, sizeof sql, first, tables[i], tables[i]);
    server_run(connection, sql);
    snprintf(sql, sizeof sql, second, tables[i], tables[i]);
    server_run(connection, sql);
  }
  server_run(connection, "COMMIT");
  server_disconnect(connection);
}

static void run_for_each_on_mysql(const host *self, const char *first, const char *second) {
  char sql[2048] = "START TRANSACTION";
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    char statement[256];
    snprintf(statement, sizeof statement, first, tables[i], tables[i]);
    strcat(strcat(sql, ";"), statement);
    snprintf(statement, sizeof statement, second, tables[i], tables[i]);
    strcat(strcat(sql, ";"), statement);
  }
  mysql_run(strchr(self->url, ':') + 1, strcat(sql, ";COMMIT"));
}

/* ---- any of them ---- */

static bool is_on_mysql(const host *self) {
  return strncmp(self->url, "mysql:", 6) == 0;
}

static bool is_on_redis(const host *self) {
  return strncmp(self->url, "redis:", 6) == 0;
}

void set_back_keep(host *self) {
  char live[128], kept[128];
  if (is_on_redis(self)) {
    redis_keep(strchr(self->url, ':') + 1);
    return;
  }
  if (is_on_mysql(self)) {
    run_for_each_on_mysql(self, "DROP TABLE IF EXISTS kept_%s", "CREATE TABLE kept_%s AS SELECT * FROM moonpad_%s");
    return;
  }
  if (self->folder[0] == '\0') {
    run_for_each(self, "SET client_min_messages = error; DROP TABLE IF EXISTS kept_%s",
                 "CREATE TABLE kept_%s AS TABLE %s");
    return;
  }
  name_files(self, live, kept);
  copy_file(live, kept);
}

void set_back(host *self) {
  char live[128], kept[128];
  if (is_on_redis(self)) {
    redis_put_back(strchr(self->url, ':') + 1);
    return;
  }
  if (is_on_mysql(self)) {
    run_for_each_on_mysql(self, "DELETE FROM moonpad_%s", "INSERT INTO moonpad_%s SELECT * FROM kept_%s");
    return;
  }
  if (self->folder[0] == '\0') {
    run_for_each(self, "DELETE FROM %s", "INSERT INTO %s OVERRIDING SYSTEM VALUE SELECT * FROM kept_%s");
    return;
  }
  name_files(self, live, kept);
  copy_file(kept, live);
}
