/*
** What the files of the SQLite store of memories share: sqlite_memories.c, which writes,
** sqlite_search.c, which searches, sqlite_forget.c, which deletes, and sqlite_memories_list.c,
** which lists all of them for tools.
*/
#ifndef MP_AGENT_STORES_SQLITE_MEMORIES_H
#define MP_AGENT_STORES_SQLITE_MEMORIES_H

#include <stdatomic.h>
#include <stdio.h>

#include "agent_stores/memories.h"
#include "agent_stores/sqlite_tables.h"

typedef struct mp_sqlite_memories {
  mp_memories base; /* first */
  mp_env *env;
  mp_store *file;
  atomic_bool has_leftovers; /* FTS5 of the writing connection holds rows: see drop_pending */
} mp_sqlite_memories;

/* Transactions, which see to it that FTS5 survives one that fails. */
moonpad_status mp_sqlite_memories_read(mp_memories *memories, mp_tx_function function, void *context,
                                       moonpad_error *error);
moonpad_status mp_sqlite_memories_write(mp_memories *memories, mp_tx_function function, void *context,
                                        moonpad_error *error);

/* In a transaction: the number of an app and a user. *owner stays 0 where there is none. */
moonpad_status mp_sqlite_memories_find_owner(mp_sqlite_connection *connection, const moonpad_string names[2],
                                             int64_t *owner, moonpad_error *error);
/* Runs statements without result rows, each with an id. */
moonpad_status mp_sqlite_memories_run_each(mp_sqlite_connection *connection, const char *const *list, size_t count,
                                           int64_t id, moonpad_error *error);
/* These remove a memory with all that belongs to it. */
#define MP_SQLITE_MEMORIES_REMOVALS 3
extern const char *const mp_sqlite_memories_removals[MP_SQLITE_MEMORIES_REMOVALS];

/* The word that stands for an owner in the column `owner` of the index. */
typedef struct mp_sqlite_owner_word {
  char text[24];
} mp_sqlite_owner_word;

static inline mp_sqlite_owner_word mp_sqlite_owner_word_of(int64_t owner) {
  mp_sqlite_owner_word word;
  snprintf(word.text, sizeof word.text, "u%lld", (long long)owner);
  return word;
}

/* SQL: when the row of `memories` was last used. */
#define MP_SQLITE_MEMORIES_LAST_USE                                                                                    \
  " max(memories.timestamp, coalesce((SELECT touched FROM memory_uses WHERE memory = memories.id), 0)) "

/* ---- sqlite_search.c, sqlite_forget.c, sqlite_memories_list.c: mp_memories_ops ---- */

moonpad_status mp_sqlite_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                           mp_buffer *sessions, moonpad_error *error);
moonpad_status mp_sqlite_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                          int64_t limit, mp_buffer *entries, moonpad_error *error);

moonpad_status mp_sqlite_memories_search(mp_memories *memories, const mp_memories_query *query,
                                         const mp_agent_time *time, mp_buffer *matches, moonpad_error *error);

moonpad_status mp_sqlite_memories_delete(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                         const mp_agent_time *time, bool *existed, moonpad_error *error);
moonpad_status mp_sqlite_memories_delete_all(mp_memories *memories, const mp_memories_owner *owner,
                                             const mp_agent_time *time, int64_t *count, moonpad_error *error);
moonpad_status mp_sqlite_memories_sweep(mp_memories *memories, const mp_agent_time *time, int64_t *count,
                                        moonpad_error *error);
moonpad_status mp_sqlite_memories_rebuild_index(mp_memories *memories, moonpad_error *error);

#endif
