/*
** Nodes of trees: their life, opening them one level at a time, reading, their text and their
** paths.
*/
#include "core/tree_private.h"

#include "base/error.h"
#include "base/number.h"
#include "core/json_trusted.h"
#include "core/json_write.h"

#define LINEAR_SEARCH_LIMIT 8
#define PLAIN_STEP_LIMIT    60 /* longer names are quoted, which shortens them */

/* ---- Life ---- */

static mp_node *new_node(mp_env *env, mp_value *source, moonpad_string text) {
  mp_node *node = mp_allocate_zeroed(env, sizeof(mp_node));
  if (node == NULL) return NULL;
  node->env = mp_env_retain(env);
  node->references = 1;
  node->is_array = text.data[0] == '[';
  node->source = mp_value_retain(source);
  node->text = text;
  mp_map_init(&node->index, env);
  return node;
}

mp_node *mp_tree_new(mp_env *env, mp_value *value, const mp_tree_owner *owner) {
  mp_node *root = new_node(env, value, value->as.as.text);
  if (root == NULL) return NULL;
  root->whole = mp_value_retain(value);
  root->owner = owner;
  if (owner != NULL && owner->key != NULL) root->root_key = mp_key_retain(owner->key);
  return root;
}

void mp_tree_detach(mp_node *root) {
  root->owner = NULL;
}

mp_node *mp_node_root(const mp_node *node) {
  while (node->parent != NULL) node = node->parent;
  return (mp_node *)node;
}

/*
** Detaches a child that somebody else holds a reference to. Its path is kept for messages while the
** parent still knows it.
*/
static void detach_child(mp_node *child) {
  mp_buffer path;
  mp_buffer_init(&path, child->env);
  mp_node_path(child, &path);
  if (!path.failed) child->detached_path = mp_key_new(child->env, mp_buffer_text(&path));
  mp_buffer_free(&path);
  mp_node *root = mp_node_root(child);
  if (root->root_key != NULL) child->root_key = mp_key_retain(root->root_key);
  child->is_detached = true;
  child->parent = NULL;
}

void mp_node_drop_slot(mp_node *node, mp_slot *slot) {
  if (slot->kind == MP_SLOT_VALUE) {
    mp_value_release(node->env, slot->as.value);
  } else if (slot->kind == MP_SLOT_NODE) {
    /*
    ** Without other references the child is freed now and keeps its parent until then: descendants
    ** that are detached by that find their path through it.
    */
    if (slot->as.node->references > 1) detach_child(slot->as.node);
    mp_node_release(slot->as.node);
  }
  slot->kind = MP_SLOT_DELETED;
}

void mp_node_drop_index(mp_node *node) {
  mp_map_free(&node->index);
  mp_map_init(&node->index, node->env);
  node->is_indexed = false;
}

void mp_node_clear_slots(mp_node *node) {
  for (size_t i = 0; i < node->slot_count; i++) mp_node_drop_slot(node, &node->slots[i]);
  if (!node->is_array) {
    for (size_t i = 0; i < node->slot_count; i++) mp_key_release(node->env, node->keys[i]);
  }
  mp_node_drop_index(node);
  mp_release(node->env, node->slots);
  mp_release(node->env, node->keys);
  node->slots = NULL;
  node->keys = NULL;
  node->slot_count = node->slot_capacity = node->key_capacity = node->count = 0;
  node->cursor_slot = node->cursor_position = 0;
}

static void destroy(mp_node *node) {
  mp_env *env = node->env;
  mp_node_clear_slots(node);
  mp_value_release(env, node->source);
  mp_value_release(env, node->whole);
  if (node->root_key != NULL) mp_key_release(env, node->root_key);
  if (node->detached_path != NULL) mp_key_release(env, node->detached_path);
  mp_release(env, node);
  mp_env_release(env);
}

mp_node *mp_node_retain(mp_node *node) {
  node->references++;
  return node;
}

void mp_node_release(mp_node *node) {
  if (node != NULL && --node->references == 0) destroy(node);
}

/* ---- Opening ---- */

static bool add_text_slot(mp_node *node, moonpad_string text) {
  if (!mp_reserve(node->env, (void **)&node->slots, &node->slot_capacity, sizeof(mp_slot), node->slot_count + 1)) {
    return false;
  }
  mp_slot *slot = &node->slots[node->slot_count];
  memset(slot, 0, sizeof(*slot));
  slot->kind = MP_SLOT_TEXT;
  slot->at_clean = true;
  slot->as.text = text;
  return true;
}

static bool open_array(mp_node *node) {
  mp_items items = mp_items_of(node->text);
  moonpad_string item;
  while (mp_items_next(&items, &item)) {
    if (!add_text_slot(node, item)) return false;
    node->slot_count++;
  }
  return true;
}

static mp_key *key_of(mp_env *env, moonpad_string inside) {
  moonpad_string text;
  mp_buffer decoded;
  mp_buffer_init(&decoded, env);
  mp_key *key = mp_literal_text(inside, &decoded, &text) ? mp_key_new(env, text) : NULL;
  mp_buffer_free(&decoded);
  return key;
}

static bool open_object(mp_node *node) {
  mp_members members = mp_members_of(node->text);
  moonpad_string key, value;
  while (mp_members_next(&members, &key, &value)) {
    if (!add_text_slot(node, value) ||
        !mp_reserve(node->env, (void **)&node->keys, &node->key_capacity, sizeof(mp_key *), node->slot_count + 1)) {
      return false;
    }
    node->keys[node->slot_count] = key_of(node->env, key);
    if (node->keys[node->slot_count] == NULL) return false;
    node->slot_count++;
  }
  return true;
}

bool mp_node_open(mp_node *node) {
  if (node->is_open) return true;
  if (!(node->is_array ? open_array(node) : open_object(node))) {
    mp_node_clear_slots(node);
    return false;
  }
  node->is_open = true;
  node->count = node->slot_count;
  node->base_length = node->is_array ? node->count : 0;
  return true;
}

/* ---- Finding ---- */

/* False when out of memory: the search is linear then. */
static bool ensure_index(mp_node *node) {
  if (node->is_indexed) return true;
  if (!mp_map_reserve(&node->index, node->slot_count)) return false;
  for (size_t i = 0; i < node->slot_count; i++) {
    if (!mp_map_put(&node->index, node->keys[i], (void *)(uintptr_t)(i + 1))) {
      mp_node_drop_index(node);
      return false;
    }
  }
  node->is_indexed = true;
  return true;
}

static bool key_is(const mp_key *key, moonpad_string text) {
  return key->length == text.length && (text.length == 0 || memcmp(key->bytes, text.data, text.length) == 0);
}

size_t mp_node_find(mp_node *node, moonpad_string key) {
  if (node->slot_count > LINEAR_SEARCH_LIMIT && ensure_index(node)) {
    uintptr_t found = (uintptr_t)mp_map_get(&node->index, key);
    return found == 0 ? MP_NO_SLOT : (size_t)found - 1;
  }
  for (size_t i = 0; i < node->slot_count; i++) {
    if (key_is(node->keys[i], key)) return i;
  }
  return MP_NO_SLOT;
}

/*
** The slot of the member at `position`. The cursor makes iterating over all of them cheap even if
** there are deleted slots.
*/
static size_t find_position(mp_node *node, size_t position) {
  if (node->count == node->slot_count) return position;
  if (position < node->cursor_position) node->cursor_slot = node->cursor_position = 0;
  for (;;) {
    if (node->slots[node->cursor_slot].kind != MP_SLOT_DELETED) {
      if (node->cursor_position == position) return node->cursor_slot;
      node->cursor_position++;
    }
    node->cursor_slot++;
  }
}

/* ---- Reading ---- */

static bool read_composite_slot(mp_node *node, size_t at, mp_item *item) {
  mp_slot *slot = &node->slots[at];
  if (slot->kind != MP_SLOT_NODE) {
    bool is_value = slot->kind == MP_SLOT_VALUE;
    mp_node *child = is_value ? new_node(node->env, slot->as.value, slot->as.value->as.as.text)
                              : new_node(node->env, node->source, slot->as.text);
    if (child == NULL) return false;
    child->parent = node;
    child->parent_slot = at;
    /* It takes over the slot's reference. */
    if (is_value) child->whole = slot->as.value;
    slot->kind = MP_SLOT_NODE;
    slot->as.node = child;
  }
  item->node = slot->as.node;
  item->scalar.type = item->node->is_array ? MOONPAD_ARRAY : MOONPAD_OBJECT;
  return true;
}

static bool read_string_slot(mp_node *node, mp_slot *slot, mp_item *item) {
  moonpad_string inner = mp_literal_inside(slot->as.text);
  if (mp_is_plain(inner)) {
    item->scalar = moonpad_string_value(inner);
    return true;
  }
  mp_value *decoded = mp_value_from_trusted_json(node->env, slot->as.text);
  if (decoded == NULL) return false;
  slot->kind = MP_SLOT_VALUE;
  slot->as.value = decoded;
  item->scalar = decoded->as;
  return true;
}

static bool read_slot(mp_node *node, size_t at, mp_item *item) {
  mp_slot *slot = &node->slots[at];
  item->node = NULL;
  item->scalar = moonpad_null_value();
  if (slot->kind == MP_SLOT_DELETED) {
    item->scalar.type = MOONPAD_ABSENT;
    return true;
  }
  if (slot->kind == MP_SLOT_NODE) return read_composite_slot(node, at, item);
  if (slot->kind == MP_SLOT_VALUE) {
    if (mp_is_composite(slot->as.value->as.type)) return read_composite_slot(node, at, item);
    item->scalar = slot->as.value->as;
    return true;
  }
  switch (slot->as.text.data[0]) {
  case '{':
  case '[':
    return read_composite_slot(node, at, item);
  case '"':
    return read_string_slot(node, slot, item);
  case 't':
  case 'f':
    item->scalar = moonpad_boolean(slot->as.text.data[0] == 't');
    return true;
  case 'n':
    return true;
  default:
    item->scalar = mp_json_trusted_number(slot->as.text);
    return true;
  }
}

static void set_absent(mp_item *item) {
  item->node = NULL;
  item->scalar = moonpad_null_value();
  item->scalar.type = MOONPAD_ABSENT;
}

bool mp_node_is_array(const mp_node *node) {
  return node->is_array;
}

bool mp_node_is_stale(const mp_node *node) {
  return mp_node_root(node)->owner == NULL;
}

void mp_node_note_read(const mp_node *node) {
  const mp_tree_owner *owner = mp_node_root(node)->owner;
  if (owner != NULL && owner->was_read != NULL) owner->was_read(owner->context);
}

mp_env *mp_node_env(const mp_node *node) {
  return node->env;
}

moonpad_status mp_node_count(mp_node *node, size_t *count, moonpad_error *error) {
  *count = 0;
  if (!mp_node_open(node)) return mp_no_memory(error);
  *count = node->count;
  return MOONPAD_OK;
}

moonpad_status mp_node_member(mp_node *node, moonpad_string key, mp_item *item, moonpad_error *error) {
  set_absent(item);
  if (node->is_array) return MOONPAD_OK;
  if (!mp_node_open(node)) return mp_no_memory(error);
  size_t at = mp_node_find(node, key);
  if (at != MP_NO_SLOT && !read_slot(node, at, item)) return mp_no_memory(error);
  return MOONPAD_OK;
}

moonpad_status mp_node_index(mp_node *node, int64_t index, mp_item *item, moonpad_error *error) {
  set_absent(item);
  if (!node->is_array) return MOONPAD_OK;
  if (!mp_node_open(node)) return mp_no_memory(error);
  if (index < 1 || (uint64_t)index > node->count) return MOONPAD_OK;
  return read_slot(node, (size_t)index - 1, item) ? MOONPAD_OK : mp_no_memory(error);
}

moonpad_status mp_node_member_at(mp_node *node, size_t position, moonpad_string *key, mp_item *item,
                                 moonpad_error *error) {
  if (item != NULL) set_absent(item);
  *key = moonpad_text(NULL);
  if (!mp_node_open(node)) return mp_no_memory(error);
  if (position >= node->count) return MOONPAD_OK;
  size_t at = find_position(node, position);
  if (item != NULL && !read_slot(node, at, item)) return mp_no_memory(error);
  if (!node->is_array) *key = mp_key_text(node->keys[at]);
  return MOONPAD_OK;
}

bool mp_node_holds_member(mp_node *node, moonpad_string key, const mp_node *child) {
  return child->parent == node && !node->is_array && key_is(node->keys[child->parent_slot], key);
}

bool mp_node_holds_index(mp_node *node, int64_t index, const mp_node *child) {
  return child->parent == node && node->is_array && index >= 1 && (uint64_t)index - 1 == child->parent_slot;
}

/* ---- Text ---- */

static void write_slot(mp_slot *slot, mp_buffer *out) {
  if (slot->kind == MP_SLOT_TEXT) {
    mp_buffer_add_string(out, slot->as.text);
  } else if (slot->kind == MP_SLOT_VALUE) {
    mp_value_write(out, slot->as.value);
  } else {
    mp_node_write(slot->as.node, out);
  }
}

void mp_node_write_items(mp_node *node, size_t from, mp_buffer *out) {
  mp_buffer_add_char(out, '[');
  for (size_t i = from; i < node->slot_count; i++) {
    if (i > from) mp_buffer_add_char(out, ',');
    write_slot(&node->slots[i], out);
  }
  mp_buffer_add_char(out, ']');
}

typedef struct named_slot {
  moonpad_string key;
  mp_slot *slot;
} named_slot;

/* Writes the members sorted by key, so that equal content gives equal text however it was made. */
static void write_object(mp_node *node, mp_buffer *out) {
  named_slot *members = mp_allocate(node->env, node->count * sizeof(named_slot));
  if (members == NULL) {
    out->failed = true;
    return;
  }
  size_t count = 0;
  for (size_t i = 0; i < node->slot_count; i++) {
    if (node->slots[i].kind == MP_SLOT_DELETED) continue;
    members[count++] = (named_slot){mp_key_text(node->keys[i]), &node->slots[i]};
  }
  mp_sort_by_key(members, count, sizeof *members);
  mp_buffer_add_char(out, '{');
  for (size_t i = 0; i < count; i++) {
    mp_json_write_key(out, members[i].key);
    write_slot(members[i].slot, out);
  }
  mp_buffer_add_char(out, '}');
  mp_release(node->env, members);
}

void mp_node_write(mp_node *node, mp_buffer *out) {
  if (node->whole != NULL) {
    mp_buffer_add_string(out, node->whole->as.as.text);
  } else if (node->text.data != NULL) {
    mp_buffer_add_string(out, node->text);
  } else if (node->is_array) {
    mp_node_write_items(node, 0, out);
  } else {
    write_object(node, out);
  }
}

mp_value *mp_node_value(mp_node *node) {
  if (node->whole != NULL) return mp_value_retain(node->whole);
  moonpad_type type = node->is_array ? MOONPAD_ARRAY : MOONPAD_OBJECT;
  /*
  ** Not kept in `whole`: copies of parts of `source` for all children that are read would double
  ** the memory of the tree.
  */
  if (node->text.data != NULL) return mp_value_new_json(node->env, type, node->text);
  mp_buffer text;
  mp_buffer_init(&text, node->env);
  mp_node_write(node, &text);
  mp_value *value = text.failed ? NULL : mp_value_new_json(node->env, type, mp_buffer_text(&text));
  mp_buffer_free(&text);
  if (value != NULL) node->whole = mp_value_retain(value);
  return value;
}

mp_value *mp_node_slot_value(mp_node *node, size_t at) {
  mp_slot *slot = &node->slots[at];
  if (slot->kind == MP_SLOT_VALUE) return mp_value_retain(slot->as.value);
  if (slot->kind == MP_SLOT_NODE) return mp_node_value(slot->as.node);
  return mp_value_from_trusted_json(node->env, slot->as.text);
}

/* ---- Paths ---- */

unsigned mp_node_level(const mp_node *node) {
  unsigned level = 0;
  for (; node->parent != NULL; node = node->parent) level++;
  return level;
}

static bool is_identifier(moonpad_string text) {
  if (text.length == 0 || text.length > PLAIN_STEP_LIMIT) return false;
  for (size_t i = 0; i < text.length; i++) {
    char byte = text.data[i];
    bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
    if (!is_letter && (i == 0 || byte < '0' || byte > '9')) return false;
  }
  return true;
}

static void write_quoted_step(moonpad_string key, mp_buffer *out) {
  mp_quoted quoted = mp_quote(key);
  mp_buffer_add_char(out, '[');
  mp_buffer_add(out, quoted.text, strlen(quoted.text));
  mp_buffer_add_char(out, ']');
}

static void write_key_step(moonpad_string key, mp_buffer *out) {
  if (is_identifier(key)) {
    mp_buffer_add_char(out, '.');
    mp_buffer_add_string(out, key);
  } else {
    write_quoted_step(key, out);
  }
}

static void write_index_step(int64_t index, mp_buffer *out) {
  char digits[MP_NUMBER_BYTES];
  mp_buffer_add_char(out, '[');
  mp_buffer_add(out, digits, mp_format_integer(index, digits));
  mp_buffer_add_char(out, ']');
}

void mp_node_path(const mp_node *node, mp_buffer *out) {
  if (node->parent != NULL) {
    mp_node_path(node->parent, out);
    if (node->parent->is_array) {
      write_index_step((int64_t)node->parent_slot + 1, out);
    } else {
      write_key_step(mp_key_text(node->parent->keys[node->parent_slot]), out);
    }
  } else if (node->detached_path != NULL) {
    mp_buffer_add_string(out, mp_key_text(node->detached_path));
  } else {
    if (node->is_detached) mp_buffer_add_literal(out, "a part of ");
    mp_buffer_add_literal(out, "state");
    if (node->root_key != NULL) write_quoted_step(mp_key_text(node->root_key), out);
  }
}

void mp_node_member_path(const mp_node *node, moonpad_string key, mp_buffer *out) {
  mp_node_path(node, out);
  write_key_step(key, out);
}

void mp_node_index_path(const mp_node *node, int64_t index, mp_buffer *out) {
  mp_node_path(node, out);
  write_index_step(index, out);
}
