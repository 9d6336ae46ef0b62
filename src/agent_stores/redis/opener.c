/* How these stores are handed in. */
#include "agent_stores/redis/stores.h"

const mp_agent_opener mp_redis_agent_stores = {MP_AGENT_OPENER_VERSION, mp_redis_artifacts_open,
                                               mp_redis_memories_open};
const mp_agent_opener mp_redis_tls_agent_stores = {MP_AGENT_OPENER_VERSION, mp_redis_artifacts_open_tls,
                                                   mp_redis_memories_open_tls};
const mp_agent_opener mp_redis_cluster_agent_stores = {MP_AGENT_OPENER_VERSION, mp_redis_artifacts_open_cluster,
                                                       mp_redis_memories_open_cluster};
