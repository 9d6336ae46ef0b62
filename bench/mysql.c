/* MariaDB on a socket (servers.h). */
#include <mysql.h>

#include "servers.h"

static const char *const raw_tables[] = {
    "DROP TABLE IF EXISTS raw_apps, raw_users, raw_sessions, raw_state, raw_events",
    "DROP PROCEDURE IF EXISTS raw_append",
    "CREATE TABLE raw_apps(id BIGINT PRIMARY KEY, revision BIGINT NOT NULL)",
    "CREATE TABLE raw_users(id BIGINT PRIMARY KEY, revision BIGINT NOT NULL)",
    "CREATE TABLE raw_sessions(id BIGINT PRIMARY KEY, revision BIGINT NOT NULL, last_update_time DOUBLE NOT NULL)",
    "CREATE TABLE raw_state(scope TINYINT NOT NULL, owner BIGINT NOT NULL, `key` VARBINARY(1024) NOT NULL,"
    " value LONGBLOB, revision BIGINT NOT NULL, PRIMARY KEY(scope, owner, `key`)) ROW_FORMAT=DYNAMIC",
    "CREATE TABLE raw_events(session BIGINT NOT NULL, revision BIGINT NOT NULL, id VARBINARY(1024) NOT NULL,"
    " timestamp DOUBLE NOT NULL, event LONGBLOB NOT NULL, PRIMARY KEY(session, revision), UNIQUE(session, id))"
    " ROW_FORMAT=DYNAMIC",
    "INSERT INTO raw_apps VALUES (1, 0)",
    "INSERT INTO raw_users VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)",
    "INSERT INTO raw_sessions SELECT id, 0, 0 FROM raw_users",
    "CREATE PROCEDURE raw_append(p_session BIGINT, p_revision BIGINT, p_id VARBINARY(1024), p_time DOUBLE,"
    " p_event LONGBLOB, p_step LONGBLOB, p_wish LONGBLOB) BEGIN"
    " DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;"
    " START TRANSACTION;"
    " UPDATE raw_sessions SET revision = p_revision + 1, last_update_time = p_time WHERE id = p_session"
    " AND revision = p_revision;"
    " IF ROW_COUNT() <> 1 THEN SIGNAL SQLSTATE '45000'; END IF;"
    " UPDATE raw_users SET revision = (@u := revision + 1) WHERE id = p_session;"
    " UPDATE raw_apps SET revision = (@a := revision + 1) WHERE id = 1;"
    " INSERT INTO raw_events VALUES (p_session, p_revision + 1, p_id, p_time, p_event);"
    " INSERT INTO raw_state VALUES (0, p_session, 'step', p_step, p_revision + 1), (1, p_session, 'wish', p_wish, @u),"
    " (2, 1, 'served', p_step, @a) ON DUPLICATE KEY UPDATE value = VALUES(value), revision = VALUES(revision);"
    " COMMIT; END",
    NULL};

static const char raw_get_sql[] =
    "SELECT s.revision, u.revision, a.revision, t.scope, t.`key`, t.value, t.revision FROM raw_sessions s"
    " JOIN raw_users u ON u.id = s.id JOIN raw_apps a ON a.id = 1 JOIN (SELECT 0 AS scope UNION ALL SELECT 1"
    " UNION ALL SELECT 2) o LEFT JOIN raw_state t ON t.scope = o.scope AND t.owner = CASE o.scope WHEN 2 THEN 1 ELSE"
    " s.id END AND t.value IS NOT NULL WHERE s.id = 1; SELECT revision, id, timestamp, event FROM raw_events"
    " WHERE session = 1 ORDER BY revision DESC LIMIT 16";

typedef struct raw_connection {
  MYSQL *my;
  MYSQL_STMT *append; /* NULL: not prepared yet */
} raw_connection;

static void raw_run(MYSQL *my, const char *sql) {
  must(mysql_query(my, sql) == 0, mysql_error(my));
}

/* "mysql://root@/DATABASE?socket=PATH" */
static void *raw_connect(const char *url, bool is_durable) {
  char database[64], path[256];
  raw_connection *raw = calloc(1, sizeof *raw);
  must(raw != NULL && sscanf(url, "mysql://root@/%63[^?]?socket=%255s", database, path) == 2, url);
  raw->my = mysql_init(NULL);
  mysql_options(raw->my, MYSQL_SET_CHARSET_NAME, "binary");
  must(mysql_real_connect(raw->my, NULL, "root", NULL, database, 0, path, CLIENT_MULTI_STATEMENTS) != NULL,
       mysql_error(raw->my));
  raw_run(raw->my, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  raw_run(raw->my, is_durable ? "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
                              : "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
  return raw;
}

static void raw_disconnect(void *context) {
  raw_connection *raw = context;
  if (raw->append != NULL) mysql_stmt_close(raw->append);
  mysql_close(raw->my);
  free(raw);
}

static void raw_make_tables(void *context) {
  for (int i = 0; raw_tables[i] != NULL; i++) raw_run(((raw_connection *)context)->my, raw_tables[i]);
}

static void raw_prepare(raw_connection *raw) {
  static const char sql[] = "CALL raw_append(?, ?, ?, ?, ?, ?, ?)";
  if (raw->append != NULL) return;
  raw->append = mysql_stmt_init(raw->my);
  must(mysql_stmt_prepare(raw->append, sql, strlen(sql)) == 0, mysql_stmt_error(raw->append));
}

static void bind_text(MYSQL_BIND *bind, char *text) {
  *bind = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB, .buffer = text, .buffer_length = (unsigned long)strlen(text)};
}

static void raw_append(void *context, int session, long revision, const event_text *event, long number) {
  raw_connection *raw = context;
  char texts[2][64], id[EVENT_ID_BYTES + 1] = {0};
  long long numbers[] = {session, revision};
  double time = 1763700000.0 + (double)number * 1e-3;
  MYSQL_BIND binds[7];
  raw_prepare(raw);
  write_event_id(id, number, (unsigned)session);
  snprintf(texts[0], 64, "%ld", FIRST_STEP + number);
  snprintf(texts[1], 64, "\"taxi %ld\"", FIRST_STEP + number);
  for (int i = 0; i < 2; i++) {
    binds[i] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &numbers[i]};
    bind_text(&binds[5 + i], texts[i]);
  }
  bind_text(&binds[2], id);
  binds[3] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_DOUBLE, .buffer = &time};
  bind_text(&binds[4], (char *)event->text);
  must(mysql_stmt_bind_param(raw->append, binds) == 0 && mysql_stmt_execute(raw->append) == 0,
       mysql_stmt_error(raw->append));
  while (mysql_stmt_next_result(raw->append) == 0) continue;
}

static void raw_get(void *context) {
  MYSQL *my = ((raw_connection *)context)->my;
  int rows = 0;
  raw_run(my, raw_get_sql);
  do {
    MYSQL_RES *result = mysql_store_result(my);
    must(result != NULL, mysql_error(my));
    rows += (int)mysql_num_rows(result);
    mysql_free_result(result);
  } while (mysql_next_result(my) == 0);
  must(rows == 19, "three keys and 16 events");
}

int main(int count, char **arguments) {
  must(count == 2, "bench/servers.sh");
  const raw_server server = {.name = "MariaDB",
                             .scheme = {"mysql", moonpad_mysql_store()},
                             .full_bound = 1.5,
                             .normal_bound = 1.5,
                             .connect = raw_connect,
                             .disconnect = raw_disconnect,
                             .make_tables = raw_make_tables,
                             .append = raw_append,
                             .get = raw_get};
  measure_server(&server, arguments[1]);
  return 0;
}
