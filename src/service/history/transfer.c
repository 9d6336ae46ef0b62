/*
** A session as JSON lines: a header with its base state, then its events (contract 6). User
** and app state belong to others as well and do not travel; what events say of them stays in
** the events.
*/
#include "service/history/transfer.h"

#include <stdio.h>

#include "base/error.h"
#include "core/event.h"
#include "core/json.h"
#include "service/history/replay.h"

#define FORMAT_VERSION 1

/* ---- export ---- */

struct moonpad_export {
  const moonpad_session *session; /* while it is being opened */
  mp_env *env;
  mp_session_row row;
  mp_replay base;
  moonpad_event_cursor *events;
  const moonpad_event *event; /* whose line is to be written; NULL: the next one's */
  mp_buffer line;
  bool begun; /* the header has been given */
};

static moonpad_status base_key(void *context, const mp_state_row *row, moonpad_error *error) {
  return mp_replay_base(context, row->key, row->value, error);
}

static moonpad_status read_header(mp_tx *tx, void *context, moonpad_error *error) {
  moonpad_export *export = context;
  mp_facts facts;
  mp_look look = {
      .ref = mp_session_ref_of(export->session), .heads = MP_ALL_HEADS, .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  mp_replay_clear(&export->base);
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status == MOONPAD_NOT_FOUND) {
    return mp_fail(error, status, "%s does not exist (or was deleted and created anew)", mp_label(&look.ref.name).text);
  }
  export->row = facts.row;
  return status == MOONPAD_OK ? tx->ops->each_base_key(tx, &look.ref, base_key, &export->base, error) : status;
}

static void add_text_member(mp_buffer *out, const char *name, moonpad_string text) {
  mp_buffer_add_string(out, moonpad_text(name));
  mp_json_write_string(out, text);
}

static moonpad_status write_header(moonpad_export *export, mp_buffer *out, moonpad_error *error) {
  const moonpad_session *session = export->session;
  mp_buffer_add_literal(out, "{\"moonpadSession\":");
  mp_json_write_integer(out, FORMAT_VERSION);
  add_text_member(out, ",\"appName\":", mp_key_text(session->app_name));
  add_text_member(out, ",\"userId\":", mp_key_text(session->user_id));
  add_text_member(out, ",\"sessionId\":", mp_key_text(session->id));
  mp_buffer_add_literal(out, ",\"createTime\":");
  mp_json_write_float(out, export->row.create_time);
  mp_buffer_add_literal(out, ",\"baseRevision\":");
  mp_json_write_integer(out, export->row.base_revision);
  mp_buffer_add_literal(out, ",\"revision\":");
  mp_json_write_integer(out, export->row.revision);
  mp_buffer_add_literal(out, ",\"conversationCount\":");
  mp_json_write_integer(out, export->row.conversation_count);
  mp_buffer_add_literal(out, ",\"baseState\":");
  moonpad_status status = mp_replay_write(&export->base, out, error);
  mp_buffer_add_literal(out, "}\n");
  return status == MOONPAD_OK && out->failed ? mp_no_memory(error) : status;
}

void moonpad_export_free(moonpad_export *export) {
  if (export == NULL) return;
  mp_env *env = export->env;
  moonpad_event_cursor_free(export->events);
  mp_replay_free(&export->base);
  mp_buffer_free(&export->line);
  mp_release(env, export);
  mp_env_release(env);
}

moonpad_status moonpad_export_open(moonpad_session *session, moonpad_export **result, moonpad_error *error) {
  *result = NULL;
  mp_session_drain(session);
  moonpad_service *service = session->service;
  moonpad_export *export = mp_allocate_zeroed(session->env, sizeof *export);
  if (export == NULL) return mp_no_memory(error);
  export->env = mp_env_retain(session->env);
  export->session = session;
  mp_replay_init(&export->base, export->env);
  mp_buffer_init(&export->line, export->env);
  moonpad_status status = service->store->ops->read(service->store, read_header, export, error);
  if (status == MOONPAD_OK) status = write_header(export, &export->line, error);
  if (status == MOONPAD_OK) {
    const mp_session_row *row = &export->row;
    export->events = mp_event_cursor_new(session, row->base_revision + 1, row->revision);
    if (export->events == NULL) status = mp_no_memory(error);
  }
  mp_replay_clear(&export->base);
  if (status == MOONPAD_OK) {
    *result = export;
  } else {
    moonpad_export_free(export);
  }
  return status;
}

bool mp_export_is_ready(const moonpad_export *export) {
  return !export->begun || export->event != NULL || mp_event_cursor_is_ready(export->events);
}

moonpad_status mp_export_load(moonpad_export *export, moonpad_error *error) {
  return mp_event_cursor_load(export->events, error);
}

/* Empty behind the last one. */
static moonpad_status write_event_line(moonpad_export *export, moonpad_error *error) {
  mp_buffer_clear(&export->line);
  if (export->event == NULL) {
    moonpad_status status = moonpad_event_cursor_next(export->events, &export->event, error);
    if (status != MOONPAD_OK || export->event == NULL) return status;
  }
  mp_buffer_add_string(&export->line, export->event->json);
  mp_buffer_add_char(&export->line, '\n');
  if (export->line.failed) return mp_no_memory(error);
  export->event = NULL;
  return MOONPAD_OK;
}

moonpad_status moonpad_export_next(moonpad_export *export, moonpad_string *line, moonpad_error *error) {
  *line = moonpad_text(NULL);
  moonpad_status status = mp_event_cursor_check(export->events, error);
  if (status == MOONPAD_OK && export->begun) status = write_event_line(export, error);
  if (status != MOONPAD_OK) return status;
  export->begun = true;
  if (export->line.length > 0) *line = mp_buffer_text(&export->line);
  return MOONPAD_OK;
}

moonpad_status moonpad_export_session(moonpad_session *session, moonpad_write_line write, void *context,
                                      moonpad_error *error) {
  moonpad_export *export;
  moonpad_string line;
  moonpad_status status = moonpad_export_open(session, &export, error);
  while (status == MOONPAD_OK && (status = moonpad_export_next(export, &line, error)) == MOONPAD_OK) {
    if (line.data == NULL) break;
    if (!write(context, line)) status = mp_fail(error, MOONPAD_STORAGE, "the export was stopped by its writer");
  }
  moonpad_export_free(export);
  return status;
}

/* ---- import ---- */

typedef struct imported_event {
  size_t begin; /* in `text` */
  size_t length;
  double timestamp;
  size_t id_begin; /* in `ids` */
  size_t id_length;
  size_t invocation_begin; /* in `text` */
  size_t invocation_length;
  unsigned kinds;
} imported_event;

struct moonpad_import {
  moonpad_service *service;
  moonpad_session_name given; /* what the caller calls it: in `given_text` */
  mp_buffer given_text;
  moonpad_session_name name;
  mp_buffer names;
  mp_session_row row; /* what the header says */
  mp_replay base;
  mp_replay replay;
  mp_buffer compact; /* the line that is being read */
  mp_buffer text;
  mp_buffer ids;
  mp_map seen; /* ids */
  imported_event *events;
  size_t count;
  size_t capacity;
  size_t lines;          /* that have come */
  moonpad_error failure; /* of one of them: nothing is imported any more */
  bool done;
  moonpad_session *session;
};

static moonpad_status bad_line(size_t number, const char *problem, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line %zu: %s", number, problem);
}

static moonpad_status bad_member(const char *name, const char *problem, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line 1: the header's %s: %s", name, problem);
}

static bool find_number(moonpad_string header, const char *name, moonpad_value *number) {
  moonpad_string json;
  if (!mp_member_find(header, name, &json)) return false;
  if (json.data[0] != '-' && (json.data[0] < '0' || json.data[0] > '9')) return false;
  *number = mp_json_trusted_number(json);
  return true;
}

static bool find_count(moonpad_string header, const char *name, int64_t *count) {
  moonpad_value number;
  if (!find_number(header, name, &number) || number.type != MOONPAD_INTEGER) return false;
  *count = number.as.integer;
  return *count >= 0 && *count <= MP_MAX_REVISION;
}

static moonpad_status read_count(moonpad_string header, const char *name, int64_t *count, moonpad_error *error) {
  if (find_count(header, name, count)) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line 1: the header's %s: must be an integer from 0 to %lld", name,
                 (long long)MP_MAX_REVISION);
}

static moonpad_status read_numbers(mp_session_row *row, moonpad_string header, moonpad_error *error) {
  moonpad_value time;
  if (!find_number(header, "createTime", &time)) return bad_member("createTime", "must be a number", error);
  row->create_time = time.type == MOONPAD_INTEGER ? (double)time.as.integer : time.as.number;
  moonpad_status status = read_count(header, "baseRevision", &row->base_revision, error);
  if (status == MOONPAD_OK) status = read_count(header, "revision", &row->revision, error);
  if (status == MOONPAD_OK) status = read_count(header, "conversationCount", &row->conversation_count, error);
  if (status == MOONPAD_OK && row->revision < row->base_revision) {
    return bad_member("revision", "is less than its baseRevision", error);
  }
  return status;
}

/* Takes the header's name where the caller gave none. */
static moonpad_status choose_name(moonpad_import *import, moonpad_string header, const char *member,
                                  moonpad_string given, moonpad_string *chosen, moonpad_error *error) {
  moonpad_string value, text;
  if (given.length != 0) {
    *chosen = given;
    return MOONPAD_OK;
  }
  if (!mp_member_find(header, member, &value) || value.data[0] != '"') {
    return bad_member(member, "must be a string", error);
  }
  mp_buffer scratch;
  mp_buffer_init(&scratch, import->service->env);
  bool made = mp_literal_text(mp_literal_inside(value), &scratch, &text);
  if (made) {
    chosen->length = text.length;
    mp_buffer_add_string(&import->names, text); /* reserved before: it does not move */
    chosen->data = import->names.data + import->names.length - text.length;
  }
  mp_buffer_free(&scratch);
  return made && !import->names.failed ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status read_names(moonpad_import *import, moonpad_string header, moonpad_error *error) {
  const moonpad_session_name *given = &import->given;
  moonpad_session_name name;
  if (!mp_buffer_room(&import->names, header.length)) return mp_no_memory(error);
  moonpad_status status = choose_name(import, header, "appName", given->app_name, &name.app_name, error);
  if (status == MOONPAD_OK) status = choose_name(import, header, "userId", given->user_id, &name.user_id, error);
  if (status == MOONPAD_OK) {
    status = choose_name(import, header, "sessionId", given->session_id, &name.session_id, error);
  }
  return status == MOONPAD_OK ? mp_check_session_name(&name, false, &import->name, error) : status;
}

static moonpad_status read_base_key(moonpad_import *import, moonpad_string key, moonpad_string json,
                                    moonpad_error *error) {
  moonpad_status status = mp_check_key(key, error);
  if (status == MOONPAD_OK && mp_scope_of(key) != MP_SCOPE_SESSION) {
    return bad_line(1, "baseState holds a key of another scope", error);
  }
  if (status != MOONPAD_OK) return status;
  mp_value *value = mp_value_from_trusted_json(import->service->env, json);
  if (value == NULL) return mp_no_memory(error);
  if (!mp_value_fits_below(value, 0)) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line 1: baseState[%s]: nested deeper than %d",
                     mp_quote(key).text, MOONPAD_MAX_DEPTH);
  }
  if (status == MOONPAD_OK) status = mp_replay_base(&import->base, key, value, error);
  if (status == MOONPAD_OK) status = mp_replay_base(&import->replay, key, value, error);
  mp_value_release(import->service->env, value);
  return status;
}

static moonpad_status read_base(moonpad_import *import, moonpad_string header, moonpad_error *error) {
  moonpad_string state, literal, value, key;
  if (!mp_member_find(header, "baseState", &state) || state.data[0] != '{') {
    return bad_member("baseState", "must be an object", error);
  }
  mp_buffer scratch;
  mp_buffer_init(&scratch, import->service->env);
  moonpad_status status = MOONPAD_OK;
  mp_members members = mp_members_of(state);
  while (status == MOONPAD_OK && mp_members_next(&members, &literal, &value)) {
    bool made = mp_literal_text(literal, &scratch, &key);
    status = made ? read_base_key(import, key, value, error) : mp_no_memory(error);
  }
  mp_buffer_free(&scratch);
  return status;
}

static moonpad_status read_import_header(moonpad_import *import, moonpad_string header, moonpad_error *error) {
  int64_t format;
  if (!find_count(header, "moonpadSession", &format)) {
    return bad_line(1, "not the header of an exported session", error);
  }
  if (format != FORMAT_VERSION) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "line 1: export format %lld, this build knows %d", (long long)format,
                   FORMAT_VERSION);
  }
  moonpad_status status = read_names(import, header, error);
  if (status == MOONPAD_OK) status = read_numbers(&import->row, header, error);
  return status == MOONPAD_OK ? read_base(import, header, error) : status;
}

/* Is it one that could have been exported? */
static moonpad_status check_event(const moonpad_import *import, size_t number, const mp_event_draft *draft,
                                  moonpad_error *error) {
  if (draft->id.length == 0 || draft->timestamp_json.length == 0 || draft->invocation.length == 0 || draft->partial) {
    return bad_line(number, "an exported event has id, timestamp and invocationId, and is not partial", error);
  }
  if (import->row.base_revision + (int64_t)import->count == import->row.revision) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line %zu: the header announced %lld events, this is one more",
                   number, (long long)(import->row.revision - import->row.base_revision));
  }
  for (size_t i = 0; i < draft->delta.count; i++) {
    if (draft->delta.items[i].scope != MP_SCOPE_TEMP) continue;
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "line %zu: event.actions.stateDelta[%s]: a temporary key is never stored", number,
                   mp_quote(draft->delta.items[i].key).text);
  }
  return MOONPAD_OK;
}

static unsigned kinds_of(const mp_event_draft *draft) {
  unsigned kinds = draft->is_user_message ? MP_EVENT_USER_MESSAGE : 0;
  for (size_t i = 0; i < draft->delta.count; i++) {
    if (draft->delta.items[i].scope == MP_SCOPE_SESSION) kinds |= MP_EVENT_SESSION_CHANGE;
  }
  return kinds;
}

static moonpad_status check_id(moonpad_import *import, size_t number, moonpad_string id, moonpad_error *error) {
  if (mp_map_get(&import->seen, id) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line %zu: the id %s comes a second time", number,
                   mp_quote(id).text);
  }
  mp_key *key = mp_key_new(import->service->env, id);
  bool noted = key != NULL && mp_map_put(&import->seen, key, import);
  mp_key_release(import->service->env, key);
  return noted ? MOONPAD_OK : mp_no_memory(error);
}

/* Spelt as an append stores it, which is how it was exported. */
static moonpad_status add_event(moonpad_import *import, const mp_event_draft *draft, moonpad_error *error) {
  if (!mp_reserve(import->service->env, (void **)&import->events, &import->capacity, sizeof *import->events,
                  import->count + 1)) {
    return mp_no_memory(error);
  }
  moonpad_string stands;
  imported_event event = {
      .begin = import->text.length,
      .timestamp = draft->timestamp,
      .id_begin = import->ids.length,
      .id_length = draft->id.length,
      .kinds = kinds_of(draft),
  };
  if (mp_event_draft_is_unchanged(draft, &stands)) {
    mp_buffer_add_string(&import->text, stands);
  } else {
    mp_event_draft_write(draft, NULL, 0, NULL, &import->text);
  }
  mp_buffer_add_string(&import->ids, draft->id);
  if (import->text.failed || import->ids.failed) return mp_no_memory(error);
  event.length = import->text.length - event.begin;
  moonpad_status status = mp_check_event_size(import->service, event.length, error);
  if (status != MOONPAD_OK) return status;
  moonpad_string json = {import->text.data + event.begin, event.length}, id, invocation;
  mp_event_draft_stored_ids(draft, json, &id, &invocation);
  event.invocation_begin = event.begin + (size_t)(invocation.data - json.data);
  event.invocation_length = invocation.length;
  import->events[import->count++] = event;
  int64_t revision = import->row.base_revision + (int64_t)import->count;
  return mp_replay_event(&import->replay, json, revision, event.kinds, error);
}

static moonpad_status read_import_event(moonpad_import *import, size_t number, moonpad_string json,
                                        moonpad_error *error) {
  mp_event_draft draft;
  moonpad_status status = mp_event_draft_read(import->service->env, json, true, &draft, error);
  if (status != MOONPAD_OK) {
    if (status == MOONPAD_INVALID_ARGUMENT && error != NULL) {
      moonpad_error cause = *error;
      mp_fail(error, status, "line %zu: %s", number, cause.message);
    }
    return status;
  }
  status = check_event(import, number, &draft, error);
  if (status == MOONPAD_OK) status = check_id(import, number, draft.id, error);
  if (status == MOONPAD_OK) status = add_event(import, &draft, error);
  mp_event_draft_free(&draft);
  return status;
}

/*
** The messages of the user among events that have been trimmed away are known by the header alone.
*/
static moonpad_status check_counts(const moonpad_import *import, moonpad_error *error) {
  const mp_session_row *row = &import->row;
  int64_t messages = import->replay.conversation_count;
  if (row->base_revision + (int64_t)import->count != row->revision) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "line %zu: the header announced %lld events, %zu came",
                   import->lines, (long long)(row->revision - row->base_revision), import->count);
  }
  if (row->conversation_count >= messages && row->conversation_count - messages <= row->base_revision) {
    return MOONPAD_OK;
  }
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "line 1: the header's conversationCount: %lld, and the events hold %lld messages of the user",
                 (long long)row->conversation_count, (long long)messages);
}

static moonpad_status read_line(moonpad_import *import, moonpad_string line, moonpad_error *error) {
  char where[40];
  moonpad_type type;
  size_t number = ++import->lines;
  snprintf(where, sizeof where, "line %zu", number);
  mp_buffer_clear(&import->compact);
  moonpad_status status =
      mp_json_compact(import->service->env, line, MOONPAD_MAX_DEPTH + 8, where, &import->compact, &type, error);
  if (status != MOONPAD_OK) return status;
  if (type != MOONPAD_OBJECT) return bad_line(number, "not an object", error);
  moonpad_string json = mp_buffer_text(&import->compact);
  return number == 1 ? read_import_header(import, json, error) : read_import_event(import, number, json, error);
}

/* The state that the session would have, against the limits of the service that takes it. */
static moonpad_status check_state(const moonpad_import *import, moonpad_error *error) {
  const mp_replay *states[] = {&import->base, &import->replay};
  for (size_t i = 0; i < 2; i++) {
    const mp_entries *state = &states[i]->state;
    moonpad_status status = MOONPAD_OK;
    for (size_t j = 0; status == MOONPAD_OK && j < state->count; j++) {
      status = mp_check_value_size(import->service, state->items[j].key, state->items[j].value, error);
    }
    if (status == MOONPAD_OK) {
      status = mp_check_state_size(import->service, mp_entries_bytes(state, MP_SCOPE_SESSION), error);
    }
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

#define WRITTEN_AT_ONCE 128

static moonpad_status write_events_of(moonpad_import *import, mp_tx *tx, const mp_session_row *row,
                                      moonpad_error *error) {
  mp_event_row rows[WRITTEN_AT_ONCE];
  mp_batch batch = {.ref = mp_session_ref_of_row(&import->name, row), .row = row, .events = rows};
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < import->count; i++) {
    const imported_event *event = &import->events[i];
    rows[batch.event_count++] = (mp_event_row){
        .revision = import->row.base_revision + (int64_t)i + 1,
        .timestamp = event->timestamp,
        .id = {import->ids.data + event->id_begin, event->id_length},
        .json = {import->text.data + event->begin, event->length},
        .invocation = {import->text.data + event->invocation_begin, event->invocation_length},
        .kinds = event->kinds,
    };
    if (batch.event_count < WRITTEN_AT_ONCE && i + 1 < import->count) continue;
    status = tx->ops->apply(tx, &batch, error);
    batch.event_count = 0;
  }
  return status;
}

static moonpad_status write_state_of(moonpad_import *import, mp_tx *tx, mp_session_row *row, moonpad_error *error) {
  mp_state_row *keys = mp_rows_of(&import->replay.state), *base = mp_rows_of(&import->base.state);
  mp_batch batch = {.ref = mp_session_ref_of_row(&import->name, row),
                    .row = row,
                    .heads = MP_HEAD(MP_SCOPE_SESSION),
                    .keys = keys,
                    .key_count = import->replay.state.count,
                    .base_keys = base,
                    .base_key_count = import->base.state.count};
  row->revision = import->row.revision;
  row->base_revision = import->row.base_revision;
  row->conversation_count = import->row.conversation_count;
  if (import->count > 0) row->last_update_time = import->events[import->count - 1].timestamp;
  moonpad_status status = keys == NULL || base == NULL ? mp_no_memory(error) : tx->ops->apply(tx, &batch, error);
  mp_release(import->service->env, keys);
  mp_release(import->service->env, base);
  return status;
}

static moonpad_status import_in(mp_tx *tx, void *context, moonpad_error *error) {
  moonpad_import *import = context;
  mp_session_row row;
  moonpad_status status = tx->ops->create_session(tx, &import->name, import->row.create_time, &row, error);
  if (status == MOONPAD_ALREADY_EXISTS) {
    return mp_fail(error, status, "%s exists already", mp_label(&import->name).text);
  }
  if (status == MOONPAD_OK) status = write_events_of(import, tx, &row, error);
  if (status == MOONPAD_OK) status = write_state_of(import, tx, &row, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(import->service, &import->name, tx, &row, &import->session, error);
}

/* ---- an import that is given line by line ---- */

static bool copy_given(moonpad_import *import, const moonpad_session_name *given) {
  moonpad_string *copies[] = {&import->given.app_name, &import->given.user_id, &import->given.session_id};
  import->given = *given;
  mp_buffer *text = &import->given_text;
  for (int i = 0; i < 3; i++) mp_buffer_add_string(text, *copies[i]);
  size_t at = 0;
  for (int i = 0; !text->failed && i < 3; i++) {
    copies[i]->data = copies[i]->length == 0 ? NULL : text->data + at;
    at += copies[i]->length;
  }
  return !text->failed;
}

void moonpad_import_free(moonpad_import *import) {
  if (import == NULL) return;
  moonpad_service *service = import->service;
  mp_buffer *buffers[] = {&import->given_text, &import->names, &import->compact, &import->text, &import->ids};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_free(buffers[i]);
  mp_map_free(&import->seen);
  mp_replay_free(&import->base);
  mp_replay_free(&import->replay);
  mp_release(service->env, import->events);
  mp_release(service->env, import);
  moonpad_service_release(service);
}

moonpad_status moonpad_import_begin(moonpad_service *service, const moonpad_session_name *name, moonpad_import **result,
                                    moonpad_error *error) {
  *result = NULL;
  mp_env *env = service->env;
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK) return status;
  moonpad_import *import = mp_allocate_zeroed(env, sizeof *import);
  if (import == NULL) return mp_no_memory(error);
  import->service = moonpad_service_retain(service);
  mp_buffer *buffers[] = {&import->given_text, &import->names, &import->compact, &import->text, &import->ids};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_init(buffers[i], env);
  mp_map_init(&import->seen, env);
  mp_replay_init(&import->base, env);
  mp_replay_init(&import->replay, env);
  if (name != NULL && !copy_given(import, name)) {
    moonpad_import_free(import);
    return mp_no_memory(error);
  }
  *result = import;
  return MOONPAD_OK;
}

/* May it go on? */
static moonpad_status check_import(const moonpad_import *import, moonpad_error *error) {
  moonpad_status status = mp_check_open(import->service, error);
  if (status != MOONPAD_OK) return status;
  if (import->done) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the import has been committed");
  if (import->failure.code == MOONPAD_OK) return MOONPAD_OK;
  return mp_fail(error, import->failure.code, "%s", import->failure.message);
}

moonpad_status moonpad_import_line(moonpad_import *import, moonpad_string line, moonpad_error *error) {
  moonpad_status status = check_import(import, error);
  if (status != MOONPAD_OK) return status;
  status = read_line(import, line, &import->failure);
  return status == MOONPAD_OK ? status : mp_fail(error, status, "%s", import->failure.message);
}

moonpad_status moonpad_import_commit(moonpad_import *import, moonpad_session **session, moonpad_error *error) {
  *session = NULL;
  moonpad_status status = check_import(import, error);
  if (status == MOONPAD_OK && import->lines == 0) status = bad_line(1, "there is no header", error);
  if (status == MOONPAD_OK) status = check_counts(import, error);
  if (status == MOONPAD_OK) status = check_state(import, error);
  mp_store *store = import->service->store;
  if (status == MOONPAD_OK) status = store->ops->write(store, import_in, import, error);
  if (status == MOONPAD_OK) {
    import->done = true;
    *session = import->session;
  } else {
    moonpad_session_free(import->session);
  }
  import->session = NULL;
  return status;
}

moonpad_status moonpad_import_session(moonpad_service *service, const moonpad_session_name *name,
                                      moonpad_read_line read, void *context, moonpad_session **session,
                                      moonpad_error *error) {
  *session = NULL;
  moonpad_import *import;
  moonpad_string line;
  moonpad_status status = moonpad_import_begin(service, name, &import, error);
  while (status == MOONPAD_OK && read(context, &line)) status = moonpad_import_line(import, line, error);
  if (status == MOONPAD_OK) status = moonpad_import_commit(import, session, error);
  moonpad_import_free(import);
  return status;
}
