/*
** What the SQLite stores of artifacts and of memories share. Each is opened like a store of
** sessions, by the same code (store/sqlite/sqlite.h), and has tables of its own, which may be in
** the same file. A file that is not moonpad's is refused.
**
** sqlite_tables.c      opening, and preparing statements
** sqlite_artifacts.c   artifacts.h
** sqlite_memories.c    memories.h: writing
** sqlite_search.c      memories.h: searching
** sqlite_forget.c      memories.h: deleting and sweeping
** sqlite_memories_list.c  memories.h: listing all of them, for tools
*/
#ifndef MP_AGENT_STORES_SQLITE_TABLES_H
#define MP_AGENT_STORES_SQLITE_TABLES_H

#include "store/sqlite/sqlite.h"

typedef struct mp_sqlite_tables {
  const char *sql;        /* creates them */
  const char *last_table; /* created last: if it exists, all of them do */
} mp_sqlite_tables;

/* Opens a file (`rest` as after "sqlite:") and makes the tables in it where they are missing. */
moonpad_status mp_sqlite_tables_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                     const mp_sqlite_tables *tables, mp_store **file, moonpad_error *error);
/* For a call that has nothing to ask. Errors: closed, and those of a read. */
moonpad_status mp_sqlite_tables_check_open(mp_store *file, moonpad_error *error);
/* NULL is accepted. */
void mp_sqlite_tables_free(mp_store *file);

/* NULL: it failed, and connection->failure is the status. */
sqlite3_stmt *mp_sqlite_tables_prepare(mp_sqlite_connection *connection, const char *sql, moonpad_error *error);
/* Binds `count` texts from ?1 on. */
int mp_sqlite_tables_bind(sqlite3_stmt *statement, const moonpad_string *texts, int count);
/* Runs a statement without result rows and finalizes it. `code` is the result of binding it. */
moonpad_status mp_sqlite_tables_finish(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                       moonpad_error *error);

/*
** The same for a statement whose result is an integer: that of its first row, or `otherwise` if
** there is no row.
*/
moonpad_status mp_sqlite_tables_integer(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                        int64_t otherwise, int64_t *integer, moonpad_error *error);

#endif
