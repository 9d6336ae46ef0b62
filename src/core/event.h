/*
** An event on its way into the store (contract 2.1 and 3): read from JSON, checked, its
** stateDelta taken apart (event_read.c), and written again once ids and resolved values are
** known (event.c).
*/
#ifndef MP_CORE_EVENT_H
#define MP_CORE_EVENT_H

#include "base/number.h"
#include "base/uuid.h"
#include "core/entries.h"

/* Members of an object of the event, as they stand in its text; neighbours are one piece. */
#define MP_EVENT_SPANS 20 /* between fields that are taken out, of which there are fewer */
typedef struct mp_spans {
  size_t count;
  moonpad_string list[MP_EVENT_SPANS];
} mp_spans;

/*
** It borrows from the text that was read, which has to stay as long as the draft is used. A draft
** does not move.
*/
typedef struct mp_event_draft {
  mp_env *env;
  mp_buffer compact;             /* the text in canonical spelling, where the given one was not */
  mp_spans fields;               /* top-level members as given, without those below */
  mp_spans actions;              /* members of `actions` without stateDelta */
  moonpad_string id;             /* characters; empty when not given */
  moonpad_string id_literal;     /* the same as JSON */
  moonpad_string invocation;     /* JSON literal; empty when not given */
  moonpad_string timestamp_json; /* empty when not given */
  moonpad_string delta_text;     /* the members of stateDelta as given */
  moonpad_string text;           /* all that was read */
  double timestamp;
  mp_entries delta; /* the event's own; keys without escapes lie in its text */
  uint64_t digest;  /* of what was given, order of members apart, without temp: */
  bool partial;
  bool is_user_message;
  bool removes; /* one of `delta` is a removal */
  mp_buffer unescaped_id;
  char id_made[MP_UUID_BYTES + 2];
  char invocation_made[MP_UUID_BYTES + 4];
  char timestamp_made[MP_NUMBER_BYTES];
} mp_event_draft;

void mp_event_draft_free(mp_event_draft *draft);
/* For what was not given. */
void mp_event_draft_make_id(mp_event_draft *draft, double now);
void mp_event_draft_make_invocation(mp_event_draft *draft, double now);
void mp_event_draft_set_timestamp(mp_event_draft *draft, double timestamp);

/*
** Writes the event as stored: id, timestamp and invocationId from the draft, which must have
** them by now, and this delta; NULL: the one that was given. `holes` (may be NULL), of each key:
** in, not 0 where the value is left out because it is not known yet; out, where in the text it is
** to stand, or 0.
*/
void mp_event_draft_write(const mp_event_draft *draft, const mp_state_row *delta, size_t count, size_t *holes,
                          mp_buffer *out);

/* Is the text that was read, with its own delta, what would be written? Then it need not be. */
bool mp_event_draft_is_unchanged(const mp_event_draft *draft, moonpad_string *text);

/*
** Of the stored text that was written, or that stands: the characters of its id and its
** invocationId as it spells them, without quotes. An id that is spelt with escapes is the draft's.
*/
void mp_event_draft_stored_ids(const mp_event_draft *draft, moonpad_string stored, moonpad_string *id,
                               moonpad_string *invocation);

/*
** Is an event by this author and with these parts (JSON, as they stand in it; empty: there are
** none) a message of the user, which counts for conversationCount? Of a stored event, for whoever
** has only its text.
*/
bool mp_is_user_message(moonpad_string author, moonpad_string parts);
bool mp_event_is_user_message(moonpad_string json);

/*
** Takes the delta out of a stored event's JSON: each entry goes to `each` with the key's
** characters; NULL value: removed.
*/
typedef moonpad_status (*mp_each_delta)(void *context, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_event_each_delta(mp_env *env, moonpad_string json, mp_each_delta each, void *context,
                                   moonpad_error *error);

#endif
