/* Change sets: reading and writing through pending changes (contract 1.3). */
#include "service/changes.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/json.h"
#include "service/change_scalar.h"

/* ---- life ---- */

static moonpad_changes *changes_new(mp_env *env, moonpad_session *session) {
  moonpad_changes *changes = mp_allocate_zeroed(env, sizeof *changes);
  if (changes == NULL) return NULL;
  changes->env = mp_env_retain(env);
  changes->session = session;
  mp_map_init(&changes->private_view, env);
  mp_map_init(&changes->map, env);
  mp_buffer_init(&changes->scratch, env);
  changes->view = session == NULL ? &changes->private_view : &session->view;
  return changes;
}

moonpad_status moonpad_changes_begin(moonpad_session *session, moonpad_changes **changes, moonpad_error *error) {
  *changes = changes_new(session->env, session);
  if (*changes == NULL) return mp_no_memory(error);
  (*changes)->next = session->sets;
  session->sets = *changes;
  return MOONPAD_OK;
}

moonpad_status mp_changes_new_detached(mp_env *env, moonpad_changes **changes, moonpad_error *error) {
  *changes = changes_new(env, NULL);
  return *changes == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

mp_env *mp_changes_env(const moonpad_changes *changes) {
  return changes->env;
}

static void change_free(mp_change *change) {
  mp_env *env = change->owner->env;
  mp_change_drop_root(change);
  mp_value_release(env, change->value);
  mp_release(env, change);
}

static void unlink_from_session(moonpad_changes *changes) {
  if (changes->session == NULL) return;
  moonpad_changes **link = &changes->session->sets;
  while (*link != NULL && *link != changes) link = &(*link)->next;
  if (*link == changes) *link = changes->next;
  if (changes->session->own == changes) changes->session->own = NULL;
}

void moonpad_changes_free(moonpad_changes *changes) {
  if (changes == NULL) return;
  moonpad_changes_free(changes->saved);
  unlink_from_session(changes);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) change_free(slot->value);
  mp_map_free(&changes->map);
  mp_env *env = changes->env;
  mp_key_release(env, changes->branch);
  mp_value_release(env, changes->lent);
  mp_buffer_free(&changes->scratch);
  mp_view_free(&changes->private_view, env);
  mp_release(env, changes);
  mp_env_release(env);
}

/* ---- one key ---- */

mp_change *mp_change_of(moonpad_changes *changes, moonpad_string key) {
  uint64_t hash = mp_hash(key.data, key.length);
  mp_change *change = mp_map_get_hashed(&changes->map, key.data, key.length, hash);
  if (change != NULL) return change;
  mp_view_entry *entry = mp_view_touch(changes->view, changes->env, key);
  if (entry == NULL) return NULL;
  change = mp_allocate_zeroed(changes->env, sizeof *change);
  if (change == NULL) return NULL;
  change->owner = changes;
  change->entry = entry;
  if (!mp_map_put(&changes->map, entry->key, change)) {
    mp_release(changes->env, change);
    return NULL;
  }
  return change;
}

void mp_change_touch(mp_change *change, bool reading) {
  if (!change->touched) {
    moonpad_changes *changes = change->owner;
    mp_scope scope = change->entry->scope;
    bool looked_at = changes->all_read && !change->beyond_all_read;
    change->touched = true;
    change->read = looked_at;
    if (changes->session == NULL) {
      change->base = 0;
    } else if (looked_at) {
      change->base = changes->all_base[scope == MP_SCOPE_TEMP ? MP_SCOPE_SESSION : scope];
    } else {
      change->base = mp_held_revision(changes->session, scope);
    }
    change->reach = 0;
  }
  /* What it wrote itself tells nothing about what others have stored. */
  if (reading && !(change->pending && (change->kind == MP_SET || change->kind == MP_REMOVE))) change->read = true;
}

void mp_change_drop_root(mp_change *change) {
  if (change->root == NULL) return;
  mp_tree_detach(change->root);
  mp_node_release(change->root);
  mp_value_release(change->owner->env, change->root_source);
  change->root = NULL;
  change->root_source = NULL;
}

static void forget_pending(mp_change *change) {
  if (change->pending) change->owner->pending_count--;
  change->pending = false;
  change->unchecked = false;
  change->by_place = false;
  change->created_empty = false;
  mp_value_release(change->owner->env, change->value);
  change->value = NULL;
}

static void begin_pending(mp_change *change, mp_operation_kind kind) {
  if (!change->pending) change->owner->pending_count++;
  change->pending = true;
  change->kind = kind;
}

void mp_change_clear(mp_change *change) {
  forget_pending(change);
  change->touched = false;
  change->read = false;
}

moonpad_status mp_change_fold(mp_change *change, moonpad_error *error) {
  if (change->root == NULL || !change->pending || change->kind != MP_SET || !mp_tree_is_dirty(change->root)) {
    return MOONPAD_OK;
  }
  mp_value *value = mp_node_value(change->root);
  if (value == NULL) return mp_no_memory(error);
  mp_value_release(change->owner->env, change->value);
  change->value = value;
  mp_value_retain(value);
  mp_value_release(change->owner->env, change->root_source);
  change->root_source = value;
  return MOONPAD_OK;
}

/* The value under an increment or append, were it committed now. */
static moonpad_status local_result(mp_change *change, mp_value **result, moonpad_error *error) {
  mp_env *env = change->owner->env;
  moonpad_string key = mp_key_text(change->entry->key);
  if (change->kind == MP_INCREMENT) {
    return mp_add_number(env, key, change->entry->value, change->value, result, error);
  }
  return mp_extend_array(env, key, change->entry->value, change->value, result, error);
}

moonpad_status mp_change_shown(mp_change *change, const mp_value **value, mp_value **owned, moonpad_error *error) {
  *owned = NULL;
  if (!change->pending) {
    *value = change->entry->value;
  } else if (change->kind == MP_SET) {
    moonpad_status status = mp_change_fold(change, error);
    if (status != MOONPAD_OK) return status;
    *value = change->value;
  } else if (change->kind == MP_REMOVE) {
    *value = NULL;
  } else {
    moonpad_status status = local_result(change, owned, error);
    if (status != MOONPAD_OK) return status;
    *value = *owned;
  }
  return MOONPAD_OK;
}

/* ---- the opened value of a key ---- */

static moonpad_status refuse_if_ended(const moonpad_changes *changes, moonpad_error *error) {
  if (changes->ended == NULL) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "this state takes no more writes: %s", changes->ended);
}

static bool same_json(const mp_value *a, const mp_value *b) {
  return a->as.type == b->as.type && a->as.as.text.length == b->as.as.text.length &&
         memcmp(a->as.as.text.data, b->as.as.text.data, a->as.as.text.length) == 0;
}

/* Under a pending append, others may have changed the array since it was opened. */
static moonpad_status refuse_if_overtaken(mp_change *change, moonpad_error *error) {
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  bool same = shown != NULL && mp_is_composite(shown->as.type) &&
              (shown == change->root_source || same_json(shown, change->root_source));
  mp_value_release(change->owner->env, owned);
  if (same) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "state[%s] is stale: it has been replaced or removed, read it again from the state before writing",
                 mp_quote(mp_key_text(change->entry->key)).text);
}

/* A nested write makes the whole key pending. */
static moonpad_status tree_will_change(void *context, moonpad_error *error) {
  mp_change *change = context;
  if (change->extending) return MOONPAD_OK;
  moonpad_status status = refuse_if_ended(change->owner, error);
  if (status != MOONPAD_OK) return status;
  if (change->pending && change->kind == MP_SET) return MOONPAD_OK;
  status = refuse_if_overtaken(change, error);
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, false);
  mp_value *value = mp_value_retain(change->root_source);
  forget_pending(change);
  begin_pending(change, MP_SET);
  change->value = value;
  change->by_place = true;
  return MOONPAD_OK;
}

/* Opens the composite that the key shows; keeps the nodes there are as long as nothing replaced them. */
static moonpad_status open_root(mp_change *change, mp_value *shown, moonpad_error *error) {
  if (change->root != NULL) {
    if (change->root_source == shown) return MOONPAD_OK;
    mp_change_drop_root(change);
  }
  change->tree_owner.will_change = tree_will_change;
  change->tree_owner.context = change;
  change->tree_owner.key = change->entry->key;
  change->root = mp_tree_new(change->owner->env, shown, &change->tree_owner);
  if (change->root == NULL) return mp_no_memory(error);
  change->root_source = mp_value_retain(shown);
  return MOONPAD_OK;
}

/* Appends through the tree, so that nodes keep their identity and the extension is known as one. */
static moonpad_status extend_node(mp_node *node, moonpad_string key, const mp_value *items, moonpad_error *error) {
  mp_env *env = mp_node_env(node);
  size_t count;
  moonpad_status status = mp_node_count(node, &count, error);
  if (status == MOONPAD_OK && count > 0 && !mp_node_is_array(node)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: an object cannot be appended to", mp_quote(key).text);
  }
  const char *text = items->as.as.text.data;
  for (size_t at = 1; status == MOONPAD_OK && text[at] != ']';) {
    if (text[at] == ',') at++;
    size_t end = mp_json_own_end(text, at);
    moonpad_string item = {text + at, end - at};
    mp_value *value = mp_value_from_own_json(env, item);
    if (value == NULL) return mp_no_memory(error);
    status = mp_node_set_index(node, (int64_t)++count, value, error);
    mp_value_release(env, value);
    at = end;
  }
  return status;
}

/*
** A pending append shows in the opened array as an extension, without making the key a plain write: it is still the items that are appended at commit.
** False (out of memory): the root is dropped.
*/
static bool extend_root(mp_change *change, const mp_value *items, mp_value *shown) {
  change->extending = true;
  moonpad_status status = extend_node(change->root, mp_key_text(change->entry->key), items, NULL);
  change->extending = false;
  if (status != MOONPAD_OK) {
    mp_change_drop_root(change);
    return false;
  }
  mp_value_retain(shown);
  mp_value_release(change->owner->env, change->root_source);
  change->root_source = shown;
  return true;
}

/* Opens the array under a pending append: what was there, extended. */
static moonpad_status open_appended(mp_change *change, mp_value *shown, moonpad_error *error) {
  mp_env *env = change->owner->env;
  if (change->root != NULL && same_json(shown, change->root_source)) return MOONPAD_OK;
  mp_value *there = mp_value_retain(change->entry->value);
  if (there == NULL || there->as.type != MOONPAD_ARRAY) {
    mp_value_release(env, there);
    there = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text("[]"));
    if (there == NULL) return mp_no_memory(error);
  }
  moonpad_status status = open_root(change, there, error);
  if (status == MOONPAD_OK && !extend_root(change, change->value, shown)) status = mp_no_memory(error);
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
    status = open_root(change, change->pending ? change->value : change->entry->value, error);
  } else {
    mp_change_drop_root(change);
  }
  if (status == MOONPAD_OK) *root = change->root;
  mp_value_release(change->owner->env, owned);
  return status;
}

/* ---- reading ---- */

static void borrow_result(mp_change *change, const mp_value *shown, mp_value *owned, mp_item *item) {
  item->node = NULL;
  item->scalar.type = MOONPAD_ABSENT;
  if (shown != NULL) item->scalar = shown->as;
  /* A local sum is a number: nothing in it needs the owned value to live on. */
  mp_value_release(change->owner->env, owned);
}

moonpad_status mp_change_item(mp_change *change, mp_item *item, moonpad_error *error) {
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
  mp_change *change = mp_change_of(changes, key);
  return change == NULL ? mp_no_memory(error) : mp_change_item(change, item, error);
}

moonpad_status mp_changes_has(moonpad_changes *changes, moonpad_string key, bool *there, moonpad_error *error) {
  *there = false;
  if (key.length > MOONPAD_MAX_KEY_BYTES) return MOONPAD_OK;
  mp_change *change = mp_change_of(changes, key);
  if (change == NULL) return mp_no_memory(error);
  mp_change_touch(change, true);
  *there = change->pending ? change->kind != MP_REMOVE : change->entry->value != NULL;
  return MOONPAD_OK;
}

moonpad_status mp_changes_peek(moonpad_changes *changes, moonpad_string key, moonpad_value *value,
                               moonpad_error *error) {
  value->type = MOONPAD_ABSENT;
  mp_change *change = mp_map_get(&changes->map, key);
  if (change == NULL) {
    mp_view_entry *entry = mp_map_get(changes->view, key);
    if (entry != NULL && entry->value != NULL) *value = entry->value->as;
    return MOONPAD_OK;
  }
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  if (owned != NULL && mp_is_composite(owned->as.type)) {
    mp_node *root; /* keeps the text alive */
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
  return change->root_source == change->entry->value;
}

/* ---- writing ---- */

/* Everything that may fail comes before the first change, so that a write is all or nothing. */
static moonpad_status begin_write(moonpad_changes *changes, moonpad_string key, mp_change **change,
                                  moonpad_error *error) {
  moonpad_status status = refuse_if_ended(changes, error);
  if (status == MOONPAD_OK) status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  *change = mp_change_of(changes, key);
  return *change == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static bool is_absent(const mp_change *change) {
  return change->pending ? change->kind == MP_REMOVE : change->entry->value == NULL;
}

moonpad_status mp_changes_put(moonpad_changes *changes, moonpad_string key, mp_value *value, bool unchecked,
                              moonpad_error *error) {
  mp_change *change;
  moonpad_status status = begin_write(changes, key, &change, error);
  if (status == MOONPAD_OK && changes->session != NULL) {
    status = mp_check_value_size(changes->session->service, key, value, error);
  }
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, false);
  bool created = value != NULL && mp_is_composite(value->as.type) && value->as.as.text.length == 2 && is_absent(change);
  mp_change_drop_root(change);
  mp_value_retain(value);
  forget_pending(change);
  begin_pending(change, value == NULL ? MP_REMOVE : MP_SET);
  change->value = value;
  change->unchecked = unchecked;
  change->created_empty = created;
  return MOONPAD_OK;
}

/* The number or array that a pending set or removal leaves. */
static const mp_value *pending_base(const mp_change *change) {
  return change->kind == MP_SET ? change->value : NULL;
}

static void replace_pending_set(mp_change *change, mp_value *value) {
  mp_change_drop_root(change);
  mp_value_release(change->owner->env, change->value);
  change->value = value;
  change->kind = MP_SET;
  change->by_place = false;
  change->created_empty = false;
}

/* On top of what the store holds at commit: checked against what is known of it now. */
static moonpad_status put_deferred(mp_change *change, mp_operation_kind kind, const mp_value *operand, mp_value *total,
                                   moonpad_error *error) {
  mp_env *env = change->owner->env;
  moonpad_string key = mp_key_text(change->entry->key);
  mp_value *result = NULL;
  moonpad_status status = kind == MP_INCREMENT ? mp_add_number(env, key, change->entry->value, total, &result, error)
                                               : mp_extend_array(env, key, change->entry->value, total, &result, error);
  if (status != MOONPAD_OK) {
    mp_value_release(env, total);
    return status;
  }
  if (change->root != NULL && kind == MP_APPEND && change->entry->value != NULL &&
      change->entry->value->as.type == MOONPAD_ARRAY &&
      (change->pending || change->root_source == change->entry->value)) {
    extend_root(change, operand, result);
  } else {
    mp_change_drop_root(change);
  }
  mp_value_release(env, result);
  mp_change_touch(change, false);
  mp_value_release(env, change->value);
  begin_pending(change, kind);
  change->value = total;
  return MOONPAD_OK;
}

static moonpad_status put_increment(mp_change *change, const mp_value *by, moonpad_error *error) {
  mp_env *env = change->owner->env;
  moonpad_string key = mp_key_text(change->entry->key);
  mp_value *sum;
  if (change->pending && change->kind == MP_APPEND) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: an array cannot be incremented", mp_quote(key).text);
  }
  if (change->pending && change->kind != MP_INCREMENT) {
    moonpad_status status = mp_change_fold(change, error);
    if (status == MOONPAD_OK) status = mp_add_number(env, key, pending_base(change), by, &sum, error);
    if (status == MOONPAD_OK) replace_pending_set(change, sum);
    return status;
  }
  moonpad_status status = mp_add_number(env, key, change->pending ? change->value : NULL, by, &sum, error);
  return status == MOONPAD_OK ? put_deferred(change, MP_INCREMENT, by, sum, error) : status;
}

static moonpad_status put_append(mp_change *change, mp_value *items, moonpad_error *error) {
  mp_env *env = change->owner->env;
  moonpad_string key = mp_key_text(change->entry->key);
  mp_value *extended;
  moonpad_status status;
  if (change->pending && change->kind == MP_INCREMENT) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: a number cannot be appended to", mp_quote(key).text);
  }
  if (change->pending && change->kind != MP_APPEND) {
    mp_node *root;
    status = mp_change_root(change, &root, error);
    if (status == MOONPAD_OK && root != NULL) return extend_node(root, key, items, error);
    if (status == MOONPAD_OK) status = mp_extend_array(env, key, pending_base(change), items, &extended, error);
    if (status == MOONPAD_OK) replace_pending_set(change, extended);
    return status;
  }
  status = mp_extend_array(env, key, change->pending ? change->value : NULL, items, &extended, error);
  return status == MOONPAD_OK ? put_deferred(change, MP_APPEND, items, extended, error) : status;
}

moonpad_status mp_changes_add(moonpad_changes *changes, moonpad_string key, mp_operation_kind kind, mp_value *operand,
                              moonpad_error *error) {
  mp_change *change;
  moonpad_status status = begin_write(changes, key, &change, error);
  if (status != MOONPAD_OK) return status;
  return kind == MP_INCREMENT ? put_increment(change, operand, error) : put_append(change, operand, error);
}

/* ---- all of it ---- */

void mp_changes_reset(moonpad_changes *changes, bool keep_marks) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->pending) {
      mp_change_drop_root(change);
      forget_pending(change);
    }
    if (!keep_marks) change->touched = change->read = change->beyond_all_read = false;
  }
  if (!keep_marks) changes->all_read = false;
}

void moonpad_changes_discard(moonpad_changes *changes) {
  mp_changes_reset(changes, false);
}

bool moonpad_changes_pending(const moonpad_changes *changes) {
  return changes->pending_count > 0;
}

void mp_changes_end(moonpad_changes *changes, const char *reason) {
  mp_changes_reset(changes, false);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change_drop_root(slot->value);
  }
  changes->ended = reason;
}

static int compare_keys(const void *a, const void *b) {
  const mp_key *const *x = a;
  const mp_key *const *y = b;
  return mp_text_compare(mp_key_text(*x), mp_key_text(*y));
}

static bool shows_key(const moonpad_changes *changes, const mp_view_entry *entry) {
  const mp_change *change = mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
  if (change != NULL && change->pending) return change->kind != MP_REMOVE;
  return entry->value != NULL;
}

/* Every change has an entry in the view, so the view names all keys there are. */
static moonpad_status list_keys(moonpad_changes *changes, mp_key_list *list, moonpad_error *error) {
  list->env = changes->env;
  list->count = 0;
  list->keys = mp_allocate(changes->env, changes->view->count * sizeof *list->keys);
  if (list->keys == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(changes->view, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    if (shows_key(changes, entry)) list->keys[list->count++] = mp_key_retain(entry->key);
  }
  if (list->count > 1) qsort(list->keys, list->count, sizeof *list->keys, compare_keys);
  return MOONPAD_OK;
}

static void mark_all_read(moonpad_changes *changes) {
  if (changes->session == NULL) return;
  bool again = changes->all_read;
  for (int scope = 0; scope < MP_STORED_SCOPES && !again; scope++) {
    changes->all_base[scope] = mp_held_revision(changes->session, (mp_scope)scope);
  }
  changes->all_read = true;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->touched || change->beyond_all_read) mp_change_touch(change, true);
    change->beyond_all_read = false;
  }
}

moonpad_status mp_changes_keys(moonpad_changes *changes, mp_key_list *list, moonpad_error *error) {
  mark_all_read(changes);
  return list_keys(changes, list, error);
}

void mp_key_list_free(mp_key_list *list) {
  for (size_t i = 0; i < list->count; i++) mp_key_release(list->env, list->keys[i]);
  mp_release(list->env, list->keys);
  list->keys = NULL;
  list->count = 0;
}

static void write_member(mp_buffer *out, const mp_key *key, const mp_value *value) {
  if (out->length > 1) mp_buffer_add_char(out, ',');
  mp_json_write_string(out, mp_key_text(key));
  mp_buffer_add_char(out, ':');
  mp_value_write(out, value);
}

/* What the change set shows under a key, as JSON; nothing where it shows none. */
static moonpad_status write_shown(moonpad_changes *changes, const mp_key *key, mp_buffer *out, moonpad_error *error) {
  mp_change *change = mp_map_get_hashed(&changes->map, key->bytes, key->length, key->hash);
  if (change == NULL) {
    const mp_view_entry *entry = mp_map_get_hashed(changes->view, key->bytes, key->length, key->hash);
    if (entry->value != NULL) write_member(out, key, entry->value);
    return MOONPAD_OK;
  }
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status == MOONPAD_OK && shown != NULL) write_member(out, key, shown);
  mp_value_release(changes->env, owned);
  return status;
}

static moonpad_status close_object(mp_buffer *out, char bracket, moonpad_error *error) {
  mp_buffer_add_char(out, bracket);
  return out->failed ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_changes_write_all(moonpad_changes *changes, mp_buffer *out, moonpad_error *error) {
  mp_key_list list;
  moonpad_status status = mp_changes_keys(changes, &list, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer_clear(out);
  mp_buffer_add_char(out, '{');
  for (size_t i = 0; status == MOONPAD_OK && i < list.count; i++) {
    status = write_shown(changes, list.keys[i], out, error);
  }
  mp_key_list_free(&list);
  return status == MOONPAD_OK ? close_object(out, '}', error) : status;
}

static int compare_changes(const void *a, const void *b) {
  const mp_change *const *x = a;
  const mp_change *const *y = b;
  return mp_text_compare(mp_key_text((*x)->entry->key), mp_key_text((*y)->entry->key));
}

moonpad_status mp_changes_pending_list(moonpad_changes *changes, mp_change ***list, size_t *count,
                                       moonpad_error *error) {
  *count = 0;
  *list = mp_allocate(changes->env, changes->pending_count * sizeof **list);
  if (*list == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->pending) (*list)[(*count)++] = change;
  }
  if (*count > 1) qsort(*list, *count, sizeof **list, compare_changes);
  return MOONPAD_OK;
}

moonpad_status mp_changes_write_delta(moonpad_changes *changes, mp_buffer *out, mp_buffer *removed,
                                      moonpad_error *error) {
  mp_change **list;
  size_t count;
  moonpad_status status = mp_changes_pending_list(changes, &list, &count, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer_clear(out);
  mp_buffer_add_char(out, '{');
  if (removed != NULL) {
    mp_buffer_clear(removed);
    mp_buffer_add_char(removed, '[');
  }
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    const mp_key *key = list[i]->entry->key;
    if (list[i]->kind != MP_REMOVE) {
      status = write_shown(changes, key, out, error);
    } else if (removed != NULL) {
      if (removed->length > 1) mp_buffer_add_char(removed, ',');
      mp_json_write_string(removed, mp_key_text(key));
    }
  }
  mp_release(changes->env, list);
  if (status == MOONPAD_OK && removed != NULL) status = close_object(removed, ']', error);
  return status == MOONPAD_OK ? close_object(out, '}', error) : status;
}

void mp_changes_settle(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->pending || change->kind != MP_SET || mp_change_fold(change, NULL) != MOONPAD_OK) continue;
    mp_value_release(changes->env, change->entry->value);
    change->entry->value = mp_value_retain(change->value);
    if (change->root != NULL) mp_tree_mark_clean(change->root);
    mp_change_clear(change);
  }
}

/* ---- after the session object has changed ---- */

/* What was pending is stored now. The nodes live on where they hold what was stored. */
static void settle_change(mp_change *change) {
  mp_value *stored = change->entry->value;
  if (change->root != NULL) {
    bool same = change->pending && stored != NULL && mp_is_composite(stored->as.type) && change->root_source != NULL &&
                (change->root_source == stored || same_json(change->root_source, stored));
    if (same && (change->kind == MP_SET || change->kind == MP_APPEND)) {
      mp_tree_mark_clean(change->root);
      mp_value_retain(stored);
      mp_value_release(change->owner->env, change->root_source);
      change->root_source = stored;
    } else if (change->root_source != stored) {
      mp_change_drop_root(change);
    }
  }
  mp_change_clear(change);
}

void mp_changes_after_own_append(moonpad_session *session, mp_view_entry *entry, int64_t before, int64_t after,
                                 const moonpad_changes *by) {
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) {
    mp_change *change = changes->all_read
                            ? mp_change_of(changes, mp_key_text(entry->key))
                            : mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
    if (change == NULL) continue;
    if (changes == by && change->pending) {
      settle_change(change);
      change->beyond_all_read = changes->all_read;
    } else if (change->touched || (changes->all_read && !change->beyond_all_read)) {
      mp_change_touch(change, false);
      mp_change_follow(change, before, after, mp_changes_run_beside(changes, by));
    }
  }
}

void mp_changes_entry_changed(moonpad_session *session, const mp_view_entry *entry) {
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) {
    mp_change *change = mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
    if (change != NULL && !change->pending && change->root_source != entry->value) mp_change_drop_root(change);
  }
}

void mp_changes_rebase(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->touched) continue;
    change->base = mp_held_revision(changes->session, change->entry->scope);
    change->reach = 0;
  }
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    changes->all_base[scope] = mp_held_revision(changes->session, (mp_scope)scope);
  }
}
