/*
** src/agent_stores/postgres: artifacts and memories on PostgreSQL, on the store of the sessions
** (src/store/postgres): its connections, its transactions, its schema, in which they have tables of
** their own. A module of its own, with libpq.
** Does not belong here: which words a text has and which memories are the best, which are the same
** on every store (words.h, ranking.h).
**
** artifact_tables.c  tables, functions and statements of artifacts
** artifacts.c        artifacts.h
** memory_tables.c    tables, functions and statements of memories
** memories.c         memories.h: writing, deleting, sweeping
** search.c           memories.h: searching
** calls.c            one statement in one transaction
** opener.c           how these stores are handed in (agent_stores/opener.h)
** module.c           the Lua module moonpad.postgres_agent_stores
**
** What changes several rows is a function on the server, so that it is one statement. A result that
** it has is read before the commit: if the answer to that is lost, it is known all the same.
*/
#ifndef MP_AGENT_STORES_POSTGRES_STORES_H
#define MP_AGENT_STORES_POSTGRES_STORES_H

#include "agent_stores/opener.h"
#include "agent_stores/words.h"
#include "store/postgres/postgres.h"

extern const mp_postgres_tables mp_postgres_artifact_tables;
extern const mp_postgres_tables mp_postgres_memory_tables;

typedef enum mp_postgres_artifact_statement {
  MP_PG_SAVE_ARTIFACT = MP_PG_STATEMENTS,
  MP_PG_LOAD_ARTIFACT,
  MP_PG_RENEW_ARTIFACT,
  MP_PG_LIST_ARTIFACTS,
  MP_PG_ARTIFACT_VERSIONS,
  MP_PG_DELETE_ARTIFACT,
  MP_PG_DELETE_ARTIFACTS,
  MP_PG_SWEEP_ARTIFACTS,
  MP_PG_ARTIFACT_FILES
} mp_postgres_artifact_statement;

typedef enum mp_postgres_memory_statement {
  MP_PG_INDEXED = MP_PG_STATEMENTS,
  MP_PG_WRITE_MEMORIES,
  MP_PG_FIND_WORDS,
  MP_PG_READ_MEMORIES,
  MP_PG_RENEW_MEMORIES,
  MP_PG_DELETE_MEMORY,
  MP_PG_DELETE_MEMORIES,
  MP_PG_SWEEP_MEMORIES,
  MP_PG_MEMORY_SESSIONS,
  MP_PG_MEMORY_ENTRIES
} mp_postgres_memory_statement;

moonpad_status mp_postgres_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                          mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_postgres_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                         mp_memories **memories, moonpad_error *error);

/* ---- calls.c ---- */

/* One statement: what it is sent with, and what takes its answer. */
typedef struct mp_postgres_call {
  int statement;
  void (*add)(mp_postgres_parameters *parameters, const void *asked);
  const void *asked;
  mp_postgres_rows rows; /* NULL: no answer is wanted. Called once for each attempt */
  void *found;
} mp_postgres_call;

moonpad_status mp_postgres_ask(mp_store *store, const mp_postgres_call *call, moonpad_error *error);
/* In a transaction that writes. */
moonpad_status mp_postgres_change(mp_store *store, const mp_postgres_call *call, moonpad_error *error);

/* The same for a renewal after a read: if it cannot be stored at once, nothing is said. */
void mp_postgres_renew(mp_store *store, const mp_postgres_call *call);

/* An mp_postgres_rows: the first value, an int8 or a boolean, into an int64_t; none or NULL: 0. */
moonpad_status mp_postgres_take_number(void *found, const PGresult *rows, moonpad_error *error);

/*
** Sweeping: a statement that looks at some rows behind a place and answers with how many it
** removed, the next place, and whether it has come to the end.
*/
typedef struct mp_postgres_swept {
  int step; /* which of the tables; its statement knows */
  int64_t place;
  double alive_since;
  int64_t removed;
  bool is_done;
} mp_postgres_swept;

/* Sweeps one table to its end, and counts up *removed. */
moonpad_status mp_postgres_sweep_table(mp_store *store, int statement, int step, const mp_agent_time *time,
                                       int64_t *removed, moonpad_error *error);

/* ---- search.c ---- */

typedef struct mp_postgres_memories {
  mp_memories base; /* first */
  mp_env *env;
  mp_store *store;
  mp_tokenizer *tokenizer;
} mp_postgres_memories;

moonpad_status mp_postgres_memories_search(mp_memories *memories, const mp_memories_query *query,
                                           const mp_agent_time *time, mp_buffer *matches, moonpad_error *error);

#endif
