/* Drafts of events: what was not given, writing them, and questions about stored events. */
#include "core/event_draft.h"

#include "base/error.h"
#include "core/json_trusted.h"
#include "core/json_write.h"

void mp_event_draft_free(mp_event_draft *draft) {
  mp_entries_free(&draft->delta);
  mp_buffer_free(&draft->compact);
  mp_buffer_free(&draft->unescaped_id);
}

/* ---- ids and timestamp ---- */

void mp_event_draft_make_id(mp_event_draft *draft, double now) {
  char *literal = draft->id_made;
  literal[0] = literal[MP_UUID_BYTES + 1] = '"';
  mp_uuid7(draft->env, now, literal + 1);
  draft->id_literal = (moonpad_string){literal, MP_UUID_BYTES + 2};
  draft->id = (moonpad_string){literal + 1, MP_UUID_BYTES};
}

void mp_event_draft_make_invocation(mp_event_draft *draft, double now) {
  char *literal = draft->invocation_made;
  memcpy(literal, "\"e-", 3);
  mp_uuid7(draft->env, now, literal + 3);
  literal[MP_UUID_BYTES + 3] = '"';
  draft->invocation = (moonpad_string){literal, MP_UUID_BYTES + 4};
}

void mp_event_draft_set_timestamp(mp_event_draft *draft, double timestamp) {
  draft->timestamp = timestamp;
  draft->timestamp_json = (moonpad_string){draft->timestamp_made, mp_format_float(timestamp, draft->timestamp_made)};
}

/* ---- writing ---- */

#define EVENT_BEGIN      "{\"id\":"
#define INVOCATION_BEGIN ",\"invocationId\":"
#define TIMESTAMP_BEGIN  ",\"timestamp\":"
#define DELTA_BEGIN      ",\"actions\":{\"stateDelta\":{"
#define REMOVED_BEGIN    ",\"removedStateKeys\":"

static bool is_removed(const mp_state_row *delta, const size_t *unresolved, size_t i) {
  return delta[i].value == NULL && (unresolved == NULL || unresolved[i] == 0);
}

static void write_removed_keys(const mp_state_row *delta, size_t count, const size_t *unresolved, mp_buffer *out) {
  char room[MP_PREFIXED_BYTES];
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    if (!is_removed(delta, unresolved, i)) continue;
    if (any) {
      mp_buffer_add_char(out, ',');
    } else {
      mp_buffer_add_literal(out, REMOVED_BEGIN "[");
    }
    mp_json_write_string(out, mp_scope_join(delta[i].scope, delta[i].key, room));
    any = true;
  }
  if (any) mp_buffer_add_char(out, ']');
}

static void write_delta(const mp_state_row *delta, size_t count, size_t *unresolved, mp_buffer *out) {
  char room[MP_PREFIXED_BYTES];
  for (size_t i = 0; i < count; i++) {
    moonpad_string key = mp_scope_join(delta[i].scope, delta[i].key, room);
    if (unresolved != NULL && unresolved[i] != 0) {
      mp_json_write_key(out, key);
      unresolved[i] = out->length;
    } else {
      mp_value_write_member(out, key, delta[i].value);
    }
  }
}

static size_t spans_length(const mp_spans *spans) {
  size_t length = 0;
  for (size_t i = 0; i < spans->count; i++) length += spans->list[i].length + 1;
  return length;
}

/* A comma comes before each span. */
static void write_spans(const mp_spans *spans, mp_buffer *out) {
  for (size_t i = 0; i < spans->count; i++) {
    mp_buffer_add_char(out, ',');
    mp_buffer_add_string(out, spans->list[i]);
  }
}

void mp_event_draft_write(const mp_event_draft *draft, const mp_state_row *delta, size_t count, size_t *unresolved,
                          mp_buffer *out) {
  mp_buffer_room(out, spans_length(&draft->fields) + spans_length(&draft->actions) + draft->id_literal.length +
                          draft->invocation.length + draft->timestamp_json.length + draft->delta_text.length + 96);
  mp_buffer_add_literal(out, EVENT_BEGIN);
  mp_buffer_add_string(out, draft->id_literal);
  mp_buffer_add_literal(out, INVOCATION_BEGIN);
  mp_buffer_add_string(out, draft->invocation);
  mp_buffer_add_literal(out, TIMESTAMP_BEGIN);
  mp_buffer_add_string(out, draft->timestamp_json);
  write_spans(&draft->fields, out);
  mp_buffer_add_literal(out, DELTA_BEGIN);
  if (delta == NULL) {
    mp_buffer_add_string(out, draft->delta_text);
  } else {
    write_delta(delta, count, unresolved, out);
  }
  mp_buffer_add_char(out, '}');
  write_spans(&draft->actions, out);
  mp_buffer_add_char(out, '}');
  if (delta != NULL) {
    write_removed_keys(delta, count, unresolved, out);
  } else if (draft->removes) {
    mp_buffer_add_literal(out, REMOVED_BEGIN);
    mp_entries_write_removed(&draft->delta, out);
  }
  mp_buffer_add_char(out, '}');
}

/* Is the one span (if any) right after the comma at *at? Then moves *at after it. */
static bool follows(const mp_spans *spans, uintptr_t *at) {
  if (spans->count == 0) return true;
  if ((uintptr_t)spans->list[0].data != *at + 1) return false;
  *at += 1 + spans->list[0].length;
  return true;
}

/*
** Compares addresses only: if each member of the given text is exactly where writing would put it,
** compact text has no room for anything in between.
*/
bool mp_event_draft_is_unchanged(const mp_event_draft *draft, moonpad_string *text) {
  uintptr_t at = (uintptr_t)draft->text.data + sizeof EVENT_BEGIN - 1;
  if (draft->removes || draft->fields.count > 1 || draft->actions.count > 1) return false;
  if ((uintptr_t)draft->id_literal.data != at) return false;
  at += draft->id_literal.length + sizeof INVOCATION_BEGIN - 1;
  if ((uintptr_t)draft->invocation.data != at) return false;
  at += draft->invocation.length + sizeof TIMESTAMP_BEGIN - 1;
  if ((uintptr_t)draft->timestamp_json.data != at) return false;
  at += draft->timestamp_json.length;
  if (!follows(&draft->fields, &at)) return false;
  at += sizeof DELTA_BEGIN - 1;
  if ((uintptr_t)draft->delta_text.data != at) return false;
  at += draft->delta_text.length + 1;
  if (!follows(&draft->actions, &at)) return false;
  *text = draft->text;
  return at + 2 == (uintptr_t)draft->text.data + draft->text.length;
}

void mp_event_draft_stored_ids(const mp_event_draft *draft, moonpad_string stored, moonpad_string *id,
                               moonpad_string *invocation) {
  size_t at = sizeof EVENT_BEGIN - 1;
  size_t length = draft->id_literal.length - 2;
  *id = length == draft->id.length ? (moonpad_string){stored.data + at + 1, length} : draft->id;
  at += draft->id_literal.length + sizeof INVOCATION_BEGIN - 1;
  *invocation = (moonpad_string){stored.data + at + 1, draft->invocation.length - 2};
}

/* ---- stored events ---- */

bool mp_is_user_message(moonpad_string author, moonpad_string parts) {
  static const char by_user[] = "\"user\"";
  return author.length == sizeof by_user - 1 && memcmp(author.data, by_user, sizeof by_user - 1) == 0 &&
         parts.length > 2 && parts.data[0] == '[';
}

static bool find_message(moonpad_string json, moonpad_string *parts) {
  moonpad_string author, content;
  return mp_member_find(json, "author", &author) && mp_member_find(json, "content", &content) &&
         mp_member_find(content, "parts", parts) && mp_is_user_message(author, *parts);
}

bool mp_event_is_user_message(moonpad_string json) {
  moonpad_string parts;
  return find_message(json, &parts);
}

bool mp_event_is_answer(moonpad_string json) {
  moonpad_string parts, part, response;
  if (!find_message(json, &parts)) return false;
  mp_items items = mp_items_of(parts);
  while (mp_items_next(&items, &part)) {
    if (!mp_member_find(part, "functionResponse", &response)) return false;
  }
  return true;
}

static bool listed(moonpad_string list, moonpad_string literal) {
  if (list.data == NULL || list.data[0] != '[') return false;
  mp_items items = mp_items_of(list);
  moonpad_string item;
  while (mp_items_next(&items, &item)) {
    if (item.length == literal.length + 2 && memcmp(item.data + 1, literal.data, literal.length) == 0) return true;
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
    } else if ((owned = mp_value_from_trusted_json(env, value)) == NULL) {
      status = mp_no_memory(error);
    } else {
      status = each(context, key, owned, error);
      mp_value_release(env, owned);
    }
  }
  mp_buffer_free(&scratch);
  return status;
}
