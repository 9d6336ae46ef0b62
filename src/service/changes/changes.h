/*
** Change sets: pending writes over what a session object shows (contract 1.3, 1.4, 2.2). What
** the Lua state proxy sits on. The public calls are in moonpad.h; here is what the Lua boundary
** needs besides. One thread at a time.
*/
#ifndef MP_SERVICE_CHANGES_CHANGES_H
#define MP_SERVICE_CHANGES_CHANGES_H

#include "core/entries.h"
#include "core/operations.h"
#include "core/tree.h"
#include "service/session/session.h"

typedef struct mp_change mp_change;

/*
** A state object of no session (moonpad.state{...}): starts empty, can be read and written,
** not committed.
*/
moonpad_status mp_changes_new_detached(mp_env *env, moonpad_changes **changes, moonpad_error *error);
/* Of a detached one: what was set so far becomes what it holds, nothing is pending any more. */
void mp_changes_promote(moonpad_changes *changes);
mp_env *mp_changes_env(const moonpad_changes *changes);
/* The change set of a session object itself, made when first used. NULL when out of memory. */
moonpad_changes *mp_session_own_changes(moonpad_session *session);
/*
** Makes it one of a branch of a parallel agent ("team.writer"; empty: none). Appends by branches
** beside it do not count as its own: a write that depends on a read which they have overtaken
** conflicts. Those above and below it run when it does not.
*/
moonpad_status mp_changes_set_branch(moonpad_changes *changes, moonpad_string branch, moonpad_error *error);

/*
** Reads a key: a scalar (borrowed until the next write or append), or the root node of a
** composite (borrowed; its identity stays the same as the contract says). type ABSENT: no such key.
** Marks the key as read.
*/
moonpad_status mp_changes_item(moonpad_changes *changes, moonpad_string key, mp_item *item, moonpad_error *error);
/*
** What a change set knows of one key, for callers that come back to it: made when there is none,
** valid as long as the change set. NULL when out of memory. The key is at most
** MOONPAD_MAX_KEY_BYTES long.
*/
mp_change *mp_change_of(moonpad_changes *changes, moonpad_string key);
/* As mp_changes_item. */
moonpad_status mp_change_item(mp_change *change, mp_item *item, moonpad_error *error);
/* As mp_changes_item, but only whether it is there. */
moonpad_status mp_changes_has(moonpad_changes *changes, moonpad_string key, bool *there, moonpad_error *error);

/*
** Sets (value NULL: removes). Takes its own reference. `last_writer_wins`: never
** conflicts (outputKey).
*/
moonpad_status mp_changes_put(moonpad_changes *changes, moonpad_string key, mp_value *value, bool last_writer_wins,
                              moonpad_error *error);
/* Is `node` what this change set shows under the key? Then assigning it there changes nothing. */
bool mp_changes_holds(moonpad_changes *changes, moonpad_string key, const mp_node *node);

/*
** All keys with a value, sorted by bytes, for the caller to free; on failure there is nothing to
** free. Marks everything as read.
*/
moonpad_status mp_changes_keys(moonpad_changes *changes, mp_entries *keys, moonpad_error *error);

/*
** Append the merged state (`is_read`: as a look at every key), or only what is pending, to `out`
** as one JSON object with sorted keys. For the delta, `removed` (may be NULL) gets a JSON array of
** removed keys, which are not in `out`; an increment or append shows the value that it gives here
** and now.
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
  /* The revision of its scope that it was decided in sight of. */
  int64_t base;
  /* Whether it depends on what was read. */
  bool has_read;
  bool last_writer_wins;
} mp_pending_write;

/* Can what is pending become an event now? Waits where that is happening already. */
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
** now, in sight of what the session object has taken in.
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
