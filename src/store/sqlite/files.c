/*
** Do the paths still name the files that were opened? SQLite does not check: it goes on with files
** that were deleted or moved, where nobody will find what is written, and a connection that is
** opened later finds other files under the same paths. All three files count: commits that are in
** the WAL only are lost with it, and without the shared memory file others do not see our locks.
*/
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

static const char *const suffixes[MP_SQLITE_FILES] = {"", "-wal", "-shm"};

static char *add_suffix(mp_env *env, const char *path, const char *suffix) {
  size_t length = strlen(path);
  char *name = mp_allocate(env, length + strlen(suffix) + 1);
  if (name == NULL) return NULL;
  memcpy(name, path, length);
  strcpy(name + length, suffix);
  return name;
}

char *mp_sqlite_file_name(mp_env *env, moonpad_string path) {
  bool special = path.data[0] == ':' || (path.length >= 5 && memcmp(path.data, "file:", 5) == 0);
  char *name = mp_allocate(env, path.length + 3);
  if (name == NULL) return NULL;
  memcpy(name, "./", 2);
  size_t before = special ? 2 : 0;
  memcpy(name + before, path.data, path.length);
  name[before + path.length] = '\0';
  return name;
}

moonpad_status mp_sqlite_remember_files(mp_sqlite *store, moonpad_error *error) {
  int has_moved = 0;
  for (size_t i = 0; i < MP_SQLITE_FILES; i++) {
    mp_sqlite_file *file = &store->files[i];
    file->path = add_suffix(store->env, store->path, suffixes[i]);
    if (file->path == NULL) return mp_no_memory(error);
    /* Fails when the VFS is not SQLite's own and keeps the file elsewhere. */
    file->is_known = mp_sqlite_identify(file->path, &file->opened) == 0;
  }
  sqlite3_file_control(store->writer->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (!has_moved) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_STORAGE, "%s: was deleted or replaced while it was opened", store->path);
}

void mp_sqlite_free_files(mp_sqlite *store) {
  for (size_t i = 0; i < MP_SQLITE_FILES; i++) mp_release(store->env, store->files[i].path);
}

static bool is_same_file(const mp_sqlite_identity *a, const mp_sqlite_identity *b) {
  return a->number == b->number && a->device == b->device;
}

static moonpad_status changed_error(const mp_sqlite *store, const mp_sqlite_file *file, int number,
                                    moonpad_error *error) {
  if (number == 0) {
    return mp_fail(error, MOONPAD_STORAGE,
                   "%s: another file has been put in its place since the service was opened: close the service",
                   file->path);
  }
  if (mp_sqlite_is_absent(number)) {
    bool is_data = file == store->files;
    return mp_fail(error, MOONPAD_STORAGE, "%s: has been deleted or moved since the service was opened: %s", file->path,
                   is_data ? "put it back, or close the service" : "close the service and open it again");
  }
  char reason[128];
  return mp_fail(error, MOONPAD_STORAGE, "%s: cannot be found any more: %s", file->path,
                 mp_system_message(number, reason, sizeof reason));
}

static moonpad_status check_paths(const mp_sqlite *store, size_t count, moonpad_error *error) {
  mp_sqlite_identity found;
  for (size_t i = 0; i < count; i++) {
    const mp_sqlite_file *file = &store->files[i];
    if (!file->is_known) continue;
    int number = mp_sqlite_identify(file->path, &found);
    if (number != 0 || !is_same_file(&file->opened, &found)) return changed_error(store, file, number, error);
  }
  return MOONPAD_OK;
}

moonpad_status mp_sqlite_check_file(const mp_sqlite *store, moonpad_error *error) {
  return check_paths(store, 1, error);
}

moonpad_status mp_sqlite_check_files(const mp_sqlite *store, moonpad_error *error) {
  return check_paths(store, MP_SQLITE_FILES, error);
}

/* Does PATH-wal or PATH-shm name a file that somebody else has created and written to? */
static bool has_foreign_wal(const mp_sqlite *store) {
  mp_sqlite_identity found;
  for (size_t i = 1; i < MP_SQLITE_FILES; i++) {
    const mp_sqlite_file *file = &store->files[i];
    if (!file->is_known || mp_sqlite_identify(file->path, &found) != 0 || is_same_file(&file->opened, &found)) continue;
    /* A failed opening leaves an empty one. */
    if (found.size > 0) return true;
  }
  return false;
}

/*
** Whoever opens the file that has our path now takes our WAL for that file's, and writes to it.
** Nobody has if the WAL was last written before that file got the path.
*/
static bool wal_may_be_shared(const mp_sqlite *store) {
  return mp_sqlite_written_since(store->files[1].path, store->files[0].path);
}

/*
** True: nobody else has the file open, by whatever path, nor can open it before we close it. SQLite
** tries the same lock when it closes.
*/
static bool lock_exclusively(sqlite3 *db) {
  sqlite3_file *file = NULL;
  int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code != SQLITE_OK || file == NULL || file->pMethods == NULL) return false;
  return file->pMethods->xLock(file, SQLITE_LOCK_EXCLUSIVE) == SQLITE_OK;
}

/*
** When the last connection to a file is closed, SQLite writes the WAL back and deletes it, but not
** when the file has been moved: then the WAL stays, and its commits go into whatever file gets the
** path next. So it is written back and emptied here. SQLite does not check either that the WAL is
** still the one we have written: a foreign one is left alone.
*/
void mp_sqlite_write_back_moved_file(mp_sqlite *store) {
  sqlite3 *db = store->writer->db;
  if (has_foreign_wal(store)) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  } else if (mp_sqlite_check_file(store, NULL) != MOONPAD_OK && !wal_may_be_shared(store) && lock_exclusively(db)) {
    /* The busy handler does not wait long for readers. */
    store->writer->hurries = true;
    sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  }
}
