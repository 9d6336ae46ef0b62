/*
** What the SQLite stores of artifacts and of memories share. Each is opened as a session store is,
** on the same code (store/sqlite.h), and has tables of its own beside those of the sessions; a file
** that is not moonpad's is refused.
**
** sqlite_tables.c      opening, and preparing statements
** sqlite_artifacts.c   artifacts.h
** sqlite_memories.c    memories.h
*/
#ifndef MP_AGENT_STORES_SQLITE_TABLES_H
#define MP_AGENT_STORES_SQLITE_TABLES_H

#include "store/sqlite/sqlite.h"

typedef struct mp_sqlite_tables {
  const char *sql;        /* makes them */
  const char *last_table; /* with it, all are there */
} mp_sqlite_tables;

/* Opens a file (`rest` as after "sqlite:") and makes the tables in it where they are missing. */
moonpad_status mp_sqlite_tables_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                     const mp_sqlite_tables *tables, mp_store **file, moonpad_error *error);
/* NULL is accepted. */
void mp_sqlite_tables_free(mp_store *file);

/* NULL on failure, which the connection then knows of. */
sqlite3_stmt *mp_sqlite_tables_prepare(mp_sqlite_connection *connection, const char *sql, moonpad_error *error);
/* Binds `count` texts from ?1 on. */
int mp_sqlite_tables_bind(sqlite3_stmt *statement, const moonpad_string *texts, int count);
/* Runs a bound statement that gives no rows, and finalizes it; `code` is what binding gave. */
moonpad_status mp_sqlite_tables_finish(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                       moonpad_error *error);

/*
** The same of one that gives an integer: that of its first row, or `otherwise` where there is none.
*/
moonpad_status mp_sqlite_tables_integer(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                        int64_t otherwise, int64_t *integer, moonpad_error *error);

#endif
