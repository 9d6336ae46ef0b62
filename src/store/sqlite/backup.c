/*
** A consistent copy in a new file. The source is read in one snapshot, on a connection of its own,
** so that writers go on meanwhile and the copy never starts over. A database in memory has one
** connection only, and is copied in turn with the transactions.
*/
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "store/sqlite/sqlite.h"

#define PAGES_PER_STEP 256

static moonpad_status check_path(moonpad_string path, moonpad_error *error) {
  if (path.length == 0) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "backup: the path is empty");
  if (memchr(path.data, '\0', path.length) != NULL || mp_utf8_valid_prefix(path.data, path.length) != path.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "backup: %s: a path is UTF-8 without NUL", mp_quote(path).text);
  }
  return MOONPAD_OK;
}

static moonpad_status path_error(const char *path, const char *what, int number, moonpad_error *error) {
  char reason[128];
  return mp_fail(error, MOONPAD_STORAGE, "%s: %s: %s", path, what, mp_system_message(number, reason, sizeof reason));
}

/* Creates the empty file with the permissions of the source. Fails if it exists. */
static moonpad_status create_target(mp_sqlite *store, const char *path, moonpad_error *error) {
  int number = mp_sqlite_create_file(path, store->in_memory ? NULL : store->path);
  if (number == 0) return MOONPAD_OK;
  if (!mp_sqlite_is_present(number)) return path_error(path, "the backup cannot be created", number, error);
  return mp_fail(error, MOONPAD_ALREADY_EXISTS, "%s: already exists; give the backup a path that does not", path);
}

/* A new file survives a loss of power only after its folder has been synced. */
static moonpad_status sync_folder(char *path, moonpad_error *error) {
  char *slash = mp_sqlite_last_slash(path);
  char saved = '\0';
  if (slash != NULL) {
    saved = slash[1];
    slash[1] = '\0';
  }
  int number = mp_sqlite_sync_folder(slash == NULL ? "." : path);
  if (slash != NULL) slash[1] = saved;
  return number == 0 ? MOONPAD_OK : path_error(path, "the backup's folder cannot be synced", number, error);
}

static moonpad_status copy_error(mp_sqlite_connection *source, mp_sqlite_connection *target, int code,
                                 moonpad_error *error) {
  bool is_source = (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB;
  return mp_sqlite_fail(is_source ? source : target, code, error);
}

static moonpad_status copy_pages(mp_sqlite_connection *source, mp_sqlite_connection *target, moonpad_error *error) {
  sqlite3_backup *backup = sqlite3_backup_init(target->db, "main", source->db, "main");
  if (backup == NULL) return mp_sqlite_fail(target, sqlite3_extended_errcode(target->db), error);
  int code;
  do {
    code = sqlite3_backup_step(backup, PAGES_PER_STEP);
  } while (code == SQLITE_OK);
  /* At SQLITE_DONE, SQLite has committed and synced the target. */
  int finished = sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE) code = finished;
  return code == SQLITE_OK ? MOONPAD_OK : copy_error(source, target, code, error);
}

static moonpad_status copy_to(mp_sqlite_connection *source, void *context, moonpad_error *error) {
  const char *path = context;
  mp_sqlite_connection *target;
  moonpad_status status = mp_sqlite_connect(source->store, path, SQLITE_OPEN_READWRITE, &target, error);
  if (status == MOONPAD_OK) status = copy_pages(source, target, error);
  mp_sqlite_disconnect(target);
  source->failure = MOONPAD_OK;
  return status;
}

static moonpad_status copy_snapshot(mp_sqlite *store, char *path, moonpad_error *error) {
  mp_sqlite_connection *source;
  moonpad_status status = mp_sqlite_connect(store, store->path, SQLITE_OPEN_READWRITE, &source, error);
  if (status != MOONPAD_OK) return status;
  status = mp_sqlite_check_files(store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_execute(source, "BEGIN", error);
  /* The first read takes the snapshot. */
  if (status == MOONPAD_OK) status = mp_sqlite_check_version(source, error);
  if (status == MOONPAD_OK) status = copy_to(source, path, error);
  mp_sqlite_disconnect(source);
  return status;
}

static void remove_partial(mp_env *env, const char *path) {
  size_t length = strlen(path);
  mp_sqlite_remove_file(path);
  char *journal = mp_allocate(env, length + sizeof "-journal");
  if (journal == NULL) return;
  memcpy(journal, path, length);
  memcpy(journal + length, "-journal", sizeof "-journal");
  mp_sqlite_remove_file(journal);
  mp_release(env, journal);
}

static moonpad_status back_up(mp_sqlite *store, char *path, moonpad_error *error) {
  moonpad_status status = create_target(store, path, error);
  if (status != MOONPAD_OK) return status;
  status = store->in_memory ? mp_sqlite_run_exclusive(store, copy_to, path, error) : copy_snapshot(store, path, error);
  if (status == MOONPAD_OK) status = sync_folder(path, error);
  if (status != MOONPAD_OK) remove_partial(store->env, path);
  return status;
}

moonpad_status mp_sqlite_backup(mp_store *base, moonpad_string path, moonpad_error *error) {
  mp_sqlite *store = (mp_sqlite *)base;
  moonpad_status status = check_path(path, error);
  if (status != MOONPAD_OK) return status;
  char *name = mp_sqlite_file_name(store->env, path);
  if (name == NULL) return mp_no_memory(error);
  status = mp_sqlite_begin_call(store, error);
  if (status == MOONPAD_OK) {
    status = back_up(store, name, error);
    mp_sqlite_end_call(store);
  }
  mp_release(store->env, name);
  return status;
}
