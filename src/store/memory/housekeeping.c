/* Removing, trimming, purging, touching, sweeping; idempotency keys. */
#include "base/error.h"
#include "store/memory/log.h"

moonpad_status mp_memory_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = scope == MP_SCOPE_SESSION ? mp_memory_data_session_by_id(&store->data, id) : NULL;
  mp_memory_user *user = scope == MP_SCOPE_USER ? mp_memory_data_user_by_id(&store->data, id) : NULL;
  if (session != NULL) {
    session->deleted = true;
    mp_memory_log_add(store, MP_STEP_DELETE_SESSION)->was.session = session;
  }
  if (user != NULL) {
    user->deleted = true;
    mp_memory_log_add(store, MP_STEP_DELETE_USER)->was.user.user = user;
  }
  return session == NULL && user == NULL ? MOONPAD_NOT_FOUND : MOONPAD_OK;
}

/*
** Replaces the keys of a head by a copy without the tombstones up to revision `purged`; with `all`,
** by none.
*/
static moonpad_status replace_keys(mp_tx *tx, const mp_memory_head *head, int64_t purged, bool all,
                                   moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_keys *before = mp_allocate(store->env, sizeof *before);
  if (before == NULL) return mp_no_memory(error);
  mp_memory_keys fresh;
  mp_memory_keys_init(&fresh, store->env);
  if (!all && !mp_memory_keys_copy(&fresh, head->keys, purged)) {
    mp_memory_keys_free(&fresh);
    mp_release(store->env, before);
    return mp_no_memory(error);
  }
  *before = *head->keys;
  mp_memory_step *step = mp_memory_log_add(store, MP_STEP_REPLACE_KEYS);
  step->was.keys.target = head->keys;
  step->was.keys.before = before;
  step->was.keys.forgotten = head->forgotten;
  step->was.keys.forgotten_before = *head->forgotten;
  step->was.keys.touched = head->touched;
  step->was.keys.touched_before = *head->touched;
  *head->keys = fresh;
  if (purged > *head->forgotten) *head->forgotten = purged;
  /* No key is left that was used. */
  if (all) *head->touched = 0;
  return MOONPAD_OK;
}

moonpad_status mp_memory_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                               moonpad_error *error) {
  int64_t id = scope == MP_SCOPE_SESSION ? ref->session : scope == MP_SCOPE_USER ? ref->user : ref->app;
  mp_memory_head head = mp_memory_data_head(&mp_memory_store_of(tx)->data, scope, id);
  if (head.keys == NULL) return MOONPAD_NOT_FOUND;
  return replace_keys(tx, &head, last < *head.revision ? last : *head.revision, false, error);
}

static moonpad_status replace_events(mp_tx *tx, mp_memory_session *session, int64_t last, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_events left = {0};
  mp_memory_events *before = mp_allocate(store->env, sizeof *before);
  moonpad_status status =
      before == NULL ? mp_no_memory(error) : mp_memory_events_copy(store->env, &left, &session->events, last, error);
  if (status != MOONPAD_OK) {
    mp_memory_events_free(store->env, &left);
    mp_release(store->env, before);
    return status;
  }
  *before = session->events;
  mp_memory_step *step = mp_memory_log_add(store, MP_STEP_REPLACE_EVENTS);
  step->was.events.target = &session->events;
  step->was.events.before = before;
  session->events = left;
  return MOONPAD_OK;
}

moonpad_status mp_memory_trim(mp_tx *tx, const mp_session_ref *ref, int64_t last, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, ref->session);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_events *events = &session->events;
  uint32_t trimmed = mp_memory_events_up_to(events, last);
  if (trimmed >= events->count - trimmed) return replace_events(tx, session, last, error);
  mp_memory_step *step = mp_memory_log_add(store, MP_STEP_TRIM_EVENTS);
  step->was.trimmed.target = events;
  step->was.trimmed.before = events->trimmed;
  events->trimmed = trimmed;
  return MOONPAD_OK;
}

/* ---- when something was last used ---- */

moonpad_status mp_memory_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  for (size_t i = 0; i < count; i++) {
    const mp_touch *touch = &touches[i];
    const int64_t ids[] = {touch->ref.session, touch->ref.user, touch->ref.app};
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
      moonpad_status status = mp_memory_log_reserve(tx, error);
      if (status != MOONPAD_OK) return status;
      if ((touch->heads & MP_HEAD(scope)) == 0) continue;
      mp_memory_head head = mp_memory_data_head(&store->data, (mp_scope)scope, ids[scope]);
      if (head.keys == NULL || *head.touched >= touch->time) continue;
      mp_memory_step *step = mp_memory_log_add(store, MP_STEP_TOUCH);
      step->was.touched.target = head.touched;
      step->was.touched.before = *head.touched;
      *head.touched = touch->time;
    }
  }
  return MOONPAD_OK;
}

static moonpad_status count_up(mp_tx *tx, const mp_memory_head *head, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_step *step = mp_memory_log_add(mp_memory_store_of(tx), MP_STEP_SET_REVISION);
  step->was.revision.target = head->revision;
  step->was.revision.before = (*head->revision)++;
  return MOONPAD_OK;
}

static bool is_unused(const mp_sweep *sweep, double touched) {
  return touched != 0 && touched < sweep->touched_before;
}

static moonpad_status sweep_session(mp_tx *tx, mp_sweep *sweep, const mp_memory_session *session,
                                    moonpad_error *error) {
  double used = session->touched != 0 ? session->touched : session->row.last_update_time;
  if (session->deleted || used >= sweep->touched_before) return MOONPAD_OK;
  sweep->removed++;
  return mp_memory_remove(tx, MP_SCOPE_SESSION, session->row.id, error);
}

static moonpad_status sweep_keys(mp_tx *tx, mp_sweep *sweep, const mp_memory_head *head, moonpad_error *error) {
  if (head->keys->newest == NULL || !is_unused(sweep, *head->touched)) return MOONPAD_OK;
  sweep->removed++;
  moonpad_status status = count_up(tx, head, error);
  return status == MOONPAD_OK ? replace_keys(tx, head, *head->revision, true, error) : status;
}

static moonpad_status sweep_user(mp_tx *tx, mp_sweep *sweep, mp_memory_user *user, moonpad_error *error) {
  mp_memory_head head = {&user->keys, &user->revision, &user->forgotten, &user->touched};
  return user->deleted ? MOONPAD_OK : sweep_keys(tx, sweep, &head, error);
}

static moonpad_status sweep_app(mp_tx *tx, mp_sweep *sweep, mp_memory_app *app, moonpad_error *error) {
  mp_memory_head head = {&app->keys, &app->revision, &app->forgotten, &app->touched};
  return sweep_keys(tx, sweep, &head, error);
}

/* In one call it looks at so many. */
#define LOOKED_AT 4096

/* `position` is the number of slots that it has looked at. */
moonpad_status mp_memory_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error) {
  const mp_memory_data *data = &mp_memory_store_of(tx)->data;
  const mp_memory_slots *all[] = {&data->session_slots, &data->user_slots, &data->app_slots};
  const mp_memory_slots *slots = all[sweep->scope];
  moonpad_status status = MOONPAD_OK;
  int64_t count = (int64_t)slots->count, end = sweep->position + LOOKED_AT;
  if (end > count) end = count;
  sweep->removed = 0;
  for (; status == MOONPAD_OK && sweep->position < end && sweep->removed < sweep->limit; sweep->position++) {
    void *item = slots->slots[sweep->position].item;
    if (item == NULL) continue;
    status = sweep->scope == MP_SCOPE_SESSION ? sweep_session(tx, sweep, item, error)
             : sweep->scope == MP_SCOPE_USER  ? sweep_user(tx, sweep, item, error)
                                              : sweep_app(tx, sweep, item, error);
  }
  sweep->is_done = sweep->position == count;
  return status;
}

/* ---- tokens ---- */

/* Nobody needs an expired token: that its removal is not undone does not matter. */
moonpad_status mp_memory_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_string text = {(const char *)token, MP_TOKEN_BYTES};
  mp_memory_tokens_expire(&store->tokens, expired);
  if (mp_memory_tokens_has(&store->tokens, text)) return MOONPAD_ALREADY_EXISTS;
  mp_key *key = mp_memory_tokens_add(&store->tokens, text, now);
  if (key == NULL) return mp_no_memory(error);
  mp_memory_log_add(store, MP_STEP_ADD_TOKEN)->was.token = key;
  return MOONPAD_OK;
}
