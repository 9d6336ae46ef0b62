/*
** When the WAL is written back to the file (a checkpoint). It costs two syncs, so with durability
** "normal", where an append has none, it is done less often than SQLite does it. With "full" a
** short WAL is faster: syncing a file that grows takes twice as long as one that is overwritten.
**
** The WAL starts over only after all of it has been written back. With several writing processes
** that never happens by itself: there are new frames whenever a checkpoint ends. SQLite's own
** automatic checkpoint would then run after every commit, and the WAL grow without end. So the rest
** of the WAL is written back while writers are blocked (RESTART); with "normal", where the WAL has
** to be synced first, most of it before that (PASSIVE). While a reader's snapshot still needs the
** WAL, which makes RESTART useless, no writer is blocked.
*/
#include "store/sqlite/sqlite.h"

/*
** A checkpoint runs after so many new frames, by durability. More for "normal" would hardly lower
** the mean, and the append whose commit runs it would take longer.
*/
#define FRAMES_FULL   1000 /* SQLite's default */
#define FRAMES_NORMAL 2000

static int run_checkpoint(sqlite3 *db, const char *schema, int mode, bool *complete) {
  int frames = 0, written = 0;
  int code = sqlite3_wal_checkpoint_v2(db, schema, mode, &frames, &written);
  *complete = written == frames;
  return code;
}

/*
** Called by SQLite after each commit. A checkpoint that fails, or that another process runs just
** now, is tried again some frames later: the commit has succeeded in any case.
*/
static int checkpoint_when_due(void *context, sqlite3 *db, const char *schema, int frames) {
  mp_sqlite_connection *connection = context;
  bool full = connection->store->durability == MOONPAD_DURABILITY_FULL, complete = true;
  /* With fewer frames it has started over. */
  if (frames < connection->checkpointed) connection->checkpointed = 0;
  if (frames - connection->checkpointed < (full ? FRAMES_FULL : FRAMES_NORMAL)) return SQLITE_OK;
  connection->checkpointed = frames;
  if (!full || connection->wal_is_read) {
    if (run_checkpoint(db, schema, SQLITE_CHECKPOINT_PASSIVE, &complete) != SQLITE_OK) return SQLITE_OK;
    connection->wal_is_read = !complete;
    if (!complete) return SQLITE_OK;
  }
  connection->hurries = true;
  int code = run_checkpoint(db, schema, SQLITE_CHECKPOINT_RESTART, &complete);
  connection->hurries = false;
  connection->wal_is_read = code == SQLITE_BUSY && !complete;
  return SQLITE_OK;
}

void mp_sqlite_limit_wal(mp_sqlite_connection *connection) {
  sqlite3_wal_hook(connection->db, checkpoint_when_due, connection);
}
