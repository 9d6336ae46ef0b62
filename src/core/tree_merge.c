/*
** Doing over again in one tree what was done in another (contract 1.4 point 3): writes to different places are kept side by side, on the same place the
** later one wins, arrays that both only extended get the items of both.
*/
#include "core/tree_private.h"

#include "base/error.h"

static moonpad_status merge_node(mp_node *target, mp_node *source, moonpad_error *error);

/* The child at a place of an open node; NULL in *child when a scalar or nothing is there. */
static bool child_at(mp_node *node, size_t place, mp_node **child) {
  mp_item item;
  *child = NULL;
  if (!mp_node_read_slot(node, place, &item)) return false;
  *child = item.node;
  return item.node == NULL || mp_node_open(item.node);
}

/* An object in which nothing is and from which nothing was taken: beside an array it has nothing to add. */
static bool adds_nothing(const mp_node *source) {
  return !source->is_array && source->is_open && source->count == 0 && mp_tree_only_extended(source);
}

/* Can what was done in `source` be done in `target`, which is open? An empty object can become an array, as it does when it is written. */
static bool is_same_kind(const mp_node *target, const mp_node *source) {
  if (target->is_array == source->is_array) return true;
  if (!source->is_array) return adds_nothing(source);
  return source->base_length == 0 && target->count == 0;
}

static moonpad_status become(mp_node *target, mp_node *source, moonpad_error *error) {
  mp_value *value = mp_node_value(source);
  if (value == NULL) return mp_no_memory(error);
  mp_node_become(target, value);
  return MOONPAD_OK;
}

/* ---- Arrays ---- */

static moonpad_status put_item(mp_node *target, size_t place, mp_node *source, size_t from, moonpad_error *error) {
  mp_value *value = mp_node_slot_value(source, from);
  bool done = value != NULL && mp_node_put_item(target, place, value);
  mp_value_release(target->env, value);
  return done ? MOONPAD_OK : mp_no_memory(error);
}

/* `fits` becomes false when the target has nothing at the place of a change, so that only replacing the whole is left. */
static moonpad_status merge_base_items(mp_node *target, mp_node *source, bool *fits, moonpad_error *error) {
  for (size_t i = 0; i < source->base_length; i++) {
    mp_slot *slot = &source->slots[i];
    if (slot->kind != MP_SLOT_NODE || !slot->as.node->is_dirty) continue;
    mp_node *child = NULL;
    if (i < target->count && !child_at(target, i, &child)) return mp_no_memory(error);
    moonpad_status status = MOONPAD_OK;
    if (child != NULL && is_same_kind(child, slot->as.node)) {
      status = merge_node(child, slot->as.node, error);
    } else if (child != NULL && !target->restructured) {
      status = put_item(target, i, source, i, error);
    } else {
      *fits = false;
      return MOONPAD_OK;
    }
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status merge_array(mp_node *target, mp_node *source, moonpad_error *error) {
  bool fits = true;
  moonpad_status status = merge_base_items(target, source, &fits, error);
  if (status == MOONPAD_OK && !fits) return become(target, source, error);
  for (size_t i = source->base_length; status == MOONPAD_OK && i < source->count; i++) {
    status = put_item(target, target->count, source, i, error);
  }
  return status;
}

/* ---- Objects ---- */

static moonpad_status put_member(mp_node *target, mp_node *source, size_t from, moonpad_error *error) {
  mp_value *value = mp_node_slot_value(source, from);
  bool done = value != NULL && mp_node_put_member(target, mp_key_text(source->keys[from]), value);
  mp_value_release(target->env, value);
  return done ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status put_empty(mp_node *target, moonpad_string key, bool as_array, moonpad_error *error) {
  mp_value *value =
      mp_value_new_json(target->env, as_array ? MOONPAD_ARRAY : MOONPAD_OBJECT, moonpad_text(as_array ? "[]" : "{}"));
  bool done = value != NULL && mp_node_put_member(target, key, value);
  mp_value_release(target->env, value);
  return done ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status merge_into_member(mp_node *target, mp_node *source, size_t from, moonpad_error *error) {
  mp_node *theirs = source->slots[from].as.node;
  size_t place = mp_node_find(target, mp_key_text(source->keys[from]));
  mp_node *child = NULL;
  if (place != MP_NO_PLACE && !child_at(target, place, &child)) return mp_no_memory(error);
  if (child != NULL && is_same_kind(child, theirs)) return merge_node(child, theirs, error);
  return put_member(target, source, from, error);
}

/* A member that began as an empty table because there was none: put there the same way, so that others who did so are found side by side. */
static moonpad_status merge_created(mp_node *target, mp_node *source, size_t from, moonpad_error *error) {
  mp_node *created = NULL;
  if (!child_at(source, from, &created)) return mp_no_memory(error);
  moonpad_string key = mp_key_text(source->keys[from]);
  size_t place = mp_node_find(target, key);
  if (place == MP_NO_PLACE || target->slots[place].kind == MP_SLOT_HOLE) {
    moonpad_status status = put_empty(target, key, created->is_array, error);
    if (status != MOONPAD_OK) return status;
  }
  return merge_into_member(target, source, from, error);
}

static moonpad_status merge_object(mp_node *target, mp_node *source, moonpad_error *error) {
  for (size_t i = 0; i < source->slot_count; i++) {
    mp_slot *slot = &source->slots[i];
    moonpad_status status = MOONPAD_OK;
    if (slot->kind == MP_SLOT_HOLE) {
      size_t place = slot->at_clean ? mp_node_find(target, mp_key_text(source->keys[i])) : MP_NO_PLACE;
      if (place != MP_NO_PLACE && target->slots[place].kind != MP_SLOT_HOLE) mp_node_remove_member(target, place);
    } else if (slot->is_set) {
      bool is_created = slot->began_empty && !slot->at_clean;
      status = is_created ? merge_created(target, source, i, error) : put_member(target, source, i, error);
    } else if (slot->kind == MP_SLOT_NODE && slot->as.node->is_dirty) {
      status = merge_into_member(target, source, i, error);
    }
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

/* ---- The whole ---- */

static moonpad_status merge_node(mp_node *target, mp_node *source, moonpad_error *error) {
  if (source->restructured || !is_same_kind(target, source)) return become(target, source, error);
  if (target->is_array != source->is_array) {
    if (!source->is_array) return MOONPAD_OK;
    mp_node_to_array(target);
  }
  return source->is_array ? merge_array(target, source, error) : merge_object(target, source, error);
}

moonpad_status mp_tree_merge(mp_node *target, mp_node *source, moonpad_error *error) {
  if (!source->is_dirty) return MOONPAD_OK;
  if (!mp_node_open(target)) return mp_no_memory(error);
  moonpad_status status = mp_node_ask_owner(target, error);
  return status == MOONPAD_OK ? merge_node(target, source, error) : status;
}
