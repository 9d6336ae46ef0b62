/*
** How the stores of a server are handed in: they are a library of their own, for they need its
** client library. Its Lua module gives this as a light userdata; it lives as long as the library.
*/
#ifndef MP_AGENT_STORES_OPENER_H
#define MP_AGENT_STORES_OPENER_H

#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"

#define MP_AGENT_OPENER_VERSION 1 /* rises when one of the interfaces changes */

/* As mp_artifacts_open and mp_memories_open (open.h); `rest` is the URL behind its scheme. */
typedef moonpad_status (*mp_artifacts_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                              mp_artifacts **artifacts, moonpad_error *error);
typedef moonpad_status (*mp_memories_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                             mp_memories **memories, moonpad_error *error);

typedef struct mp_agent_opener {
  int version;
  mp_artifacts_opener artifacts;
  mp_memories_opener memories;
} mp_agent_opener;

/* Those that there are, each in a library of its own. */
extern const mp_agent_opener mp_postgres_agent_stores;
extern const mp_agent_opener mp_mysql_agent_stores;
extern const mp_agent_opener mp_redis_agent_stores;
extern const mp_agent_opener mp_redis_tls_agent_stores;
extern const mp_agent_opener mp_redis_cluster_agent_stores;

#endif
