/* A random life of a store. */
#include "store_life.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

static moonpad_string draw_user(uint64_t *seed) {
  return moonpad_text(dumped_users[draw(seed, sizeof dumped_users / sizeof *dumped_users)]);
}

static moonpad_string draw_app(uint64_t *seed) {
  return moonpad_text(dumped_apps[draw(seed, sizeof dumped_apps / sizeof *dumped_apps)]);
}

static mp_session_ref draw_session(uint64_t *seed) {
  static const char *const sessions[] = {"s1", "s2", "s"};
  mp_session_ref ref = {.name = {draw_app(seed), draw_user(seed), moonpad_text(sessions[draw(seed, 3)])}};
  return ref;
}

/* *value NULL: a tombstone. */
static moonpad_status draw_value(uint64_t *seed, mp_env *env, mp_value **value, moonpad_error *error) {
  char text[48];
  snprintf(text, sizeof text, "[%u,\"text\"]", (unsigned)draw(seed, 1000));
  uint32_t type = draw(seed, 4);
  *value = NULL;
  if (type == 0) return MOONPAD_OK;
  if (type == 1) *value = mp_value_new_integer(env, (int64_t)draw(seed, 1000));
  if (type == 2) *value = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text(text));
  if (type == 3) *value = mp_value_new_string(env, moonpad_text(text));
  return *value == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_string draw_key(uint64_t *seed) {
  static const char *const keys[] = {"a", "b", "cart", "", "profile", "x"};
  return moonpad_text(keys[draw(seed, 6)]);
}

static moonpad_status shared_step(random_life *life, mp_tx *tx, uint64_t *seed, moonpad_error *error) {
  mp_value *value;
  mp_session_row row;
  bool of_user = draw(seed, 2) == 0;
  mp_scope scope = of_user ? MP_SCOPE_USER : MP_SCOPE_APP;
  mp_session_ref ref = {.name = {.app_name = draw_app(seed), .user_id = draw_user(seed)}};
  TRY(find_head(tx, &ref, scope, true, &row, error));
  TRY(draw_value(seed, life->opened->env, &value, error));
  int64_t revision = (of_user ? row.user_revision : row.app_revision) + 1;
  moonpad_status status = write_value(tx, &ref, scope, draw_key(seed), value, revision, error);
  mp_value_release(life->opened->env, value);
  TRY(status);
  if ((life->has & STORE_PURGE) != 0 && draw(seed, 8) == 0) {
    TRY(tx->ops->purge(tx, &ref, scope, revision - (int64_t)draw(seed, 3), error));
  }
  return MOONPAD_OK;
}

#define MAX_KEYS 4

/* What a service does with an event: keys, base state and event, in one call. */
static moonpad_status session_step(random_life *life, mp_tx *tx, uint64_t *seed, const mp_session_ref *ref,
                                   mp_session_row *row, moonpad_error *error) {
  char id[32];
  char json[64];
  mp_state_row keys[MAX_KEYS], base_keys[MAX_KEYS];
  mp_batch batch = {.ref = *ref, .row = row, .heads = MP_HEAD(MP_SCOPE_SESSION)};
  row->revision++;
  row->last_update_time = (double)draw(seed, 5);
  row->conversation_count += draw(seed, 2);
  if ((life->has & STORE_TOUCH) != 0) batch.touched = (double)draw(seed, 9);
  snprintf(id, sizeof id, "e%" PRId64, row->revision);
  snprintf(json, sizeof json, "{\"n\":%u}", (unsigned)draw(seed, 1000));
  mp_event_row event = event_row(row->revision, row->last_update_time, id, json);
  event.digest = draw(seed, 3);
  moonpad_status status = MOONPAD_OK;
  for (uint32_t count = draw(seed, 4); count != 0 && status == MOONPAD_OK; count--) {
    mp_value *value;
    status = draw_value(seed, life->opened->env, &value, error);
    mp_state_row write = {MP_SCOPE_SESSION, draw_key(seed), value, row->revision};
    if (status == MOONPAD_OK) keys[batch.key_count++] = write;
    if (status == MOONPAD_OK && draw(seed, 3) == 0) base_keys[batch.base_key_count++] = write;
  }
  batch.keys = keys;
  batch.base_keys = base_keys;
  batch.events = &event;
  batch.event_count = 1;
  if (status == MOONPAD_OK) status = tx->ops->apply(tx, &batch, error);
  for (size_t i = 0; i < batch.key_count; i++) mp_value_release(life->opened->env, keys[i].value);
  TRY(status);
  if ((life->has & STORE_TRIM) != 0 && draw(seed, 12) == 0) {
    row->base_revision = row->revision - (int64_t)draw(seed, 2);
    TRY(tx->ops->trim(tx, ref, row->base_revision, error));
    TRY(update_heads(tx, ref, row, MP_HEAD(MP_SCOPE_SESSION), error));
  }
  return MOONPAD_OK;
}

/* A session that begins as another one is. */
static moonpad_status fork_step(mp_tx *tx, uint64_t *seed, const mp_session_ref *from, const mp_session_row *row,
                                moonpad_error *error) {
  mp_session_row there;
  mp_session_ref to = {.name = from->name};
  to.name.session_id = moonpad_text("fork");
  moonpad_status status = find_row(tx, &to, &there, error);
  if (status == MOONPAD_OK) TRY(tx->ops->remove_session(tx, &to, error));
  to = (mp_session_ref){.name = to.name};
  TRY(make_session(tx, &to, 3.0, error));
  TRY(find_row(tx, &to, &there, error));
  int64_t last = row->base_revision + (int64_t)draw(seed, 9);
  there.revision = last < row->revision ? last : row->revision;
  there.base_revision = row->base_revision;
  TRY(tx->ops->copy_history(tx, from, &to, there.revision, error));
  return update_heads(tx, &to, &there, MP_HEAD(MP_SCOPE_SESSION), error);
}

static moonpad_status life_step(random_life *life, mp_tx *tx, uint64_t *seed, moonpad_error *error) {
  if (draw(seed, 4) == 0) return shared_step(life, tx, seed, error);
  mp_session_row row;
  mp_session_row again;
  mp_session_ref ref = draw_session(seed);
  moonpad_status status = find_row(tx, &ref, &row, error);
  if (status == MOONPAD_NOT_FOUND) {
    TRY(make_session(tx, &ref, (double)draw(seed, 9), error));
    TRY(find_row(tx, &ref, &row, error));
  } else {
    TRY(status);
    EXPECT(MOONPAD_ALREADY_EXISTS, tx->ops->create_session(tx, &ref.name, 1.0, &again, error));
  }
  if (draw(seed, 6) == 0) {
    TRY(tx->ops->remove_session(tx, &ref, error));
    EXPECT(MOONPAD_NOT_FOUND, find_row(tx, &ref, &again, error));
    return MOONPAD_OK;
  }
  if (draw(seed, 8) == 0) return fork_step(tx, seed, &ref, &row, error);
  return session_step(life, tx, seed, &ref, &row, error);
}

moonpad_status lives(mp_tx *tx, void *context, moonpad_error *error) {
  random_life *life = context;
  uint64_t seed = life->seed;
  for (int i = 0; i < life->steps; i++) TRY(life_step(life, tx, &seed, error));
  dump_free(&life->inside);
  TRY(dump_all(tx, false, &life->inside, error));
  return life->fails ? mp_fail(error, MOONPAD_CONFLICT, "it was all in vain") : MOONPAD_OK;
}
