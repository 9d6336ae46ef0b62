/* Where SQLite's full-text search is reached from C. */
#include "agent_stores/fts5.h"

#include <stddef.h>

int mp_fts5_find(sqlite3 *db, fts5_api **api) {
  sqlite3_stmt *statement = NULL;
  *api = NULL;
  int code = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_bind_pointer(statement, 1, api, "fts5_api_ptr", NULL);
  if (code == SQLITE_OK) code = sqlite3_step(statement) == SQLITE_ROW ? SQLITE_OK : sqlite3_errcode(db);
  sqlite3_finalize(statement);
  return code == SQLITE_OK && *api == NULL ? SQLITE_ERROR : code;
}
