/* What the store asks of the system about its files: on POSIX, and on Windows. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for statx, where there is one */
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* for what it has beyond POSIX */
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* for files beyond 2 GB, on 32 bits */
#endif
#include "store/sqlite/system.h"

#include <string.h>

/* ==== POSIX ==== */

#if !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
/*
** SQLite maps PATH-shm by pages of 64 KB, which Emscripten has, and unmaps half of each, upon which
** Emscripten unmaps nothing: each closing would cost that memory. With smaller pages the two are
** the same.
*/
#if defined(__EMSCRIPTEN__)
#include <sqlite3.h>

static int page_size(void) {
  return 4096;
}

void mp_sqlite_prepare_system(void) {
  sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
  if (vfs != NULL) vfs->xSetSystemCall(vfs, "getpagesize", (sqlite3_syscall_ptr)page_size);
}
#else
void mp_sqlite_prepare_system(void) {}
#endif

/*
** Not `stat`, which reads the times as well: Linux then gives the next write to the file a
** timestamp of finer granularity, which made a commit with durability "full" a third slower, as the
** WAL is written all the time.
*/
int mp_sqlite_identify(const char *path, mp_sqlite_identity *identity) {
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

int mp_sqlite_look(const char *path, bool *is_folder, int64_t *size) {
  struct stat found;
  if (stat(path, &found) != 0) return errno;
  *is_folder = S_ISDIR(found.st_mode);
  *size = found.st_size;
  return 0;
}

bool mp_sqlite_is_absent(int number) {
  return number == ENOENT || number == ENOTDIR;
}

int mp_sqlite_denied(const char *path, bool is_folder) {
#if defined(__EMSCRIPTEN__)
  const int as_who = 0; /* there is one user */
#else
  const int as_who = AT_EACCESS;
#endif
  return faccessat(AT_FDCWD, path, is_folder ? W_OK | X_OK : W_OK, as_who) == 0 ? 0 : errno;
}

char *mp_sqlite_last_slash(const char *path) {
  return strrchr(path, '/');
}

size_t mp_sqlite_folder_length(const char *path) {
  const char *slash = mp_sqlite_last_slash(path);
  if (slash == NULL) return 0;
  return slash == path ? 1 : (size_t)(slash - path);
}

static bool is_later(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* Getting the path sets the file's ctime. Emscripten has times in whole seconds. */
bool mp_sqlite_written_since(const char *written, const char *placed) {
#if defined(__APPLE__) || defined(__EMSCRIPTEN__)
  (void)is_later;
  (void)written;
  (void)placed;
  return true;
#else
  struct stat wal, data;
  if (stat(placed, &data) != 0 || stat(written, &wal) != 0) return false;
  return is_later(wal.st_mtim, data.st_ctim);
#endif
}

int mp_sqlite_create_file(const char *path, const char *like) {
  struct stat source;
  mode_t mode = 0600;
  if (like != NULL && stat(like, &source) == 0) mode = source.st_mode & 0666;
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0) return errno;
  close(file);
  return 0;
}

bool mp_sqlite_is_present(int number) {
  return number == EEXIST;
}

/* Some file systems cannot sync a folder, and report EINVAL. */
int mp_sqlite_sync_folder(const char *folder) {
  int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  int number = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return number == EINVAL ? 0 : number;
}

void mp_sqlite_remove_file(const char *path) {
  unlink(path);
}

/* ==== Windows: all paths are UTF-8, as SQLite has them ==== */

#else

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* behind windows.h */
#include <stdlib.h>

#include "base/platform.h"

void mp_sqlite_prepare_system(void) {}

static int last_error(void) {
  DWORD number = GetLastError();
  return number == 0 ? ERROR_GEN_FAILURE : (int)number;
}

static int read_attributes(const char *path, WIN32_FILE_ATTRIBUTE_DATA *found) {
  wchar_t *wide = mp_widen(path);
  if (wide == NULL) return last_error();
  int number = GetFileAttributesExW(wide, GetFileExInfoStandard, found) ? 0 : last_error();
  free(wide);
  return number;
}

static int64_t size_of(const WIN32_FILE_ATTRIBUTE_DATA *found) {
  return (int64_t)((uint64_t)found->nFileSizeHigh << 32 | found->nFileSizeLow);
}

/*
** SQLite opens its files so that nobody can move, replace or delete them: what is there is what was
** opened.
*/
int mp_sqlite_identify(const char *path, mp_sqlite_identity *identity) {
  WIN32_FILE_ATTRIBUTE_DATA found;
  int number = read_attributes(path, &found);
  if (number == 0) *identity = (mp_sqlite_identity){0, 0, (uint64_t)size_of(&found)};
  return number;
}

int mp_sqlite_look(const char *path, bool *is_folder, int64_t *size) {
  WIN32_FILE_ATTRIBUTE_DATA found;
  int number = read_attributes(path, &found);
  if (number != 0) return number;
  *is_folder = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  *size = size_of(&found);
  return 0;
}

bool mp_sqlite_is_absent(int number) {
  return number == ERROR_FILE_NOT_FOUND || number == ERROR_PATH_NOT_FOUND;
}

/* Rights are lists there: who may write is known once one has tried. */
int mp_sqlite_denied(const char *path, bool is_folder) {
  WIN32_FILE_ATTRIBUTE_DATA found;
  int number = read_attributes(path, &found);
  if (number != 0) return number;
  /* Of a folder this attribute means something else. */
  return !is_folder && (found.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0 ? ERROR_ACCESS_DENIED : 0;
}

char *mp_sqlite_last_slash(const char *path) {
  char *slash = strrchr(path, '/'), *other = strrchr(path, '\\');
  return slash == NULL || (other != NULL && other > slash) ? other : slash;
}

/* C:file is in the folder that the drive is at, which is not C:\. */
size_t mp_sqlite_folder_length(const char *path) {
  const char *slash = mp_sqlite_last_slash(path);
  size_t drive = path[0] != '\0' && path[1] == ':' ? 2 : 0;
  if (slash == NULL) return drive;
  size_t length = (size_t)(slash - path);
  return length == drive ? length + 1 : length;
}

/* A file that is open is not replaced there. Where it seems so, nothing is risked. */
bool mp_sqlite_written_since(const char *written, const char *placed) {
  (void)written;
  (void)placed;
  return true;
}

int mp_sqlite_create_file(const char *path, const char *like) {
  (void)like; /* the folder says who may do what with it */
  wchar_t *wide = mp_widen(path);
  if (wide == NULL) return last_error();
  HANDLE file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
  int number = file == INVALID_HANDLE_VALUE ? last_error() : 0;
  free(wide);
  if (number == 0) CloseHandle(file);
  return number;
}

bool mp_sqlite_is_present(int number) {
  return number == ERROR_FILE_EXISTS || number == ERROR_ALREADY_EXISTS;
}

/* Windows keeps folders in order by itself. */
int mp_sqlite_sync_folder(const char *folder) {
  (void)folder;
  return 0;
}

void mp_sqlite_remove_file(const char *path) {
  wchar_t *wide = mp_widen(path);
  if (wide != NULL) DeleteFileW(wide);
  free(wide);
}

#endif
