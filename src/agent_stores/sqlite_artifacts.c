/*
** Artifacts in SQLite: a row for each version of each file. Versions are counted under the write
** lock, so two writers at once get two versions. Each name has a column of its own: names are never
** joined, so no character in one can reach another user's files.
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
                                    ") STRICT";

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

/* ---- Saving ---- */

typedef struct saving {
  const mp_artifact_name *name;
  const mp_artifact *artifact;
  double now;
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

static moonpad_status save_version(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] =
      "INSERT INTO artifacts(app_name, user_id, session_id, filename, version, create_time, text, mime_type,"
      " display_name, data)"
      " SELECT ?1, ?2, ?3, ?4, coalesce(max(version) + 1, 0), ?5, ?6, ?7, ?8, ?9 FROM artifacts" OF_FILE
      " RETURNING version";
  saving *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, 4);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 5, wanted->now);
  if (code == SQLITE_OK) code = bind_artifact(statement, wanted->artifact);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    wanted->version = sqlite3_column_int64(statement, 0);
    code = SQLITE_OK;
  }
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

static moonpad_status save(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_artifact *artifact,
                           double now, int64_t *version, moonpad_error *error) {
  saving wanted = {name, artifact, now, 0};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), save_version, &wanted, error);
  *version = wanted.version;
  return status;
}

/* ---- Loading ---- */

typedef struct loading {
  const mp_artifact_name *name;
  int64_t version;
  bool found;
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

static moonpad_status load_version(mp_tx *tx, void *context, moonpad_error *error) {
  static const char latest[] =
      "SELECT text, mime_type, display_name, data FROM artifacts" OF_FILE " ORDER BY version DESC LIMIT 1";
  static const char exact[] = "SELECT text, mime_type, display_name, data FROM artifacts" OF_FILE " AND version = ?5";
  loading *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool any = wanted->version == MP_ARTIFACT_LATEST;
  wanted->found = false;
  mp_buffer_clear(wanted->bytes);
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

static void point_into(mp_artifact *artifact, const mp_buffer *bytes) {
  artifact->data.data = bytes->data;
  artifact->mime_type.data = bytes->data + artifact->data.length;
  artifact->display_name.data = artifact->mime_type.data + artifact->mime_type.length;
}

static moonpad_status load(mp_artifacts *artifacts, const mp_artifact_name *name, int64_t version, bool *found,
                           mp_artifact *artifact, mp_buffer *bytes, moonpad_error *error) {
  loading wanted = {name, version, false, artifact, bytes};
  moonpad_status status = mp_sqlite_read(file_of(artifacts), load_version, &wanted, error);
  *found = status == MOONPAD_OK && wanted.found;
  /*
  ** If all three strings are empty, nothing was copied, and there is no memory to point into.
  */
  if (*found && bytes->length > 0) point_into(artifact, bytes);
  return status;
}

/* ---- Listing ---- */

typedef struct artifacts_listing {
  const mp_artifact_name *name;
  mp_buffer *result;
} artifacts_listing;

typedef void (*take_row)(sqlite3_stmt *statement, mp_buffer *result);

static moonpad_status collect(mp_sqlite_connection *connection, const char *sql, int names,
                              const artifacts_listing *wanted, take_row take, moonpad_error *error) {
  mp_buffer_clear(wanted->result);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_name(statement, wanted->name, names);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  for (; code == SQLITE_ROW; code = sqlite3_step(statement)) take(statement, wanted->result);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status == MOONPAD_OK && wanted->result->failed ? mp_no_memory(error) : status;
}

static void take_filename(sqlite3_stmt *statement, mp_buffer *result) {
  mp_buffer_add_string(result, mp_sqlite_column_text(statement, 0));
  mp_buffer_add_char(result, '\0');
}

static moonpad_status list_filenames(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT DISTINCT filename FROM artifacts"
                            " WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '') ORDER BY filename";
  return collect(mp_sqlite_of(tx), sql, 3, context, take_filename, error);
}

static moonpad_status list(mp_artifacts *artifacts, const mp_artifact_name *name, mp_buffer *filenames,
                           moonpad_error *error) {
  artifacts_listing wanted = {name, filenames};
  return mp_sqlite_read(file_of(artifacts), list_filenames, &wanted, error);
}

static void take_version(sqlite3_stmt *statement, mp_buffer *result) {
  int64_t version = sqlite3_column_int64(statement, 0);
  mp_buffer_add(result, (const char *)&version, sizeof version);
}

static moonpad_status list_versions(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT version FROM artifacts" OF_FILE " ORDER BY version";
  return collect(mp_sqlite_of(tx), sql, 4, context, take_version, error);
}

static moonpad_status versions(mp_artifacts *artifacts, const mp_artifact_name *name, mp_buffer *found,
                               moonpad_error *error) {
  artifacts_listing wanted = {name, found};
  return mp_sqlite_read(file_of(artifacts), list_versions, &wanted, error);
}

/* ---- Deleting ---- */

typedef struct deleting {
  const mp_artifact_name *name;
  bool existed;
} deleting;

static moonpad_status delete_versions(mp_tx *tx, void *context, moonpad_error *error) {
  deleting *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, "DELETE FROM artifacts" OF_FILE, error);
  if (statement == NULL) return connection->failure;
  moonpad_status status = mp_sqlite_tables_finish(connection, statement, bind_name(statement, wanted->name, 4), error);
  wanted->existed = status == MOONPAD_OK && sqlite3_changes(connection->db) > 0;
  return status;
}

static moonpad_status delete_file(mp_artifacts *artifacts, const mp_artifact_name *name, bool *existed,
                                  moonpad_error *error) {
  deleting wanted = {name, false};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), delete_versions, &wanted, error);
  *existed = status == MOONPAD_OK && wanted.existed;
  return status;
}

typedef struct artifacts_deletion {
  const mp_artifact_name *name;
  int64_t files;
} artifacts_deletion;

#define OF_USER " WHERE app_name = ?1 AND user_id = ?2"

static moonpad_status delete_files(mp_tx *tx, void *context, moonpad_error *error) {
  static const char count[] = "SELECT count(*) FROM (SELECT DISTINCT session_id, filename FROM artifacts" OF_USER ")";
  artifacts_deletion *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, count, error);
  if (statement == NULL) return connection->failure;
  moonpad_status status =
      mp_sqlite_tables_integer(connection, statement, bind_name(statement, wanted->name, 2), 0, &wanted->files, error);
  if (status != MOONPAD_OK || wanted->files == 0) return status;
  statement = mp_sqlite_tables_prepare(connection, "DELETE FROM artifacts" OF_USER, error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_finish(connection, statement, bind_name(statement, wanted->name, 2), error);
}

static moonpad_status delete_user(mp_artifacts *artifacts, const mp_artifact_name *name, int64_t *files,
                                  moonpad_error *error) {
  artifacts_deletion wanted = {name, 0};
  moonpad_status status = mp_sqlite_write(file_of(artifacts), delete_files, &wanted, error);
  *files = status == MOONPAD_OK ? wanted.files : 0;
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
  static const mp_sqlite_tables tables = {create_tables, "artifacts"};
  static const mp_artifacts_ops ops = {
      .size = sizeof ops,
      .save = save,
      .load = load,
      .list = list,
      .versions = versions,
      .delete_file = delete_file,
      .delete_user = delete_user,
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
