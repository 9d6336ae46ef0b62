/*
** Drafts of events: an event between appendEvent and the store (contract 2.1, 3). core/event_read.h
** makes a draft out of JSON text; here it gets what was not given and is written as it is stored.
** Also what is asked of the text of stored events. The event objects that callers hold, and who
** frees them: service/session/event.h.
*/
#ifndef MP_CORE_EVENT_DRAFT_H
#define MP_CORE_EVENT_DRAFT_H

#include "base/number.h"
#include "base/uuid.h"
#include "core/entries.h"

/* An event nests a few levels around a state value, which may have the full depth. */
#define MP_EVENT_MAX_DEPTH (MOONPAD_MAX_DEPTH + 8)

/*
** Members of an object, as spans of the event's text. Members that stand side by side are one span.
*/
#define MP_EVENT_SPANS 20 /* more than known fields that are taken out can separate */
typedef struct mp_spans {
  size_t count;
  moonpad_string list[MP_EVENT_SPANS];
} mp_spans;

/*
** A draft borrows from the text that was read, which must outlive its use. The struct must not be
** moved in memory: some strings point into it.
*/
typedef struct mp_event_draft {
  mp_env *env;
  mp_buffer compact;             /* the canonical text, if the given text was not canonical */
  mp_spans fields;               /* top-level members, except those that follow here */
  mp_spans actions;              /* members of `actions` except stateDelta */
  moonpad_string id;             /* decoded; empty if not given */
  moonpad_string id_literal;     /* the same as a JSON literal */
  moonpad_string invocation;     /* a JSON literal; empty if not given */
  moonpad_string timestamp_json; /* a JSON number; empty if not given */
  moonpad_string delta_text;     /* the members of stateDelta, without its braces */
  moonpad_string text;           /* the whole text that was read */
  double timestamp;
  mp_entries delta; /* stateDelta; keys without escapes are borrowed from the text */
  uint64_t digest;  /* of what was given, without temp: keys (core/digest.h) */
  bool partial;
  bool is_user_message;
  bool removes; /* `delta` has an entry that removes its key */
  mp_buffer unescaped_id;
  char id_made[MP_UUID_BYTES + 2];
  char invocation_made[MP_UUID_BYTES + 4];
  char timestamp_made[MP_NUMBER_BYTES];
} mp_event_draft;

void mp_event_draft_free(mp_event_draft *draft);
/* Fill in what was not given. `now` and `timestamp` are in seconds. */
void mp_event_draft_make_id(mp_event_draft *draft, double now);
void mp_event_draft_make_invocation(mp_event_draft *draft, double now);
void mp_event_draft_set_timestamp(mp_event_draft *draft, double timestamp);

/*
** Writes the event as it is stored. The draft must have id, timestamp and invocationId by now.
** `delta` has `count` rows; NULL: the delta that was given. `unresolved` (may be NULL) has an item
** for each row. In: not 0 if the value is left out, because only the store will know it. Out: the
** offset in the text at which that value belongs, or 0.
*/
void mp_event_draft_write(const mp_event_draft *draft, const mp_state_row *delta, size_t count, size_t *unresolved,
                          mp_buffer *out);

/*
** Would writing give exactly the text that was read (with its own delta)? Then *text is that text.
*/
bool mp_event_draft_is_unchanged(const mp_event_draft *draft, moonpad_string *text);

/*
** The id (decoded) and the invocationId (as spelt, without quotes) of the stored text of this
** draft. Both are borrowed from `stored`; an id that has escapes is borrowed from the draft.
*/
void mp_event_draft_stored_ids(const mp_event_draft *draft, moonpad_string stored, moonpad_string *id,
                               moonpad_string *invocation);

/*
** Is an event a message of the user, which conversationCount counts? The first is given the JSON of
** its author and of its parts (empty: absent), the second the text of a stored event.
*/
bool mp_is_user_message(moonpad_string author, moonpad_string parts);
bool mp_event_is_user_message(moonpad_string json);
/* Is a stored event a message of the user that only answers calls? */
bool mp_event_is_answer(moonpad_string json);

/*
** Calls `each` for every entry of a stored event's stateDelta, with the decoded key. A NULL value
** means that the key was removed. Key and value are borrowed for the call. Stops at the first
** failure and returns it.
*/
typedef moonpad_status (*mp_each_delta)(void *context, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_event_each_delta(mp_env *env, moonpad_string json, mp_each_delta each, void *context,
                                   moonpad_error *error);

#endif
