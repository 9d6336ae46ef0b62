/*
** What a store of artifacts does: files with versions, of a session or of a user. Whoever
** implements it knows no rule: names and texts have been checked by the caller, who also says what
** time it is.
**
** Any thread may call, several at once, and none needs to be the one that holds a Lua state: what
** is given is borrowed for the call, what is found goes into memory that the caller owns. Only
** `free` wants to be alone.
**
** Every call gives MOONPAD_OK or a status, and has then filled `error` (may be NULL) and changed
** nothing in the store; only what a disk failed to sync (storage) may have got there all the same.
** Statuses: no_memory, storage, corrupt, limit (more than the store keeps in one place),
** unsupported (a newer version has taken it over), closed; and busy when somebody else kept it
** locked for longer than the `busy_timeout_ms` that it was opened with.
*/
#ifndef MP_AGENT_STORES_ARTIFACTS_H
#define MP_AGENT_STORES_ARTIFACTS_H

#include "base/buffer.h"

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

typedef struct mp_artifacts mp_artifacts;

/* What an implementation hands over. Later calls are appended: ask with MP_HAS (store/store.h). */
typedef struct mp_artifacts_ops {
  size_t size; /* of this table, as the implementation knows it */
  /*
  ** A new version, counted from 0 for each file; two who save at once get two of them. `now`: in
  ** seconds since 1970.
  */
  moonpad_status (*save)(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_artifact *artifact, double now,
                         int64_t *version, moonpad_error *error);
  /*
  ** `*found` tells whether there is such a version. `artifact` points into `bytes`, which is the
  ** caller's.
  */
  moonpad_status (*load)(mp_artifacts *artifacts, const mp_artifact_name *name, int64_t version, bool *found,
                         mp_artifact *artifact, mp_buffer *bytes, moonpad_error *error);
  /*
  ** The filenames of a session and of its user, sorted by bytes, each once and ended by a NUL. No
  ** filename is asked for.
  */
  moonpad_status (*list)(mp_artifacts *artifacts, const mp_artifact_name *name, mp_buffer *filenames,
                         moonpad_error *error);
  /* An array of int64_t, ascending; empty when there is no such file. */
  moonpad_status (*versions)(mp_artifacts *artifacts, const mp_artifact_name *name, mp_buffer *versions,
                             moonpad_error *error);
  /* All versions of a file, which would begin at 0 again. */
  moonpad_status (*delete_file)(mp_artifacts *artifacts, const mp_artifact_name *name, bool *existed,
                                moonpad_error *error);
  /*
  ** All files of a user and of the user's sessions; `*files` tells how many there were. No session
  ** id and no filename are asked for.
  */
  moonpad_status (*delete_user)(mp_artifacts *artifacts, const mp_artifact_name *name, int64_t *files,
                                moonpad_error *error);
  /* Waits for calls under way; every later one is `closed`. Idempotent. */
  void (*close)(mp_artifacts *artifacts);
  /* Used by nobody any more; closed or not. */
  void (*free)(mp_artifacts *artifacts);
} mp_artifacts_ops;

struct mp_artifacts {
  const mp_artifacts_ops *ops;
  bool in_memory; /* as of mp_store (store/store.h) */
};

/*
** Opens the store that a URL names: see open.c. It is the caller's, who ends it with `free`, and
** keeps a reference to `env`. Of `options` the store takes `durability` and `busy_timeout_ms`,
** which is how long opening and every call wait for others. Errors: unsupported (no such store, and
** messages name no more of the URL than its scheme: the rest may hold a password),
** invalid_argument, corrupt, storage, busy, no_memory.
*/
moonpad_status mp_artifacts_open(mp_env *env, moonpad_string url, const moonpad_options *options,
                                 mp_artifacts **artifacts, moonpad_error *error);

/* An implementation's own opener; `rest` is the URL after its scheme. */
typedef moonpad_status (*mp_artifacts_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                              mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_sqlite_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_artifacts **artifacts, moonpad_error *error);

#endif
