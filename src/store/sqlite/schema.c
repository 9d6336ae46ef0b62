/*
** The tables (schema 2): creates them in an empty file, checks them in any other (a file that is
** damaged or not moonpad's is refused), and migrates a file of schema 1.
**
** Why the tables are as they are. The cost of an append is the number of pages that its commit
** writes (about 3 us each when measured), so what one append changes is stored close together.
** - The state of all scopes is one table, and the head of a user or an app is a row among its keys,
**   on a page that is written anyway. Three state tables, with the revisions in `users` and `apps`,
**   made an append half as slow again.
** - Events are a rowid table by (session << 34 | revision). An event of 400 bytes needs no overflow
**   page, as it would WITHOUT ROWID, and the events of a session are neighbours. Virtual columns
**   keep session and revision readable, and cost nothing.
** - `sessions` has no index by time: every append would move its session in it. A list
**   sorts instead.
** - There are no foreign keys: only sessions and users are deleted, by a few statements over key
**   ranges. A parent lookup for every event and key would cost each append more than that.
** - State has no index by revision: every write would move its key in it, which costs a quarter to
**   a third more pages. Instead each head lists the keys that were changed last (recent.c), in a
**   row that is written anyway.
** - The columns of an event that are read without its JSON are stored before it: a column behind a
**   long text is found by going through its overflow pages. A file of schema 1 gets the same
**   columns behind it, because adding a column rewrites no row. So no SQL relies on the order of
**   columns.
*/
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define APPLICATION_ID 0x6d706164 /* "mpad" */
#define SCHEMA_VERSION 2
#define STRINGIZE(x)   #x
#define NUMBER(x)      STRINGIZE(x)

/* For an empty file. */
static const char create_tables[] =
    "CREATE TABLE apps(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  app_name TEXT NOT NULL UNIQUE\n"
    ") STRICT;"
    "CREATE TABLE users(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  app INTEGER NOT NULL, -- apps.id\n"
    "  user_id TEXT NOT NULL,\n"
    "  UNIQUE(app, user_id)\n"
    ") STRICT;"
    "CREATE TABLE sessions(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice\n"
    "  app INTEGER NOT NULL, -- apps.id\n"
    "  user INTEGER NOT NULL, -- users.id\n"
    "  session_id TEXT NOT NULL,\n"
    "  revision INTEGER NOT NULL DEFAULT 0, -- of its last event\n"
    "  base_revision INTEGER NOT NULL DEFAULT 0, -- events up to here are gone; base_state is the state then\n"
    "  conversation_count INTEGER NOT NULL DEFAULT 0, -- messages of the user\n"
    "  create_time REAL NOT NULL, -- seconds since 1970\n"
    "  last_update_time REAL NOT NULL,\n"
    "  recent TEXT, -- the keys of its state that were changed last\n"
    "  touched REAL, -- when it was last used\n"
    "  forgotten INTEGER, -- removed keys up to this revision are gone\n"
    "  UNIQUE(user, session_id)\n"
    ") STRICT;"
    "CREATE INDEX sessions_by_app ON sessions(app);"
    "CREATE TABLE state(\n"
    "  scope INTEGER NOT NULL, -- 0: of a session, 1: of a user, 2: of an app\n"
    "  owner INTEGER NOT NULL, -- sessions.id, users.id, apps.id\n"
    "  key ANY NOT NULL, -- text, without \"user:\" or \"app:\"; the number 0: no key, this row is the head of the "
    "user or app itself\n"
    "  value TEXT, -- JSON; NULL: removed; of a head: the keys that were changed last\n"
    "  revision INTEGER NOT NULL, -- of the owner when this was last written or removed\n"
    "  touched REAL, -- of a head: when the user or app was last used\n"
    "  forgotten INTEGER, -- of a head: removed keys up to this revision are gone\n"
    "  PRIMARY KEY(scope, owner, key)\n"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE base_state(\n"
    "  -- the state of sessions at their base_revision (0: as they were created)\n"
    "  session INTEGER NOT NULL, -- sessions.id\n"
    "  key TEXT NOT NULL,\n"
    "  value TEXT NOT NULL, -- JSON\n"
    "  PRIMARY KEY(session, key)\n"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE events(\n"
    "  position INTEGER PRIMARY KEY, -- session << 34 | revision\n"
    "  session INTEGER AS (position >> 34) VIRTUAL, -- sessions.id\n"
    "  revision INTEGER AS (position & 17179869183) VIRTUAL, -- 1 is the first event of its session\n"
    "  id TEXT NOT NULL,\n"
    "  timestamp REAL NOT NULL, -- seconds since 1970\n"
    "  digest INTEGER, -- of the event as the caller gave it, where the caller gave the id too\n"
    "  invocation TEXT, -- its invocationId as the JSON spells it\n"
    "  kinds INTEGER, -- 1: a message of the user, 2: changes keys of the session's state, 3: both; NULL: see the "
    "JSON\n"
    "  event TEXT NOT NULL -- JSON\n"
    ") STRICT;"
    "CREATE UNIQUE INDEX events_by_id ON events(session, id);"
    "PRAGMA application_id = " NUMBER(APPLICATION_ID);

/* For a file of schema 1. */
static const char add_columns[] = "ALTER TABLE sessions ADD COLUMN recent TEXT;"
                                  "ALTER TABLE sessions ADD COLUMN touched REAL;"
                                  "ALTER TABLE sessions ADD COLUMN forgotten INTEGER;"
                                  "ALTER TABLE state ADD COLUMN touched REAL;"
                                  "ALTER TABLE state ADD COLUMN forgotten INTEGER;"
                                  "ALTER TABLE events ADD COLUMN invocation TEXT;"
                                  "ALTER TABLE events ADD COLUMN kinds INTEGER";

/* Then, for both. */
static const char complete_tables[] =
    "CREATE TABLE tokens(\n"
    "  -- calls without an event that have been done: repeated, they are not done twice\n"
    "  token BLOB PRIMARY KEY,\n"
    "  time REAL NOT NULL -- seconds since 1970\n"
    ") STRICT, WITHOUT ROWID;"
    "PRAGMA user_version = " NUMBER(SCHEMA_VERSION);

/* By schema. */
static const int table_counts[] = {[1] = 6, [2] = 7};
static const char count_tables[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN "
                                   "('apps', 'users', 'sessions', 'state', 'base_state', 'events', 'tokens')";

/* ---- what a file says it is ---- */

static moonpad_status not_ours(mp_sqlite_connection *connection, moonpad_error *error) {
  return mp_fail(error, MOONPAD_CORRUPT, "%s: not a moonpad database (it belongs to another program)",
                 connection->path);
}

static moonpad_status newer(mp_sqlite_connection *connection, int64_t version, moonpad_error *error) {
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: written by a newer moonpad: schema %lld, this build knows %d",
                 connection->path, (long long)version, SCHEMA_VERSION);
}

static uint32_t big_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* ---- before SQLite has looked ---- */

#define HEADER_BYTES      108 /* the header of the file, and that of the first page's tree */
#define SMALLEST_DATABASE 512
#define HEADER_ATTEMPTS   5

/* Is there a WAL or a rollback journal, so that the file alone says nothing yet? */
static bool has_journal(const char *path) {
  static const char *const suffixes[] = {"-wal", "-journal"};
  char name[4096];
  bool is_folder;
  int64_t size;
  for (size_t i = 0; i < 2; i++) {
    if (strlen(path) + strlen(suffixes[i]) >= sizeof name) return true;
    strcpy(name, path);
    strcat(name, suffixes[i]);
    if (mp_sqlite_look(name, &is_folder, &size) == 0 && size > 0) return true;
  }
  return false;
}

static bool is_truncated(const unsigned char *header, int64_t size) {
  int64_t page_size = header[16] << 8 | header[17];
  if (page_size == 1) page_size = 65536;
  /* Otherwise an old version of SQLite wrote last, and did not update the page count. */
  bool has_page_count = memcmp(header + 24, header + 92, 4) == 0;
  return has_page_count && (int64_t)big_endian(header + 28) * page_size > size;
}

/*
** Reads through SQLite's own descriptor: closing another one of this file would drop the POSIX
** locks of the whole process.
*/
static moonpad_status read_header(mp_sqlite_connection *connection, unsigned char *header, int64_t *size,
                                  moonpad_error *error) {
  sqlite3_file *file = NULL;
  sqlite3_int64 bytes = 0;
  bool is_folder;
  int64_t seen = 0;
  memset(header, 0, HEADER_BYTES);
  int code = sqlite3_file_control(connection->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code == SQLITE_OK) code = file->pMethods->xFileSize(file, &bytes);
  if (code == SQLITE_OK && bytes >= HEADER_BYTES) code = file->pMethods->xRead(file, header, HEADER_BYTES, 0);
  /* SQLite reports one byte as none, because of an old bug of some file systems. */
  if (bytes == 0 && mp_sqlite_look(connection->path, &is_folder, &seen) == 0) bytes = seen;
  *size = bytes;
  return code == SQLITE_OK ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
}

static moonpad_status check_header_bytes(mp_sqlite_connection *connection, const unsigned char *header, int64_t size,
                                         moonpad_error *error) {
  if (size < SMALLEST_DATABASE || memcmp(header, "SQLite format 3", 16) != 0) {
    return mp_fail(error, MOONPAD_CORRUPT, "%s: not a database", connection->path);
  }
  uint32_t application_id = big_endian(header + 68), version = big_endian(header + 60);
  if (application_id == APPLICATION_ID) {
    return version > SCHEMA_VERSION ? newer(connection, version, error) : MOONPAD_OK;
  }
  /* The first page's tree is no leaf, or a leaf with cells. */
  bool has_tables = header[100] != 13 || header[103] != 0 || header[104] != 0;
  return application_id != 0 || has_tables ? not_ours(connection, error) : MOONPAD_OK;
}

moonpad_status mp_sqlite_check_header(mp_sqlite_connection *connection, moonpad_error *error) {
  unsigned char header[HEADER_BYTES];
  int64_t size = 0;
  /*
  ** Somebody who creates the file right now may have written its first page and not yet the last.
  ** That is over in an instant, so it is tried again.
  */
  for (int attempt = 0; attempt < HEADER_ATTEMPTS; attempt++) {
    bool journaled = has_journal(connection->path);
    moonpad_status status = read_header(connection, header, &size, error);
    if (status != MOONPAD_OK || size == 0) return status;
    status = check_header_bytes(connection, header, size, error);
    if (status != MOONPAD_OK || journaled || !is_truncated(header, size)) return status;
    mp_sleep(4e-3);
  }
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged: the file is cut short at %lld bytes",
                 connection->path, (long long)size);
}

/* ---- with SQLite ---- */

typedef struct file_info {
  int64_t application_id;
  int64_t version;
  int64_t objects; /* tables, indexes and so on, of anybody */
  int64_t tables;  /* tables of moonpad */
} file_info;

static moonpad_status read_info(mp_sqlite_connection *connection, file_info *info, moonpad_error *error) {
  moonpad_status status = mp_sqlite_query_integer(connection, "PRAGMA application_id", &info->application_id, error);
  if (status == MOONPAD_OK) status = mp_sqlite_query_integer(connection, "PRAGMA user_version", &info->version, error);
  if (status == MOONPAD_OK) {
    status = mp_sqlite_query_integer(connection, "SELECT count(*) FROM sqlite_schema", &info->objects, error);
  }
  if (status == MOONPAD_OK) status = mp_sqlite_query_integer(connection, count_tables, &info->tables, error);
  return status;
}

static bool is_empty(const file_info *info) {
  return info->application_id == 0 && info->version == 0 && info->objects == 0;
}

static moonpad_status check_info(mp_sqlite_connection *connection, const file_info *info, moonpad_error *error) {
  if (info->application_id != APPLICATION_ID) return not_ours(connection, error);
  if (info->version > SCHEMA_VERSION) return newer(connection, info->version, error);
  if (info->version < 1 || info->tables < table_counts[info->version]) {
    return mp_sqlite_corrupt(connection, "tables of moonpad are missing", error);
  }
  return MOONPAD_OK;
}

/*
** Called inside a transaction. Sets *sql to create_tables or add_columns if the file needs one of
** them, and with `may_change` runs it.
*/
static moonpad_status check_or_change(mp_sqlite_connection *connection, bool may_change, const char **sql,
                                      moonpad_error *error) {
  file_info info = {0, 0, 0, 0};
  moonpad_status status = read_info(connection, &info, error);
  if (status != MOONPAD_OK) return status;
  if (is_empty(&info)) {
    *sql = create_tables;
  } else {
    status = check_info(connection, &info, error);
    if (status == MOONPAD_OK && info.version < SCHEMA_VERSION) *sql = add_columns;
  }
  if (status != MOONPAD_OK || !may_change || *sql == NULL) return status;
  status = mp_sqlite_execute(connection, *sql, error);
  return status == MOONPAD_OK ? mp_sqlite_execute(connection, complete_tables, error) : status;
}

/* The same in a transaction of its own. */
static moonpad_status inspect(mp_sqlite_connection *connection, const char *begin, bool may_change, const char **sql,
                              moonpad_error *error) {
  *sql = NULL;
  moonpad_status status = mp_sqlite_execute(connection, begin, error);
  if (status != MOONPAD_OK) return status;
  status = check_or_change(connection, may_change, sql, error);
  if (status == MOONPAD_OK) status = mp_sqlite_execute(connection, "COMMIT", error);
  if (status != MOONPAD_OK && !sqlite3_get_autocommit(connection->db)) {
    sqlite3_exec(connection->db, "ROLLBACK", NULL, NULL, NULL);
  }
  return status;
}

static moonpad_status create(mp_sqlite_connection *connection, moonpad_error *error) {
  const char *sql;
  /*
  ** Before WAL is turned on, so that the tables are created in the file itself: its header says
  ** from the first moment that it is moonpad's.
  */
  moonpad_status status = mp_sqlite_execute(connection, "PRAGMA encoding = 'UTF-8'", error);
  return status == MOONPAD_OK ? inspect(connection, "BEGIN EXCLUSIVE", true, &sql, error) : status;
}

/* Another process may have migrated the file by the time this one gets the lock. */
static moonpad_status migrate(mp_sqlite_connection *connection, moonpad_error *error) {
  const char *sql;
  moonpad_error cause = {MOONPAD_OK, ""};
  moonpad_status status = inspect(connection, "BEGIN EXCLUSIVE", true, &sql, &cause);
  if (status == MOONPAD_OK) return MOONPAD_OK;
  return mp_fail(error, status, "%s (while it was migrated to schema %d)", cause.message, SCHEMA_VERSION);
}

/* SQLite does not wait here while another process changes the journal mode, so this does. */
static moonpad_status use_wal(mp_sqlite_connection *connection, moonpad_error *error) {
  double until = mp_monotonic() + (double)connection->store->busy_timeout_ms * 1e-3;
  for (;;) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection->db, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    bool is_wal = mode != NULL && strcmp(mode, "wal") == 0;
    bool is_busy = (code & 0xFF) == SQLITE_BUSY || (code & 0xFF) == SQLITE_LOCKED;
    moonpad_status status = MOONPAD_OK;
    if (code != SQLITE_ROW && (!is_busy || mp_monotonic() >= until)) {
      status = mp_sqlite_fail(connection, code, error);
    }
    sqlite3_finalize(statement);
    if (is_wal || status != MOONPAD_OK) return status;
    if (code == SQLITE_ROW) {
      return mp_fail(error, MOONPAD_STORAGE,
                     "%s: this file system cannot hold a database in WAL mode (a network folder?)", connection->path);
    }
    mp_sleep(1e-3);
  }
}

moonpad_status mp_sqlite_prepare_file(mp_sqlite_connection *connection, moonpad_error *error) {
  const char *sql;
  /*
  ** A file that is not moonpad's keeps the WAL that it has. (An empty one, which SQLite creates to
  ** read the file, disappears when it is closed.)
  */
  if (has_journal(connection->path)) sqlite3_db_config(connection->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  moonpad_status status = inspect(connection, "BEGIN", false, &sql, error);
  if (status == MOONPAD_OK && sql == create_tables) status = create(connection, error);
  if (status == MOONPAD_OK && sql == add_columns) status = migrate(connection, error);
  if (status == MOONPAD_OK && !connection->store->in_memory) status = use_wal(connection, error);
  if (status == MOONPAD_OK) sqlite3_db_config(connection->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
  connection->failure = MOONPAD_OK;
  return status;
}

moonpad_status mp_sqlite_check_version(mp_sqlite_connection *connection, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_VERSION, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_step(statement);
  int64_t version = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  moonpad_status status = code == SQLITE_ROW ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_reset(statement);
  if (status != MOONPAD_OK || version == SCHEMA_VERSION) return status;
  if (version > SCHEMA_VERSION) return newer(connection, version, error);
  return mp_fail(error, MOONPAD_STORAGE,
                 "%s: what was put into it since it was opened is of schema %lld: close the service and open it again",
                 connection->path, (long long)version);
}
