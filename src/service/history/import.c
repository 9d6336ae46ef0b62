/*
** Reading a session from text, line by line, and storing it in one transaction (contract 2, 6). The
** text is anybody's: what could not have been exported is refused, with the number of its line.
*/
#include <stdio.h>

#include "base/error.h"
#include "core/event_read.h"
#include "core/json_compact.h"
#include "core/json_trusted.h"
#include "service/history/export.h"
#include "service/history/replay.h"
#include "service/limits.h"
#include "service/names.h"
#include "service/session/quota.h"

/* An event that has been read. Positions, not pointers: the buffers grow. */
typedef struct imported_event {
  size_t begin; /* of its JSON, in `text` */
  size_t length;
  double timestamp;
  size_t id_begin; /* in `ids` */
  size_t id_length;
  size_t invocation_begin; /* in `text` */
  size_t invocation_length;
  unsigned kinds; /* MP_EVENT_... */
} imported_event;

struct moonpad_import {
  moonpad_service *service;
  moonpad_session_name given; /* the caller's names, in `given_text`; empty: the header's */
  mp_buffer given_text;
  moonpad_session_name name; /* what the session is to be called; in `given_text` or `names` */
  mp_buffer names;           /* names of the header */
  mp_session_row row;        /* numbers of the header */
  mp_quota quota;            /* of `name` */
  double now;                /* when it is stored */
  mp_replay base;            /* the header's base state */
  mp_replay replay;          /* the state after the events so far */
  mp_buffer compact;         /* the line that is being read */
  mp_buffer text;            /* the JSON of all events */
  mp_buffer ids;             /* the ids of all events */
  mp_map seen;               /* the same, to find one that comes twice */
  imported_event *events;
  size_t count;
  size_t capacity;
  size_t lines;          /* lines so far */
  moonpad_error failure; /* of a line: every later call fails with it */
  bool done;             /* committed */
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

/* The caller's name, or the header's where the caller gave none. */
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
    /* It does not move: read_names has made room. */
    mp_buffer_add_string(&import->names, text);
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
  return status == MOONPAD_OK ? mp_check_session_name(&name, &import->name, error) : status;
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
  if (format != MP_EXPORT_FORMAT) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "line 1: export format %lld, this build knows %d", (long long)format,
                   MP_EXPORT_FORMAT);
  }
  moonpad_status status = read_names(import, header, error);
  if (status == MOONPAD_OK) status = read_numbers(&import->row, header, error);
  return status == MOONPAD_OK ? read_base(import, header, error) : status;
}

/* Could it have been exported? */
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
  bool added = key != NULL && mp_map_put(&import->seen, key, import);
  mp_key_release(import->service->env, key);
  return added ? MOONPAD_OK : mp_no_memory(error);
}

/* Writes the event as an append would store it. That is how it was exported. */
static moonpad_status add_event(moonpad_import *import, const mp_event_draft *draft, moonpad_error *error) {
  if (!mp_reserve(import->service->env, (void **)&import->events, &import->capacity, sizeof *import->events,
                  import->count + 1)) {
    return mp_no_memory(error);
  }
  moonpad_string unchanged;
  imported_event event = {
      .begin = import->text.length,
      .timestamp = draft->timestamp,
      .id_begin = import->ids.length,
      .id_length = draft->id.length,
      .kinds = kinds_of(draft),
  };
  if (mp_event_draft_is_unchanged(draft, &unchanged)) {
    mp_buffer_add_string(&import->text, unchanged);
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
** Of the messages of the user that have been trimmed away only the header knows. So its count may
** be higher than what the events hold, by as many as were trimmed at most.
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
      mp_json_compact(import->service->env, line, MP_EVENT_MAX_DEPTH, where, &import->compact, &type, error);
  if (status != MOONPAD_OK) return status;
  if (type != MOONPAD_OBJECT) return bad_line(number, "not an object", error);
  moonpad_string json = mp_buffer_text(&import->compact);
  return number == 1 ? read_import_header(import, json, error) : read_import_event(import, number, json, error);
}

/* Both the base state and the newest state must fit the limits of this service (contract 5). */
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

#define EVENTS_PER_BATCH 128

static moonpad_status write_events(moonpad_import *import, mp_tx *tx, const mp_session_row *row, moonpad_error *error) {
  mp_event_row rows[EVENTS_PER_BATCH];
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
    if (batch.event_count < EVENTS_PER_BATCH && i + 1 < import->count) continue;
    status = tx->ops->apply(tx, &batch, error);
    batch.event_count = 0;
  }
  return status;
}

static moonpad_status write_state(moonpad_import *import, mp_tx *tx, mp_session_row *row, moonpad_error *error) {
  mp_state_row *keys = mp_rows_of(&import->replay.state), *base = mp_rows_of(&import->base.state);
  mp_batch batch = {.ref = mp_session_ref_of_row(&import->name, row),
                    .row = row,
                    .heads = MP_HEAD(MP_SCOPE_SESSION),
                    .touched = mp_time_of_use(import->now),
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
  moonpad_status status = mp_expiry_create_session(&import->quota.expiry, tx, import->row.create_time, &row, error);
  if (status == MOONPAD_ALREADY_EXISTS) return mp_fail_exists(&import->name, error);
  if (status == MOONPAD_OK) status = write_events(import, tx, &row, error);
  if (status == MOONPAD_OK) status = write_state(import, tx, &row, error);
  if (status == MOONPAD_OK) status = mp_quota_apply(&import->quota, tx, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(import->service, &import->name, tx, &row, &import->session, error);
}

/* ---- the calls ---- */

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

/* May the import go on? */
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
  if (status == MOONPAD_OK) status = mp_now(import->service->env, &import->now, error);
  if (status == MOONPAD_OK) status = mp_quota_begin(&import->quota, import->service, &import->name, error);
  if (status == MOONPAD_OK) status = mp_expiry_write(&import->quota.expiry, import_in, import, error);
  if (status == MOONPAD_OK) {
    mp_expiry_renew(&import->quota.expiry);
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
