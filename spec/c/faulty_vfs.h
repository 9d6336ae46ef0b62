/*
** A file system for SQLite that fails when it is told to, and that knows what a power cut would
** leave. It lies over the default one, which does the work.
**
** Power: what is written counts as kept once the file has been synced. A cut leaves that, and of
** what came after it, sector by sector, whatever chance leaves. The directory entries of files are
** out of its reach: a file that has been made is there, one that has been deleted is gone.
*/
#ifndef FAULTY_VFS_H
#define FAULTY_VFS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind {
  FAULT_NONE = 0,
  FAULT_READ,        /* EIO while reading */
  FAULT_WRITE,       /* EIO while writing */
  FAULT_SHORT_WRITE, /* half of it is written, then EIO */
  FAULT_FULL,        /* no room left */
  FAULT_SYNC,        /* EIO from fsync */
  FAULT_OPEN,        /* a file cannot be opened */
  FAULT_LOCK,        /* SQLITE_BUSY, as if somebody else had the lock */
  FAULT_KINDS
} fault_kind;

/* Makes it the default of this process. Once, before any file is open. */
void faulty_vfs_install(void);

/*
** The n-th operation of that kind fails from now on, and with `lasting` all after it too.
** FAULT_NONE: nothing does.
*/
void faulty_vfs_arm(fault_kind kind, long n, bool lasting);
/* Has it failed since it was armed? */
bool faulty_vfs_has_failed(void);

/*
** This process is killed (SIGKILL) before its n-th write, truncation, sync or deletion from now on.
** 0: never.
*/
void faulty_vfs_kill(long n);

/*
** Notes from now on what has been synced. What a file holds already when it is opened counts as
** synced. Again and again, after `cut_every` writes and syncs in the middle (0: never) and by
** chance as `seed` has it, it puts down in `folder` what a power cut would leave of all files that
** are open, and calls `at_cut`, which may open what it finds there. Then all goes on as if nothing
** had been.
*/
void faulty_vfs_record(const char *folder, long cut_every, uint64_t seed, void (*at_cut)(void *context), void *context);
/* How many writes and syncs there have been; recording ends. */
long faulty_vfs_stop(void);

#endif
