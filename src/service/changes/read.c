/* Change sets: reading a key through what is pending (contract 1.3). */
#include "base/error.h"
#include "service/changes/change_set.h"
#include "service/changes/scalar.h"

static void borrow_result(mp_change *change, const mp_value *shown, mp_value *owned, mp_item *item) {
  item->node = NULL;
  item->scalar.type = MOONPAD_ABSENT;
  if (shown != NULL) item->scalar = shown->as;
  /* A local sum is a number: nothing in it needs the owned value to live on. */
  mp_value_release(change->owner->env, owned);
}

static moonpad_status change_item(mp_change *change, mp_item *item, moonpad_error *error) {
  item->node = NULL;
  item->scalar.type = MOONPAD_ABSENT;
  const moonpad_value *scalar = mp_change_scalar(change, &item->scalar);
  if (scalar != NULL) {
    item->scalar = *scalar;
    return MOONPAD_OK;
  }
  mp_change_touch(change, true);
  mp_value *owned = NULL;
  const mp_value *shown = NULL;
  moonpad_status status;
  if (change->pending && change->kind == MP_SET) {
    shown = change->value;
  } else {
    status = mp_change_shown(change, &shown, &owned, error);
    if (status != MOONPAD_OK) return status;
  }
  if (shown != NULL && mp_is_composite(shown->as.type)) {
    mp_value_release(change->owner->env, owned);
    status = mp_change_root(change, &item->node, error);
    if (status == MOONPAD_OK && item->node != NULL) {
      item->scalar.type = mp_node_is_array(item->node) ? MOONPAD_ARRAY : MOONPAD_OBJECT;
    }
    return status;
  }
  borrow_result(change, shown, owned, item);
  return MOONPAD_OK;
}

moonpad_status mp_changes_item(moonpad_changes *changes, moonpad_string key, mp_item *item, moonpad_error *error) {
  item->node = NULL;
  item->scalar.type = MOONPAD_ABSENT;
  if (key.length > MOONPAD_MAX_KEY_BYTES) return MOONPAD_OK;
  mp_change *change;
  moonpad_status status = mp_change_look(changes, key, &change, error);
  return status == MOONPAD_OK ? change_item(change, item, error) : status;
}

moonpad_status mp_changes_has(moonpad_changes *changes, moonpad_string key, bool *there, moonpad_error *error) {
  *there = false;
  if (key.length > MOONPAD_MAX_KEY_BYTES) return MOONPAD_OK;
  mp_change *change;
  moonpad_status status = mp_change_look(changes, key, &change, error);
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, true);
  *there = change->pending ? change->kind != MP_REMOVE : *change->under != NULL;
  return MOONPAD_OK;
}

moonpad_status mp_changes_peek(moonpad_changes *changes, moonpad_string key, moonpad_value *value,
                               moonpad_error *error) {
  value->type = MOONPAD_ABSENT;
  mp_change *change = mp_map_get(&changes->map, key);
  moonpad_status status = MOONPAD_OK;
  if (changes->below != NULL && key.length <= MOONPAD_MAX_KEY_BYTES) {
    status = mp_change_look(changes, key, &change, error);
  }
  if (status != MOONPAD_OK) return status;
  if (change == NULL) {
    mp_view_entry *entry = mp_map_get(&changes->view->entries, key);
    if (entry != NULL && entry->value != NULL) *value = entry->value->as;
    return MOONPAD_OK;
  }
  const mp_value *shown;
  mp_value *owned;
  status = mp_change_shown(change, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  if (owned != NULL && mp_is_composite(owned->as.type)) {
    /* The root keeps the text alive. */
    mp_node *root;
    status = mp_change_root(change, &root, error);
    if (status == MOONPAD_OK) *value = change->root_source->as;
  } else if (shown != NULL) {
    *value = shown->as;
  }
  mp_value_release(changes->env, owned);
  return status;
}

bool mp_changes_holds(moonpad_changes *changes, moonpad_string key, const mp_node *node) {
  mp_change *change = mp_map_get(&changes->map, key);
  if (change == NULL || change->root != node || node == NULL || mp_node_is_stale(node)) return false;
  if (change->pending) return change->kind != MP_REMOVE;
  return mp_change_look_below(change, NULL) == MOONPAD_OK && change->root_source == *change->under;
}
