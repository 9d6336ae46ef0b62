/*
** What a store of memories does: it stores what was said in the sessions of a user, and searches
** it. Which words an event has, and which a query looks for, the caller decides
** (lua/moonpad/services/memory.lua).
**
** A memory is used when it is said and when a search finds it (expiry.h).
**
** Threads, ownership and errors are those of artifacts.h.
*/
#ifndef MP_AGENT_STORES_MEMORIES_H
#define MP_AGENT_STORES_MEMORIES_H

#include "agent_stores/expiry.h"
#include "base/buffer.h"

/* One creation of a session. A later session of the same id is another one. */
typedef struct mp_memories_session {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id;
  double create_time;
} mp_memories_session;

/* Whose memories are meant. */
typedef struct mp_memories_owner {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id; /* empty: of all sessions */
} mp_memories_owner;

/* What one event said. */
typedef struct mp_memories_entry {
  int64_t revision; /* of the event */
  double timestamp;
  moonpad_string author;
  moonpad_string content; /* JSON; empty: what it said was deleted by its id */
  moonpad_string text;    /* what a search looks at: words with blanks between them */
} mp_memories_entry;

typedef struct mp_memories_batch {
  const mp_memories_entry *added; /* one whose revision is stored already changes nothing */
  size_t added_count;
  const int64_t *removed; /* revisions; removed before others are added */
  size_t removed_count;
  int64_t indexed; /* the watermark: events up to it have been looked at; -1: unchanged */
} mp_memories_batch;

typedef struct mp_memories_query {
  moonpad_string app_name;
  moonpad_string user_id;
  const moonpad_string *phrases; /* plain text: nothing in it is syntax of a query */
  size_t phrase_count;
  int64_t limit; /* how many at most */
} mp_memories_query;

/* One result of a search. */
typedef struct mp_memories_match {
  moonpad_string id; /* of the memory, never used again */
  moonpad_string session_id;
  moonpad_string author;
  double timestamp;
  moonpad_string content; /* JSON */
} mp_memories_match;

typedef struct mp_memories mp_memories;

/* What a store implements. New members are appended: ask with MP_HAS (store/store.h). */
typedef struct mp_memories_ops {
  size_t size; /* of this table, as the store was built with it */
  /* The highest watermark that was written for a session; 0: none was. */
  moonpad_status (*indexed)(mp_memories *memories, const mp_memories_session *session, int64_t *indexed,
                            moonpad_error *error);
  /*
  ** Stores all of a batch or nothing. The same batch again changes nothing. What was said too long
  ** ago is not stored, nor is what delete_memory has deleted.
  */
  moonpad_status (*write)(mp_memories *memories, const mp_memories_session *session, const mp_agent_time *time,
                          const mp_memories_batch *batch, moonpad_error *error);
  /*
  ** Finds the memories of a user that hold at least one of the phrases, the best first: those that
  ** hold more of them, and rarer ones. The caller reads its `matches` with mp_memories_next_match.
  ** Renews what it finds; if that cannot be stored, nothing is said.
  */
  moonpad_status (*search)(mp_memories *memories, const mp_memories_query *query, const mp_agent_time *time,
                           mp_buffer *matches, moonpad_error *error);
  /*
  ** Deletes one memory of a user for good: its event is not stored again while its session is
  ** known. *existed: had the user such a memory?
  */
  moonpad_status (*delete_memory)(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                  const mp_agent_time *time, bool *existed, moonpad_error *error);
  /*
  ** Deletes all memories of a user, or those of all sessions with one id, and their watermarks.
  ** *count: how many memories there were.
  */
  moonpad_status (*delete_all)(mp_memories *memories, const mp_memories_owner *owner, const mp_agent_time *time,
                               int64_t *count, moonpad_error *error);
  /*
  ** Deletes memories that have expired, then sessions and owners without any, in small
  ** transactions. *count: how many memories there were. After a failure those that were deleted are
  ** counted.
  */
  moonpad_status (*sweep)(mp_memories *memories, const mp_agent_time *time, int64_t *count, moonpad_error *error);
  /* Writes what searches look at anew, so that no word of what was deleted is left in it. */
  moonpad_status (*rebuild_index)(mp_memories *memories, moonpad_error *error);
  /*
  ** For tools: the sessions of everybody that come behind `after` (all its names empty: the first
  ** ones), in the order of mp_memories_session, at most `limit`. Each is three names in `sessions`,
  ** each with a NUL behind it, its create_time, a double, and its watermark, an int64_t.
  */
  moonpad_status (*sessions)(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                             mp_buffer *sessions, moonpad_error *error);
  /*
  ** For tools: the entries of a session behind a revision, at most `limit`, without their text;
  ** those that were deleted by their ids, too. The caller reads them with mp_memories_next_entry.
  ** Whether they have expired is not looked at.
  */
  moonpad_status (*entries)(mp_memories *memories, const mp_memories_session *session, int64_t after, int64_t limit,
                            mp_buffer *entries, moonpad_error *error);
  /* Waits for calls under way; every later one is `closed`. Idempotent. */
  void (*close)(mp_memories *memories);
  /* Nobody uses it any more; it need not be closed. */
  void (*free)(mp_memories *memories);
} mp_memories_ops;

struct mp_memories {
  const mp_memories_ops *ops;
  bool in_memory; /* as of mp_store (store/store.h) */
};

/* ---- Ids that are numbers: as a text, and back ---- */

#define MP_MEMORY_ID_BYTES 24

/* The text is in `digits`. */
moonpad_string mp_memories_id_text(int64_t id, char digits[MP_MEMORY_ID_BYTES]);
/* False: no memory has such a text for its id. */
bool mp_memories_read_id(moonpad_string text, int64_t *id);

/* ---- The results of `search` and `entries`: stores write them, callers read them ---- */

void mp_memories_add_match(mp_buffer *matches, const mp_memories_match *match);
/*
** Reads the match at position *at, which is 0 at first, and moves *at behind it. False: there are
** no more. The match points into `matches`.
*/
bool mp_memories_next_match(const mp_buffer *matches, size_t *at, mp_memories_match *match);
/* The same for entries, whose text is not in it. */
void mp_memories_add_entry(mp_buffer *entries, const mp_memories_entry *entry);
bool mp_memories_next_entry(const mp_buffer *entries, size_t *at, mp_memories_entry *entry);

#endif
