/* Replaying events over a base state. */
#include "service/replay.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/event.h"
#include "core/json.h"

void mp_replay_init(mp_replay *replay, mp_env *env) {
  memset(replay, 0, sizeof *replay);
  replay->env = env;
  mp_map_init(&replay->map, env);
}

void mp_replay_free(mp_replay *replay) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&replay->map, &position)) != NULL;) {
    mp_replayed *replayed = slot->value;
    mp_key_release(replay->env, replayed->key);
    mp_value_release(replay->env, replayed->value);
    mp_release(replay->env, replayed);
  }
  mp_map_free(&replay->map);
}

void mp_replay_clear(mp_replay *replay) {
  mp_env *env = replay->env;
  mp_replay_free(replay);
  mp_replay_init(replay, env);
}

static moonpad_status put(mp_replay *replay, moonpad_string key, mp_value *value, int64_t revision,
                          moonpad_error *error) {
  mp_replayed *replayed = mp_map_get(&replay->map, key);
  if (replayed == NULL) {
    replayed = mp_allocate_zeroed(replay->env, sizeof *replayed);
    if (replayed == NULL) return mp_no_memory(error);
    replayed->key = mp_key_new(replay->env, key);
    if (replayed->key == NULL || !mp_map_put(&replay->map, replayed->key, replayed)) {
      mp_key_release(replay->env, replayed->key);
      mp_release(replay->env, replayed);
      return mp_no_memory(error);
    }
  }
  mp_value_retain(value);
  mp_value_release(replay->env, replayed->value);
  replayed->value = value;
  replayed->revision = revision;
  return MOONPAD_OK;
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
  return mp_event_each_delta(replay->env, json, replay_delta, &context, error);
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

moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_place *session, const mp_session_row *row,
                            int64_t revision, moonpad_error *error) {
  moonpad_status status = mp_replay_check(row, revision, error);
  if (status == MOONPAD_OK) status = tx->ops->each_base_key(tx, session, base_row, replay, error);
  if (status != MOONPAD_OK || revision == row->base_revision) return status;
  mp_event_query query = {
      .first = row->base_revision + 1, .last = revision, .kinds = MP_EVENT_SESSION_CHANGE | MP_EVENT_USER_MESSAGE};
  return tx->ops->each_event(tx, session, &query, event_row, replay, error);
}

/* ---- a few keys, from the newest change back ---- */

moonpad_status mp_replay_want(mp_replay *replay, moonpad_string key, moonpad_error *error) {
  moonpad_status status = put(replay, key, NULL, MP_UNKNOWN, error);
  if (status == MOONPAD_OK) replay->unknown++;
  return status;
}

static moonpad_status find_value(mp_replay *replay, moonpad_string key, mp_value *value, int64_t revision) {
  mp_replayed *wanted = mp_map_get(&replay->map, key);
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
  moonpad_status status = mp_event_each_delta(replay->env, row->json, find_in_delta, &event, error);
  return status == MOONPAD_OK && replay->unknown == 0 ? MP_STOP : status;
}

static moonpad_status find_in_base(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  return find_value(context, row->key, row->value, 0);
}

moonpad_status mp_replay_wanted_to(mp_replay *replay, mp_tx *tx, const mp_place *session, const mp_session_row *row,
                                   int64_t revision, moonpad_error *error) {
  mp_event_query query = {
      .first = row->base_revision + 1, .last = revision, .newest_first = true, .kinds = MP_EVENT_SESSION_CHANGE};
  moonpad_status status = MOONPAD_OK;
  if (replay->unknown > 0) status = tx->ops->each_event(tx, session, &query, find_in_event, replay, error);
  if (status != MOONPAD_OK || replay->unknown == 0) return status;
  return tx->ops->each_base_key(tx, session, find_in_base, replay, error);
}

static int compare_replayed(const void *a, const void *b) {
  const mp_replayed *const *x = a;
  const mp_replayed *const *y = b;
  return mp_text_compare(mp_key_text((*x)->key), mp_key_text((*y)->key));
}

moonpad_status mp_replay_sorted(const mp_replay *replay, mp_replayed ***list, size_t *count, moonpad_error *error) {
  *count = 0;
  *list = mp_allocate(replay->env, replay->map.count * sizeof **list);
  if (*list == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&replay->map, &position)) != NULL;) {
    mp_replayed *replayed = slot->value;
    if (replayed->value != NULL) (*list)[(*count)++] = replayed;
  }
  if (*count > 1) qsort(*list, *count, sizeof **list, compare_replayed);
  return MOONPAD_OK;
}

moonpad_status mp_replay_write(const mp_replay *replay, mp_buffer *out, moonpad_error *error) {
  mp_replayed **list;
  size_t count;
  moonpad_status status = mp_replay_sorted(replay, &list, &count, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer_add_char(out, '{');
  for (size_t i = 0; i < count; i++) {
    if (i != 0) mp_buffer_add_char(out, ',');
    mp_json_write_string(out, mp_key_text(list[i]->key));
    mp_buffer_add_char(out, ':');
    mp_value_write(out, list[i]->value);
  }
  mp_buffer_add_char(out, '}');
  mp_release(replay->env, list);
  return out->failed ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_replay_writes(const mp_replay *replay, mp_key_write **writes, size_t *count, moonpad_error *error) {
  *count = 0;
  *writes = mp_allocate(replay->env, (replay->map.count + 1) * sizeof **writes);
  if (*writes == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&replay->map, &position)) != NULL;) {
    const mp_replayed *replayed = slot->value;
    (*writes)[(*count)++] = (mp_key_write){.scope = MP_SCOPE_SESSION,
                                           .key = mp_key_text(replayed->key),
                                           .value = replayed->value,
                                           .revision = replayed->revision};
  }
  return MOONPAD_OK;
}
