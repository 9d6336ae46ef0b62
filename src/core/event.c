/* Reading, checking and writing events (contract 2.1, 3). */
#include "core/event.h"

#include <stdio.h>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "core/json.h"

/* Room for what surrounds a value inside an event, so that a value of the full depth fits. */
#define EVENT_MAX_DEPTH (MOONPAD_MAX_DEPTH + 8)

typedef enum kind { ANYTHING, TEXT, NUMBER, BOOLEAN, OBJECT, ARRAY, TEXT_LIST } kind;

typedef struct field {
  const char *name;
  size_t length;
  kind kind;
} field;

#define FIELD(name, kind)                                                                                              \
  { name, sizeof(name) - 1, kind }
#define END_OF_FIELDS                                                                                                  \
  { NULL, 0, ANYTHING }

/* The known fields of contract 3. Others are kept as they are, near misses of these are refused. */
static const field event_fields[] = {FIELD("id", TEXT),
                                     FIELD("invocationId", TEXT),
                                     FIELD("author", TEXT),
                                     FIELD("timestamp", NUMBER),
                                     FIELD("content", OBJECT),
                                     FIELD("actions", OBJECT),
                                     FIELD("partial", BOOLEAN),
                                     FIELD("turnComplete", BOOLEAN),
                                     FIELD("interrupted", BOOLEAN),
                                     FIELD("errorCode", TEXT),
                                     FIELD("errorMessage", TEXT),
                                     FIELD("branch", TEXT),
                                     FIELD("longRunningToolIds", TEXT_LIST),
                                     FIELD("usageMetadata", OBJECT),
                                     FIELD("customMetadata", ANYTHING),
                                     FIELD("finishReason", TEXT),
                                     FIELD("removedStateKeys", TEXT_LIST),
                                     FIELD("revision", ANYTHING),
                                     END_OF_FIELDS};

static const field action_fields[] = {FIELD("stateDelta", OBJECT),
                                      FIELD("artifactDelta", OBJECT),
                                      FIELD("transferToAgent", TEXT),
                                      FIELD("escalate", BOOLEAN),
                                      FIELD("skipSummarization", BOOLEAN),
                                      FIELD("compaction", OBJECT),
                                      FIELD("rewindBeforeInvocationId", TEXT),
                                      FIELD("requestedAuthConfigs", OBJECT),
                                      FIELD("requestedToolConfirmations", OBJECT),
                                      END_OF_FIELDS};

static const field content_fields[] = {FIELD("role", TEXT), FIELD("parts", ARRAY), END_OF_FIELDS};
static const field part_fields[] = {FIELD("text", TEXT),           FIELD("thought", BOOLEAN),
                                    FIELD("functionCall", OBJECT), FIELD("functionResponse", OBJECT),
                                    FIELD("inlineData", OBJECT),   END_OF_FIELDS};

/* Where an object stands in the event, spelt out only for an error. */
typedef struct place {
  const char *name;
  int index; /* of a part; 0: none */
} place;

/* Equal but for case and underscores? */
static bool near_miss(moonpad_string given, const char *known) {
  size_t at = 0;
  for (size_t i = 0; i < given.length; i++) {
    char byte = given.data[i];
    if (byte == '_') continue;
    char expected = known[at];
    if (expected == '\0') return false;
    if (byte >= 'A' && byte <= 'Z') byte = (char)(byte - 'A' + 'a');
    if (expected >= 'A' && expected <= 'Z') expected = (char)(expected - 'A' + 'a');
    if (byte != expected) return false;
    at++;
  }
  return known[at] == '\0';
}

static bool text_is(moonpad_string given, const char *known) {
  return strlen(known) == given.length && memcmp(given.data, known, given.length) == 0;
}

static const field *find_field(const field *fields, moonpad_string name) {
  for (const field *known = fields; known->name != NULL; known++) {
    if (name.length == known->length && memcmp(name.data, known->name, known->length) == 0) return known;
  }
  return NULL;
}

static const char *place_text(place where, char text[64]) {
  if (where.index == 0) return where.name;
  snprintf(text, 64, "%s[%d]", where.name, where.index);
  return text;
}

static moonpad_status refuse_near_miss(const field *fields, place where, moonpad_string name, moonpad_error *error) {
  char text[64];
  for (const field *known = fields; known->name != NULL; known++) {
    if (near_miss(name, known->name)) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s.%.*s: unknown field, did you mean %s?",
                     place_text(where, text), (int)(name.length > 80 ? 80 : name.length), name.data, known->name);
    }
  }
  return MOONPAD_OK;
}

static bool is_text_list(moonpad_string value) {
  if (value.data[0] != '[') return false;
  for (size_t at = 1; value.data[at] != ']';) {
    if (value.data[at] == ',') at++;
    if (value.data[at] != '"') return false;
    at = mp_json_own_end(value.data, at);
  }
  return true;
}

static moonpad_status check_kind(const field *known, place where, moonpad_string value, moonpad_error *error) {
  char first = value.data[0], text[64];
  const char *wanted = NULL;
  switch (known->kind) {
  case ANYTHING:
    break;
  case TEXT:
    if (first != '"') wanted = "a string";
    break;
  case NUMBER:
    if (first != '-' && (first < '0' || first > '9')) wanted = "a number";
    break;
  case BOOLEAN:
    if (first != 't' && first != 'f') wanted = "a boolean";
    break;
  case OBJECT:
    if (first != '{') wanted = "an object";
    break;
  case ARRAY:
    if (first != '[' && !(first == '{' && value.length == 2)) wanted = "an array";
    break;
  case TEXT_LIST:
    if (!is_text_list(value) && !(first == '{' && value.length == 2)) wanted = "an array of strings";
    break;
  }
  if (wanted == NULL) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s.%s: must be %s", place_text(where, text), known->name, wanted);
}

/* Checks one member against the known fields of its object; null stands for absent. `known` gets its field, or NULL. */
static moonpad_status check_member(const field *fields, place where, moonpad_string key, moonpad_string value,
                                   const field **known, moonpad_error *error) {
  *known = find_field(fields, key);
  if (*known == NULL) return refuse_near_miss(fields, where, key, error);
  return value.data[0] == 'n' ? MOONPAD_OK : check_kind(*known, where, value, error);
}

static moonpad_status check_part(moonpad_string part, int index, moonpad_error *error) {
  const place where = {"event.content.parts", index};
  char text[64];
  if (part.data[0] != '{') {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: must be an object", place_text(where, text));
  }
  mp_members members = mp_members_of(part);
  moonpad_string key, value;
  const field *known;
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && mp_members_next(&members, &key, &value)) {
    status = check_member(part_fields, where, key, value, &known, error);
  }
  return status;
}

static moonpad_status check_parts(moonpad_string parts, bool *has_parts, moonpad_error *error) {
  int index = 0;
  moonpad_status status = MOONPAD_OK;
  for (size_t at = 1; status == MOONPAD_OK && parts.data[at] != ']';) {
    if (parts.data[at] == ',') at++;
    size_t end = mp_json_own_end(parts.data, at);
    moonpad_string part = {parts.data + at, end - at};
    status = check_part(part, ++index, error);
    at = end;
  }
  *has_parts = index > 0;
  return status;
}

static moonpad_status check_content(moonpad_string content, bool *has_parts, moonpad_error *error) {
  const place where = {"event.content", 0};
  mp_members members = mp_members_of(content);
  moonpad_string key, value;
  const field *known;
  moonpad_status status = MOONPAD_OK;
  *has_parts = false;
  while (status == MOONPAD_OK && mp_members_next(&members, &key, &value)) {
    status = check_member(content_fields, where, key, value, &known, error);
    bool is_parts = known != NULL && known->kind == ARRAY && value.data[0] == '[';
    if (status == MOONPAD_OK && is_parts) status = check_parts(value, has_parts, error);
  }
  return status;
}

/* ---- stateDelta ---- */

static unsigned text_depth(moonpad_string json) {
  unsigned depth = 0, deepest = 0;
  for (size_t i = 0; i < json.length; i++) {
    char byte = json.data[i];
    if (byte == '"') {
      for (i++; json.data[i] != '"'; i++) {
        if (json.data[i] == '\\') i++;
      }
    } else if (byte == '{' || byte == '[') {
      if (++depth > deepest) deepest = depth;
    } else if (byte == '}' || byte == ']') {
      depth--;
    }
  }
  return deepest;
}

static mp_delta_entry *find_delta(mp_event_draft *draft, moonpad_string key) {
  for (size_t i = 0; i < draft->delta_count; i++) {
    const mp_key *there = draft->delta[i].key;
    if (there->length == key.length && memcmp(there->bytes, key.data, key.length) == 0) return &draft->delta[i];
  }
  return NULL;
}

static moonpad_status add_delta(mp_event_draft *draft, moonpad_string key, moonpad_string value, moonpad_error *error) {
  moonpad_status status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  if (text_depth(value) > MOONPAD_MAX_DEPTH) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.actions.stateDelta[%s]: nested deeper than %d",
                   mp_quote(key).text, MOONPAD_MAX_DEPTH);
  }
  if (!mp_reserve(draft->env, (void **)&draft->delta, &draft->delta_capacity, sizeof *draft->delta,
                  draft->delta_count + 1)) {
    return mp_no_memory(error);
  }
  mp_delta_entry entry = {mp_key_new(draft->env, key), mp_scope_of(key), mp_value_from_own_json(draft->env, value)};
  if (entry.key == NULL || entry.value == NULL) {
    mp_key_release(draft->env, entry.key);
    mp_value_release(draft->env, entry.value);
    return mp_no_memory(error);
  }
  draft->delta[draft->delta_count++] = entry;
  return MOONPAD_OK;
}

static moonpad_status read_delta(mp_event_draft *draft, moonpad_string delta, mp_buffer *scratch,
                                 moonpad_error *error) {
  mp_members members = mp_members_of(delta);
  moonpad_string literal, value, key;
  while (mp_members_next(&members, &literal, &value)) {
    if (!mp_literal_text(literal, scratch, &key)) return mp_no_memory(error);
    moonpad_status status = add_delta(draft, key, value, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

/* The keys of removedStateKeys lose their (null) value. */
static moonpad_status mark_removed(mp_event_draft *draft, moonpad_string list, mp_buffer *scratch,
                                   moonpad_error *error) {
  if (list.data[0] != '[') return MOONPAD_OK;
  for (size_t at = 1; list.data[at] != ']';) {
    if (list.data[at] == ',') at++;
    size_t end = mp_json_own_end(list.data, at);
    moonpad_string inside = {list.data + at + 1, end - at - 2}, key;
    if (!mp_literal_text(inside, scratch, &key)) return mp_no_memory(error);
    mp_delta_entry *entry = find_delta(draft, key);
    if (entry == NULL || entry->value == NULL || entry->value->as.type != MOONPAD_NULL) {
      if (entry != NULL && entry->value == NULL) {
        at = end; /* listed twice */
        continue;
      }
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                     "event.removedStateKeys: %s must be null in actions.stateDelta to be removed", mp_quote(key).text);
    }
    mp_value_release(draft->env, entry->value);
    entry->value = NULL;
    at = end;
  }
  return MOONPAD_OK;
}

/* ---- the event ---- */

static void add_member(mp_buffer *out, moonpad_string key, moonpad_string value) {
  if (out->length != 0) mp_buffer_add_char(out, ',');
  mp_buffer_add_char(out, '"');
  mp_buffer_add_string(out, key);
  mp_buffer_add_literal(out, "\":");
  mp_buffer_add_string(out, value);
}

static uint64_t member_digest(const char *group, moonpad_string key, uint64_t value) {
  uint64_t name = mp_hash(key.data, key.length) * 3 + mp_hash(group, strlen(group));
  return (name ^ (name >> 29)) * (value | 1) + value;
}

static moonpad_status read_actions(mp_event_draft *draft, moonpad_string actions, mp_buffer *scratch,
                                   moonpad_error *error) {
  const place where = {"event.actions", 0};
  mp_members members = mp_members_of(actions);
  moonpad_string key, value;
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && mp_members_next(&members, &key, &value)) {
    const field *known;
    status = check_member(action_fields, where, key, value, &known, error);
    if (status != MOONPAD_OK) break;
    if (known != NULL && value.data[0] == 'n') continue;
    if (known == action_fields) {
      status = read_delta(draft, value, scratch, error);
    } else {
      add_member(&draft->actions, key, value);
      if (draft->has_id) draft->digest += member_digest("actions", key, mp_json_digest(value));
    }
  }
  return status;
}

static moonpad_status read_id(mp_event_draft *draft, moonpad_string literal, mp_buffer *scratch, moonpad_error *error) {
  moonpad_string inside = {literal.data + 1, literal.length - 2}, text;
  if (!mp_literal_text(inside, scratch, &text)) return mp_no_memory(error);
  if (text.length > MOONPAD_MAX_NAME_BYTES) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.id: longer than %d bytes", MOONPAD_MAX_NAME_BYTES);
  }
  mp_buffer_add_string(&draft->id, text);
  return MOONPAD_OK;
}

static moonpad_status read_timestamp(mp_event_draft *draft, moonpad_string value, moonpad_error *error) {
  if (!mp_parse_float(value.data, value.length, &draft->timestamp)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.timestamp: out of range");
  }
  mp_buffer_add_string(&draft->timestamp_json, value);
  return MOONPAD_OK;
}

typedef struct special {
  moonpad_string removed_keys;
  moonpad_string author;
  bool has_parts;
} special;

static moonpad_status refuse_misplaced(moonpad_string key, moonpad_error *error) {
  for (const field *known = action_fields; known->name != NULL; known++) {
    if (near_miss(key, known->name)) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.%.*s: belongs into event.actions.%s",
                     (int)(key.length > 80 ? 80 : key.length), key.data, known->name);
    }
  }
  return MOONPAD_OK;
}

/* Fields that this library looks at are taken out; all others go to draft->fields as they are. */
static moonpad_status read_field(mp_event_draft *draft, moonpad_string key, moonpad_string value, special *seen,
                                 mp_buffer *scratch, moonpad_error *error) {
  const place where = {"event", 0};
  const field *known;
  moonpad_status status = check_member(event_fields, where, key, value, &known, error);
  if (status == MOONPAD_OK && known == NULL) status = refuse_misplaced(key, error);
  if (status != MOONPAD_OK) return status;
  if (known != NULL && value.data[0] == 'n') return MOONPAD_OK;
  if (text_is(key, "revision")) return MOONPAD_OK;
  if (text_is(key, "actions")) return read_actions(draft, value, scratch, error);
  if (text_is(key, "removedStateKeys")) {
    seen->removed_keys = value;
    return MOONPAD_OK;
  }
  if (text_is(key, "id") && value.length == 2) return MOONPAD_OK; /* "" stands for missing, as in ADK */
  if (draft->has_id) draft->digest += member_digest("event", key, mp_json_digest(value));
  if (text_is(key, "id")) return read_id(draft, value, scratch, error);
  if (text_is(key, "timestamp")) return read_timestamp(draft, value, error);
  if (text_is(key, "invocationId") && value.length > 2) {
    mp_buffer_add_string(&draft->invocation_id, value);
    return MOONPAD_OK;
  }
  if (text_is(key, "invocationId")) return MOONPAD_OK;
  if (known == NULL && text_depth(value) > MOONPAD_MAX_DEPTH) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.%.*s: nested deeper than %d",
                   (int)(key.length > 80 ? 80 : key.length), key.data, MOONPAD_MAX_DEPTH);
  }
  if (text_is(key, "author")) seen->author = value;
  if (text_is(key, "partial")) draft->partial = value.data[0] == 't';
  if (text_is(key, "content")) status = check_content(value, &seen->has_parts, error);
  add_member(&draft->fields, key, value);
  return status;
}

static uint64_t delta_digest(const mp_event_draft *draft, mp_buffer *scratch) {
  uint64_t sum = 0;
  for (size_t i = 0; i < draft->delta_count; i++) {
    const mp_delta_entry *entry = &draft->delta[i];
    if (entry->scope == MP_SCOPE_TEMP) continue;
    uint64_t value = 7;
    if (entry->value != NULL) {
      mp_buffer_clear(scratch);
      mp_value_write(scratch, entry->value);
      if (!scratch->failed) value = mp_json_digest(mp_buffer_text(scratch));
    }
    sum += member_digest("delta", mp_key_text(entry->key), value);
  }
  return sum;
}

static moonpad_status read_event(mp_event_draft *draft, moonpad_string event, mp_buffer *scratch,
                                 moonpad_error *error) {
  if (event.length == 0 || event.data[0] != '{') {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event: must be an object");
  }
  moonpad_status status = MOONPAD_OK;
  special seen = {{NULL, 0}, {NULL, 0}, false};
  moonpad_string key, value;
  draft->has_id = mp_member_find(event, "id", &value) && value.data[0] == '"' && value.length > 2;
  mp_members members = mp_members_of(event);
  while (status == MOONPAD_OK && mp_members_next(&members, &key, &value)) {
    status = read_field(draft, key, value, &seen, scratch, error);
  }
  if (status == MOONPAD_OK && seen.removed_keys.data != NULL) {
    status = mark_removed(draft, seen.removed_keys, scratch, error);
  }
  if (status != MOONPAD_OK) return status;
  draft->is_user_message = seen.has_parts && text_is(seen.author, "\"user\"");
  if (draft->has_id) draft->digest += delta_digest(draft, scratch);
  bool failed = draft->fields.failed || draft->actions.failed || draft->id.failed || draft->invocation_id.failed ||
                draft->timestamp_json.failed;
  return failed ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_event_draft_read(mp_env *env, moonpad_string json, bool own, mp_event_draft *draft,
                                   moonpad_error *error) {
  memset(draft, 0, sizeof *draft);
  draft->env = env;
  mp_buffer_init(&draft->fields, env);
  mp_buffer_init(&draft->actions, env);
  mp_buffer_init(&draft->id, env);
  mp_buffer_init(&draft->invocation_id, env);
  mp_buffer_init(&draft->timestamp_json, env);
  mp_buffer compact, scratch;
  mp_buffer_init(&compact, env);
  mp_buffer_init(&scratch, env);
  moonpad_status status = MOONPAD_OK;
  if (!own) {
    moonpad_type type;
    status = mp_json_compact(env, json, EVENT_MAX_DEPTH, "event", &compact, &type, error);
    if (status == MOONPAD_OK && compact.failed) status = mp_no_memory(error);
    json = mp_buffer_text(&compact);
  }
  if (status == MOONPAD_OK) status = read_event(draft, json, &scratch, error);
  mp_buffer_free(&compact);
  mp_buffer_free(&scratch);
  if (status != MOONPAD_OK) mp_event_draft_free(draft);
  return status;
}

void mp_event_draft_free(mp_event_draft *draft) {
  for (size_t i = 0; i < draft->delta_count; i++) {
    mp_key_release(draft->env, draft->delta[i].key);
    mp_value_release(draft->env, draft->delta[i].value);
  }
  mp_release(draft->env, draft->delta);
  draft->delta = NULL;
  draft->delta_count = draft->delta_capacity = 0;
  mp_buffer_free(&draft->fields);
  mp_buffer_free(&draft->actions);
  mp_buffer_free(&draft->id);
  mp_buffer_free(&draft->invocation_id);
  mp_buffer_free(&draft->timestamp_json);
}

static void write_removed_keys(const mp_resolved *delta, size_t count, mp_buffer *out) {
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    if (delta[i].value != NULL) continue;
    if (any) {
      mp_buffer_add_char(out, ',');
    } else {
      mp_buffer_add_literal(out, ",\"removedStateKeys\":[");
    }
    mp_json_write_string(out, mp_key_text(delta[i].key));
    any = true;
  }
  if (any) mp_buffer_add_char(out, ']');
}

void mp_event_draft_write(const mp_event_draft *draft, const mp_resolved *delta, size_t count, mp_buffer *out) {
  mp_buffer_room(out,
                 draft->fields.length + draft->actions.length + draft->id.length + draft->invocation_id.length + 96);
  mp_buffer_add_literal(out, "{\"id\":");
  mp_json_write_string(out, mp_buffer_text(&draft->id));
  mp_buffer_add_literal(out, ",\"invocationId\":");
  mp_buffer_add_string(out, mp_buffer_text(&draft->invocation_id));
  mp_buffer_add_literal(out, ",\"timestamp\":");
  mp_buffer_add_string(out, mp_buffer_text(&draft->timestamp_json));
  if (draft->fields.length != 0) {
    mp_buffer_add_char(out, ',');
    mp_buffer_add_string(out, mp_buffer_text(&draft->fields));
  }
  mp_buffer_add_literal(out, ",\"actions\":{\"stateDelta\":{");
  for (size_t i = 0; i < count; i++) {
    if (i != 0) mp_buffer_add_char(out, ',');
    mp_json_write_string(out, mp_key_text(delta[i].key));
    mp_buffer_add_char(out, ':');
    if (delta[i].value != NULL) {
      mp_value_write(out, delta[i].value);
    } else {
      mp_buffer_add_literal(out, "null");
    }
  }
  mp_buffer_add_char(out, '}');
  if (draft->actions.length != 0) {
    mp_buffer_add_char(out, ',');
    mp_buffer_add_string(out, mp_buffer_text(&draft->actions));
  }
  mp_buffer_add_char(out, '}');
  write_removed_keys(delta, count, out);
  mp_buffer_add_char(out, '}');
}

static bool listed(moonpad_string list, moonpad_string literal) {
  if (list.data == NULL || list.data[0] != '[') return false;
  for (size_t at = 1; list.data[at] != ']';) {
    if (list.data[at] == ',') at++;
    size_t end = mp_json_own_end(list.data, at);
    if (end - at == literal.length + 2 && memcmp(list.data + at + 1, literal.data, literal.length) == 0) return true;
    at = end;
  }
  return false;
}

moonpad_status mp_event_each_delta(mp_env *env, moonpad_string json, mp_each_delta each, void *context,
                                   moonpad_error *error) {
  moonpad_string actions, delta, removed = {NULL, 0}, literal, value, key;
  if (!mp_member_find(json, "actions", &actions) || !mp_member_find(actions, "stateDelta", &delta)) return MOONPAD_OK;
  if (!mp_member_find(json, "removedStateKeys", &removed)) removed.data = NULL;
  mp_buffer scratch;
  mp_buffer_init(&scratch, env);
  moonpad_status status = MOONPAD_OK;
  mp_members members = mp_members_of(delta);
  while (status == MOONPAD_OK && mp_members_next(&members, &literal, &value)) {
    mp_value *owned = NULL;
    if (!mp_literal_text(literal, &scratch, &key)) {
      status = mp_no_memory(error);
    } else if (value.data[0] == 'n' && listed(removed, literal)) {
      status = each(context, key, NULL, error);
    } else if ((owned = mp_value_from_own_json(env, value)) == NULL) {
      status = mp_no_memory(error);
    } else {
      status = each(context, key, owned, error);
      mp_value_release(env, owned);
    }
  }
  mp_buffer_free(&scratch);
  return status;
}
