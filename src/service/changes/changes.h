/*
** Change sets: pending writes over what a session object shows (contract 1.3, 1.4, 2.2). One
** thread at a time, that of the session object.
**
** Belongs here: what is pending, per key; what was read, and at which revision; opened
** tables; the transactions of tool calls (transaction.h), the writes of agents as tools
** (agent_tool_writes.h).
** Does not belong here: storing, and whether a write conflicts (append/); trees of nodes and
** patches (core/).
** Arrows: changes/ uses session/, the service and core; append/ and the Lua binding use changes/,
** history/ does through append/. Only files of this folder include change_set.h; scalar.h
** carries it into src/lua, for the inline calls there.
**
** The public calls are in moonpad.h; this header has what the Lua binding and append/ need besides.
*/
#ifndef MP_SERVICE_CHANGES_CHANGES_H
#define MP_SERVICE_CHANGES_CHANGES_H

#include "core/entries.h"
#include "core/operations.h"
#include "core/tree.h"
#include "service/session/session.h"

typedef struct mp_change mp_change;

/* A change set without a session (moonpad.state{...}): empty, to be read and written only. */
moonpad_status mp_changes_new_detached(mp_env *env, moonpad_changes **changes, moonpad_error *error);
/* Of such a one: what was set so far becomes its state, and is not pending any more. */
void mp_changes_promote(moonpad_changes *changes);
mp_env *mp_changes_env(const moonpad_changes *changes);
/* The change set of a session object itself, made when first used. NULL when out of memory. */
moonpad_changes *mp_session_own_changes(moonpad_session *session);
/*
** Makes it write for a branch of a parallel agent ("team.writer"; empty: none). Writes of
** concurrent branches do not count as its own: a write that depends on a read which they have
** overtaken conflicts. Branches above and below it are not concurrent.
*/
moonpad_status mp_changes_set_branch(moonpad_changes *changes, moonpad_string branch, moonpad_error *error);

/*
** Reads a key, and notes that it was read: a scalar, borrowed until the next write or append, or
** the root node of a composite, borrowed (contract 1.3 says how long it stays the same node). Type
** ABSENT: there is no such key.
*/
moonpad_status mp_changes_item(moonpad_changes *changes, moonpad_string key, mp_item *item, moonpad_error *error);
/*
** What the change set knows of one key, for callers that use the key again: made when there is
** none, valid as long as both the change set and the session object. NULL when out of memory. The
** key has at most MOONPAD_MAX_KEY_BYTES.
*/
mp_change *mp_change_of(moonpad_changes *changes, moonpad_string key);
/* The same, but only tells whether the key has a value. */
moonpad_status mp_changes_has(moonpad_changes *changes, moonpad_string key, bool *there, moonpad_error *error);

/*
** Sets a key; value NULL: removes it. Takes a reference of its own. `last_writer_wins`: the write
** never conflicts (outputKey).
*/
moonpad_status mp_changes_put(moonpad_changes *changes, moonpad_string key, mp_value *value, bool last_writer_wins,
                              moonpad_error *error);
/* Is `node` what this change set shows under the key? Then assigning it there changes nothing. */
bool mp_changes_holds(moonpad_changes *changes, moonpad_string key, const mp_node *node);

/*
** All keys with a value, sorted by bytes, for the caller to free; on failure there is nothing to
** free. Counts as a read of every key.
*/
moonpad_status mp_changes_keys(moonpad_changes *changes, mp_entries *keys, moonpad_error *error);

/*
** Writes to `out` the merged state, or only what is pending, as one JSON object with sorted keys.
** `is_read`: counts as a read of every key. Of the delta, removed keys are not in `out`: `removed`
** (may be NULL) gets a JSON array of them. An increment or append is written as the value that it
** gives now.
*/
moonpad_status mp_changes_write_all(moonpad_changes *changes, bool is_read, mp_buffer *out, moonpad_error *error);
moonpad_status mp_changes_write_delta(moonpad_changes *changes, mp_buffer *out, mp_buffer *removed,
                                      moonpad_error *error);

/*
** ---- What an append takes from a change set, and leaves in it ----
*/

/* One key's pending write. The value is borrowed until the key is written again. */
typedef struct mp_pending_write {
  mp_view_entry *entry;
  mp_operation_kind kind;
  /* As in mp_operation (append/append.h). */
  mp_value *value;
  /* The key's base, as in mp_change (change_set.h). */
  int64_t base;
  /* Whether it depends on what was read. */
  bool has_read;
  bool last_writer_wins;
} mp_pending_write;

/*
** Refuses a change set that cannot be committed. Waits first for an append of it that is shown only
** once it is stored. Errors: closed, invalid_argument.
*/
moonpad_status mp_changes_refuse_commit(const moonpad_changes *changes, moonpad_error *error);
moonpad_session *mp_changes_session(const moonpad_changes *changes);
/* Borrowed; NULL: no branch's. */
mp_key *mp_changes_branch(const moonpad_changes *changes);
bool mp_changes_is_pending(const moonpad_changes *changes, moonpad_string key, uint64_t hash);
/* Would a write of that key depend on something that was read? */
bool mp_changes_has_read(const moonpad_changes *changes, const mp_view_entry *entry);
/* The keys with pending writes, sorted; the caller frees the array. */
moonpad_status mp_changes_pending_list(moonpad_changes *changes, mp_change ***list, size_t *count,
                                       moonpad_error *error);
const mp_view_entry *mp_change_entry(const mp_change *change);
moonpad_status mp_change_pending_write(mp_change *change, mp_pending_write *write, moonpad_error *error);

/* Its writes are being stored: it takes no more of them until it is thawed. Reading goes on. */
void mp_changes_freeze(moonpad_changes *changes);
/* It can be written again, unless it has ended meanwhile. */
void mp_changes_thaw(moonpad_changes *changes);
/* What was pending of that key is stored now, or in flight: it is clean here. */
void mp_changes_stored(moonpad_changes *changes, const mp_view_entry *entry);
/*
** An append has been applied. If nothing is pending any more, what was read before counts as read
** now, at the revisions that the session object has taken in.
*/
void mp_changes_note_appended(moonpad_changes *changes);

/*
** Ends it: pending writes are dropped, its nodes become stale, later writes are invalid_argument
** with `reason` ("its invocation has ended"); reading goes on. `reason` is a constant.
*/
void mp_changes_end(moonpad_changes *changes, const char *reason);

/* Value of a key for templates: no read mark. */
moonpad_status mp_changes_peek(moonpad_changes *changes, moonpad_string key, moonpad_value *value,
                               moonpad_error *error);

#endif
