/*
** Reading events (contract 2.1, 3). One pass over the text checks that it is canonical JSON, checks
** the known fields, computes the digest and notes where the members are. Text that fails there is
** compacted and read again: valid JSON in another spelling then passes, and for invalid text the
** compactor says what is wrong.
*/
#include "core/event_read.h"

#include <string.h>

#include "base/error.h"
#include "core/event_fields.h"
#include "core/json_compact.h"
#include "core/json_lex.h"
#include "core/json_scan.h"
#include "core/json_trusted.h"

typedef struct event_reader {
  mp_scan scan;
  mp_event_draft *draft;
  moonpad_string removed_keys; /* the list, or empty */
  moonpad_string author;       /* JSON, as `parts`; empty if absent */
  moonpad_string parts;
  moonpad_error *error;
} event_reader;

/*
** What a member adds to the event's digest depends on its group (the object it is in), its key and
** its value. Digests are stored in files (docs/storage.md), so this must never change.
*/
#define GROUP_EVENT   UINT64_C(0x9E3779B97F4A7C15)
#define GROUP_ACTIONS UINT64_C(0xC2B2AE3D27D4EB4F)
#define GROUP_DELTA   UINT64_C(0x165667B19E3779F9)

static uint64_t member_digest(uint64_t group, uint64_t key, uint64_t value) {
  uint64_t name = key * 3 + group;
  return (name ^ (name >> 29)) * (value | 1) + value;
}

/*
** Invalid or not canonical. Text from a caller is then compacted and read again, so the message is
** only seen for trusted text.
*/
static moonpad_status not_canonical(const event_reader *reader) {
  return mp_fail(reader->error, MOONPAD_INVALID_ARGUMENT, "event: its JSON is damaged");
}

MP_INLINE moonpad_status read_any_value(event_reader *reader, moonpad_string *value, uint64_t *digest) {
  return mp_scan_value(&reader->scan, value, digest) ? MOONPAD_OK : not_canonical(reader);
}

/* An object of the event that has known fields. */
typedef struct known_object {
  mp_scan_inside inside;
  const mp_field *fields;
  mp_event_path where;
  uint32_t seen; /* a bit for each known field */
  /* the field that comes next if the members are in the order of the table */
  const mp_field *guess;
} known_object;

/* A member of such an object. */
typedef struct known_member {
  const mp_field *field; /* NULL: unknown, and no near miss */
  moonpad_string key;
  uint64_t hash; /* for the digest */
} known_member;

static bool enter_known(event_reader *reader, known_object *object, const mp_field *fields, mp_event_path where) {
  object->fields = object->guess = fields;
  object->where = where;
  object->seen = 0;
  return mp_scan_enter(&reader->scan, &object->inside);
}

/* At a key: is it the guessed one? Then moves after its colon. */
MP_INLINE bool take_guess(mp_scan *scan, const mp_field *guess, moonpad_string *key) {
  size_t length = guess->length;
  if (length == 0 || (size_t)(scan->end - scan->at) < length + 3 ||
      !mp_same_bytes(scan->at, guess->quoted, length + 3)) {
    return false;
  }
  *key = (moonpad_string){scan->at + 1, length};
  scan->at += length + 3;
  return true;
}

/* Notes a known field. False if it comes twice. */
MP_INLINE bool note_field(known_object *object, known_member *member, const mp_field *field) {
  unsigned number = (unsigned)(field - object->fields);
  uint32_t bit = UINT32_C(1) << number;
  if ((object->seen & bit) != 0) return false;
  object->seen |= bit;
  object->guess = field + 1;
  member->field = field;
  member->hash = field->digest;
  return true;
}

/* At a key that is not the guessed one. */
static moonpad_status read_unguessed_key(event_reader *reader, known_object *object, known_member *member) {
  mp_scan *scan = &reader->scan;
  if (!mp_scan_key(scan, &member->key)) return not_canonical(reader);
  const mp_field *field = mp_field_find(object->fields, member->key);
  if (field != NULL) return note_field(object, member, field) ? MOONPAD_OK : not_canonical(reader);
  member->field = NULL;
  member->hash = mp_digest_text(member->key);
  if (!mp_scan_add_key(scan, &object->inside, member->hash)) return not_canonical(reader);
  return mp_field_refuse_near_miss(object->fields, object->where, member->key, reader->error);
}

/* Reads the key of the next member. *done: the object has ended. */
MP_INLINE moonpad_status read_member_key(event_reader *reader, known_object *object, known_member *member, bool *done) {
  mp_scan *scan = &reader->scan;
  mp_scan_step step = mp_scan_next(scan, &object->inside, '}');
  *done = step == MP_SCAN_DONE;
  if (*done) return MOONPAD_OK;
  if (step == MP_SCAN_FAILED) return not_canonical(reader);
  if (!take_guess(scan, object->guess, &member->key)) return read_unguessed_key(reader, object, member);
  return note_field(object, member, object->guess) ? MOONPAD_OK : not_canonical(reader);
}

MP_INLINE moonpad_status read_checked(event_reader *reader, const mp_field *known, mp_event_path where,
                                      moonpad_string *value, uint64_t *digest) {
  moonpad_status status = read_any_value(reader, value, digest);
  return status == MOONPAD_OK && known != NULL ? mp_field_check(known, where, *value, reader->error) : status;
}

/* ---- content ---- */

static bool has_inside(const mp_field *field, moonpad_string value) {
  return field != NULL && field->inside != NULL && value.data[0] == '{';
}

static moonpad_status read_part(event_reader *reader, int index, uint64_t *digest) {
  const mp_event_path where = {"event.content.parts", index};
  known_object part;
  known_member member;
  moonpad_string value;
  uint64_t sum = MP_DIGEST_OBJECT, inner = 0;
  bool done;
  if (mp_scan_peek(&reader->scan) != '{') return mp_field_refuse(where, "must be an object", reader->error);
  if (!enter_known(reader, &part, mp_part_fields, where)) return not_canonical(reader);
  for (;;) {
    moonpad_status status = read_member_key(reader, &part, &member, &done);
    if (status == MOONPAD_OK && done) break;
    if (status == MOONPAD_OK) status = read_checked(reader, member.field, where, &value, &inner);
    if (status == MOONPAD_OK && has_inside(member.field, value)) {
      status = mp_field_check_inside(member.field, where, value, reader->error);
    }
    if (status != MOONPAD_OK) return status;
    sum += mp_digest_mix(member.hash, inner);
  }
  *digest = mp_digest_object_end(sum);
  return MOONPAD_OK;
}

static moonpad_status read_parts(event_reader *reader, uint64_t *digest) {
  mp_scan_inside inside;
  uint64_t chain = MP_DIGEST_ARRAY, item = 0;
  int index = 0;
  const char *begin = reader->scan.at;
  if (!mp_scan_enter(&reader->scan, &inside)) return not_canonical(reader);
  for (;;) {
    mp_scan_step step = mp_scan_next(&reader->scan, &inside, ']');
    if (step == MP_SCAN_FAILED) return not_canonical(reader);
    if (step == MP_SCAN_DONE) break;
    moonpad_status status = read_part(reader, ++index, &item);
    if (status != MOONPAD_OK) return status;
    chain = mp_digest_mix(chain, item);
  }
  *digest = mp_digest_array_end(chain);
  reader->parts = (moonpad_string){begin, (size_t)(reader->scan.at - begin)};
  return MOONPAD_OK;
}

static moonpad_status read_content(event_reader *reader, uint64_t *digest) {
  const mp_event_path where = {"event.content", 0};
  known_object content;
  known_member member;
  moonpad_string value;
  uint64_t sum = MP_DIGEST_OBJECT, inner = 0;
  bool done;
  if (!enter_known(reader, &content, mp_content_fields, where)) return not_canonical(reader);
  for (;;) {
    moonpad_status status = read_member_key(reader, &content, &member, &done);
    if (status == MOONPAD_OK && done) break;
    if (status != MOONPAD_OK) return status;
    if (member.field == &mp_content_fields[MP_CONTENT_PARTS] && mp_scan_peek(&reader->scan) == '[') {
      status = read_parts(reader, &inner);
    } else {
      status = read_checked(reader, member.field, where, &value, &inner);
    }
    if (status != MOONPAD_OK) return status;
    sum += mp_digest_mix(member.hash, inner);
  }
  *digest = mp_digest_object_end(sum);
  return MOONPAD_OK;
}

/* ---- stateDelta ---- */

/* One entry of stateDelta as scanned. */
typedef struct scanned_entry {
  moonpad_string key; /* the text between the quotes */
  uint64_t hash;      /* of `key` */
  moonpad_string value;
  bool key_escaped;
  bool value_escaped; /* the value is a string with escapes */
  bool is_too_deep;
} scanned_entry;

/* The key is borrowed from the text, unless it has escapes. */
static mp_entry *add_delta_entry(mp_event_draft *draft, const scanned_entry *scanned) {
  if (!scanned->key_escaped) return mp_entries_add(&draft->delta, scanned->key, scanned->hash);
  mp_buffer characters;
  moonpad_string key;
  mp_entry *entry = NULL;
  mp_buffer_init(&characters, draft->env);
  if (mp_literal_text(scanned->key, &characters, &key)) {
    entry = mp_entries_add_owned(&draft->delta, mp_key_new(draft->env, key));
  }
  mp_buffer_free(&characters);
  return entry;
}

static moonpad_status add_delta(event_reader *reader, const scanned_entry *scanned) {
  mp_event_draft *draft = reader->draft;
  mp_entry *entry = add_delta_entry(draft, scanned);
  if (entry == NULL) return mp_no_memory(reader->error);
  if (entry->key.length > MOONPAD_MAX_KEY_BYTES) return mp_check_key(entry->key, reader->error);
  if (scanned->is_too_deep) {
    return mp_fail(reader->error, MOONPAD_INVALID_ARGUMENT, "event.actions.stateDelta[%s]: nested deeper than %d",
                   mp_quote(entry->key).text, MOONPAD_MAX_DEPTH);
  }
  moonpad_string value = scanned->value;
  bool is_plain = value.data[0] == '"' && !scanned->value_escaped;
  entry->value = is_plain ? mp_value_new_string(draft->env, mp_literal_inside(value))
                          : mp_value_from_trusted_json(draft->env, value);
  return entry->value == NULL ? mp_no_memory(reader->error) : MOONPAD_OK;
}

static moonpad_status read_delta(event_reader *reader) {
  mp_scan *scan = &reader->scan;
  mp_event_draft *draft = reader->draft;
  mp_scan_inside inside;
  scanned_entry scanned;
  uint64_t digest = 0;
  if (!mp_scan_enter(scan, &inside)) return not_canonical(reader);
  draft->delta_text.data = scan->at;
  for (;;) {
    mp_scan_step step = mp_scan_next(scan, &inside, '}');
    if (step == MP_SCAN_DONE) break;
    if (step == MP_SCAN_FAILED || !mp_scan_key(scan, &scanned.key)) return not_canonical(reader);
    scanned.key_escaped = scan->escaped;
    scanned.hash = mp_digest_text(scanned.key);
    if (!mp_scan_add_key(scan, &inside, scanned.hash)) return not_canonical(reader);
    scan->deepest = scan->depth;
    moonpad_status status = read_any_value(reader, &scanned.value, &digest);
    if (status != MOONPAD_OK) return status;
    scanned.value_escaped = scan->escaped;
    scanned.is_too_deep = scan->deepest - scan->depth > MOONPAD_MAX_DEPTH;
    status = add_delta(reader, &scanned);
    if (status != MOONPAD_OK) return status;
    const mp_entry *entry = &draft->delta.items[draft->delta.count - 1];
    if (entry->scope != MP_SCOPE_TEMP) draft->digest += member_digest(GROUP_DELTA, entry->hash, digest);
  }
  draft->delta_text.length = (size_t)(scan->at - draft->delta_text.data) - 1;
  return MOONPAD_OK;
}

static void mark_entry_removed(mp_event_draft *draft, mp_entry *entry) {
  static const moonpad_string null = {"null", 4};
  mp_value_release(draft->env, entry->value);
  entry->value = NULL;
  draft->removes = true;
  if (entry->scope == MP_SCOPE_TEMP) return;
  draft->digest -= member_digest(GROUP_DELTA, entry->hash, mp_digest_text(null));
  draft->digest += member_digest(GROUP_DELTA, entry->hash, MP_DIGEST_REMOVED);
}

/* Entries whose key is in removedStateKeys must be null; they become removals. */
static moonpad_status mark_removed_keys(mp_event_draft *draft, moonpad_string list, mp_buffer *scratch,
                                        moonpad_error *error) {
  mp_items items = mp_items_of(list);
  moonpad_string literal, key;
  while (mp_items_next(&items, &literal)) {
    if (!mp_literal_text(mp_literal_inside(literal), scratch, &key)) return mp_no_memory(error);
    mp_entry *entry = mp_entries_find(&draft->delta, key, mp_hash(key.data, key.length));
    bool listed_twice = entry != NULL && entry->value == NULL;
    if (!listed_twice) {
      if (entry == NULL || entry->value->as.type != MOONPAD_NULL) {
        return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                       "event.removedStateKeys: %s must be null in actions.stateDelta to be removed",
                       mp_quote(key).text);
      }
      mark_entry_removed(draft, entry);
    }
  }
  return MOONPAD_OK;
}

/* ---- the event ---- */

/*
** Adds the member just read to `spans`: its text from the opening quote of its key to the end of
** its value.
*/
static moonpad_status keep_member(event_reader *reader, mp_spans *spans, moonpad_string key) {
  const char *begin = key.data - 1, *end = reader->scan.at;
  if (spans->count != 0) {
    moonpad_string *last = &spans->list[spans->count - 1];
    if (last->data + last->length + 1 == begin) {
      last->length = (size_t)(end - last->data);
      return MOONPAD_OK;
    }
  }
  /* When it is full, a known field comes twice. */
  if (spans->count == MP_EVENT_SPANS) return not_canonical(reader);
  spans->list[spans->count++] = (moonpad_string){begin, (size_t)(end - begin)};
  return MOONPAD_OK;
}

static moonpad_status read_actions(event_reader *reader) {
  const mp_event_path where = {"event.actions", 0};
  mp_event_draft *draft = reader->draft;
  known_object actions;
  known_member member;
  moonpad_string value;
  uint64_t digest = 0;
  bool done;
  if (!enter_known(reader, &actions, mp_action_fields, where)) return not_canonical(reader);
  for (;;) {
    moonpad_status status = read_member_key(reader, &actions, &member, &done);
    if (status != MOONPAD_OK || done) return status;
    if (member.field == &mp_action_fields[MP_ACTIONS_DELTA] && mp_scan_peek(&reader->scan) == '{') {
      status = read_delta(reader);
      if (status != MOONPAD_OK) return status;
      continue;
    }
    status = read_checked(reader, member.field, where, &value, &digest);
    if (status != MOONPAD_OK) return status;
    if (member.field != NULL && value.data[0] == 'n') continue;
    draft->digest += member_digest(GROUP_ACTIONS, member.hash, digest);
    status = keep_member(reader, &draft->actions, member.key);
    if (status != MOONPAD_OK) return status;
  }
}

static moonpad_status take_id(event_reader *reader, moonpad_string literal) {
  mp_event_draft *draft = reader->draft;
  moonpad_string inside = mp_literal_inside(literal);
  if (!reader->scan.escaped) {
    draft->id = inside;
  } else if (!mp_literal_text(inside, &draft->unescaped_id, &draft->id)) {
    return mp_no_memory(reader->error);
  }
  if (draft->id.length > MOONPAD_MAX_EVENT_ID_BYTES) {
    return mp_fail(reader->error, MOONPAD_INVALID_ARGUMENT, "event.id: longer than %d bytes",
                   MOONPAD_MAX_EVENT_ID_BYTES);
  }
  draft->id_literal = literal;
  return MOONPAD_OK;
}

/* Floats with needless zeros are common here, so they are respelt without compacting the event. */
static moonpad_status read_timestamp(event_reader *reader, uint64_t *digest) {
  mp_event_draft *draft = reader->draft;
  bool canonical;
  if (!mp_scan_number(&reader->scan, &draft->timestamp_json, &canonical)) return not_canonical(reader);
  if (!mp_parse_float(draft->timestamp_json.data, draft->timestamp_json.length, &draft->timestamp)) {
    return mp_fail(reader->error, MOONPAD_INVALID_ARGUMENT, "event.timestamp: out of range");
  }
  if (!canonical) {
    bool is_float = memchr(draft->timestamp_json.data, '.', draft->timestamp_json.length) != NULL;
    if (!is_float) return not_canonical(reader);
    mp_event_draft_set_timestamp(draft, draft->timestamp);
  }
  *digest = mp_digest_text(draft->timestamp_json);
  return MOONPAD_OK;
}

static moonpad_status read_member_value(event_reader *reader, const mp_field *known, moonpad_string *value,
                                        uint64_t *digest) {
  const mp_event_path where = {"event", 0};
  char first = mp_scan_peek(&reader->scan);
  value->data = reader->scan.at;
  /* Callers only look at the first byte of a field that is read below. */
  value->length = 1;
  if (known == &mp_event_fields[MP_EVENT_CONTENT] && first == '{') return read_content(reader, digest);
  if (known == &mp_event_fields[MP_EVENT_TIMESTAMP] && (first == '-' || (first >= '0' && first <= '9'))) {
    return read_timestamp(reader, digest);
  }
  return read_checked(reader, known, where, value, digest);
}

/*
** Takes out the fields that the draft has members for; all others go to draft->fields as they are.
*/
static moonpad_status take_member(event_reader *reader, const known_member *member, moonpad_string value,
                                  uint64_t digest) {
  mp_event_draft *draft = reader->draft;
  int field = member->field == NULL ? -1 : (int)(member->field - mp_event_fields);
  if (field >= 0 && value.data[0] == 'n') return MOONPAD_OK;
  if (field == MP_EVENT_REVISION) return MOONPAD_OK;
  if (field == MP_EVENT_REMOVED_KEYS) {
    if (value.data[0] == '[') reader->removed_keys = value;
    return MOONPAD_OK;
  }
  /* as in ADK, an empty id counts as missing */
  if (field == MP_EVENT_ID && value.length == 2) return MOONPAD_OK;
  draft->digest += member_digest(GROUP_EVENT, member->hash, digest);
  switch (field) {
  case MP_EVENT_ID:
    return take_id(reader, value);
  case MP_EVENT_INVOCATION:
    if (value.length > 2) draft->invocation = value;
    return MOONPAD_OK;
  case MP_EVENT_TIMESTAMP:
    return MOONPAD_OK;
  case MP_EVENT_AUTHOR:
    reader->author = value;
    break;
  case MP_EVENT_PARTIAL:
    draft->partial = value.data[0] == 't';
    break;
  default:
    break;
  }
  return keep_member(reader, &draft->fields, member->key);
}

static moonpad_status read_member(event_reader *reader, const known_member *member) {
  mp_scan *scan = &reader->scan;
  moonpad_string value;
  uint64_t digest = 0;
  bool is_actions = member->field == &mp_event_fields[MP_EVENT_ACTIONS];
  if (is_actions && mp_scan_peek(scan) == '{') return read_actions(reader);
  scan->deepest = scan->depth;
  moonpad_status status = read_member_value(reader, member->field, &value, &digest);
  if (status != MOONPAD_OK) return status;
  /* of a known field its own check knows how deep it may be */
  if (member->field == NULL && scan->deepest - scan->depth > MOONPAD_MAX_DEPTH) {
    return mp_fail(reader->error, MOONPAD_INVALID_ARGUMENT, "event.%.*s: nested deeper than %d",
                   (int)(member->key.length > 80 ? 80 : member->key.length), member->key.data, MOONPAD_MAX_DEPTH);
  }
  return take_member(reader, member, value, digest);
}

static moonpad_status read_event_members(event_reader *reader) {
  const mp_event_path where = {"event", 0};
  known_object event;
  known_member member;
  bool done;
  if (mp_scan_peek(&reader->scan) != '{') return mp_field_refuse(where, "must be an object", reader->error);
  if (!enter_known(reader, &event, mp_event_fields, where)) return not_canonical(reader);
  for (;;) {
    moonpad_status status = read_member_key(reader, &event, &member, &done);
    if (status == MOONPAD_OK && !done) status = read_member(reader, &member);
    if (status != MOONPAD_OK || done) return status;
  }
}

static void init_draft(mp_event_draft *draft, mp_env *env) {
  const moonpad_string none = {"", 0};
  draft->env = env;
  mp_buffer_init(&draft->compact, env);
  mp_buffer_init(&draft->unescaped_id, env);
  draft->fields.count = draft->actions.count = 0;
  draft->id = draft->id_literal = draft->invocation = draft->timestamp_json = draft->delta_text = none;
  draft->timestamp = 0;
  mp_entries_init(&draft->delta, env);
  draft->digest = 0;
  draft->partial = draft->is_user_message = draft->removes = false;
}

/* On failure there may be memory in the draft: the caller frees it. */
static moonpad_status read_canonical(mp_event_draft *draft, moonpad_string json, bool trusted, moonpad_error *error) {
  event_reader reader;
  if (json.length == 0) json.data = "";
  mp_scan_init(&reader.scan, json, trusted ? MP_JSON_DEPTH_LIMIT : MP_EVENT_MAX_DEPTH,
               trusted ? MP_SCAN_TRUSTED : MP_SCAN_CANONICAL);
  reader.draft = draft;
  draft->text = json;
  reader.removed_keys = (moonpad_string){NULL, 0};
  reader.author = reader.parts = (moonpad_string){NULL, 0};
  reader.error = error;
  moonpad_status status = read_event_members(&reader);
  if (status == MOONPAD_OK && reader.scan.at != reader.scan.end) status = not_canonical(&reader);
  if (status == MOONPAD_OK && reader.removed_keys.length != 0) {
    mp_buffer scratch;
    mp_buffer_init(&scratch, draft->env);
    status = mark_removed_keys(draft, reader.removed_keys, &scratch, error);
    mp_buffer_free(&scratch);
  }
  draft->is_user_message = mp_is_user_message(reader.author, reader.parts);
  return status;
}

moonpad_status mp_event_draft_read(mp_env *env, moonpad_string json, bool is_trusted, mp_event_draft *draft,
                                   moonpad_error *error) {
  init_draft(draft, env);
  moonpad_status status = read_canonical(draft, json, is_trusted, is_trusted ? error : NULL);
  if (status == MOONPAD_OK) return MOONPAD_OK;
  mp_event_draft_free(draft);
  if (is_trusted || status == MOONPAD_NO_MEMORY) return status == MOONPAD_NO_MEMORY ? mp_no_memory(error) : status;
  moonpad_type type;
  init_draft(draft, env);
  status = mp_json_compact(env, json, MP_EVENT_MAX_DEPTH, "event", &draft->compact, &type, error);
  if (status == MOONPAD_OK) status = read_canonical(draft, mp_buffer_text(&draft->compact), true, error);
  if (status != MOONPAD_OK) mp_event_draft_free(draft);
  return status;
}
