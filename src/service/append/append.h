/*
** The one write path: an event with the deltas of its scopes, in one transaction (contract 2.1,
** 2.2). Prepare (may fail, no I/O), run (inside a store's transaction), then apply to the session
** object (cannot fail).
*/
#ifndef MP_SERVICE_APPEND_APPEND_H
#define MP_SERVICE_APPEND_APPEND_H

#include "core/event.h"
#include "core/operations.h"
#include "service/session/session.h"

/* One key's change. */
typedef struct mp_operation {
  mp_operation_kind kind;
  mp_scope scope;
  mp_key *key;     /* with prefix; the entry's */
  mp_entry *given; /* in the event's own delta; NULL: a pending write */
  /*
  ** what to set; the number to add; the array of items to append. Counted for a pending write, else
  ** the draft's
  */
  mp_value *value;
  bool was_absent; /* in the session object, when this was prepared */
  bool checked;    /* conflicts when somebody else changed the key after `base`, */
  bool has_read;   /* and then also with the branches beside the writer's */
  int64_t base;
  /* when the key was last changed as far as the session object knew when this was prepared */
  int64_t known_change;
  mp_view_entry *entry;     /* of the session object, which lives as long as this is to be stored */
  mp_value *previous_value; /* asynchronous: what the session object showed before this append, */
  mp_value *expected;       /* and, counted, what it is to show from then on */
  size_t bytes_before;      /* that the key took in the session's own state */
  /* outcome */
  /* what was stored: counted where it was computed, else `value`; NULL: removed */
  mp_value *result;
  mp_state_row *wanted; /* what was looked up, where something is to be added to it; else NULL */
  /* of this write as the session object's own, while it may still be undone */
  mp_own_note note;
} mp_operation;

/*
** Its strings point into the event's text, which is to stay as long as it does. It does not move.
*/
typedef struct mp_append {
  moonpad_service *service;
  mp_env *env;
  mp_operation *operations; /* stored scopes first in call order; temp: at the end */
  size_t count;
  size_t capacity;
  size_t stored_count; /* without temp: */
  bool id_given;
  bool timestamp_given;
  bool delta_unchanged; /* what is stored is the event's own delta as it stands */
  mp_session_row held;  /* what the session object held when this was prepared */
  /* the session object, where nobody uses it while the transaction runs; else NULL */
  moonpad_session *live;
  bool by_hand;             /* takes no change set's writes along */
  moonpad_changes *changes; /* whose pending writes these are; NULL: nobody's, or freed since */
  mp_key *branch;           /* of their writer, counted; NULL: none */
  /* the revision that a delta by hand was decided in sight of, or MP_EXPECT_SNAPSHOT */
  int64_t expected_revision;
  moonpad_session_name names; /* borrowed from the session, for messages */
  size_t state_bytes;
  /* outcome */
  mp_facts facts;     /* what was found */
  mp_session_row row; /* as stored now */
  mp_buffer json;     /* what was written for it */
  /* the stored event: that, or the given text, where it is stored as it stands */
  moonpad_string stored;
  double timestamp;
  int64_t event_revision;
  bool duplicate;     /* an event with this id was there already */
  bool differs;       /* ... with other content */
  bool has_written;   /* it has begun to: a failure leaves something to be undone */
  bool may_be_stored; /* an answer was lost: it may be there, though its id was made for it */
  bool has_outcome;   /* there may be one, of an earlier attempt */
  bool has_looked;    /* `row` and `others` are what was found or has been stored */
  mp_key **conflicts;
  size_t conflict_count;
  size_t conflict_capacity;
  mp_changed_keys others; /* what others changed since `held` */
  mp_state_row *wanted;   /* keys whose value or revision the outcome depends on */
  size_t wanted_count;
  mp_state_row *writes; /* one for each operation that is stored */
  mp_event_draft draft;
  mp_operation inline_operations[MP_INLINE_ENTRIES];
  mp_state_row inline_wanted[MP_INLINE_ENTRIES];
  mp_state_row inline_writes[MP_INLINE_ENTRIES];
} mp_append;

/*
** What the session object holds: the rule for a delta by hand (contract 2.2). Whoever decided in
** sight of revision 0 holds no other.
*/
#define MP_EXPECT_SNAPSHOT INT64_C(0)

/*
** Reads the event and takes the change set's pending writes along (changes may be NULL). The text
** stays the caller's, and is to stay. On failure there is nothing to free.
*/
moonpad_status mp_append_prepare(mp_append *append, moonpad_session *session, moonpad_changes *changes,
                                 moonpad_string event, bool is_trusted, int64_t expected_revision,
                                 moonpad_error *error);
/* No key may be pending and in the event's own delta. */
moonpad_status mp_append_refuse_shared_keys(const mp_append *append, moonpad_error *error);
/* The transaction function; the context is the mp_append. */
moonpad_status mp_append_run(mp_tx *tx, void *append, moonpad_error *error);
/*
** A transaction function may be called again: it starts afresh. After a failure, too, what it
** has noted as the session object's own is undone by this, on the thread that ran it; of several
** appends of the object the last one goes first.
*/
void mp_append_forget_outcome(mp_append *append);
/*
** Sends it as a plan to a store that takes plans (store/plan.h). *decided: it has been stored,
** or has failed for good; otherwise it is for mp_append_run. Synchronous appends only.
*/
moonpad_status mp_append_send(mp_append *append, bool *decided, moonpad_error *error);
/*
** When the key was last changed, before this; as long as nothing has been asked: as far as the
** session object knows.
*/
int64_t mp_append_last_change(mp_append *append, const mp_operation *operation);
/* Does that change, or one before it, stand against the operation? */
bool mp_append_is_overtaken(mp_append *append, const mp_operation *operation);
/*
** Notes what it writes as the session object's own, with `row` as it becomes. Room for that is made
** before; false without memory.
*/
bool mp_append_reserve_notes(mp_append *append);
void mp_append_note(mp_append *append);
/*
** Lists what is to be written, and writes the event that says so, unless its text stands as it is.
** `holes` as in mp_event_draft_write. False without memory.
*/
bool mp_append_write_event(mp_append *append, size_t *holes);
/* The event as a store keeps it; `heads` are those of the keys that it changes. */
mp_event_row mp_append_event_row(const mp_append *append, unsigned heads);
moonpad_status mp_append_not_found(const mp_append *append, moonpad_error *error);
/*
** The session object takes in the operations from here on: of an event that had been stored
** before, none.
*/
size_t mp_append_first_taken_in(const mp_append *append);
/*
** After success: the session object shows it; the change set is clean. Not for one that was shown
** before (async.h). Without memory for what others changed that is left out: the object still holds
** the older revision then, and will ask for it again. It cannot lack it where `live` was set.
*/
void mp_append_apply(mp_append *append, moonpad_session *session);
/* Hands the keys that conflicted to the session object, for moonpad_session_conflict_key. */
void mp_append_keep_conflicts(mp_append *append, moonpad_session *session);
void mp_append_free(mp_append *append);
/*
** The stored event as an object for the caller; NULL when out of memory, or when its text was lost
** for lack of it.
*/
moonpad_event *mp_append_event(const mp_append *append);
/* The same, borrowed from the append. */
void mp_append_borrow_event(const mp_append *append, moonpad_event *event);

/*
** As moonpad_append_event / moonpad_changes_commit. `is_trusted` is the short way in: the text
** is what this library's encoder wrote (compact, valid, no key twice), and is only checked for
** being an event. `changes` may be NULL.
*/
moonpad_status mp_append_event_now(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                   bool is_trusted, moonpad_event **stored, moonpad_error *error);

/*
** The same with what is pending on the session object itself. A key that is pending and in the
** event's own delta is refused. A partial event stores nothing, and the writes stay pending.
*/
moonpad_status mp_update_session_with(moonpad_session *session, moonpad_string event, moonpad_event **stored,
                                      moonpad_error *error);

/*
** As mp_append_event_now, by hand, with a delta decided in sight of another revision than the
** session object holds.
*/
moonpad_status mp_append_event_expecting(moonpad_session *session, moonpad_string event, int64_t expected_revision,
                                         moonpad_event **stored, moonpad_error *error);

#endif
