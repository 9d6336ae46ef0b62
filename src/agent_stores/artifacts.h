/*
** What a store of artifacts does: files with versions, of a session or of a user. A store checks
** nothing: the caller has checked names and texts, and says what time it is, and how long files
** live (expiry.h).
**
** Threads: any, several at once, and no Lua state is needed. `free` alone must be the last call.
** Ownership: arguments are borrowed for the call; results go into memory that the caller owns.
** Errors: a call that fails has filled `error` (may be NULL) and has changed nothing; but what a
** disk failed to sync (storage), or too few replicas have (busy), may be stored nevertheless.
** no_memory, storage, corrupt, limit (too large for the store), unsupported (a newer version of
** moonpad has changed the file), closed, busy (somebody else held a lock for longer than
** `busy_timeout_ms`).
*/
#ifndef MP_AGENT_STORES_ARTIFACTS_H
#define MP_AGENT_STORES_ARTIFACTS_H

#include "agent_stores/expiry.h"
#include "base/buffer.h"

typedef struct mp_artifact_name {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id; /* empty: of the user, for all sessions */
  moonpad_string filename;
} mp_artifact_name;

typedef struct mp_artifact {
  bool is_text;             /* otherwise bytes, of a mime type */
  moonpad_string mime_type; /* not of a text */
  moonpad_string display_name;
  bool has_display_name;
  moonpad_string data;
} mp_artifact;

#define MP_ARTIFACT_LATEST INT64_C(-1)

typedef struct mp_artifacts mp_artifacts;

/* What a store implements. New members are appended: ask with MP_HAS (store/store.h). */
typedef struct mp_artifacts_ops {
  size_t size; /* of this table, as the store was built with it */
  /*
  ** Adds a version, counted from 0 for each file. Two writers at once get two versions. The
  ** versions of a file that has expired are deleted before.
  */
  moonpad_status (*save)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                         const mp_artifact *artifact, int64_t *version, moonpad_error *error);
  /*
  ** `version` may be MP_ARTIFACT_LATEST. *found: is there such a version? `artifact` then points
  ** into `bytes`, which is the caller's. Renews the file; if that cannot be stored, nothing is
  ** said.
  */
  moonpad_status (*load)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                         int64_t version, bool *found, mp_artifact *artifact, mp_buffer *bytes, moonpad_error *error);
  /*
  ** The filenames of a session and of its user, sorted by bytes, each once, each followed by a NUL.
  ** name->filename is not used.
  */
  moonpad_status (*list)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                         mp_buffer *filenames, moonpad_error *error);
  /* An array of int64_t, ascending; empty when there is no such file. */
  moonpad_status (*versions)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                             mp_buffer *versions, moonpad_error *error);
  /* Deletes all versions of a file. Its next version is 0 again. */
  moonpad_status (*delete_file)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                bool *existed, moonpad_error *error);
  /*
  ** Deletes all files of a user and of the user's sessions. *files: how many there were.
  ** name->session_id and name->filename are not used.
  */
  moonpad_status (*delete_user)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                int64_t *files, moonpad_error *error);
  /*
  ** Deletes files that have expired, each with all its versions, in small transactions. *files: how
  ** many there were. After a failure those that were deleted are counted.
  */
  moonpad_status (*sweep)(mp_artifacts *artifacts, const mp_agent_time *time, int64_t *files, moonpad_error *error);
  /*
  ** For tools: the files of everybody that come behind `after` (all its names empty: the first
  ** ones), by their names in the order of mp_artifact_name, at most `limit`. Each is four texts in
  ** `files`, each with a NUL behind it, and how many versions it has, an int64_t. Whether it has
  ** expired is not looked at.
  */
  moonpad_status (*files)(mp_artifacts *artifacts, const mp_artifact_name *after, int64_t limit, mp_buffer *files,
                          moonpad_error *error);
  /* Waits for calls under way; every later one is `closed`. Idempotent. */
  void (*close)(mp_artifacts *artifacts);
  /* Nobody uses it any more; it need not be closed. */
  void (*free)(mp_artifacts *artifacts);
} mp_artifacts_ops;

struct mp_artifacts {
  const mp_artifacts_ops *ops;
  bool in_memory; /* as of mp_store (store/store.h) */
};

#endif
