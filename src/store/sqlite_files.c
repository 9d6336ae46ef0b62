/*
** Are the files that are open still those under their names? SQLite does not look: it goes on with files that were deleted
** or moved, where nobody will find what is written, and a connection that is opened later finds other files under the same
** names. All three have to be there: who deletes the log takes commits away that are in it alone, and who deletes the
** shared memory lets others write past our locks.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for statx, where there is one */
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/sqlite.h"

static const char *const suffixes[MP_SQLITE_FILES] = {"", "-wal", "-shm"};

/*
** Which file has this name? 0, or errno. `stat` would ask for the times as well, and Linux then gives the next write to the
** file a finer one: with a log that is written all the time, that made a commit with durability "full" a third slower.
*/
static int identify(const char *path, mp_sqlite_identity *identity) {
#ifdef STATX_INO
  struct statx found;
  if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_SIZE, &found) != 0) return errno;
  uint64_t device = (uint64_t)found.stx_dev_major << 32 | found.stx_dev_minor;
  *identity = (mp_sqlite_identity){device, found.stx_ino, found.stx_size};
#else
  struct stat found;
  if (stat(path, &found) != 0) return errno;
  *identity = (mp_sqlite_identity){(uint64_t)found.st_dev, (uint64_t)found.st_ino, (uint64_t)found.st_size};
#endif
  return 0;
}

static char *name_of(mp_env *env, const char *path, const char *suffix) {
  size_t length = strlen(path);
  char *name = mp_allocate(env, length + strlen(suffix) + 1);
  if (name == NULL) return NULL;
  memcpy(name, path, length);
  strcpy(name + length, suffix);
  return name;
}

moonpad_status mp_sqlite_remember_files(mp_sqlite *store, moonpad_error *error) {
  int has_moved = 0;
  for (size_t i = 0; i < MP_SQLITE_FILES; i++) {
    mp_sqlite_file *file = &store->files[i];
    file->path = name_of(store->env, store->path, suffixes[i]);
    if (file->path == NULL) return mp_no_memory(error);
    file->is_known = identify(file->path, &file->opened) == 0; /* else it is of another VFS than SQLite's own */
  }
  sqlite3_file_control(store->writer->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (!has_moved) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_STORAGE, "%s: was deleted or replaced while it was opened", store->path);
}

void mp_sqlite_forget_files(mp_sqlite *store) {
  for (size_t i = 0; i < MP_SQLITE_FILES; i++) mp_release(store->env, store->files[i].path);
}

static bool is_same(const mp_sqlite_identity *a, const mp_sqlite_identity *b) {
  return a->number == b->number && a->device == b->device;
}

static moonpad_status tell(const mp_sqlite *store, const mp_sqlite_file *file, int number, moonpad_error *error) {
  if (number == 0) {
    return mp_fail(error, MOONPAD_STORAGE,
                   "%s: another file has been put in its place since the service was opened: close the service",
                   file->path);
  }
  if (number == ENOENT || number == ENOTDIR) {
    bool is_data = file == store->files;
    return mp_fail(error, MOONPAD_STORAGE, "%s: has been deleted or moved since the service was opened: %s", file->path,
                   is_data ? "put it back, or close the service" : "close the service and open it again");
  }
  char reason[128];
  return mp_fail(error, MOONPAD_STORAGE, "%s: cannot be found any more: %s", file->path,
                 mp_sqlite_system_message(number, reason, sizeof reason));
}

static moonpad_status check(const mp_sqlite *store, size_t count, moonpad_error *error) {
  mp_sqlite_identity found;
  for (size_t i = 0; i < count; i++) {
    const mp_sqlite_file *file = &store->files[i];
    if (!file->is_known) continue;
    int number = identify(file->path, &found);
    if (number != 0 || !is_same(&file->opened, &found)) return tell(store, file, number, error);
  }
  return MOONPAD_OK;
}

moonpad_status mp_sqlite_check_file(const mp_sqlite *store, moonpad_error *error) {
  return check(store, 1, error);
}

moonpad_status mp_sqlite_check_files(const mp_sqlite *store, moonpad_error *error) {
  return check(store, MP_SQLITE_FILES, error);
}

bool mp_sqlite_has_strangers(const mp_sqlite *store) {
  mp_sqlite_identity found;
  for (size_t i = 1; i < MP_SQLITE_FILES; i++) {
    const mp_sqlite_file *file = &store->files[i];
    if (!file->is_known || identify(file->path, &found) != 0 || is_same(&file->opened, &found)) continue;
    if (found.size > 0) return true; /* an empty one is left by whoever has tried in vain */
  }
  return false;
}
