/* The SQLite stores of artifacts and of memories (sqlite_artifacts.c, sqlite_memories.c). */
#ifndef MP_AGENT_STORES_SQLITE_STORES_H
#define MP_AGENT_STORES_SQLITE_STORES_H

#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"

/* As mp_artifacts_open and mp_memories_open; `rest` is the URL without its scheme. */
moonpad_status mp_sqlite_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_sqlite_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_memories **memories, moonpad_error *error);

#endif
