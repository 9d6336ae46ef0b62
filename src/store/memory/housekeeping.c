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

moonpad_status mp_memory_trim(mp_tx *tx, const mp_session_ref *ref, int64_t last, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, ref->session);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_events left = {0};
  mp_memory_events *before = mp_allocate(store->env, sizeof *before);
  status =
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
      if (head.keys == NULL) continue;
      mp_memory_step *step = mp_memory_log_add(store, MP_STEP_TOUCH);
      step->was.touched.target = head.touched;
      step->was.touched.before = *head.touched;
      *head.touched = touch->time;
    }
  }
  return MOONPAD_OK;
}

typedef struct sweeping {
  mp_tx *tx;
  double before;
  int64_t limit;
  int64_t removed;
} sweeping;

static moonpad_status sweep_sessions(sweeping *sweep, const mp_memory_user *user, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (mp_memory_session *session = user->sessions; session != NULL; session = session->next) {
    double used = session->touched != 0 ? session->touched : session->row.last_update_time;
    if (session->deleted || used >= sweep->before) continue;
    if (sweep->removed >= sweep->limit) break;
    status = mp_memory_remove(sweep->tx, MP_SCOPE_SESSION, session->row.id, error);
    if (status != MOONPAD_OK) break;
    sweep->removed++;
  }
  return status;
}

static moonpad_status count_up(mp_tx *tx, const mp_memory_head *head, moonpad_error *error) {
  moonpad_status status = mp_memory_log_reserve(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_step *step = mp_memory_log_add(mp_memory_store_of(tx), MP_STEP_SET_REVISION);
  step->was.revision.target = head->revision;
  step->was.revision.before = (*head->revision)++;
  return MOONPAD_OK;
}

/* State of which nobody knows when it was used (`touched` 0) is left alone. */
static moonpad_status sweep_keys(sweeping *sweep, mp_scope scope, int64_t id, moonpad_error *error) {
  mp_memory_head head = mp_memory_data_head(&mp_memory_store_of(sweep->tx)->data, scope, id);
  bool is_due = head.keys != NULL && head.keys->newest != NULL && *head.touched != 0 && *head.touched < sweep->before;
  if (!is_due || sweep->removed >= sweep->limit) return MOONPAD_OK;
  moonpad_status status = count_up(sweep->tx, &head, error);
  if (status == MOONPAD_OK) status = replace_keys(sweep->tx, &head, *head.revision, true, error);
  if (status == MOONPAD_OK) sweep->removed++;
  return status;
}

moonpad_status mp_memory_sweep(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit, int64_t *removed,
                               moonpad_error *error) {
  const mp_memory_data *data = &mp_memory_store_of(tx)->data;
  sweeping sweep = {tx, touched_before, limit, 0};
  moonpad_status status = MOONPAD_OK;
  const mp_map *map = scope == MP_SCOPE_APP ? &data->apps : &data->users;
  size_t position = 0;
  for (const mp_map_slot *slot; status == MOONPAD_OK && (slot = mp_map_next(map, &position)) != NULL;) {
    if (scope == MP_SCOPE_SESSION) {
      status = sweep_sessions(&sweep, slot->value, error);
    } else if (scope == MP_SCOPE_USER) {
      status = sweep_keys(&sweep, scope, ((const mp_memory_user *)slot->value)->id, error);
    } else {
      status = sweep_keys(&sweep, scope, ((const mp_memory_app *)slot->value)->id, error);
    }
  }
  *removed = sweep.removed;
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
