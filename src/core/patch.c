/* Patches: made of the marks of a tree or of a whole value, compared by their places, applied. */
#include "core/patch.h"

#include "base/error.h"
#include "base/number.h"
#include "core/json_path.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
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

/* Takes the value over; NULL: there was no memory for it. */
static bool add_value(mp_patch *patch, const mp_buffer *path, mp_edit_kind kind, mp_value *value) {
  bool done = value != NULL && !path->failed && mp_patch_add(patch, kind, mp_buffer_text(path), value);
  mp_value_release(patch->env, value);
  return done;
}

static bool add_json(mp_patch *patch, const mp_buffer *path, mp_edit_kind kind, moonpad_string json) {
  return add_value(patch, path, kind, mp_value_from_trusted_json(patch->env, json));
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
    mp_buffer_add(path, name.data - 1, name.length + 2); /* with its quotes: the step */
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

/* ---- The marks of a tree ---- */

static bool add_node(mp_patch *patch, mp_buffer *path, mp_node *node);

static bool was_touched(const mp_slot *slot) {
  if (slot->kind == MP_SLOT_HOLE) return slot->at_clean;
  return slot->is_set || (slot->kind == MP_SLOT_NODE && slot->as.node->is_dirty);
}

static bool add_slot(mp_patch *patch, mp_buffer *path, mp_node *node, size_t place) {
  mp_slot *slot = &node->slots[place];
  if (slot->kind == MP_SLOT_HOLE) {
    return !path->failed && mp_patch_add(patch, MP_EDIT_REMOVE, mp_buffer_text(path), NULL);
  }
  if (!slot->is_set) return add_node(patch, path, slot->as.node);
  mp_value *value = mp_node_slot_value(node, place);
  if (value == NULL || slot->at_clean || !mp_is_composite(value->as.type)) {
    return add_value(patch, path, MP_EDIT_SET, value);
  }
  bool done = add_whole(patch, path, value->as.as.text);
  mp_value_release(patch->env, value);
  return done;
}

static bool add_new_items(mp_patch *patch, const mp_buffer *path, mp_node *node) {
  /* may have been {} */
  if (node->count == 0) return add_json(patch, path, MP_EDIT_MAKE_EMPTY, moonpad_text("[]"));
  if (node->count == node->base_length) return true;
  mp_buffer items;
  mp_buffer_init(&items, patch->env);
  mp_node_write_items(node, node->base_length, &items);
  bool done = !items.failed && add_json(patch, path, MP_EDIT_EXTEND, mp_buffer_text(&items));
  mp_buffer_free(&items);
  return done;
}

static void write_step(mp_buffer *path, const mp_node *node, size_t place) {
  if (node->is_array) {
    mp_buffer_add_char(path, '[');
    mp_json_write_integer(path, (int64_t)place + 1);
    mp_buffer_add_char(path, ']');
  } else {
    mp_json_write_string(path, mp_key_text(node->keys[place]));
  }
}

/* Of a node that is dirty, and therefore open. */
static bool add_node(mp_patch *patch, mp_buffer *path, mp_node *node) {
  if (node->restructured) return add_value(patch, path, MP_EDIT_SET, mp_node_value(node));
  size_t above = path->length;
  size_t places = node->is_array ? node->base_length : node->slot_count;
  for (size_t i = 0; i < places; i++) {
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

/* Cuts the next step off the front of a path; false at its end. */
static bool next_step(moonpad_string *path, moonpad_string *step) {
  if (path->length == 0) return false;
  step->data = path->data;
  step->length = mp_json_trusted_end(path->data, 0);
  path->data += step->length;
  path->length -= step->length;
  return true;
}

/* A place at which, or below which, they have an edit. */
typedef struct place {
  bool is_replaced; /* set or removed there: nothing below it, or at it, can be kept */
  bool has_items;   /* they added items, or made it an array */
  bool has_members; /* they have an edit at a member of it */
} place;

/* Finds a place by the address of the one above and its step, so that deep paths cost no more. */
typedef struct place_map {
  mp_map map;
  mp_buffer key;
  place root;
} place_map;

/* One step down; *at is NULL where they have nothing, unless it `adds`. False: out of memory. */
static bool go_down(place_map *places, place **at, moonpad_string step, bool adds) {
  mp_buffer_clear(&places->key);
  mp_buffer_add(&places->key, (const char *)at, sizeof(*at));
  mp_buffer_add_string(&places->key, step);
  if (places->key.failed) return false;
  moonpad_string text = mp_buffer_text(&places->key);
  *at = mp_map_get(&places->map, text);
  if (*at != NULL || !adds) return true;
  void *room = NULL;
  mp_key *key = mp_key_new_with(places->map.env, text, mp_hash(text.data, text.length), sizeof(place), &room);
  bool done = key != NULL && mp_map_put(&places->map, key, room);
  if (key != NULL) mp_key_release(places->map.env, key);
  *at = room;
  return done;
}

static bool makes_items(const mp_edit *edit) {
  return edit->kind == MP_EDIT_EXTEND || edit->kind == MP_EDIT_APPEND ||
         (edit->kind == MP_EDIT_MAKE_EMPTY && edit->value->as.type == MOONPAD_ARRAY);
}

static bool note_edit(place_map *places, const mp_edit *edit) {
  place *at = &places->root;
  moonpad_string path = mp_key_text(edit->path), step;
  while (next_step(&path, &step)) {
    if (step.data[0] == '"') at->has_members = true;
    if (!go_down(places, &at, step, true)) return false;
  }
  /* A number that was added to is one that nobody else has made a table of. */
  if (edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE || edit->kind == MP_EDIT_INCREMENT) {
    at->is_replaced = true;
  }
  if (makes_items(edit)) at->has_items = true;
  return true;
}

static bool meets(place_map *places, const mp_edit *edit, bool *overlaps) {
  place *at = &places->root;
  moonpad_string path = mp_key_text(edit->path), step;
  while (next_step(&path, &step)) {
    *overlaps = at->is_replaced || (at->has_items && step.data[0] == '"');
    if (*overlaps) return true;
    if (!go_down(places, &at, step, false)) return false;
    if (at == NULL) return true;
  }
  *overlaps = at->is_replaced || edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE ||
              (makes_items(edit) && at->has_members);
  return true;
}

static bool goes_on_top(const mp_edit *edit) {
  return edit->kind == MP_EDIT_INCREMENT || edit->kind == MP_EDIT_APPEND;
}

bool mp_patch_overlaps(const mp_patch *mine, mp_patch *const *theirs, size_t count, bool *overlaps) {
  place_map places = {.root = {false, false, false}};
  mp_map_init(&places.map, mine->env);
  mp_buffer_init(&places.key, mine->env);
  *overlaps = false;
  size_t noted = 0;
  bool done = true;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; done && k < theirs[i]->count; k++, noted++) done = note_edit(&places, &theirs[i]->edits[k]);
  }
  for (size_t i = 0; done && noted > 0 && !*overlaps && i < mine->count; i++) {
    if (!goes_on_top(&mine->edits[i])) done = meets(&places, &mine->edits[i], overlaps);
  }
  mp_buffer_free(&places.key);
  mp_map_free(&places.map);
  return done;
}

/* ---- Applying ---- */

static moonpad_status does_not_fit(const mp_edit *edit, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the place %s is gone, or holds something else now",
                 mp_quote(mp_key_text(edit->path)).text);
}

static bool read_step(moonpad_string text, mp_buffer *scratch, mp_path_step *step) {
  moonpad_string inside = mp_literal_inside(text); /* or between the brackets */
  step->is_index = text.data[0] == '[';
  if (step->is_index) return mp_parse_integer(inside.data, inside.length, &step->index);
  return mp_literal_text(inside, scratch, &step->name);
}

static moonpad_status put(mp_node *node, const mp_path_step *step, const mp_edit *edit, moonpad_error *error) {
  if (!step->is_index) return mp_node_set_member(node, step->name, edit->value, error);
  size_t count;
  moonpad_status status = mp_node_count(node, &count, error);
  if (status != MOONPAD_OK) return status;
  if (!mp_node_is_array(node) || (uint64_t)step->index > count) return does_not_fit(edit, error);
  return mp_node_set_index(node, step->index, edit->value, error);
}

/* Where a table is. An empty object becomes an array by its first item, which goes again. */
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
    if (is_last && puts) return put(node, &step, edit, error);
    moonpad_status status =
        step.is_index ? mp_node_index(node, step.index, &item, error) : mp_node_member(node, step.name, &item, error);
    if (status != MOONPAD_OK) return status;
    if (is_last && edit->kind == MP_EDIT_MAKE_EMPTY && item.scalar.type == MOONPAD_ABSENT) {
      return put(node, &step, edit, error);
    }
    if (item.node == NULL) return does_not_fit(edit, error);
    node = item.node;
  }
  if (edit->kind == MP_EDIT_EXTEND) return mp_node_extend(node, edit->value, error);
  if (edit->kind == MP_EDIT_MAKE_EMPTY) return make_empty(node, edit, error);
  return does_not_fit(edit, error);
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
