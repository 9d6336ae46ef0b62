/*
** Artifacts in SQLite: a row for each version of each file. Versions are counted under the write
** lock, so two writers at once get two versions. Each name has a column of its own: names are never
** joined, so no character in one can reach another user's files.
**
** A file was last used when its last version was saved, or when artifact_uses says so. Only
** services with a time to live look at that, and write it.
*/
#include "agent_stores/sqlite_stores.h"
#include "agent_stores/sqlite_tables.h"
#include "base/error.h"

static const char create_tables[] = "CREATE TABLE IF NOT EXISTS artifacts(\n"
                                    "  app_name TEXT NOT NULL,\n"
                                    "  user_id TEXT NOT NULL,\n"
                                    "  session_id TEXT NOT NULL, -- '': of the user, for all sessions\n"
                                    "  filename TEXT NOT NULL, -- with \"user:\" where it is the user's\n"
                                    "  version INTEGER NOT NULL, -- from 0\n"
                                    "  create_time REAL NOT NULL, -- seconds since 1970\n"
                                    "  text TEXT, -- of a text; otherwise:\n"
                                    "  mime_type TEXT,\n"
                                    "  display_name TEXT,\n"
                                    "  data BLOB,\n"
                                    "  UNIQUE(app_name, user_id, session_id, filename, version)\n"
                                    ") STRICT;"
                                    "CREATE TABLE IF NOT EXISTS artifact_uses(\n"
                                    "  app_name TEXT NOT NULL,\n"
                                    "  user_id TEXT NOT NULL,\n"
                                    "  session_id TEXT NOT NULL,\n"
                                    "  filename TEXT NOT NULL,\n"
                                    "  touched REAL NOT NULL, -- when it was last loaded, in seconds since 1970\n"
                                    "  PRIMARY KEY(app_name, user_id, session_id, filename)\n"
                                    ") STRICT, WITHOUT ROWID";

#define OF_FILE " WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4"

typedef struct sqlite_artifacts {
  mp_artifacts base; /* first */
  mp_env *env;
  mp_store *file;
} sqlite_artifacts;

static mp_store *file_of(mp_artifacts *artifacts) {
  return ((sqlite_artifacts *)artifacts)->file;
}

static int bind_name(sqlite3_stmt *statement, const mp_artifact_name *name, int count) {
  moonpad_string texts[] = {name->app_name, name->user_id, name->session_id, name->filename};
  return mp_sqlite_tables_bind(statement, texts, count);
}

/* Runs a statement about one file without result rows. */
static moonpad_status run_on_file(mp_sqlite_connection *connection, const char *sql, const mp_artifact_name *name,
                                  moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_finish(connection, statement, bind_name(statement, name, 4), error);
}

/* Deletes a file. *deleted: how many versions it had. */
static moonpad_status delete_versions(mp_sqlite_connection *connection, const mp_artifact_name *name, int *deleted,
                                      moonpad_error *error) {
  *deleted = 0;
  moonpad_status status = run_on_file(connection, "DELETE FROM artifact_uses" OF_FILE, name, error);
  if (status == MOONPAD_OK) status = run_on_file(connection, "DELETE FROM artifacts" OF_FILE, name, error);
  if (status == MOONPAD_OK) *deleted = sqlite3_changes(connection->db);
  return status;
}

/* ---- Expiry ---- */

/* Has a file been used since then? False: or there is no such file. */
static moonpad_status is_used_since(mp_sqlite_connection *connection, const mp_artifact_name *name, double since,
                                    bool *used, moonpad_error *error) {
  static const char sql[] =
      "SELECT coalesce((SELECT 1 FROM artifact_uses" OF_FILE " AND touched >= ?5),"
      " (SELECT 1 FROM artifacts" OF_FILE " AND create_time >= ?5 ORDER BY version DESC LIMIT 1), 0)";
  int64_t found = 0;
  *used = false;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, name, 4);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 5, since);
  moonpad_status status = mp_sqlite_tables_integer(connection, statement, code, 0, &found, error);
  *used = found != 0;
  return status;
}

/* Without a time to live all files are alive, those that do not exist as well. */
static moonpad_status is_alive(mp_sqlite_connection *connection, const mp_artifact_name *name,
                               const mp_agent_time *time, bool *alive, moonpad_error *error) {
  *alive = true;
  if (time->time_to_live == 0) return MOONPAD_OK;
  return is_used_since(connection, name, mp_agent_alive_since(time), alive, error);
}

/*
** In queries of many files: the file of a row of `artifacts` has been used since `time`, by what
** this version and artifact_uses say. A newer version may have been, where this is false.
*/
#define OF_SAME(other)                                                                                                 \
  " WHERE " other ".app_name = artifacts.app_name AND " other ".user_id = artifacts.user_id"                           \
  " AND " other ".session_id = artifacts.session_id AND " other ".filename = artifacts.filename"
#define USED_SINCE(time)                                                                                               \
  " (create_time >= " time                                                                                             \
  " OR EXISTS (SELECT 1 FROM artifact_uses AS used" OF_SAME("used") " AND used.touched >= " time "))"

/* ---- Saving ---- */

typedef struct saving {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  const mp_artifact *artifact;
  int64_t version;
} saving;

/* No bytes are stored as an empty BLOB, not as NULL. */
static int bind_bytes(sqlite3_stmt *statement, int index, moonpad_string bytes) {
  return sqlite3_bind_blob64(statement, index, bytes.length == 0 ? "" : bytes.data, bytes.length, SQLITE_STATIC);
}

static int bind_artifact(sqlite3_stmt *statement, const mp_artifact *artifact) {
  if (artifact->is_text) return mp_sqlite_bind_text(statement, 6, artifact->data);
  int code = mp_sqlite_bind_text(statement, 7, artifact->mime_type);
  if (code == SQLITE_OK && artifact->has_display_name) {
    code = mp_sqlite_bind_text(statement, 8, artifact->display_name);
  }
  return code == SQLITE_OK ? bind_bytes(statement, 9, artifact->data) : code;
}

static moonpad_status add_version(mp_sqlite_connection *connection, saving *wanted, moonpad_error *error) {
  static const char sql[] =
      "INSERT INTO artifacts(app_name, user_id, session_id, filename, version, create_time, text, mime_type,"
      " display_name, data)"
      " SELECT ?1, ?2, ?3, ?4, coalesce(max(version) + 1, 0), ?5, ?6, ?7, ?8, ?9 FROM artifacts" OF_FILE
      " RETURNING version";
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, 4);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 5, wanted->time->now);
  if (code == SQLITE_OK) code = bind_artifact(statement, wanted->artifact);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    wanted->version = sqlite3_column_int64(statement, 0);
    code = SQLITE_OK;
  }
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

static moonpad_status save_in(mp_tx *tx, void *context, moonpad_error *error) {
  saving *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool alive;
  int deleted;
  moonpad_status status = is_alive(connection, wanted->name, wanted->time, &alive, error);
  if (status == MOONPAD_OK && !alive) status = delete_versions(connection, wanted->name, &deleted, error);
  return status == MOONPAD_OK ? add_version(connection, wanted, error) : status;
}

static moonpad_status save(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           const mp_artifact *artifact, int64_t *version, moonpad_error *error) {
  saving wanted = {name, time, artifact, 0};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), save_in, &wanted, error);
  *version = wanted.version;
  return status;
}

/* ---- Loading ---- */

typedef struct loading {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  int64_t version;
  bool found;
  bool is_due; /* to be renewed */
  mp_artifact *artifact;
  mp_buffer *bytes;
} loading;

static moonpad_string column_bytes(sqlite3_stmt *statement, int column) {
  moonpad_string bytes = {sqlite3_column_blob(statement, column), 0};
  bytes.length = (size_t)sqlite3_column_bytes(statement, column);
  return bytes;
}

/* Copies a row into `bytes`; load sets the pointers once the buffer no longer moves. */
static moonpad_status copy_row(sqlite3_stmt *statement, loading *wanted, moonpad_error *error) {
  enum { TEXT, MIME_TYPE, DISPLAY_NAME, DATA };
  mp_artifact *artifact = wanted->artifact;
  artifact->is_text = sqlite3_column_type(statement, TEXT) != SQLITE_NULL;
  artifact->has_display_name = sqlite3_column_type(statement, DISPLAY_NAME) != SQLITE_NULL;
  /*
  ** Read as a blob: to end a long text with a NUL, SQLite may need memory, and would report that
  ** too late.
  */
  artifact->data = column_bytes(statement, artifact->is_text ? TEXT : DATA);
  artifact->mime_type = column_bytes(statement, MIME_TYPE);
  artifact->display_name = column_bytes(statement, DISPLAY_NAME);
  mp_buffer_add_string(wanted->bytes, artifact->data);
  mp_buffer_add_string(wanted->bytes, artifact->mime_type);
  mp_buffer_add_string(wanted->bytes, artifact->display_name);
  if (wanted->bytes->failed) return mp_no_memory(error);
  wanted->found = true;
  return MOONPAD_OK;
}

static moonpad_status load_version(mp_sqlite_connection *connection, loading *wanted, moonpad_error *error) {
  static const char latest[] =
      "SELECT text, mime_type, display_name, data FROM artifacts" OF_FILE " ORDER BY version DESC LIMIT 1";
  static const char exact[] = "SELECT text, mime_type, display_name, data FROM artifacts" OF_FILE " AND version = ?5";
  bool any = wanted->version == MP_ARTIFACT_LATEST;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, any ? latest : exact, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, 4);
  if (code == SQLITE_OK && !any) code = sqlite3_bind_int64(statement, 5, wanted->version);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  moonpad_status status = MOONPAD_OK;
  if (code == SQLITE_ROW) {
    status = copy_row(statement, wanted, error);
  } else if (code != SQLITE_DONE) {
    status = mp_sqlite_fail(connection, code, error);
  }
  sqlite3_finalize(statement);
  return status;
}

static moonpad_status load_in(mp_tx *tx, void *context, moonpad_error *error) {
  loading *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool alive, is_new;
  wanted->found = wanted->is_due = false;
  mp_buffer_clear(wanted->bytes);
  moonpad_status status = is_alive(connection, wanted->name, wanted->time, &alive, error);
  if (status != MOONPAD_OK || !alive) return status;
  status = load_version(connection, wanted, error);
  if (status != MOONPAD_OK || !wanted->found || wanted->time->time_to_live == 0) return status;
  status = is_used_since(connection, wanted->name, mp_agent_renewed_since(wanted->time), &is_new, error);
  wanted->is_due = !is_new;
  return status;
}

/* Whoever has deleted the file meanwhile is right. */
static moonpad_status renew_in(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "INSERT INTO artifact_uses SELECT ?1, ?2, ?3, ?4, ?5"
                            " WHERE EXISTS (SELECT 1 FROM artifacts" OF_FILE ")"
                            " ON CONFLICT DO UPDATE SET touched = max(touched, excluded.touched)";
  const loading *loaded = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, loaded->name, 4);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 5, loaded->time->now);
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

static void point_into(mp_artifact *artifact, const mp_buffer *bytes) {
  artifact->data.data = bytes->data;
  artifact->mime_type.data = bytes->data + artifact->data.length;
  artifact->display_name.data = artifact->mime_type.data + artifact->mime_type.length;
}

static moonpad_status load(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           int64_t version, bool *found, mp_artifact *artifact, mp_buffer *bytes,
                           moonpad_error *error) {
  loading wanted = {name, time, version, false, false, artifact, bytes};
  moonpad_status status = mp_sqlite_read(file_of(artifacts), load_in, &wanted, error);
  *found = status == MOONPAD_OK && wanted.found;
  /*
  ** If all three strings are empty, nothing was copied, and there is no memory to point into.
  */
  if (*found && bytes->length > 0) point_into(artifact, bytes);
  /* What was read has been read, whether that is stored or not. */
  if (*found && wanted.is_due) mp_sqlite_write_in_a_hurry(file_of(artifacts), renew_in, &wanted, NULL);
  return status;
}

/* ---- Listing ---- */

typedef struct artifacts_listing {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  mp_buffer *result;
} artifacts_listing;

typedef void (*take_row)(sqlite3_stmt *statement, mp_buffer *result);

/* Takes each row of a statement; `code` is the result of binding it. */
static moonpad_status collect(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code, take_row take,
                              mp_buffer *result, moonpad_error *error) {
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  for (; code == SQLITE_ROW; code = sqlite3_step(statement)) take(statement, result);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status == MOONPAD_OK && result->failed ? mp_no_memory(error) : status;
}

static void take_filename(sqlite3_stmt *statement, mp_buffer *result) {
  mp_buffer_add_string(result, mp_sqlite_column_text(statement, 0));
  mp_buffer_add_char(result, '\0');
}

#define OF_LIST     " WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '')"
#define BY_FILENAME " ORDER BY filename"

static moonpad_status list_filenames(mp_tx *tx, void *context, moonpad_error *error) {
  static const char all[] = "SELECT DISTINCT filename FROM artifacts" OF_LIST BY_FILENAME;
  static const char alive[] = "SELECT DISTINCT filename FROM artifacts" OF_LIST " AND" USED_SINCE("?4") BY_FILENAME;
  const artifacts_listing *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool expires = wanted->time->time_to_live > 0;
  mp_buffer_clear(wanted->result);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, expires ? alive : all, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, 3);
  if (code == SQLITE_OK && expires) code = sqlite3_bind_double(statement, 4, mp_agent_alive_since(wanted->time));
  return collect(connection, statement, code, take_filename, wanted->result, error);
}

static moonpad_status list(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           mp_buffer *filenames, moonpad_error *error) {
  artifacts_listing wanted = {name, time, filenames};
  return mp_sqlite_read(file_of(artifacts), list_filenames, &wanted, error);
}

static void take_version(sqlite3_stmt *statement, mp_buffer *result) {
  int64_t version = sqlite3_column_int64(statement, 0);
  mp_buffer_add(result, (const char *)&version, sizeof version);
}

static moonpad_status list_versions(mp_tx *tx, void *context, moonpad_error *error) {
  const artifacts_listing *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool alive;
  mp_buffer_clear(wanted->result);
  moonpad_status status = is_alive(connection, wanted->name, wanted->time, &alive, error);
  if (status != MOONPAD_OK || !alive) return status;
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "SELECT version FROM artifacts" OF_FILE " ORDER BY version", error);
  if (statement == NULL) return connection->failure;
  return collect(connection, statement, bind_name(statement, wanted->name, 4), take_version, wanted->result, error);
}

static moonpad_status versions(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                               mp_buffer *found, moonpad_error *error) {
  artifacts_listing wanted = {name, time, found};
  return mp_sqlite_read(file_of(artifacts), list_versions, &wanted, error);
}

typedef struct files_listing {
  const mp_artifact_name *after;
  int64_t limit;
  mp_buffer *files;
} files_listing;

static void take_file(sqlite3_stmt *statement, mp_buffer *files) {
  int64_t versions = sqlite3_column_int64(statement, 4);
  for (int i = 0; i < 4; i++) {
    mp_buffer_add_string(files, mp_sqlite_column_text(statement, i));
    mp_buffer_add_char(files, '\0');
  }
  mp_buffer_add(files, (const char *)&versions, sizeof versions);
}

static moonpad_status list_files(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT app_name, user_id, session_id, filename, max(version) + 1 FROM artifacts"
                            " WHERE (app_name, user_id, session_id, filename) > (?1, ?2, ?3, ?4)"
                            " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT ?5";
  const files_listing *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_buffer_clear(wanted->files);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->after, 4);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 5, wanted->limit);
  return collect(connection, statement, code, take_file, wanted->files, error);
}

static moonpad_status files(mp_artifacts *artifacts, const mp_artifact_name *after, int64_t limit, mp_buffer *found,
                            moonpad_error *error) {
  files_listing wanted = {after, limit, found};
  return mp_sqlite_read(file_of(artifacts), list_files, &wanted, error);
}

/* ---- Deleting ---- */

typedef struct deleting {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  bool existed;
} deleting;

static moonpad_status delete_in(mp_tx *tx, void *context, moonpad_error *error) {
  deleting *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool alive;
  int deleted;
  moonpad_status status = is_alive(connection, wanted->name, wanted->time, &alive, error);
  if (status == MOONPAD_OK) status = delete_versions(connection, wanted->name, &deleted, error);
  wanted->existed = status == MOONPAD_OK && alive && deleted > 0;
  return status;
}

static moonpad_status delete_file(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  bool *existed, moonpad_error *error) {
  deleting wanted = {name, time, false};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), delete_in, &wanted, error);
  *existed = status == MOONPAD_OK && wanted.existed;
  return status;
}

typedef struct artifacts_deletion {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  int64_t files;
} artifacts_deletion;

#define OF_USER " WHERE app_name = ?1 AND user_id = ?2"

static moonpad_status count_files(mp_sqlite_connection *connection, artifacts_deletion *wanted, moonpad_error *error) {
  static const char sql[] =
      "SELECT count(*) FROM (SELECT DISTINCT session_id, filename FROM artifacts" OF_USER " AND" USED_SINCE("?3") ")";
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, 2);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 3, mp_agent_alive_since(wanted->time));
  return mp_sqlite_tables_integer(connection, statement, code, 0, &wanted->files, error);
}

static moonpad_status delete_files(mp_tx *tx, void *context, moonpad_error *error) {
  static const char *const deletions[] = {"DELETE FROM artifacts" OF_USER, "DELETE FROM artifact_uses" OF_USER};
  artifacts_deletion *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_status status = count_files(connection, wanted, error);
  for (size_t i = 0; status == MOONPAD_OK && i < sizeof deletions / sizeof *deletions; i++) {
    sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, deletions[i], error);
    if (statement == NULL) return connection->failure;
    status = mp_sqlite_tables_finish(connection, statement, bind_name(statement, wanted->name, 2), error);
  }
  return status;
}

static moonpad_status delete_user(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  int64_t *files, moonpad_error *error) {
  artifacts_deletion wanted = {name, time, 0};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), delete_files, &wanted, error);
  *files = status == MOONPAD_OK ? wanted.files : 0;
  return status;
}

/* ---- Sweeping ---- */

#define ROWS_AT_ONCE "256"

typedef struct artifacts_sweep {
  const mp_agent_time *time;
  int64_t after;   /* rowid: up to there all has been looked at */
  int64_t last;    /* of the rows that are looked at; 0: there are none */
  mp_buffer names; /* of files that have expired, four texts each, each followed by a NUL */
  int64_t files;   /* that were deleted */
} artifacts_sweep;

/* Of the next rows, finds those of files that have expired. */
static moonpad_status find_expired(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT rowid, app_name, user_id, session_id, filename," USED_SINCE(
      "?2") " OR EXISTS (SELECT 1 FROM artifacts AS newer" OF_SAME("newer") " AND newer.create_time >= ?2)"
                                                                            " FROM artifacts WHERE rowid > ?1 ORDER BY "
                                                                            "rowid LIMIT " ROWS_AT_ONCE;
  artifacts_sweep *sweep = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_buffer_clear(&sweep->names);
  sweep->last = 0;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, sweep->after);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 2, mp_agent_alive_since(sweep->time));
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  for (; code == SQLITE_ROW; code = sqlite3_step(statement)) {
    sweep->last = sqlite3_column_int64(statement, 0);
    for (int i = 1; i <= 4 && sqlite3_column_int(statement, 5) == 0; i++) {
      mp_buffer_add_string(&sweep->names, mp_sqlite_column_text(statement, i));
      mp_buffer_add_char(&sweep->names, '\0');
    }
  }
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status == MOONPAD_OK && sweep->names.failed ? mp_no_memory(error) : status;
}

static moonpad_string next_name(const mp_buffer *names, size_t *at) {
  moonpad_string name = moonpad_text(names->data + *at);
  *at += name.length + 1;
  return name;
}

/* Looks again: another call may have used what was found. */
static moonpad_status delete_expired(mp_tx *tx, void *context, moonpad_error *error) {
  artifacts_sweep *sweep = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sweep->files = 0;
  for (size_t at = 0; at < sweep->names.length;) {
    mp_artifact_name name;
    bool alive;
    int deleted = 0;
    name.app_name = next_name(&sweep->names, &at);
    name.user_id = next_name(&sweep->names, &at);
    name.session_id = next_name(&sweep->names, &at);
    name.filename = next_name(&sweep->names, &at);
    moonpad_status status = is_alive(connection, &name, sweep->time, &alive, error);
    if (status == MOONPAD_OK && !alive) status = delete_versions(connection, &name, &deleted, error);
    if (status != MOONPAD_OK) return status;
    if (deleted > 0) sweep->files++;
  }
  return MOONPAD_OK;
}

static moonpad_status sweep_files(mp_artifacts *artifacts, const mp_agent_time *time, int64_t *files,
                                  moonpad_error *error) {
  mp_store *file = file_of(artifacts);
  artifacts_sweep sweep = {.time = time};
  moonpad_status status = MOONPAD_OK;
  *files = 0;
  if (time->time_to_live == 0) return mp_sqlite_tables_check_open(file, error);
  mp_buffer_init(&sweep.names, ((sqlite_artifacts *)artifacts)->env);
  do {
    status = mp_sqlite_read(file, find_expired, &sweep, error);
    if (status == MOONPAD_OK && sweep.names.length > 0) {
      status = mp_sqlite_write(file, delete_expired, &sweep, error);
      if (status == MOONPAD_OK) *files += sweep.files;
    }
    sweep.after = sweep.last;
  } while (status == MOONPAD_OK && sweep.last > 0);
  mp_buffer_free(&sweep.names);
  return status;
}

/* ---- Opening and closing ---- */

static void close_store(mp_artifacts *artifacts) {
  mp_sqlite_close(file_of(artifacts));
}

static void free_store(mp_artifacts *artifacts) {
  sqlite_artifacts *store = (sqlite_artifacts *)artifacts;
  mp_env *env = store->env;
  mp_sqlite_tables_free(store->file);
  mp_release(env, store);
  mp_env_release(env);
}

moonpad_status mp_sqlite_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_artifacts **artifacts, moonpad_error *error) {
  static const mp_sqlite_tables tables = {create_tables, "artifact_uses"};
  static const mp_artifacts_ops ops = {
      .size = sizeof ops,
      .save = save,
      .load = load,
      .list = list,
      .versions = versions,
      .delete_file = delete_file,
      .delete_user = delete_user,
      .sweep = sweep_files,
      .files = files,
      .close = close_store,
      .free = free_store,
  };
  sqlite_artifacts *store = mp_allocate_zeroed(env, sizeof *store);
  *artifacts = NULL;
  if (store == NULL) return mp_no_memory(error);
  store->base.ops = &ops;
  store->env = mp_env_retain(env);
  moonpad_status status = mp_sqlite_tables_open(env, rest, options, &tables, &store->file, error);
  if (status == MOONPAD_OK) {
    store->base.in_memory = store->file->in_memory;
    *artifacts = &store->base;
  } else {
    free_store(&store->base);
  }
  return status;
}
