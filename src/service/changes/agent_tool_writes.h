/*
** The writes of an agent that runs as a tool, in a session of its own: see docs/design.md "Change
** sets and trees".
*/
#ifndef MP_SERVICE_CHANGES_AGENT_TOOL_WRITES_H
#define MP_SERVICE_CHANGES_AGENT_TOOL_WRITES_H

#include "service/changes/changes.h"

/*
** What was written and read in a change set, but for temp: keys: to be done over again in a set
** over another session (an agent as a tool). Both sessions share one env.
*/
typedef struct mp_writes mp_writes;
moonpad_status mp_changes_writes(moonpad_changes *changes, mp_writes **writes, moonpad_error *error);
/* On failure some of it may have been done: the transaction is to be rolled back. */
moonpad_status mp_changes_add_writes(moonpad_changes *changes, const mp_writes *writes, moonpad_error *error);
void mp_writes_free(mp_writes *writes);

#endif
