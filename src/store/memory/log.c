/* Undoing and committing what a transaction has done. */
#include "store/memory/log.h"

#include "base/error.h"

#define MAX_IDLE_CAPACITY 1024 /* steps; a larger log is freed at the end of a commit */

moonpad_status mp_memory_log_grow(mp_tx *tx, moonpad_error *error) {
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

static void undo_keys(mp_memory_store *store, const mp_memory_step *step) {
  mp_memory_keys_free(step->was.keys.target);
  *step->was.keys.target = *step->was.keys.before;
  *step->was.keys.forgotten = step->was.keys.forgotten_before;
  *step->was.keys.touched = step->was.keys.touched_before;
  mp_release(store->env, step->was.keys.before);
}

static void undo_events(mp_memory_store *store, const mp_memory_step *step) {
  mp_memory_events_free(store->env, step->was.events.target);
  *step->was.events.target = *step->was.events.before;
  mp_release(store->env, step->was.events.before);
}

/* It may have expired since, and have been added again. */
static void undo_token(mp_memory_store *store, mp_key *key) {
  mp_memory_tokens_undo_add(&store->tokens, key);
  mp_key_release(store->env, key);
}

static void undo_step(mp_memory_store *store, mp_memory_step *step) {
  switch (step->kind) {
  case MP_STEP_CREATE_APP:
    mp_memory_data_undo_create_app(&store->data, step->was.app);
    break;
  case MP_STEP_CREATE_USER:
    mp_memory_data_undo_create_user(&store->data, step->was.user.user, step->was.user.replaced);
    break;
  case MP_STEP_CREATE_SESSION:
    mp_memory_data_undo_create_session(&store->data, step->was.created.session, step->was.created.replaced);
    break;
  case MP_STEP_DELETE_SESSION:
    step->was.session->deleted = false;
    break;
  case MP_STEP_DELETE_USER:
    step->was.user.user->deleted = false;
    break;
  case MP_STEP_UPDATE_SESSION:
    undo_update(step);
    break;
  case MP_STEP_SET_REVISION:
    *step->was.revision.target = step->was.revision.before;
    break;
  case MP_STEP_WRITE_KEY:
    mp_memory_keys_undo(&step->was.key);
    break;
  case MP_STEP_APPEND_EVENT:
    mp_memory_events_undo_append(store->env, &step->was.session->events);
    break;
  case MP_STEP_TOUCH:
    *step->was.touched.target = step->was.touched.before;
    break;
  case MP_STEP_REPLACE_KEYS:
    undo_keys(store, step);
    break;
  case MP_STEP_TRIM_EVENTS:
    step->was.trimmed.target->trimmed = step->was.trimmed.before;
    break;
  case MP_STEP_REPLACE_EVENTS:
    undo_events(store, step);
    break;
  case MP_STEP_ADD_TOKEN:
    undo_token(store, step->was.token);
    break;
  }
}

void mp_memory_log_undo(mp_memory_store *store) {
  while (store->step_count > 0) undo_step(store, &store->steps[--store->step_count]);
}

static void commit_step(mp_memory_store *store, mp_memory_step *step) {
  switch (step->kind) {
  case MP_STEP_WRITE_KEY:
    mp_memory_keys_commit(&step->was.key);
    break;
  case MP_STEP_DELETE_SESSION:
    mp_memory_data_remove_session(&store->data, step->was.session);
    step->was.session->next = store->garbage;
    store->garbage = step->was.session;
    break;
  case MP_STEP_DELETE_USER:
    mp_memory_data_remove_user(&store->data, step->was.user.user);
    break;
  case MP_STEP_REPLACE_KEYS:
    mp_memory_keys_free(step->was.keys.before);
    mp_release(store->env, step->was.keys.before);
    break;
  case MP_STEP_REPLACE_EVENTS:
    mp_memory_events_free(store->env, step->was.events.before);
    mp_release(store->env, step->was.events.before);
    break;
  case MP_STEP_ADD_TOKEN:
    mp_key_release(store->env, step->was.token);
    break;
  default:
    break;
  }
}

void mp_memory_log_commit(mp_memory_store *store) {
  for (size_t i = 0; i < store->step_count; i++) commit_step(store, &store->steps[i]);
  store->step_count = 0;
  if (store->step_capacity <= MAX_IDLE_CAPACITY) return;
  mp_release(store->env, store->steps);
  store->steps = NULL;
  store->step_capacity = 0;
}
