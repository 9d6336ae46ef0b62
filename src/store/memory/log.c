/* Undoing, and keeping, what a transaction on the memory store has done. */
#include "store/memory/log.h"

#include "base/error.h"

#define STEPS_KEPT 1024 /* between transactions: beyond it, the log of a large one is given back */

moonpad_status mp_memory_grow_steps(mp_tx *tx, moonpad_error *error) {
  mp_memory_store *store = mp_memory_store_of(tx);
  if (!((mp_memory_tx *)tx)->writing) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "a transaction that reads cannot write");
  }
  void *steps = store->steps;
  if (!mp_reserve(store->env, &steps, &store->step_capacity, sizeof(mp_memory_step), store->step_count + 1)) {
    return mp_no_memory(error);
  }
  store->steps = steps;
  return MOONPAD_OK;
}

static void undo_update(const mp_memory_step *step) {
  mp_memory_session *session = step->was.updated.session;
  session->row.revision = step->was.updated.revision;
  session->row.base_revision = step->was.updated.base_revision;
  session->row.conversation_count = step->was.updated.conversation_count;
  session->row.last_update_time = step->was.updated.last_update_time;
  session->touched = step->was.updated.touched;
}

/* What stands in `place` goes, what was there before comes back. */
static void undo_keys(mp_memory_store *store, const mp_memory_step *step) {
  mp_memory_keys_free(step->was.keys.place);
  *step->was.keys.place = *step->was.keys.before;
  *step->was.keys.forgotten = step->was.keys.forgotten_before;
  *step->was.keys.touched = step->was.keys.touched_before;
  mp_release(store->env, step->was.keys.before);
}

static void undo_events(mp_memory_store *store, const mp_memory_step *step) {
  mp_memory_events_free(store->env, step->was.events.place);
  *step->was.events.place = *step->was.events.before;
  mp_release(store->env, step->was.events.before);
}

void mp_memory_drop_token(mp_memory_store *store, mp_memory_token *token) {
  *(token->older != NULL ? &token->older->newer : &store->oldest_token) = token->newer;
  *(token->newer != NULL ? &token->newer->older : &store->newest_token) = token->older;
  mp_map_remove(&store->tokens, mp_key_text(token->key));
}

/* It may have been forgotten since, and noted again. */
static void undo_token(mp_memory_store *store, mp_key *key) {
  mp_memory_token *token = mp_map_get(&store->tokens, mp_key_text(key));
  if (token != NULL && token->key == key) mp_memory_drop_token(store, token);
  mp_key_release(store->env, key);
}

static void undo_step(mp_memory_store *store, mp_memory_step *step) {
  switch (step->kind) {
  case MP_STEP_APP:
    mp_memory_data_undo_create_app(&store->data, step->was.app);
    break;
  case MP_STEP_USER:
    mp_memory_data_undo_create_user(&store->data, step->was.user.user, step->was.user.replaced);
    break;
  case MP_STEP_SESSION:
    mp_memory_data_undo_create_session(&store->data, step->was.made.session, step->was.made.replaced);
    break;
  case MP_STEP_DELETE:
    step->was.session->deleted = false;
    break;
  case MP_STEP_DELETE_USER:
    step->was.user.user->deleted = false;
    break;
  case MP_STEP_UPDATE:
    undo_update(step);
    break;
  case MP_STEP_REVISION:
    *step->was.revision.place = step->was.revision.before;
    break;
  case MP_STEP_KEY:
    mp_memory_keys_undo(&step->was.key);
    break;
  case MP_STEP_EVENT:
    mp_memory_events_undo(store->env, &step->was.session->events);
    break;
  case MP_STEP_TOUCH:
    *step->was.touched.place = step->was.touched.before;
    break;
  case MP_STEP_KEYS:
    undo_keys(store, step);
    break;
  case MP_STEP_EVENTS:
    undo_events(store, step);
    break;
  case MP_STEP_TOKEN:
    undo_token(store, step->was.token);
    break;
  }
}

void mp_memory_undo_steps(mp_memory_store *store, size_t first) {
  while (store->step_count > first) undo_step(store, &store->steps[--store->step_count]);
}

static void keep_step(mp_memory_store *store, mp_memory_step *step) {
  switch (step->kind) {
  case MP_STEP_KEY:
    mp_memory_keys_keep(&step->was.key);
    break;
  case MP_STEP_DELETE:
    mp_memory_data_remove(&store->data, step->was.session);
    step->was.session->next = store->garbage;
    store->garbage = step->was.session;
    break;
  case MP_STEP_DELETE_USER:
    mp_memory_data_remove_user(&store->data, step->was.user.user);
    break;
  case MP_STEP_KEYS:
    mp_memory_keys_free(step->was.keys.before);
    mp_release(store->env, step->was.keys.before);
    break;
  case MP_STEP_EVENTS:
    mp_memory_events_free(store->env, step->was.events.before);
    mp_release(store->env, step->was.events.before);
    break;
  case MP_STEP_TOKEN:
    mp_key_release(store->env, step->was.token);
    break;
  default:
    break;
  }
}

void mp_memory_keep_steps(mp_memory_store *store) {
  for (size_t i = 0; i < store->step_count; i++) keep_step(store, &store->steps[i]);
  store->step_count = 0;
  if (store->step_capacity <= STEPS_KEPT) return;
  mp_release(store->env, store->steps);
  store->steps = NULL;
  store->step_capacity = 0;
}
