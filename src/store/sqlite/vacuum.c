/*
** Leaving no byte of what was deleted. Deleted rows stay in free pages of the file and in the WAL
** till they are written over: VACUUM writes the file anew, and a checkpoint empties the WAL.
*/
#include "base/error.h"
#include "store/sqlite/sqlite.h"

/* Also waits for readers, which may need what is in the WAL. */
static moonpad_status empty_wal(mp_sqlite_connection *connection, moonpad_error *error) {
  int code = sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  if (code == SQLITE_OK) return MOONPAD_OK;
  if ((code & 0xFF) != SQLITE_BUSY) return mp_sqlite_fail(connection, code, error);
  return mp_fail(error, MOONPAD_BUSY,
                 "%s: another program reads it, so the file or its -wal may still hold what was deleted: run this"
                 " again when it is done",
                 connection->path);
}

static moonpad_status vacuum(mp_sqlite_connection *connection, void *context, moonpad_error *error) {
  (void)context;
  int code = sqlite3_exec(connection->db, "VACUUM", NULL, NULL, NULL);
  mp_sqlite_forget_rollback(connection);
  if (code != SQLITE_OK) return mp_sqlite_fail(connection, code, error);
  return connection->store->in_memory ? MOONPAD_OK : empty_wal(connection, error);
}

moonpad_status mp_sqlite_vacuum(mp_store *store, moonpad_error *error) {
  return mp_sqlite_run_exclusive((mp_sqlite *)store, vacuum, NULL, error);
}
