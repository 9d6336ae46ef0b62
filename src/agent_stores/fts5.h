/* Where SQLite's full-text search is reached from C. */
#ifndef MP_AGENT_STORES_FTS5_H
#define MP_AGENT_STORES_FTS5_H

#include <sqlite3.h>

/* An SQLite error code: this SQLite has no FTS5, or there is no memory. */
int mp_fts5_find(sqlite3 *db, fts5_api **api);

#endif
