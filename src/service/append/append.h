/*
** The one write path: an event and the changes of its keys in one transaction (contract 2.1, 2.2).
**
** Belongs here: reading an event that is to be appended, deciding on conflicts and limits, storing,
** what the session object shows then; the same asynchronously (async.h).
** Does not belong here: how pending writes are made (changes/), what events are
** (core/event_draft.h), how they are kept (store/).
** Arrows: append/ uses changes/ (changes.h only), session/, the service, the store and core;
** history/ and the Lua binding use append/: request.h (what is to be appended), async.h (the same
** asynchronously) and outcome.h (what came of it). This header, an append under way, is for the
** files of this folder.
**
** The steps, a file each: prepare.c (on the session object's thread, no I/O, may fail; which writes
** are checked for conflicts), then plan.c (sends it as a plan, to stores that take plans) or, where
** that is not possible or was refused, decide.c (a transaction function: an event id that is stored
** already, which makes appends idempotent; sums; limits), then apply.c (the session object takes it
** in; cannot fail). conflicts.c decides whether a checked write conflicts, write.c writes the event
** as it is stored, outcome.c keeps and undoes what was found. append.c goes through the steps on
** the caller's thread, async.c and store_queued.c on a worker.
*/
#ifndef MP_SERVICE_APPEND_APPEND_H
#define MP_SERVICE_APPEND_APPEND_H

#include "core/event_draft.h"
#include "core/operations.h"
#include "service/append/outcome.h"
#include "service/append/request.h"
#include "service/expiry/expiry.h"
#include "service/session/session.h"

/*
** What moonpad_update_session appends, and its asynchronous form: an event without content, for
** the pending writes of the session's own change set. Waits first for an append of them that is
** shown only once it is stored. False: none are pending, there is nothing to append.
*/
bool mp_append_request_of_update(moonpad_session *session, mp_append_request *request);

/* ---- an append under way ---- */

/* One key's change. */
typedef struct mp_operation {
  mp_operation_kind kind;
  mp_scope scope;
  /* With prefix; the entry's. */
  mp_key *key;
  /* Of the session object, which lives until this has been stored. */
  mp_view_entry *entry;
  /* Its entry in the event's own delta; NULL: it is a pending write. */
  mp_entry *given;
  /*
  ** What to set, the number to add, or the array of items to append. Counted for a pending write;
  ** else the draft's.
  */
  mp_value *value;

  /* Noted when this was prepared. */

  /* It conflicts when somebody else changed the key after `base`. */
  bool checked;
  /* It depends on a read: concurrent branches of the session object conflict, too. */
  bool has_read;
  /* The key's base (contract 2.2); of a delta by hand, the revision that it is compared with. */
  int64_t base;
  /* The session object did not show the key. */
  bool was_absent;
  /* The key's last change that the session object knew. */
  int64_t known_change;
  /* What the key took of the session's state. */
  size_t bytes_before;
  /* What the session object showed; counted. */
  mp_value *previous_value;

  /* Asynchronous appends only: what it is to show from then on; counted. */
  mp_value *expected;

  /* Outcome. */

  /* What was stored: counted where it was computed, else `value`; NULL: removed. */
  mp_value *result;
  /* The stored value that something is added to, as the store found it; else NULL. */
  mp_state_row *wanted;
  /* Undoes the entry in the journal of own writes. */
  mp_own_note note;
} mp_operation;

/* It does not move, and its strings point into the event's text. */
struct mp_append {
  moonpad_service *service;
  mp_env *env;
  /* The delta's keys in their order, then pending ones sorted by key; temp: keys last. */
  mp_operation *operations;
  size_t count;
  size_t capacity;
  /* Operations without those of temp: keys. */
  size_t stored_count;
  /* The caller gave an id; a timestamp. */
  bool id_given;
  bool timestamp_given;
  /* What is stored is the event's own delta, unchanged. */
  bool delta_unchanged;
  /* What the session object held when this was prepared. */
  mp_session_row snapshot;
  /*
  ** When this was prepared: the session is used then. 0: the clock gives no time, none was needed.
  */
  double now;
  mp_expiry expiry;
  /* Those that the session object knew, then those that are left. Set only where appends trim. */
  mp_known_turns turns;
  /* The session object, where no other thread uses it during the transaction; else NULL. */
  moonpad_session *live;
  /* Scopes of which `snapshot` counts for nothing: an append ahead of it was ahead (ahead.h). */
  unsigned distrusted_scopes;
  /* No change set's writes go along. */
  bool by_hand;
  /* As in the request. NULL also where an asynchronous append does not need it any more. */
  moonpad_changes *changes;
  int64_t expected_revision;
  /* The branch of a parallel agent that writes, counted; NULL: none. */
  mp_key *branch;
  /* Borrowed from the session object, for messages. */
  moonpad_session_name names;
  /* What the session's own state took when this was prepared. */
  size_t state_bytes;

  /* Outcome. */

  /* What the store found. */
  mp_facts facts;
  /* The session as it is stored now. */
  mp_session_row row;
  /* The text of the stored event, where it is not the one that was given. */
  mp_buffer json;
  /* The stored event: in `json`, or the given text. */
  moonpad_string stored;
  double timestamp;
  int64_t event_revision;
  /* An event with this id was there already. */
  bool duplicate;
  /* And its content is another. */
  bool differs;
  /* It has begun to write: a failure leaves something to be undone. */
  bool has_written;
  /* The answer to an earlier sending of this append was lost: the event may be stored already. */
  bool may_be_stored;
  /* There may be an outcome, of an earlier attempt. */
  bool has_outcome;
  /* `row` and `others` are what was found or has been stored. */
  bool has_looked;
  /* Keys in conflict, counted. */
  mp_key **conflicts;
  size_t conflict_count;
  size_t conflict_capacity;
  /* What others changed since `snapshot`. */
  mp_changed_keys others;
  /* There was no memory for all of it. */
  bool lacks_others;
  /* Keys whose stored value the outcome depends on. */
  mp_state_row *wanted;
  size_t wanted_count;
  /* What is written: one row for each operation that is stored. */
  mp_state_row *writes;

  /* Room. */

  mp_event_draft draft;
  mp_operation inline_operations[MP_INLINE_ENTRIES];
  mp_state_row inline_wanted[MP_INLINE_ENTRIES];
  mp_state_row inline_writes[MP_INLINE_ENTRIES];
};

/* Is its delta compared with a revision that the request names, and not with the snapshot? */
static inline bool mp_append_expects_revision(const mp_append *append) {
  return append->expected_revision != MP_EXPECT_SNAPSHOT;
}

/* ---- prepare.c ---- */

/*
** Reads the event and takes the pending writes along. On failure there is nothing to free. Errors:
** invalid_argument, limit, no_memory. Of a partial event only the draft is read.
*/
moonpad_status mp_append_prepare(mp_append *append, moonpad_session *session, const mp_append_request *request,
                                 moonpad_error *error);

/* ---- conflicts.c ---- */

/*
** The revision of the key's last change before this append: as the store has it, or, before it was
** asked, as the session object knows.
*/
int64_t mp_append_last_change(mp_append *append, const mp_operation *operation);
/*
** Has somebody else, or a concurrent branch, changed the key after operation->base, and is the
** operation one that is checked?
*/
bool mp_append_is_overtaken(mp_append *append, const mp_operation *operation);
/*
** Notes what it writes in the journals of own writes, once `row` has its new revisions. `reserve`
** makes room first; false without memory.
*/
bool mp_append_reserve_notes(mp_append *append);
void mp_append_note(mp_append *append);

/* ---- write.c ---- */

/*
** Lists what is to be written, and writes the event's text, unless the given text is stored
** unchanged. `unresolved` as in mp_event_draft_write. False without memory.
*/
bool mp_append_write_event(mp_append *append, size_t *unresolved);
/* The event as a store keeps it; `heads` are those of the keys that it changes. */
mp_event_row mp_append_event_row(const mp_append *append, unsigned heads);

/* ---- decide.c, plan.c ---- */

/* A transaction function; the context is the mp_append. */
moonpad_status mp_append_run(mp_tx *tx, void *append, moonpad_error *error);

/* An append that is sent as a plan, and what has become of it. */
typedef struct mp_append_sending {
  mp_append *append;
  /* Where a failure is told; NULL: nowhere. */
  moonpad_error *error;
  /* Found. */
  bool decided; /* it has been stored, or has failed for good; else it is for mp_append_run */
  moonpad_status status;
} mp_append_sending;

/*
** Sends them together to a store that takes plans (store/plan.h). They are of different sessions;
** the appends of one session go one after the other, because a plan is made from what those before
** it have stored.
*/
void mp_append_send(mp_append_sending *sendings, size_t count);

/* ---- apply.c ---- */

/*
** After success: the session object shows what is stored, the change set is clean. Not for an
** append that was shown before (async.c). If there is no memory to show what others have changed,
** that is not shown: the object keeps its older revision, and asks again at the next append. Where
** `live` was set, the memory is there already.
*/
void mp_append_apply(mp_append *append, moonpad_session *session);
/*
** A part of it: what is used is renewed, and which turns are the oldest is kept for the next
** append.
*/
void mp_append_keep_house(const mp_append *append, moonpad_session *session);
/* Another part: what its writer read before counts as read now (mp_changes_note_appended). */
void mp_append_note_in_sight(const mp_append *append, moonpad_session *session);
/* Moves the keys in conflict to the session object, for moonpad_session_conflict_key. */
void mp_append_keep_conflicts(mp_append *append, moonpad_session *session);

/* ---- outcome.c ---- */

/*
** Undoes the outcome of an attempt: before a transaction function is called again, and after a
** failure, on the append's own thread. Of several appends of one session object the last one first.
*/
void mp_append_forget_outcome(mp_append *append);
void mp_append_free(mp_append *append);
/*
** The first operation that the session object takes in. Of an event that had been stored before it
** takes in none; if that was this append's own first sending, its temp: keys.
*/
size_t mp_append_first_taken_in(const mp_append *append);
/* As mp_append_event, borrowed from the append. */
void mp_append_borrow_event(const mp_append *append, moonpad_event *event);

#endif
