/* How these stores are handed in. */
#include "agent_stores/postgres/stores.h"

const mp_agent_opener mp_postgres_agent_stores = {MP_AGENT_OPENER_VERSION, mp_postgres_artifacts_open,
                                                  mp_postgres_memories_open};
