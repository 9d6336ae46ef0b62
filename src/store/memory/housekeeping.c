/* Removing, trimming, purging and sweeping in the memory store. */
#include "base/error.h"
#include "store/memory/log.h"

moonpad_status mp_memory_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = scope == MP_SCOPE_SESSION ? mp_memory_data_session_by_id(&store->data, id) : NULL;
  mp_memory_user *user = scope == MP_SCOPE_USER ? mp_memory_data_user_by_id(&store->data, id) : NULL;
  if (session != NULL) {
    session->deleted = true;
    mp_memory_add_step(store, MP_STEP_DELETE)->was.session = session;
  }
  if (user != NULL) {
    user->deleted = true;
    mp_memory_add_step(store, MP_STEP_DELETE_USER)->was.user.user = user;
  }
  return session == NULL && user == NULL ? MOONPAD_NOT_FOUND : MOONPAD_OK;
}

/*
** Puts a copy without the tombstones up to `purged` in the place of a scope's keys; or with
** `all` nothing.
*/
static moonpad_status replace_keys(mp_tx *tx, const mp_memory_scope *scope, int64_t purged, bool all,
                                   moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_keys *before = mp_allocate(store->env, sizeof *before);
  if (before == NULL) return mp_no_memory(error);
  mp_memory_keys fresh;
  mp_memory_keys_init(&fresh, store->env);
  if (!all && !mp_memory_keys_copy(&fresh, scope->keys, purged)) {
    mp_memory_keys_free(&fresh);
    mp_release(store->env, before);
    return mp_no_memory(error);
  }
  *before = *scope->keys;
  mp_memory_step *step = mp_memory_add_step(store, MP_STEP_KEYS);
  step->was.keys.place = scope->keys;
  step->was.keys.before = before;
  step->was.keys.forgotten = scope->forgotten;
  step->was.keys.forgotten_before = *scope->forgotten;
  step->was.keys.touched = scope->touched;
  step->was.keys.touched_before = *scope->touched;
  *scope->keys = fresh;
  if (purged > *scope->forgotten) *scope->forgotten = purged;
  if (all) *scope->touched = 0; /* nothing is left that has been used */
  return MOONPAD_OK;
}

moonpad_status mp_memory_purge(mp_tx *tx, const mp_session_ref *place, mp_scope kind, int64_t last,
                               moonpad_error *error) {
  int64_t id = kind == MP_SCOPE_SESSION ? place->session : kind == MP_SCOPE_USER ? place->user : place->app;
  mp_memory_scope scope = mp_memory_data_scope(&mp_memory_store_of(tx)->data, kind, id);
  if (scope.keys == NULL) return MOONPAD_NOT_FOUND;
  return replace_keys(tx, &scope, last < *scope.revision ? last : *scope.revision, false, error);
}

moonpad_status mp_memory_trim(mp_tx *tx, const mp_session_ref *place, int64_t last, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  mp_memory_session *session = mp_memory_data_session_by_id(&store->data, place->session);
  if (session == NULL) return MOONPAD_NOT_FOUND;
  mp_memory_events kept = {0};
  mp_memory_events *before = mp_allocate(store->env, sizeof *before);
  status =
      before == NULL ? mp_no_memory(error) : mp_memory_events_copy(store->env, &kept, &session->events, last, error);
  if (status != MOONPAD_OK) {
    mp_memory_events_free(store->env, &kept);
    mp_release(store->env, before);
    return status;
  }
  *before = session->events;
  mp_memory_step *step = mp_memory_add_step(store, MP_STEP_EVENTS);
  step->was.events.place = &session->events;
  step->was.events.before = before;
  session->events = kept;
  return MOONPAD_OK;
}

/* ---- when something was last used ---- */

moonpad_status mp_memory_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  for (size_t i = 0; i < count; i++) {
    const mp_touch *touch = &touches[i];
    const int64_t ids[] = {touch->ref.session, touch->ref.user, touch->ref.app};
    for (int kind = 0; kind < MP_STORED_SCOPES; kind++) {
      moonpad_status status = mp_memory_reserve_step(tx, error);
      if (status != MOONPAD_OK) return status;
      if ((touch->heads & MP_HEAD(kind)) == 0) continue;
      mp_memory_scope scope = mp_memory_data_scope(&store->data, (mp_scope)kind, ids[kind]);
      if (scope.keys == NULL) continue;
      mp_memory_step *step = mp_memory_add_step(store, MP_STEP_TOUCH);
      step->was.touched.place = scope.touched;
      step->was.touched.before = *scope.touched;
      *scope.touched = touch->time;
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

static moonpad_status count_up(mp_tx *tx, const mp_memory_scope *scope, moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_step *step = mp_memory_add_step(mp_memory_store_of(tx), MP_STEP_REVISION);
  step->was.revision.place = scope->revision;
  step->was.revision.before = (*scope->revision)++;
  return MOONPAD_OK;
}

/* State that nobody has ever touched is as old as can be told: it is left alone. */
static moonpad_status sweep_keys(sweeping *sweep, mp_scope kind, int64_t id, moonpad_error *error) {
  mp_memory_scope scope = mp_memory_data_scope(&mp_memory_store_of(sweep->tx)->data, kind, id);
  bool is_due =
      scope.keys != NULL && scope.keys->newest != NULL && *scope.touched != 0 && *scope.touched < sweep->before;
  if (!is_due || sweep->removed >= sweep->limit) return MOONPAD_OK;
  moonpad_status status = count_up(sweep->tx, &scope, error);
  if (status == MOONPAD_OK) status = replace_keys(sweep->tx, &scope, *scope.revision, true, error);
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

/* As a rule behind the newest; but a clock may have been set back. */
static void link_token(mp_memory_store *store, mp_memory_token *token) {
  mp_memory_token *older = store->newest_token;
  while (older != NULL && older->time > token->time) older = older->older;
  token->older = older;
  token->newer = older != NULL ? older->newer : store->oldest_token;
  *(older != NULL ? &older->newer : &store->oldest_token) = token;
  *(token->newer != NULL ? &token->newer->older : &store->newest_token) = token;
}

/* Those that are forgotten are of no use to anybody: that this is not undone does not matter. */
moonpad_status mp_memory_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error) {
  moonpad_status status = mp_memory_reserve_step(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_store *store = mp_memory_store_of(tx);
  moonpad_string text = {(const char *)token, MP_TOKEN_BYTES};
  while (store->oldest_token != NULL && store->oldest_token->time < expired) {
    mp_memory_drop_token(store, store->oldest_token);
  }
  if (mp_map_get(&store->tokens, text) != NULL) return MOONPAD_ALREADY_EXISTS;
  void *room;
  mp_key *key = mp_key_new_with(store->env, text, mp_hash(text.data, text.length), sizeof(mp_memory_token), &room);
  if (key == NULL || !mp_map_put(&store->tokens, key, room)) {
    mp_key_release(store->env, key);
    return mp_no_memory(error);
  }
  mp_memory_token *noted = room;
  noted->key = key;
  noted->time = now;
  link_token(store, noted);
  mp_memory_add_step(store, MP_STEP_TOKEN)->was.token = key;
  return MOONPAD_OK;
}
