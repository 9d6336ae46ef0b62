/*
** A SQLite VFS that fails on demand, and that can simulate a loss of power. It wraps the default
** VFS, which does the work.
**
** Loss of power: what was written survives if the file has been synced since. Of later writes, each
** sector survives or not by chance. Directory entries are not simulated: a file that was created
** exists, one that was deleted does not.
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

/* Makes it the default VFS of this process. Once, before any file is open. */
void faulty_vfs_install(void);

/*
** The n-th operation of that kind fails from now on, and with `lasting` all after it too.
** FAULT_NONE: nothing does.
*/
void faulty_vfs_arm(fault_kind kind, long n, bool lasting);
/* Has an operation failed since it was armed? */
bool faulty_vfs_has_failed(void);

/*
** This process is killed (SIGKILL) before its n-th write, truncation, sync or deletion from now on.
** 0: never.
*/
void faulty_vfs_kill(long n);

/*
** Records from now on what has been synced. What a file holds when it is opened counts as synced.
** After `cut_every` writes and syncs on average (0: never), at random from `seed`, it writes to
** `folder` what a loss of power would leave of all open files, and calls `at_cut`, which may open
** the files there. Then all goes on as if nothing had happened.
*/
void faulty_vfs_record(const char *folder, long cut_every, uint64_t seed, void (*at_cut)(void *context), void *context);
/* How many writes and syncs there have been; recording ends. */
long faulty_vfs_stop(void);

#endif
