/* Change sets: the opened value of a key (contract 1.3). */
#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"
#include "service/changes/scalar.h"

/* Does the key still show what was opened? Others may have changed it since. */
static moonpad_status compare_root(mp_change *change, bool *same, moonpad_error *error) {
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_look_below(change, error);
  if (status == MOONPAD_OK) status = mp_change_shown(change, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  bool is_copy = owned != NULL || change->owner->below != NULL;
  *same = shown != NULL && mp_is_composite(shown->as.type) &&
          (shown == change->root_source || (is_copy && mp_equal_values(shown, change->root_source)));
  mp_value_release(change->owner->env, owned);
  return MOONPAD_OK;
}

/*
** Something was read through a node, which the host may have had since before the key was last
** clean. Once the key shows something else, the node is a copy, and reading it counts no longer.
*/
static void tree_was_read(void *context) {
  mp_change *change = context;
  bool same;
  if (mp_change_is_marked_read(change)) return;
  if (compare_root(change, &same, NULL) != MOONPAD_OK || same) mp_change_touch(change, true);
}

static moonpad_status refuse_if_overtaken(mp_change *change, moonpad_error *error) {
  bool same;
  moonpad_status status = compare_root(change, &same, error);
  if (status != MOONPAD_OK || same) return status;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "state[%s] is stale: it has been replaced or removed, read it again from the state before writing",
                 mp_quote(mp_key_text(change->entry->key)).text);
}

/* A nested write makes the whole key pending. */
static moonpad_status tree_will_change(void *context, moonpad_error *error) {
  mp_change *change = context;
  if (change->extending) return MOONPAD_OK;
  moonpad_status status = mp_changes_refuse_if_ended(change->owner, error);
  if (status != MOONPAD_OK) return status;
  if (change->pending && change->kind == MP_SET) return MOONPAD_OK;
  status = refuse_if_overtaken(change, error);
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, false);
  mp_value *value = mp_value_retain(change->root_source);
  mp_change_forget_pending(change);
  mp_change_begin_pending(change, MP_SET);
  change->value = value;
  change->by_path = true;
  return MOONPAD_OK;
}

static const mp_tree_owner *tree_owner(mp_change *change) {
  change->tree_owner.will_change = tree_will_change;
  change->tree_owner.was_read = tree_was_read;
  change->tree_owner.context = change;
  change->tree_owner.key = change->entry->key;
  return &change->tree_owner;
}

/*
** Opens the composite that the key shows; keeps the nodes there are as long as nothing
** replaced them.
*/
static moonpad_status open_root(mp_change *change, mp_value *shown, moonpad_error *error) {
  if (change->root != NULL) {
    if (change->root_source == shown) return MOONPAD_OK;
    bool same = mp_equal_values(change->root_source, shown);
    mp_value_release(change->owner->env, change->root_source);
    change->root_source = NULL;
    if (same) {
      change->root_source = mp_value_retain(shown);
      return MOONPAD_OK;
    }
    mp_change_drop_root(change);
  }
  change->root = mp_tree_new(change->owner->env, shown, tree_owner(change));
  if (change->root == NULL) return mp_no_memory(error);
  change->root_source = mp_value_retain(shown);
  return MOONPAD_OK;
}

moonpad_status mp_change_extend_node(mp_node *node, moonpad_string key, const mp_value *items, moonpad_error *error) {
  size_t count;
  moonpad_status status = mp_node_count(node, &count, error);
  if (status == MOONPAD_OK && count > 0 && !mp_node_is_array(node)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: an object cannot be appended to", mp_quote(key).text);
  }
  return status == MOONPAD_OK ? mp_node_extend(node, items, error) : status;
}

moonpad_status mp_change_extend_root(mp_change *change, const mp_value *items, mp_value *shown, moonpad_error *error) {
  change->extending = true;
  moonpad_status status = mp_change_extend_node(change->root, mp_key_text(change->entry->key), items, error);
  change->extending = false;
  if (status != MOONPAD_OK) {
    mp_change_drop_root(change);
    return status;
  }
  mp_value_retain(shown);
  mp_value_release(change->owner->env, change->root_source);
  change->root_source = shown;
  return MOONPAD_OK;
}

/* Opens the array under a pending append: what was there, extended. */
static moonpad_status open_appended(mp_change *change, mp_value *shown, moonpad_error *error) {
  mp_env *env = change->owner->env;
  if (change->root != NULL && mp_equal_values(shown, change->root_source)) return MOONPAD_OK;
  mp_value *there = mp_value_retain(*change->under);
  if (there == NULL || there->as.type != MOONPAD_ARRAY) {
    mp_value_release(env, there);
    there = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text("[]"));
    if (there == NULL) return mp_no_memory(error);
  }
  moonpad_status status = open_root(change, there, error);
  if (status == MOONPAD_OK) status = mp_change_extend_root(change, change->value, shown, error);
  mp_value_release(env, there);
  return status;
}

moonpad_status mp_change_root(mp_change *change, mp_node **root, moonpad_error *error) {
  *root = NULL;
  if (change->pending && change->kind == MP_SET && change->root != NULL) {
    *root = change->root;
    return MOONPAD_OK;
  }
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  if (owned != NULL && mp_is_composite(owned->as.type)) {
    status = open_appended(change, owned, error);
  } else if (shown != NULL && mp_is_composite(shown->as.type)) {
    status = open_root(change, change->pending ? change->value : *change->under, error);
  } else {
    mp_change_drop_root(change);
  }
  if (status == MOONPAD_OK) *root = change->root;
  mp_value_release(change->owner->env, owned);
  return status;
}
