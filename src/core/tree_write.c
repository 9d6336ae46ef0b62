/* Writing to nodes, recording what changed since the tree was last clean, and marking it clean. */
#include "core/tree_write.h"

#include <stdio.h>

#include "base/error.h"
#include "base/utf8.h"
#include "core/json_trusted.h"
#include "core/tree_private.h"

/* ---- Messages ---- */

/* Fails with "PATHREASON". Frees the path. */
static moonpad_status fail_with_path(mp_buffer *path, const char *reason, moonpad_error *error) {
  moonpad_status status = path->failed ? mp_no_memory(error)
                                       : mp_fail_at_path(error, MOONPAD_INVALID_ARGUMENT, mp_buffer_text(path), reason);
  mp_buffer_free(path);
  return status;
}

static moonpad_status fail_member(mp_node *node, moonpad_string key, const char *reason, moonpad_error *error) {
  mp_buffer path;
  mp_buffer_init(&path, node->env);
  mp_node_member_path(node, key, &path);
  return fail_with_path(&path, reason, error);
}

static moonpad_status fail_index(mp_node *node, int64_t index, const char *reason, moonpad_error *error) {
  mp_buffer path;
  mp_buffer_init(&path, node->env);
  mp_node_index_path(node, index, &path);
  return fail_with_path(&path, reason, error);
}

static moonpad_status fail_stale(mp_node *node, moonpad_error *error) {
  mp_buffer path;
  mp_buffer_init(&path, node->env);
  mp_node_path(node, &path);
  return fail_with_path(
      &path, " is stale: it has been replaced or removed, read it again from the state before writing", error);
}

static moonpad_status fail_gap(mp_node *node, int64_t index, moonpad_error *error) {
  char reason[160];
  snprintf(reason, sizeof(reason), ": this would leave a hole: the array has %zu item%s, the next one goes to [%zu]",
           node->count, node->count == 1 ? "" : "s", node->count + 1);
  return fail_index(node, index, reason, error);
}

/* ---- Before a write ---- */

static moonpad_status check_node_writable(mp_node *node, moonpad_error *error) {
  if (mp_node_is_stale(node)) return fail_stale(node, error);
  return mp_node_open(node) ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status ask_owner(mp_node *node, moonpad_error *error) {
  const mp_tree_owner *owner = mp_node_root(node)->owner;
  return owner == NULL || owner->will_change == NULL ? MOONPAD_OK : owner->will_change(owner->context, error);
}

static bool fits_in_depth(const mp_node *node, const mp_value *value) {
  return !mp_is_composite(value->as.type) || mp_value_fits_below(value, mp_node_level(node) + 1);
}

static const char reason_too_deep[] = ": the value would be nested more than 128 levels deep";
_Static_assert(MOONPAD_MAX_DEPTH == 128, "the message names the limit");

/*
** Drops deleted slots: all of them, or only those of members that were not there when the tree was
** last clean (no edit needs them). Slots move: numbers found before are invalid afterwards.
*/
static void drop_deleted_slots(mp_node *node, bool all) {
  size_t kept = 0;
  for (size_t i = 0; i < node->slot_count; i++) {
    if (node->slots[i].kind == MP_SLOT_DELETED && (all || !node->slots[i].at_clean)) {
      mp_key_release(node->env, node->keys[i]);
      continue;
    }
    node->slots[kept] = node->slots[i];
    node->keys[kept] = node->keys[i];
    if (node->slots[kept].kind == MP_SLOT_NODE) node->slots[kept].as.node->parent_slot = kept;
    kept++;
  }
  if (kept == node->slot_count) return;
  node->slot_count = kept;
  node->cursor_slot = node->cursor_position = 0;
  mp_node_drop_index(node);
}

static size_t count_forgettable_slots(const mp_node *node) {
  size_t count = 0;
  for (size_t i = 0; i < node->slot_count; i++) {
    if (node->slots[i].kind == MP_SLOT_DELETED && !node->slots[i].at_clean) count++;
  }
  return count;
}

/* Reserves memory for one more slot. */
static bool reserve_slot(mp_node *node) {
  if (!node->is_array && node->slot_count == node->slot_capacity && node->count < node->slot_count &&
      count_forgettable_slots(node) > node->slot_count / 2) {
    drop_deleted_slots(node, false);
  }
  if (!mp_reserve(node->env, (void **)&node->slots, &node->slot_capacity, sizeof(mp_slot), node->slot_count + 1)) {
    return false;
  }
  return node->is_array ||
         mp_reserve(node->env, (void **)&node->keys, &node->key_capacity, sizeof(mp_key *), node->slot_count + 1);
}

/* ---- Writes that can no longer fail ---- */

static void note_change(mp_node *node) {
  for (; node != NULL; node = node->parent) {
    node->is_dirty = true;
    node->text = moonpad_text(NULL);
    mp_value_release(node->env, node->whole);
    node->whole = NULL;
  }
}

static void fill_slot(mp_node *node, size_t at, mp_value *value) {
  mp_slot *slot = &node->slots[at];
  mp_slot old = *slot;
  if (old.kind == MP_SLOT_DELETED) {
    node->count++;
    if (at < node->cursor_slot) node->cursor_position++;
  }
  slot->kind = MP_SLOT_VALUE;
  slot->is_set = true;
  slot->as.value = mp_value_retain(value);
  mp_node_drop_slot(node, &old);
}

static void add_empty_slot(mp_node *node) {
  memset(&node->slots[node->slot_count++], 0, sizeof(mp_slot));
}

/* `new_key` (taken over): the member is new and its slot is reserved. NULL: it is in slot `at`. */
static void commit_member(mp_node *node, size_t at, mp_key *new_key, mp_value *value) {
  note_change(node);
  if (new_key != NULL) {
    at = node->slot_count;
    node->keys[at] = new_key;
    add_empty_slot(node);
    /* Without memory the index is dropped: the next search makes a new one or is linear. */
    if (node->is_indexed && !mp_map_put(&node->index, new_key, (void *)(uintptr_t)(at + 1))) {
      mp_node_drop_index(node);
    }
  }
  fill_slot(node, at, value);
}

static void commit_item(mp_node *node, size_t at, mp_value *value) {
  note_change(node);
  if (at == node->slot_count) add_empty_slot(node);
  fill_slot(node, at, value);
}

static void remove_last_item(mp_node *node) {
  note_change(node);
  node->slot_count--;
  node->count--;
  if (node->slot_count < node->base_length) node->shape_changed = true;
  mp_node_drop_slot(node, &node->slots[node->slot_count]);
}

static void commit_removal(mp_node *node, size_t at) {
  note_change(node);
  node->count--;
  if (at < node->cursor_slot) node->cursor_position--;
  mp_node_drop_slot(node, &node->slots[at]);
}

/* Turns an object without members into an empty array. */
static void to_array(mp_node *node) {
  note_change(node);
  for (size_t i = 0; i < node->slot_count; i++) {
    if (node->slots[i].at_clean) node->shape_changed = true;
  }
  mp_node_clear_slots(node);
  node->is_array = true;
  node->base_length = 0;
}

/* ---- Public writes ---- */

/* Finds the slot of a key, or makes a new key and reserves a slot. False when out of memory. */
static bool prepare_member(mp_node *node, moonpad_string key, size_t *at, mp_key **new_key) {
  *new_key = NULL;
  *at = mp_node_find(node, key);
  if (*at != MP_NO_SLOT) return true;
  if (!reserve_slot(node)) return false;
  *new_key = mp_key_new(node->env, key);
  return *new_key != NULL;
}

static moonpad_status remove_member(mp_node *node, moonpad_string key, moonpad_error *error) {
  if (node->is_array) return MOONPAD_OK;
  size_t at = mp_node_find(node, key);
  if (at == MP_NO_SLOT || node->slots[at].kind == MP_SLOT_DELETED) return MOONPAD_OK;
  moonpad_status status = ask_owner(node, error);
  if (status == MOONPAD_OK) commit_removal(node, at);
  return status;
}

moonpad_status mp_node_set_member(mp_node *node, moonpad_string key, mp_value *value, moonpad_error *error) {
  moonpad_status status = check_node_writable(node, error);
  if (status != MOONPAD_OK) return status;
  if (value == NULL) return remove_member(node, key, error);
  if (node->is_array) return fail_member(node, key, ": an array has no string keys", error);
  if (!fits_in_depth(node, value)) return fail_member(node, key, reason_too_deep, error);
  size_t at = 0;
  mp_key *new_key = NULL;
  if (!prepare_member(node, key, &at, &new_key)) return mp_no_memory(error);
  status = ask_owner(node, error);
  if (status == MOONPAD_OK) {
    commit_member(node, at, new_key, value);
  } else if (new_key != NULL) {
    mp_key_release(node->env, new_key);
  }
  return status;
}

static moonpad_status remove_index(mp_node *node, int64_t index, moonpad_error *error) {
  if (!node->is_array || index < 1 || (uint64_t)index > node->count) return MOONPAD_OK;
  if ((uint64_t)index < node->count) {
    return fail_index(node, index, ": removing an item inside an array would leave a hole: use table.remove", error);
  }
  moonpad_status status = ask_owner(node, error);
  if (status == MOONPAD_OK) remove_last_item(node);
  return status;
}

/*
** Puts the first item into an empty object, which makes it an array. Memory is allocated before the
** owner is asked, because nothing may fail after that.
*/
static moonpad_status set_first_item(mp_node *node, mp_value *value, moonpad_error *error) {
  mp_slot *slots = mp_allocate_zeroed(node->env, sizeof(mp_slot));
  if (slots == NULL) return mp_no_memory(error);
  moonpad_status status = ask_owner(node, error);
  if (status != MOONPAD_OK) {
    mp_release(node->env, slots);
    return status;
  }
  to_array(node);
  node->slots = slots;
  node->slot_capacity = 1;
  commit_item(node, 0, value);
  return MOONPAD_OK;
}

moonpad_status mp_node_set_index(mp_node *node, int64_t index, mp_value *value, moonpad_error *error) {
  moonpad_status status = check_node_writable(node, error);
  if (status != MOONPAD_OK) return status;
  if (value == NULL) return remove_index(node, index, error);
  if (!node->is_array && node->count > 0) {
    return fail_index(node, index, ": this is a table with string keys, it has no array items", error);
  }
  if (index < 1 || (uint64_t)index > node->count + 1) return fail_gap(node, index, error);
  if (!fits_in_depth(node, value)) return fail_index(node, index, reason_too_deep, error);
  if (!node->is_array) return set_first_item(node, value, error);
  size_t at = (size_t)index - 1;
  if (at == node->slot_count && !reserve_slot(node)) return mp_no_memory(error);
  status = ask_owner(node, error);
  if (status == MOONPAD_OK) commit_item(node, at, value);
  return status;
}

moonpad_status mp_node_extend(mp_node *node, const mp_value *items, moonpad_error *error) {
  mp_items rest = mp_items_of(items->as.as.text);
  moonpad_string json;
  size_t count;
  moonpad_status status = mp_node_count(node, &count, error);
  while (status == MOONPAD_OK && mp_items_next(&rest, &json)) {
    mp_value *item = mp_value_from_trusted_json(node->env, json);
    if (item == NULL) return mp_no_memory(error);
    status = mp_node_set_index(node, (int64_t)++count, item, error);
    mp_value_release(node->env, item);
  }
  return status;
}

/* ---- Dirty and clean ---- */

bool mp_tree_is_dirty(const mp_node *root) {
  return root->is_dirty;
}

void mp_tree_mark_clean(mp_node *root) {
  if (!root->is_dirty) return;
  root->is_dirty = false;
  root->shape_changed = false;
  if (!root->is_array && root->count < root->slot_count) drop_deleted_slots(root, true);
  for (size_t i = 0; i < root->slot_count; i++) {
    mp_slot *slot = &root->slots[i];
    slot->at_clean = true;
    slot->is_set = false;
    if (slot->kind == MP_SLOT_NODE) mp_tree_mark_clean(slot->as.node);
  }
  root->base_length = root->is_array ? root->count : 0;
}
