/*
** src/agent_stores/mysql: artifacts and memories on MariaDB and MySQL, on the store of the sessions
** (src/store/mysql): its connections, its transactions, its database, in which they have tables of
** their own. A module of its own, with libmariadb.
** Does not belong here: which words a text has and which memories are the best, which are the same
** on every store (words.h, lookup.h, ranking.h).
**
** artifact_tables.c  tables and procedures of artifacts
** artifacts.c        artifacts.h
** memory_tables.c    tables and procedures of memories
** memories.c         memories.h: opening, deleting, sweeping
** remember.c         memories.h: writing
** search.c           memories.h: searching
** memory_lists.c     memories.h: listing for tools
** calls.c            one call in one transaction
** opener.c           how these stores are handed in (agent_stores/opener.h)
** module.c           the Lua module moonpad.mysql_agent_stores
**
** What changes several rows is a procedure, or one text of several statements. A result that it has
** is read before the commit: if the answer to that is lost, it is known all the same.
*/
#ifndef MP_AGENT_STORES_MYSQL_STORES_H
#define MP_AGENT_STORES_MYSQL_STORES_H

#include "agent_stores/opener.h"
#include "agent_stores/words.h"
#include "store/mysql/mysql.h"

extern const mp_mysql_tables mp_mysql_artifact_tables;
extern const mp_mysql_tables mp_mysql_memory_tables;

moonpad_status mp_mysql_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_mysql_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                      mp_memories **memories, moonpad_error *error);

/* ---- calls.c ---- */

/* One text in one transaction. */
typedef struct mp_mysql_call {
  /* Writes it. Called once for each attempt: forgets what an earlier one has found. */
  void (*write)(mp_mysql_connection *connection, void *context);
  void *context;
  bool has_answer; /* it is waited for before the commit */
  size_t length;   /* so long is the text at least */
} mp_mysql_call;

moonpad_status mp_mysql_ask_once(mp_store *store, const mp_mysql_call *call, moonpad_error *error);
/* In a transaction that writes. */
moonpad_status mp_mysql_change_once(mp_store *store, const mp_mysql_call *call, moonpad_error *error);
/* The same for a renewal after a read: if it cannot be stored at once, nothing is said. */
void mp_mysql_renew(mp_store *store, const mp_mysql_call *call);

/* A text, empty or not, with SQL before it. */
void mp_mysql_sql_text(mp_mysql_connection *connection, const char *sql, moonpad_string text);
/* A time; one before all others in place of an infinite one. */
void mp_mysql_sql_time(mp_mysql_connection *connection, const char *sql, double time);
/* " COLUMN = 'text' AND COLUMN = 'text' ...". */
void mp_mysql_are(mp_mysql_connection *connection, const char *const *columns, const moonpad_string *texts,
                  size_t count);
/* A condition: the columns come behind these texts, in the order of an index of just them. */
void mp_mysql_are_behind(mp_mysql_connection *connection, const char *const *columns, const moonpad_string *texts,
                         size_t count);

/* An mp_mysql_take: the first value into an int64_t; NULL: 0. Who asks sets it to 0 before. */
moonpad_status mp_mysql_take_number(void *found, const mp_mysql_row *row, moonpad_error *error);

/*
** Sweeps one table to its end, and counts up *removed. `sql` calls a procedure, up to its place: it
** looks at some rows behind that, and answers with how many it removed, the next place, and whether
** it has come to the end.
*/
moonpad_status mp_mysql_sweep_table(mp_store *store, const char *sql, const mp_agent_time *time, int64_t *removed,
                                    moonpad_error *error);

/* ---- memories.c, remember.c, search.c, memory_lists.c ---- */

typedef struct mp_mysql_memories {
  mp_memories base; /* first */
  mp_env *env;
  mp_store *store;
  mp_tokenizer *tokenizer;
} mp_mysql_memories;

static inline mp_store *mp_mysql_store_of(mp_memories *memories) {
  return ((mp_mysql_memories *)memories)->store;
}

/* The parameters of a procedure. */
void mp_mysql_memory_session(mp_mysql_connection *connection, const mp_memories_session *session);

moonpad_status mp_mysql_memories_write(mp_memories *memories, const mp_memories_session *session,
                                       const mp_agent_time *time, const mp_memories_batch *batch, moonpad_error *error);
moonpad_status mp_mysql_memories_search(mp_memories *memories, const mp_memories_query *query,
                                        const mp_agent_time *time, mp_buffer *matches, moonpad_error *error);
moonpad_status mp_mysql_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                          mp_buffer *sessions, moonpad_error *error);
moonpad_status mp_mysql_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                         int64_t limit, mp_buffer *entries, moonpad_error *error);

#endif
