/* Replaying events: forwards over the base state, or backwards for some keys. */
#include "service/history/replay.h"

#include "base/error.h"
#include "core/event_draft.h"

void mp_replay_init(mp_replay *replay, mp_env *env) {
  mp_entries_init(&replay->state, env);
  replay->unknown = 0;
  replay->conversation_count = 0;
}

void mp_replay_free(mp_replay *replay) {
  mp_entries_free(&replay->state);
}

void mp_replay_clear(mp_replay *replay) {
  mp_entries_clear(&replay->state);
  replay->unknown = 0;
  replay->conversation_count = 0;
}

static mp_entry *find(mp_replay *replay, moonpad_string key) {
  return mp_entries_find(&replay->state, key, mp_hash(key.data, key.length));
}

static moonpad_status put(mp_replay *replay, moonpad_string key, mp_value *value, int64_t revision,
                          moonpad_error *error) {
  return mp_entries_put(&replay->state, key, value, revision) ? MOONPAD_OK : mp_no_memory(error);
}

moonpad_status mp_replay_base(mp_replay *replay, moonpad_string key, mp_value *value, moonpad_error *error) {
  return put(replay, key, value, 0, error);
}

typedef struct event_context {
  mp_replay *replay;
  int64_t revision;
} event_context;

static moonpad_status replay_delta(void *context, moonpad_string key, mp_value *value, moonpad_error *error) {
  const event_context *event = context;
  if (mp_scope_of(key) != MP_SCOPE_SESSION) return MOONPAD_OK;
  return put(event->replay, key, value, event->revision, error);
}

moonpad_status mp_replay_event(mp_replay *replay, moonpad_string json, int64_t revision, unsigned kinds,
                               moonpad_error *error) {
  event_context context = {replay, revision};
  if ((kinds & MP_EVENT_USER_MESSAGE) != 0) replay->conversation_count++;
  if ((kinds & MP_EVENT_SESSION_CHANGE) == 0) return MOONPAD_OK;
  return mp_event_each_delta(replay->state.env, json, replay_delta, &context, error);
}

static moonpad_status base_row(void *context, const mp_state_row *row, moonpad_error *error) {
  return mp_replay_base(context, row->key, row->value, error);
}

static moonpad_status event_row(void *context, const mp_event_row *row, moonpad_error *error) {
  return mp_replay_event(context, row->json, row->revision, row->kinds, error);
}

moonpad_status mp_replay_check(const mp_session_row *row, int64_t revision, moonpad_error *error) {
  if (revision >= row->base_revision && revision <= row->revision) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_NOT_FOUND, "revision %lld: the session has revisions %lld to %lld", (long long)revision,
                 (long long)row->base_revision, (long long)row->revision);
}

moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session, const mp_session_row *row,
                            int64_t revision, moonpad_error *error) {
  moonpad_status status = mp_replay_check(row, revision, error);
  if (status == MOONPAD_OK) status = tx->ops->each_base_key(tx, session, base_row, replay, error);
  if (status != MOONPAD_OK || revision == row->base_revision) return status;
  mp_event_query query = {
      .first = row->base_revision + 1, .last = revision, .kinds = MP_EVENT_SESSION_CHANGE | MP_EVENT_USER_MESSAGE};
  return tx->ops->each_event(tx, session, &query, event_row, replay, error);
}

/* ---- some keys only, backwards ---- */

moonpad_status mp_replay_want(mp_replay *replay, moonpad_string key, moonpad_error *error) {
  moonpad_status status = put(replay, key, NULL, MP_UNKNOWN, error);
  if (status == MOONPAD_OK) replay->unknown++;
  return status;
}

static moonpad_status find_value(mp_replay *replay, moonpad_string key, mp_value *value, int64_t revision) {
  mp_entry *wanted = find(replay, key);
  if (wanted == NULL || wanted->revision != MP_UNKNOWN) return MOONPAD_OK;
  wanted->value = mp_value_retain(value);
  wanted->revision = revision;
  replay->unknown--;
  return MOONPAD_OK;
}

static moonpad_status find_in_delta(void *context, moonpad_string key, mp_value *value, moonpad_error *error) {
  const event_context *event = context;
  (void)error;
  return find_value(event->replay, key, value, event->revision);
}

static moonpad_status find_in_event(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_replay *replay = context;
  event_context event = {replay, row->revision};
  moonpad_status status = mp_event_each_delta(replay->state.env, row->json, find_in_delta, &event, error);
  return status == MOONPAD_OK && replay->unknown == 0 ? MP_STOP : status;
}

static moonpad_status find_in_base(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  return find_value(context, row->key, row->value, 0);
}

moonpad_status mp_replay_wanted_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session,
                                   const mp_session_row *row, int64_t revision, moonpad_error *error) {
  mp_event_query query = {
      .first = row->base_revision + 1, .last = revision, .newest_first = true, .kinds = MP_EVENT_SESSION_CHANGE};
  moonpad_status status = MOONPAD_OK;
  if (replay->unknown > 0) status = tx->ops->each_event(tx, session, &query, find_in_event, replay, error);
  if (status != MOONPAD_OK || replay->unknown == 0) return status;
  return tx->ops->each_base_key(tx, session, find_in_base, replay, error);
}

moonpad_status mp_replay_write(mp_replay *replay, mp_buffer *out, moonpad_error *error) {
  mp_entries_sort(&replay->state);
  mp_entries_write(&replay->state, MP_SCOPE_SESSION, out);
  return out->failed ? mp_no_memory(error) : MOONPAD_OK;
}
