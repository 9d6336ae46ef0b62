/*
** Transactions of tool calls (contract 1.4 points 2 to 4). A model's answer has one change set, and
** each of its tool calls has a set over that one. What the functions of a call write is the call's
** own until it commits, each function (the tool's run, a callback) by itself; then it is pending in
** the answer's set, and what begins later sees it. A transaction sees what was committed when it
** began, what was stored when its call began, and its own writes. Who begins, commits and rolls
** back: lua/moonpad/flow/function_calls.lua.
*/
#ifndef MP_SERVICE_CHANGES_TRANSACTION_H
#define MP_SERVICE_CHANGES_TRANSACTION_H

#include "service/changes/changes.h"

/*
** A change set over another one, which must outlive it and lies over a session itself. It takes
** writes within a transaction only. Errors: closed, invalid_argument, no_memory.
*/
moonpad_status mp_changes_new_over(moonpad_changes *below, moonpad_changes **changes, moonpad_error *error);

void mp_transaction_begin(moonpad_changes *changes);
/*
** What was written becomes pending in the set below. If another call has committed the same key
** meanwhile, the writes are merged where they do not overlap (mp_patch_overlaps, core/patch.h).
** Where they overlap, it is a conflict if this transaction has read the key and the service checks
** conflicts (onConflict); otherwise this one wins. All or nothing: when it fails, the transaction
** is still open. Errors: conflict (moonpad_session_conflict_key of its session names the keys),
** invalid_argument (an increment or append that does not fit any more), limit, closed, no_memory.
*/
moonpad_status mp_transaction_commit(moonpad_changes *changes, moonpad_error *error);
/* Drops what was written. Cannot fail. */
void mp_transaction_rollback(moonpad_changes *changes);

#endif
