/*
** State: change sets as Lua reads and writes them.
**
** service/changes/changes.h:
**   mp_changes_new_detached, mp_changes_promote, mp_changes_set_branch, mp_changes_end,
**   mp_changes_env; mp_changes_item, mp_changes_has, mp_changes_peek, mp_changes_keys,
**   mp_changes_write_all, mp_changes_write_delta; mp_changes_put, mp_changes_holds;
**   mp_change_of.
** service/changes/scalar.h, the short way to a key that was used lately:
**   mp_change_is, mp_change_scalar, mp_change_overwrite, which may call mp_change_touch.
** service/changes/transaction.h, tool calls:
**   mp_changes_new_over, mp_transaction_begin, mp_transaction_commit, mp_transaction_rollback.
** service/changes/agent_tool_writes.h, agents as tools:
**   mp_writes, mp_changes_writes, mp_changes_add_writes, mp_writes_free.
*/
#ifndef MP_SERVICE_BINDING_STATE_H
#define MP_SERVICE_BINDING_STATE_H

#include "service/changes/agent_tool_writes.h"
#include "service/changes/changes.h"
#include "service/changes/scalar.h"
#include "service/changes/transaction.h"

/* Why it takes no more writes; NULL: it takes some. Borrowed. */
static inline const char *mp_changes_ended(const moonpad_changes *changes) {
  return changes->ended;
}

#endif
