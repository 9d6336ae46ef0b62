/* How these stores are handed in. */
#include "agent_stores/mysql/stores.h"

const mp_agent_opener mp_mysql_agent_stores = {MP_AGENT_OPENER_VERSION, mp_mysql_artifacts_open,
                                               mp_mysql_memories_open};
