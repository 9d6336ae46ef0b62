/* Transactions: what one can be asked, how it begins and ends; closing. */
#include "base/error.h"
#include "store/memory/log.h"

static const mp_parts parts = {
    .find_session = mp_memory_find_session,
    .find_shared = mp_memory_find_shared,
    .insert_session = mp_memory_insert_session,
    .remove = mp_memory_remove,
    .update_heads = mp_memory_update_heads,
    .each_session = mp_memory_each_session,
    .read_key = mp_memory_read_key,
    .each_key = mp_memory_each_key,
    .write_key = mp_memory_write_key,
    .append_event = mp_memory_append_event,
    .each_event = mp_memory_each_event,
};

static const mp_tx_ops tx_ops = {
    .size = sizeof(mp_tx_ops),
    .look = mp_parts_look,
    .each_listed = mp_parts_each_listed,
    .each_event = mp_parts_each_event,
    .find_invocation = mp_parts_find_invocation,
    .each_base_key = mp_parts_each_base_key,
    .create_session = mp_parts_create_session,
    .remove_session = mp_parts_remove_session,
    .remove_user = mp_parts_remove_user,
    .apply = mp_parts_apply,
    .copy_history = mp_parts_copy_history,
    .trim = mp_memory_trim,
    .purge = mp_memory_purge,
    .touch = mp_memory_touch,
    .sweep = mp_memory_sweep,
    .claim_token = mp_memory_claim_token,
    .each_app = mp_memory_each_app,
    .each_user = mp_memory_each_user,
};

/* Locks the mutex. Fails, without it, when the store is closed. */
static moonpad_status lock(mp_memory_store *store, moonpad_error *error) {
  mp_mutex_lock(&store->mutex);
  if (!store->closed) return MOONPAD_OK;
  mp_mutex_unlock(&store->mutex);
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

static void free_garbage(mp_memory_store *store, mp_memory_session *garbage) {
  while (garbage != NULL) {
    mp_memory_session *next = garbage->next;
    mp_memory_session_free(store->env, garbage);
    garbage = next;
  }
}

moonpad_status mp_memory_write(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_memory_store *store = (mp_memory_store *)base;
  moonpad_status status = lock(store, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_tx tx = {{{&tx_ops}, store->env, &parts, store}, true};
  status = function(&tx.parts.tx, context, error);
  if (status == MOONPAD_OK) {
    mp_memory_log_commit(store);
  } else {
    mp_memory_log_undo(store);
  }
  mp_memory_session *garbage = store->garbage;
  store->garbage = NULL;
  mp_mutex_unlock(&store->mutex);
  free_garbage(store, garbage);
  return status;
}

moonpad_status mp_memory_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_memory_store *store = (mp_memory_store *)base;
  moonpad_status status = lock(store, error);
  if (status != MOONPAD_OK) return status;
  mp_memory_tx tx = {{{&tx_ops}, store->env, &parts, store}, false};
  status = function(&tx.parts.tx, context, error);
  mp_mutex_unlock(&store->mutex);
  return status;
}

void mp_memory_close(mp_store *base) {
  mp_memory_store *store = (mp_memory_store *)base;
  mp_mutex_lock(&store->mutex);
  store->closed = true;
  mp_mutex_unlock(&store->mutex);
}
