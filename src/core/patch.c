/* Patches: made from the changes of a tree or from a whole value, checked for overlap, applied. */
#include "core/patch.h"

#include "base/error.h"
#include "base/number.h"
#include "core/json_path.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
#include "core/tree_private.h"
#include "core/tree_write.h"

/* ---- Life ---- */

mp_patch *mp_patch_new(mp_env *env) {
  mp_patch *patch = mp_allocate_zeroed(env, sizeof(mp_patch));
  if (patch == NULL) return NULL;
  patch->env = mp_env_retain(env);
  patch->references = 1;
  return patch;
}

mp_patch *mp_patch_retain(mp_patch *patch) {
  patch->references++;
  return patch;
}

void mp_patch_release(mp_patch *patch) {
  if (patch == NULL || --patch->references > 0) return;
  mp_env *env = patch->env;
  for (size_t i = 0; i < patch->count; i++) {
    mp_key_release(env, patch->edits[i].path);
    mp_value_release(env, patch->edits[i].value);
  }
  mp_release(env, patch->edits);
  mp_release(env, patch);
  mp_env_release(env);
}

/* ---- Adding ---- */

bool mp_patch_add(mp_patch *patch, mp_edit_kind kind, moonpad_string path, mp_value *value) {
  if (!mp_reserve(patch->env, (void **)&patch->edits, &patch->capacity, sizeof(mp_edit), patch->count + 1))
    return false;
  mp_key *key = mp_key_new(patch->env, path);
  if (key == NULL) return false;
  mp_edit *edit = &patch->edits[patch->count++];
  edit->kind = kind;
  edit->path = key;
  edit->value = mp_value_retain(value);
  return true;
}

/* Takes over the value; NULL (it could not be allocated) fails. */
static bool add_owned_value(mp_patch *patch, const mp_buffer *path, mp_edit_kind kind, mp_value *value) {
  bool done = value != NULL && !path->failed && mp_patch_add(patch, kind, mp_buffer_text(path), value);
  mp_value_release(patch->env, value);
  return done;
}

static bool add_json(mp_patch *patch, const mp_buffer *path, mp_edit_kind kind, moonpad_string json) {
  return add_owned_value(patch, path, kind, mp_value_from_trusted_json(patch->env, json));
}

static bool add_whole(mp_patch *patch, mp_buffer *path, moonpad_string json) {
  if (json.data[0] == '[') {
    return add_json(patch, path, MP_EDIT_MAKE_EMPTY, moonpad_text("[]")) &&
           (json.length == 2 || add_json(patch, path, MP_EDIT_EXTEND, json));
  }
  if (json.data[0] != '{') return add_json(patch, path, MP_EDIT_SET, json);
  if (!add_json(patch, path, MP_EDIT_MAKE_EMPTY, moonpad_text("{}"))) return false;
  size_t above = path->length;
  mp_members members = mp_members_of(json);
  moonpad_string name, value;
  while (mp_members_next(&members, &name, &value)) {
    /* The name with its quotes is the step. */
    mp_buffer_add(path, name.data - 1, name.length + 2);
    if (!add_whole(patch, path, value)) return false;
    path->length = above;
  }
  return true;
}

bool mp_patch_add_whole(mp_patch *patch, mp_value *value) {
  if (!mp_is_composite(value->as.type)) return mp_patch_add(patch, MP_EDIT_SET, moonpad_text(""), value);
  mp_buffer path;
  mp_buffer_init(&path, patch->env);
  bool done = add_whole(patch, &path, value->as.as.text);
  mp_buffer_free(&path);
  return done;
}

/* ---- From the changes of a tree ---- */

static bool add_node(mp_patch *patch, mp_buffer *path, mp_node *node);

static bool was_touched(const mp_slot *slot) {
  if (slot->kind == MP_SLOT_DELETED) return slot->at_clean;
  return slot->is_set || (slot->kind == MP_SLOT_NODE && slot->as.node->is_dirty);
}

static bool add_slot(mp_patch *patch, mp_buffer *path, mp_node *node, size_t at) {
  mp_slot *slot = &node->slots[at];
  if (slot->kind == MP_SLOT_DELETED) {
    return !path->failed && mp_patch_add(patch, MP_EDIT_REMOVE, mp_buffer_text(path), NULL);
  }
  if (!slot->is_set) return add_node(patch, path, slot->as.node);
  mp_value *value = mp_node_slot_value(node, at);
  if (value == NULL || slot->at_clean || !mp_is_composite(value->as.type)) {
    return add_owned_value(patch, path, MP_EDIT_SET, value);
  }
  bool done = add_whole(patch, path, value->as.as.text);
  mp_value_release(patch->env, value);
  return done;
}

static bool add_new_items(mp_patch *patch, const mp_buffer *path, mp_node *node) {
  /* it may have been {} */
  if (node->count == 0) return add_json(patch, path, MP_EDIT_MAKE_EMPTY, moonpad_text("[]"));
  if (node->count == node->base_length) return true;
  mp_buffer items;
  mp_buffer_init(&items, patch->env);
  mp_node_write_items(node, node->base_length, &items);
  bool done = !items.failed && add_json(patch, path, MP_EDIT_EXTEND, mp_buffer_text(&items));
  mp_buffer_free(&items);
  return done;
}

static void write_step(mp_buffer *path, const mp_node *node, size_t at) {
  if (node->is_array) {
    mp_buffer_add_char(path, '[');
    mp_json_write_integer(path, (int64_t)at + 1);
    mp_buffer_add_char(path, ']');
  } else {
    mp_json_write_string(path, mp_key_text(node->keys[at]));
  }
}

/* `node` is dirty, and so it is open. */
static bool add_node(mp_patch *patch, mp_buffer *path, mp_node *node) {
  if (node->shape_changed) return add_owned_value(patch, path, MP_EDIT_SET, mp_node_value(node));
  size_t above = path->length;
  size_t count = node->is_array ? node->base_length : node->slot_count;
  for (size_t i = 0; i < count; i++) {
    if (!was_touched(&node->slots[i])) continue;
    write_step(path, node, i);
    if (!add_slot(patch, path, node, i)) return false;
    path->length = above;
  }
  return !node->is_array || add_new_items(patch, path, node);
}

bool mp_patch_add_tree(mp_patch *patch, mp_node *root) {
  if (!root->is_dirty) return true;
  mp_buffer path;
  mp_buffer_init(&path, patch->env);
  bool done = add_node(patch, &path, root);
  mp_buffer_free(&path);
  return done;
}

/* ---- Overlap ---- */

/* Removes the next step from the front of a path; false at its end. */
static bool next_step(moonpad_string *path, moonpad_string *step) {
  if (path->length == 0) return false;
  step->data = path->data;
  step->length = mp_json_trusted_end(path->data, 0);
  path->data += step->length;
  path->length -= step->length;
  return true;
}

/* A node of the trie of their paths: they have an edit at its path or below. */
typedef struct trie_node {
  bool is_replaced; /* they set or remove it: any edit at it or below overlaps */
  bool has_items;   /* they add items, or make it an array */
  bool has_members; /* they have an edit at one of its keys, or below */
} trie_node;

/* Nodes are found by the address of the node above and the step: deep paths cost no more. */
typedef struct path_trie {
  mp_map map;
  mp_buffer key;
  trie_node root;
} path_trie;

/* Moves *at one step down: to NULL if there is no node, unless it `adds` one. False: no memory. */
static bool find_step(path_trie *trie, trie_node **at, moonpad_string step, bool adds) {
  mp_buffer_clear(&trie->key);
  mp_buffer_add(&trie->key, (const char *)at, sizeof(*at));
  mp_buffer_add_string(&trie->key, step);
  if (trie->key.failed) return false;
  moonpad_string text = mp_buffer_text(&trie->key);
  *at = mp_map_get(&trie->map, text);
  if (*at != NULL || !adds) return true;
  void *room = NULL;
  mp_key *key = mp_key_new_with(trie->map.env, text, mp_hash(text.data, text.length), sizeof(trie_node), &room);
  bool done = key != NULL && mp_map_put(&trie->map, key, room);
  if (key != NULL) mp_key_release(trie->map.env, key);
  *at = room;
  return done;
}

static bool makes_items(const mp_edit *edit) {
  return edit->kind == MP_EDIT_EXTEND || edit->kind == MP_EDIT_APPEND ||
         (edit->kind == MP_EDIT_MAKE_EMPTY && edit->value->as.type == MOONPAD_ARRAY);
}

static bool note_edit(path_trie *trie, const mp_edit *edit) {
  trie_node *at = &trie->root;
  moonpad_string path = mp_key_text(edit->path), step;
  while (next_step(&path, &step)) {
    if (step.data[0] == '"') at->has_members = true;
    if (!find_step(trie, &at, step, true)) return false;
  }
  /* An increment replaces too: the value is a number, so nothing below it can be edited. */
  if (edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE || edit->kind == MP_EDIT_INCREMENT) {
    at->is_replaced = true;
  }
  if (makes_items(edit)) at->has_items = true;
  return true;
}

static bool edit_overlaps(path_trie *trie, const mp_edit *edit, bool *overlaps) {
  trie_node *at = &trie->root;
  moonpad_string path = mp_key_text(edit->path), step;
  while (next_step(&path, &step)) {
    *overlaps = at->is_replaced || (at->has_items && step.data[0] == '"');
    if (*overlaps) return true;
    if (!find_step(trie, &at, step, false)) return false;
    if (at == NULL) return true;
  }
  *overlaps = at->is_replaced || edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE ||
              (makes_items(edit) && at->has_members);
  return true;
}

static bool is_applied_last(const mp_edit *edit) {
  return edit->kind == MP_EDIT_INCREMENT || edit->kind == MP_EDIT_APPEND;
}

bool mp_patch_overlaps(const mp_patch *mine, mp_patch *const *theirs, size_t count, bool *overlaps) {
  path_trie trie = {.root = {false, false, false}};
  mp_map_init(&trie.map, mine->env);
  mp_buffer_init(&trie.key, mine->env);
  *overlaps = false;
  size_t noted = 0;
  bool done = true;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; done && k < theirs[i]->count; k++, noted++) done = note_edit(&trie, &theirs[i]->edits[k]);
  }
  for (size_t i = 0; done && noted > 0 && !*overlaps && i < mine->count; i++) {
    if (!is_applied_last(&mine->edits[i])) done = edit_overlaps(&trie, &mine->edits[i], overlaps);
  }
  mp_buffer_free(&trie.key);
  mp_map_free(&trie.map);
  return done;
}

/* ---- Applying ---- */

static moonpad_status fail_no_fit(const mp_edit *edit, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the value at %s is gone, or is something else now",
                 mp_quote(mp_key_text(edit->path)).text);
}

static bool read_step(moonpad_string text, mp_buffer *scratch, mp_path_step *step) {
  /* Between quotes or brackets. */
  moonpad_string inside = mp_literal_inside(text);
  step->is_index = text.data[0] == '[';
  if (step->is_index) return mp_parse_integer(inside.data, inside.length, &step->index);
  return mp_literal_text(inside, scratch, &step->name);
}

static moonpad_status put_value(mp_node *node, const mp_path_step *step, const mp_edit *edit, moonpad_error *error) {
  if (!step->is_index) return mp_node_set_member(node, step->name, edit->value, error);
  size_t count;
  moonpad_status status = mp_node_count(node, &count, error);
  if (status != MOONPAD_OK) return status;
  if (!mp_node_is_array(node) || (uint64_t)step->index > count) return fail_no_fit(edit, error);
  return mp_node_set_index(node, step->index, edit->value, error);
}

/* `node` exists. An empty object becomes an array by adding an item and removing it again. */
static moonpad_status make_empty(mp_node *node, const mp_edit *edit, moonpad_error *error) {
  if (edit->value->as.type == MOONPAD_OBJECT || mp_node_is_array(node)) return MOONPAD_OK;
  mp_value *null = mp_value_new_null(mp_node_env(node));
  if (null == NULL) return mp_no_memory(error);
  moonpad_status status = mp_node_set_index(node, 1, null, error);
  if (status == MOONPAD_OK) status = mp_node_set_index(node, 1, NULL, error);
  mp_value_release(mp_node_env(node), null);
  return status;
}

static moonpad_status apply_edit(const mp_edit *edit, mp_node *node, mp_buffer *scratch, moonpad_error *error) {
  bool puts = edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE;
  moonpad_string path = mp_key_text(edit->path), text;
  while (next_step(&path, &text)) {
    mp_path_step step;
    mp_item item;
    bool is_last = path.length == 0;
    if (!read_step(text, scratch, &step)) return mp_no_memory(error);
    if (is_last && puts) return put_value(node, &step, edit, error);
    moonpad_status status =
        step.is_index ? mp_node_index(node, step.index, &item, error) : mp_node_member(node, step.name, &item, error);
    if (status != MOONPAD_OK) return status;
    if (is_last && edit->kind == MP_EDIT_MAKE_EMPTY && item.scalar.type == MOONPAD_ABSENT) {
      return put_value(node, &step, edit, error);
    }
    if (item.node == NULL) return fail_no_fit(edit, error);
    node = item.node;
  }
  if (edit->kind == MP_EDIT_EXTEND) return mp_node_extend(node, edit->value, error);
  if (edit->kind == MP_EDIT_MAKE_EMPTY) return make_empty(node, edit, error);
  return fail_no_fit(edit, error);
}

moonpad_status mp_patch_apply(const mp_patch *patch, mp_node *root, moonpad_error *error) {
  mp_buffer scratch;
  mp_buffer_init(&scratch, patch->env);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < patch->count; i++) {
    status = apply_edit(&patch->edits[i], root, &scratch, error);
  }
  mp_buffer_free(&scratch);
  return status;
}
