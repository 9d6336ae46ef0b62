/*
** What a store of memories does: it remembers what was said in the sessions of a user, and finds it
** again. What an event said, and what a query looks for, is decided by the caller
** (lua/moonpad/memory.lua).
**
** Threads, ownership and errors are those of artifacts.h.
*/
#ifndef MP_AGENT_STORES_MEMORIES_H
#define MP_AGENT_STORES_MEMORIES_H

#include "base/buffer.h"

/* One creation of a session: when its id is used again, what the former one left stays apart. */
typedef struct mp_memories_session {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id;
  double create_time;
} mp_memories_session;

/* What an event said. */
typedef struct mp_memories_entry {
  int64_t revision; /* of the event */
  double timestamp;
  moonpad_string author;
  moonpad_string content; /* JSON */
  moonpad_string text;    /* what is searched: words with blanks between them */
} mp_memories_entry;

typedef struct mp_memories_batch {
  const mp_memories_entry *added; /* those that are there already stay as they are */
  size_t added_count;
  const int64_t *removed; /* revisions; taken away before others are added */
  size_t removed_count;
  int64_t indexed; /* up to this revision nothing needs to be looked at again; -1: as it was */
} mp_memories_batch;

typedef struct mp_memories_query {
  moonpad_string app_name;
  moonpad_string user_id;
  const moonpad_string *phrases; /* plain text, whatever is in it: never the syntax of a query */
  size_t phrase_count;
  int64_t limit; /* how many at most */
} mp_memories_query;

/* One of what is found. */
typedef struct mp_memories_match {
  moonpad_string session_id;
  moonpad_string author;
  double timestamp;
  moonpad_string content; /* JSON */
} mp_memories_match;

typedef struct mp_memories mp_memories;

/* What an implementation hands over. Later calls are appended: ask with MP_HAS (store/store.h). */
typedef struct mp_memories_ops {
  size_t size; /* of this table, as the implementation knows it */
  /* The highest `indexed` that was written for a session, 0 when there is none. */
  moonpad_status (*indexed)(mp_memories *memories, const mp_memories_session *session, int64_t *indexed,
                            moonpad_error *error);
  /* All of a batch or nothing; the same batch again changes nothing. */
  moonpad_status (*write)(mp_memories *memories, const mp_memories_session *session, const mp_memories_batch *batch,
                          moonpad_error *error);
  /*
  ** The memories of a user in which one of the phrases is found, the best first: those with more of
  ** them and with rarer ones. `matches`, which is the caller's, is read with
  ** mp_memories_next_match.
  */
  moonpad_status (*search)(mp_memories *memories, const mp_memories_query *query, mp_buffer *matches,
                           moonpad_error *error);
  /*
  ** All memories of a user, and what had been indexed of the user's sessions; `*count` tells how
  ** many memories there were.
  */
  moonpad_status (*delete_user)(mp_memories *memories, moonpad_string app_name, moonpad_string user_id, int64_t *count,
                                moonpad_error *error);
  /* Waits for calls under way; every later one is `closed`. Idempotent. */
  void (*close)(mp_memories *memories);
  /* Used by nobody any more; closed or not. */
  void (*free)(mp_memories *memories);
} mp_memories_ops;

struct mp_memories {
  const mp_memories_ops *ops;
  bool in_memory; /* as of mp_store (store/store.h) */
};

/* As mp_artifacts_open. Errors: unsupported, too, where the store has no means to search. */
moonpad_status mp_memories_open(mp_env *env, moonpad_string url, const moonpad_options *options, mp_memories **memories,
                                moonpad_error *error);

/* An implementation's own opener; `rest` is the URL after its scheme. */
typedef moonpad_status (*mp_memories_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                             mp_memories **memories, moonpad_error *error);
moonpad_status mp_sqlite_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_memories **memories, moonpad_error *error);

/* ---- What `search` has found: implementations write it, callers read it ---- */

void mp_memories_add_match(mp_buffer *matches, const mp_memories_match *match);
/*
** The match at `*at`, which is 0 at first and then behind it; false at the end. It points into
** `matches`.
*/
bool mp_memories_next_match(const mp_buffer *matches, size_t *at, mp_memories_match *match);

#endif
