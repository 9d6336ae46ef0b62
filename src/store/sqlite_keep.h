/*
** What agents keep beside their sessions, in the same SQLite file: artifacts (files with versions) and memories (what was said, to be searched). Each is opened as a
** store of its own, on tables of its own that are made when they are first wanted; a file that is not moonpad's is refused as it is for sessions.
**
** sqlite_keep.c        opening, and what the two share
** sqlite_artifacts.c   artifacts
** sqlite_memories.c    memories
**
** Names are checked by the caller. Text and bytes that are given are borrowed for the call; what is read goes into the caller's buffer.
*/
#ifndef MP_STORE_SQLITE_KEEP_H
#define MP_STORE_SQLITE_KEEP_H

#include "store/sqlite.h"

/* Opens a file (`path` as after "sqlite:"). Until mp_keep_be_brief, calls wait for others as long as `options` say. */
moonpad_status mp_keep_open(mp_env *env, moonpad_string path, const moonpad_options *options, mp_store **store,
                            moonpad_error *error);
/* From now on a call waits for an instant only and is `busy` then: the caller, who may have better things to do meanwhile, comes back until his patience ends. */
void mp_keep_be_brief(mp_store *store);
/* NULL is accepted. */
void mp_keep_close(mp_store *store);
void mp_keep_free(mp_store *store);

/* ---- For the two that keep something ---- */

/* Runs `sql`, which makes tables, unless the last of them is there. */
moonpad_status mp_keep_make_tables(mp_store *store, const char *last_table, const char *sql, moonpad_error *error);
/* NULL on failure, which the connection then knows of. */
sqlite3_stmt *mp_keep_prepare(mp_sqlite_connection *connection, const char *sql, moonpad_error *error);
/* Binds `count` texts from ?1 on. */
int mp_keep_bind_texts(sqlite3_stmt *statement, const moonpad_string *texts, int count);
/* Runs a bound statement that gives no rows, and finalizes it; `code` is what binding gave. */
moonpad_status mp_keep_finish(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                              moonpad_error *error);

/* ---- Artifacts ---- */

typedef struct mp_artifact_name {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id; /* empty: of the user, for all sessions */
  moonpad_string filename;
} mp_artifact_name;

typedef struct mp_artifact {
  bool is_text;             /* else bytes of a mime type */
  moonpad_string mime_type; /* of bytes */
  moonpad_string display_name;
  bool has_display_name;
  moonpad_string data;
} mp_artifact;

#define MP_ARTIFACT_LATEST INT64_C(-1)

moonpad_status mp_artifacts_prepare(mp_store *store, moonpad_error *error);
moonpad_status mp_artifacts_save(mp_store *store, const mp_artifact_name *name, const mp_artifact *artifact, double now,
                                 int64_t *version, moonpad_error *error);
/* `artifact` points into `bytes`. */
moonpad_status mp_artifacts_load(mp_store *store, const mp_artifact_name *name, int64_t version, bool *found,
                                 mp_artifact *artifact, mp_buffer *bytes, moonpad_error *error);
/* The filenames of a session and of its user, sorted by bytes, each ended by a NUL. */
moonpad_status mp_artifacts_list(mp_store *store, const mp_artifact_name *name, mp_buffer *filenames,
                                 moonpad_error *error);
/* An array of int64_t, ascending. */
moonpad_status mp_artifacts_versions(mp_store *store, const mp_artifact_name *name, mp_buffer *versions,
                                     moonpad_error *error);
/* All versions. */
moonpad_status mp_artifacts_delete(mp_store *store, const mp_artifact_name *name, bool *existed, moonpad_error *error);

/* ---- Memories ---- */

/* One creation of a session: when its id is used again, what the former one left stays apart. */
typedef struct mp_memory_session {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id;
  double create_time;
} mp_memory_session;

typedef struct mp_memory {
  int64_t revision; /* of the event */
  double timestamp;
  moonpad_string author;
  moonpad_string content; /* JSON */
  moonpad_string text;    /* what is searched */
} mp_memory;

typedef struct mp_memory_batch {
  const mp_memory *added; /* those that are there already stay as they are */
  size_t added_count;
  const int64_t *removed; /* revisions */
  size_t removed_count;
  int64_t indexed; /* up to this revision nothing needs to be looked at again; -1: as it was */
} mp_memory_batch;

moonpad_status mp_memories_prepare(mp_store *store, moonpad_error *error);
/* The `indexed` that was last written for a session, 0 when there is none. */
moonpad_status mp_memories_indexed(mp_store *store, const mp_memory_session *session, int64_t *indexed,
                                   moonpad_error *error);
moonpad_status mp_memories_write(mp_store *store, const mp_memory_session *session, const mp_memory_batch *batch,
                                 moonpad_error *error);
/*
** The memories of a user in which one of the phrases is found, the best first. Phrases are plain text, never query syntax. `found` gets records of four: session id,
** author, timestamp (the bytes of a double), content; each is its length (size_t) and its bytes.
*/
moonpad_status mp_memories_search(mp_store *store, moonpad_string app_name, moonpad_string user_id,
                                  const moonpad_string *phrases, size_t phrase_count, int64_t limit, mp_buffer *found,
                                  moonpad_error *error);

#endif
