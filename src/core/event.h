/*
** An event on its way into the store (contract 2.1 and 3): read from JSON, checked, its stateDelta taken apart, and written again once ids and resolved values
** are known.
*/
#ifndef MP_CORE_EVENT_H
#define MP_CORE_EVENT_H

#include "base/map.h"
#include "core/scope.h"
#include "core/value.h"

/* One entry of the event's own stateDelta. */
typedef struct mp_delta_entry {
  mp_key *key; /* with prefix */
  mp_scope scope;
  mp_value *value; /* NULL: removal */
} mp_delta_entry;

typedef struct mp_event_draft {
  mp_env *env;
  mp_buffer fields;         /* top-level members as given, joined by commas, without those below */
  mp_buffer actions;        /* members of `actions` without stateDelta */
  mp_buffer id;             /* characters; empty when not given */
  mp_buffer invocation_id;  /* JSON literal; empty when not given */
  mp_buffer timestamp_json; /* as given; empty when not */
  double timestamp;
  mp_delta_entry *delta;
  size_t delta_count;
  size_t delta_capacity;
  bool has_id;     /* given by the caller */
  uint64_t digest; /* with an id: of what was given, order of members apart, without temp: */
  bool partial;
  bool is_user_message; /* counts for conversationCount */
} mp_event_draft;

/*
** Reads an event. `own` says that the text is compact valid JSON without duplicate keys that this library's encoder made. On success the caller frees the draft;
** on failure nothing is left. Errors: invalid_argument naming the path, no_memory.
*/
moonpad_status mp_event_draft_read(mp_env *env, moonpad_string json, bool own, mp_event_draft *draft,
                                   moonpad_error *error);
void mp_event_draft_free(mp_event_draft *draft);

/* What an event's delta becomes. */
typedef struct mp_resolved {
  const mp_key *key;
  mp_value *value; /* NULL: removed */
} mp_resolved;

/* Writes the event as stored: id, timestamp and invocationId from the draft, which must have them by now, and this delta. */
void mp_event_draft_write(const mp_event_draft *draft, const mp_resolved *delta, size_t count, mp_buffer *out);

/* Takes the delta out of a stored event's JSON: each entry goes to `each` with the key's characters; NULL value: removed. */
typedef moonpad_status (*mp_each_delta)(void *context, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_event_each_delta(mp_env *env, moonpad_string json, mp_each_delta each, void *context,
                                   moonpad_error *error);

/* Walks the members of an object in this library's own JSON. */
typedef struct mp_members {
  const char *text;
  size_t position;
} mp_members;
mp_members mp_members_of(moonpad_string object);
/* `key` is what stands between the quotes, escapes included. */
bool mp_members_next(mp_members *members, moonpad_string *key, moonpad_string *value);
/* A member by a name without escapes; false when it is not there. */
bool mp_member_find(moonpad_string object, const char *name, moonpad_string *value);
/* The characters of a string literal without its quotes; `scratch` is used where it has escapes. False when out of memory. */
bool mp_literal_text(moonpad_string inside, mp_buffer *scratch, moonpad_string *text);

/* A hash of compact JSON that does not depend on the order of members. */
uint64_t mp_json_digest(moonpad_string json);

#endif
