/*
** Transactions of tool calls (contract 1.4 points 2 to 4). A model's answer has one change set,
** and each of its calls a set over that one. What a call's functions write is theirs until it is
** committed; then it is pending in the answer's set, where what begins later sees it. A transaction
** sees what was there when it began, and its own writes.
*/
#ifndef MP_SERVICE_CHANGES_TRANSACTION_H
#define MP_SERVICE_CHANGES_TRANSACTION_H

#include "service/changes/changes.h"

/*
** A change set over another one of a session, which must outlive it. It takes writes in
** transactions only.
*/
moonpad_status mp_changes_over(moonpad_changes *below, moonpad_changes **changes, moonpad_error *error);

void mp_transaction_begin(moonpad_changes *changes);
/*
** What was written becomes pending in the set below. Where others have committed the same key
** meanwhile, both get what both can have; else the write fails if the transaction had read the key,
** and wins if not. All or nothing; where it fails, the transaction is still under way. Errors:
** conflict (moonpad_session_conflict_key of its session names the keys), invalid_argument (an
** increment or append that does not fit any more, a value that has become too large), no_memory.
*/
moonpad_status mp_transaction_commit(moonpad_changes *changes, moonpad_error *error);
/* Drops what was written. Cannot fail. */
void mp_transaction_rollback(moonpad_changes *changes);

#endif
