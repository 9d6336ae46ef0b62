/* See faulty_vfs.h. */
#include "faulty_vfs.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "repeatable_random.h"
#include "store/sqlite/system.h"

#define MOST_FILES   16
#define SECTOR_BYTES 512

/* A write or a truncation that has not been synced. */
typedef struct unsynced {
  char *bytes; /* NULL: a truncation to `offset` */
  sqlite3_int64 offset;
  size_t size;
  struct unsynced *next;
} unsynced;

/* What would survive of a file. */
typedef struct recorded {
  char path[256];
  char *image;
  size_t size, capacity;
  unsynced *first, *last;
  bool is_deleted;
} recorded;

static struct {
  sqlite3_vfs vfs;
  sqlite3_vfs *under;
  fault_kind kind;
  long countdown;
  bool lasting, has_failed;
  long until_kill;
  bool is_recording;
  char folder[256];
  long operations, cut_every, until_cut;
  void (*at_cut)(void *);
  void *context;
  recorded files[MOST_FILES];
  int file_count;
} faulty;

typedef struct faulty_file {
  sqlite3_file base;
  recorded *record; /* NULL: not one whose content matters (shared memory, temporary files) */
  sqlite3_file *under;
} faulty_file;

static sqlite3_file *under(sqlite3_file *file) {
  return ((faulty_file *)file)->under;
}

/* ---- Failing ---- */

static bool fails(fault_kind kind) {
  if (faulty.kind != kind || faulty.countdown < 0) return false;
  if (faulty.countdown > 0 && --faulty.countdown > 0) return false;
  faulty.has_failed = true;
  if (!faulty.lasting) faulty.countdown = -1;
  return true;
}

void faulty_vfs_arm(fault_kind kind, long n, bool lasting) {
  faulty.kind = kind;
  faulty.countdown = n;
  faulty.lasting = lasting;
  faulty.has_failed = false;
}

bool faulty_vfs_has_failed(void) {
  return faulty.has_failed;
}

void faulty_vfs_kill(long n) {
  faulty.until_kill = n;
}

static void count_to_kill(void) {
  if (faulty.until_kill > 0 && --faulty.until_kill == 0) kill(getpid(), SIGKILL);
}

/* ---- What a power cut leaves ---- */

static void reserve(recorded *record, size_t size) {
  if (size <= record->size) return;
  if (size > record->capacity) {
    record->capacity = size * 2;
    record->image = realloc(record->image, record->capacity);
    assert_non_null(record->image);
  }
  memset(record->image + record->size, 0, size - record->size);
  record->size = size;
}

/* Applies a write to the image of what survives. */
static void apply(recorded *record, const unsynced *write) {
  if (write->bytes == NULL) {
    if ((size_t)write->offset < record->size) record->size = (size_t)write->offset;
    return;
  }
  reserve(record, (size_t)write->offset + write->size);
  memcpy(record->image + write->offset, write->bytes, write->size);
}

static void forget_unsynced(recorded *record) {
  while (record->first != NULL) {
    unsynced *next = record->first->next;
    free(record->first->bytes);
    free(record->first);
    record->first = next;
  }
  record->last = NULL;
}

/*
** Applies each sector of each unsynced write by chance: the disk may have written any of them.
** `quarters`: the chance, from 0 (none) to 4 (all).
*/
static void apply_by_chance(recorded *record, uint64_t quarters) {
  for (const unsynced *write = record->first; write != NULL; write = write->next) {
    if (write->bytes == NULL) {
      if (next_random() % 4 < quarters) apply(record, write);
      continue;
    }
    for (size_t at = 0; at < write->size;) {
      size_t sector = SECTOR_BYTES - ((size_t)write->offset + at) % SECTOR_BYTES;
      size_t size = write->size - at < sector ? write->size - at : sector;
      unsynced part = {write->bytes + at, write->offset + (sqlite3_int64)at, size, NULL};
      if (next_random() % 4 < quarters) apply(record, &part);
      at += size;
    }
  }
}

/* Writes the file as it would be after the cut. */
static void write_image(const recorded *record) {
  char path[600];
  const char *name = mp_sqlite_last_slash(record->path);
  snprintf(path, sizeof path, "%s/%s", faulty.folder, name == NULL ? record->path : name + 1);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  if (record->size > 0) assert_int_equal(fwrite(record->image, 1, record->size, file), record->size);
  assert_int_equal(fclose(file), 0);
}

static void cut_power(void) {
  uint64_t quarters = next_random() % 5;
  for (int i = 0; i < faulty.file_count; i++) {
    recorded *record = &faulty.files[i];
    if (record->is_deleted) continue;
    recorded left = *record;
    left.capacity = record->size + 1;
    left.image = malloc(left.capacity);
    assert_non_null(left.image);
    if (record->size > 0) memcpy(left.image, record->image, record->size);
    apply_by_chance(&left, quarters);
    write_image(&left);
    free(left.image);
  }
  faulty.is_recording = false;
  faulty.at_cut(faulty.context);
  faulty.is_recording = true;
}

static void choose_cut(void) {
  faulty.until_cut = faulty.cut_every == 0 ? 0 : 1 + (long)(next_random() % (uint64_t)(2 * faulty.cut_every));
}

static void count_operation(void) {
  if (!faulty.is_recording) return;
  faulty.operations++;
  if (faulty.until_cut == 0 || --faulty.until_cut > 0) return;
  cut_power();
  choose_cut();
}

static void note(recorded *record, const void *bytes, size_t size, sqlite3_int64 offset) {
  if (record == NULL || !faulty.is_recording) return;
  unsynced *write = calloc(1, sizeof *write);
  assert_non_null(write);
  if (bytes != NULL) {
    write->bytes = malloc(size);
    assert_non_null(write->bytes);
    memcpy(write->bytes, bytes, size);
  }
  write->size = size;
  write->offset = offset;
  if (record->last == NULL) {
    record->first = write;
  } else {
    record->last->next = write;
  }
  record->last = write;
}

static void note_sync(recorded *record) {
  if (record == NULL || !faulty.is_recording) return;
  for (const unsynced *write = record->first; write != NULL; write = write->next) apply(record, write);
  forget_unsynced(record);
}

void faulty_vfs_record(const char *folder, long cut_every, uint64_t seed, void (*at_cut)(void *context),
                       void *context) {
  faulty.is_recording = true;
  snprintf(faulty.folder, sizeof faulty.folder, "%s", folder);
  faulty.operations = 0;
  faulty.cut_every = cut_every;
  faulty.at_cut = at_cut;
  faulty.context = context;
  random_state = seed * 2 + 1;
  for (int i = 0; i < 20; i++) next_random(); /* near seeds begin alike */
  choose_cut();
}

long faulty_vfs_stop(void) {
  for (int i = 0; i < faulty.file_count; i++) {
    forget_unsynced(&faulty.files[i]);
    free(faulty.files[i].image);
  }
  memset(faulty.files, 0, sizeof faulty.files);
  faulty.file_count = 0;
  faulty.is_recording = false;
  return faulty.operations;
}

static void load(recorded *record) {
  char bytes[4096];
  FILE *file = fopen(record->path, "rb");
  if (file == NULL) return;
  for (size_t size; (size = fread(bytes, 1, sizeof bytes, file)) > 0;) {
    unsynced found = {bytes, (sqlite3_int64)record->size, size, NULL};
    apply(record, &found);
  }
  fclose(file);
}

static recorded *record_of(const char *path) {
  if (!faulty.is_recording || path == NULL) return NULL;
  for (int i = 0; i < faulty.file_count; i++) {
    if (strcmp(faulty.files[i].path, path) != 0) continue;
    faulty.files[i].is_deleted = false;
    return &faulty.files[i];
  }
  assert_true(faulty.file_count < MOST_FILES);
  recorded *made = &faulty.files[faulty.file_count++];
  snprintf(made->path, sizeof made->path, "%s", path);
  load(made);
  return made;
}

/* ---- Files ---- */

static int file_close(sqlite3_file *file) {
  return under(file)->pMethods->xClose(under(file));
}

static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset) {
  if (fails(FAULT_READ)) return SQLITE_IOERR_READ;
  return under(file)->pMethods->xRead(under(file), bytes, size, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset) {
  if (fails(FAULT_WRITE)) return SQLITE_IOERR_WRITE;
  if (fails(FAULT_FULL)) return SQLITE_FULL;
  if (fails(FAULT_SHORT_WRITE)) {
    under(file)->pMethods->xWrite(under(file), bytes, size / 2, offset);
    return SQLITE_IOERR_WRITE;
  }
  count_to_kill();
  count_operation();
  note(((faulty_file *)file)->record, bytes, (size_t)size, offset);
  return under(file)->pMethods->xWrite(under(file), bytes, size, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
  count_to_kill();
  note(((faulty_file *)file)->record, NULL, 0, size);
  return under(file)->pMethods->xTruncate(under(file), size);
}

/* What is real here is whether SQLite asks for it: this file need not survive a real power cut. */
static int file_sync(sqlite3_file *file, int flags) {
  (void)flags;
  if (fails(FAULT_SYNC)) return SQLITE_IOERR_FSYNC;
  count_to_kill();
  count_operation();
  note_sync(((faulty_file *)file)->record);
  return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
  return under(file)->pMethods->xFileSize(under(file), size);
}

static int file_lock(sqlite3_file *file, int lock) {
  if (fails(FAULT_LOCK)) return SQLITE_BUSY;
  return under(file)->pMethods->xLock(under(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock) {
  return under(file)->pMethods->xUnlock(under(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *result) {
  return under(file)->pMethods->xCheckReservedLock(under(file), result);
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
  return under(file)->pMethods->xFileControl(under(file), operation, argument);
}

static int file_sector_size(sqlite3_file *file) {
  return under(file)->pMethods->xSectorSize(under(file));
}

/*
** No promise beyond the plainest disk: above all none that a write is atomic, or safe to be
** appended to.
*/
static int file_characteristics(sqlite3_file *file) {
  (void)file;
  return 0;
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory) {
  return under(file)->pMethods->xShmMap(under(file), page, size, extend, memory);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
  /* The locks of writers only: a reader that is refused one of its own takes SQLite ten seconds. */
  bool wants_write = (flags & SQLITE_SHM_LOCK) != 0 && (flags & SQLITE_SHM_EXCLUSIVE) != 0;
  if (wants_write && fails(FAULT_LOCK)) return SQLITE_BUSY;
  return under(file)->pMethods->xShmLock(under(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file) {
  under(file)->pMethods->xShmBarrier(under(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove) {
  return under(file)->pMethods->xShmUnmap(under(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2, /* no xFetch: all reads come by file_read */
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static const int kept_files = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out_flags) {
  (void)vfs;
  faulty_file *opened = (faulty_file *)file;
  opened->base.pMethods = NULL;
  if (fails(FAULT_OPEN)) return SQLITE_CANTOPEN;
  opened->under = (sqlite3_file *)(opened + 1);
  int code = faulty.under->xOpen(faulty.under, path, opened->under, flags, out_flags);
  if (code != SQLITE_OK) return code;
  opened->base.pMethods = &methods;
  opened->record = (flags & kept_files) != 0 ? record_of(path) : NULL;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_folder) {
  (void)vfs;
  count_to_kill();
  for (int i = 0; i < faulty.file_count; i++) {
    recorded *record = &faulty.files[i];
    if (strcmp(record->path, path) != 0) continue;
    forget_unsynced(record);
    record->size = 0;
    record->is_deleted = true;
  }
  (void)sync_folder; /* as in file_sync */
  return faulty.under->xDelete(faulty.under, path, 0);
}

void faulty_vfs_install(void) {
  if (faulty.under != NULL) return;
  faulty.under = sqlite3_vfs_find(NULL);
  assert_non_null(faulty.under);
  faulty.vfs = *faulty.under; /* what does not touch open files goes straight to it */
  faulty.vfs.zName = "faulty";
  faulty.vfs.szOsFile = (int)sizeof(faulty_file) + faulty.under->szOsFile;
  faulty.vfs.xOpen = vfs_open;
  faulty.vfs.xDelete = vfs_delete;
  assert_int_equal(sqlite3_vfs_register(&faulty.vfs, 1), SQLITE_OK);
}
