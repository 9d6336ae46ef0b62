/* Merging change sets of concurrent siblings, savepoints (contract 1.4 points 3 and 4). */
#include "base/error.h"
#include "core/patch.h"
#include "service/pending.h"

/* An empty table that took the place of something is none to which siblings could add, even where the target shows nothing. */
static void put_like(mp_change *target, const mp_change *source, mp_value *value) {
  mp_change_put(target, value, source->unchecked);
  if (!source->created_empty) target->created_empty = false;
}

static bool shows_nothing(const mp_change *change) {
  return change->pending ? change->kind == MP_REMOVE : change->entry->value == NULL;
}

static bool is_empty_object(mp_node *node) {
  size_t count;
  return !mp_node_is_array(node) && mp_node_count(node, &count, NULL) == MOONPAD_OK && count == 0;
}

static bool same_kind(mp_node *a, mp_node *b) {
  return mp_node_is_array(a) == mp_node_is_array(b) || is_empty_object(a) || is_empty_object(b);
}

/* Writes the places of `source` into the composite that `target` shows, or, where it shows another thing, the whole value. */
static moonpad_status merge_places(mp_change *target, mp_change *source, moonpad_error *error) {
  mp_node *root;
  moonpad_status status = mp_change_root(target, &root, error);
  if (status != MOONPAD_OK) return status;
  if (root != NULL && same_kind(root, source->root)) {
    mp_patch *patch = mp_patch_new(target->owner->env);
    bool done = patch != NULL && mp_patch_add_tree(patch, source->root);
    bool is_whole =
        done && patch->count > 0 && patch->edits[0].path->length == 0 && patch->edits[0].kind == MP_EDIT_SET;
    if (done && !is_whole) status = mp_patch_apply(patch, root, error);
    mp_patch_release(patch);
    if (!done) return mp_no_memory(error);
    if (!is_whole && status != MOONPAD_INVALID_ARGUMENT) return status;
  }
  put_like(target, source, source->value);
  return MOONPAD_OK;
}

/* An array that began with an append where there was none. */
static bool began_with_append(const mp_change *source) {
  return source->by_place && source->root != NULL && source->entry->value == NULL;
}

/* Where the target shows nothing: an empty table, filled over again, so that a further sibling can merge into it. */
static moonpad_status fill_anew(mp_change *target, mp_change *source, moonpad_error *error) {
  bool array = source->root == NULL ? source->value->as.type == MOONPAD_ARRAY : mp_node_is_array(source->root);
  mp_value *empty =
      mp_value_new_json(target->owner->env, array ? MOONPAD_ARRAY : MOONPAD_OBJECT, moonpad_text(array ? "[]" : "{}"));
  if (empty == NULL) return mp_no_memory(error);
  mp_change_put(target, empty, source->unchecked);
  mp_value_release(target->owner->env, empty);
  return source->root == NULL ? MOONPAD_OK : merge_places(target, source, error);
}

static moonpad_status fill_appended(mp_change *target, mp_change *source, moonpad_error *error) {
  moonpad_status status = fill_anew(target, source, error);
  if (status == MOONPAD_OK) {
    target->by_place = true;
    target->created_empty = false;
  }
  return status;
}

/* An empty table that the source put there because there was none. */
static moonpad_status merge_created(mp_change *target, mp_change *source, moonpad_error *error) {
  if (shows_nothing(target)) return fill_anew(target, source, error);
  bool sibling_did_too =
      target->pending && (target->created_empty || target->kind == MP_APPEND || began_with_append(target));
  if (sibling_did_too) return source->root == NULL ? MOONPAD_OK : merge_places(target, source, error);
  put_like(target, source, source->value);
  return MOONPAD_OK;
}

static moonpad_status merge_set(mp_change *target, mp_change *source, moonpad_error *error) {
  moonpad_status status = mp_change_fold(source, error);
  if (status != MOONPAD_OK) return status;
  bool none_was_stored = target->entry->value == NULL;
  if (source->created_empty && none_was_stored) return merge_created(target, source, error);
  if (source->by_place && source->root != NULL && !shows_nothing(target)) return merge_places(target, source, error);
  if (began_with_append(source) && none_was_stored && !target->pending) return fill_appended(target, source, error);
  put_like(target, source, source->value);
  return MOONPAD_OK;
}

/* Adds to what the target shows; where a sibling has put something there that cannot be added to, the later write wins. */
static moonpad_status merge_operand(mp_change *target, mp_change *source, moonpad_error *error) {
  moonpad_string key = mp_key_text(target->entry->key);
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_fold(source, error);
  if (status != MOONPAD_OK) return status;
  status = mp_changes_add(target->owner, key, source->kind, source->value, error);
  if (status != MOONPAD_INVALID_ARGUMENT || !target->pending) return status;
  status = mp_change_shown(source, &shown, &owned, error);
  if (status == MOONPAD_OK) put_like(target, source, owned);
  mp_value_release(target->owner->env, owned);
  return status;
}

/* What was looked at, and when: of two times the earlier one. */
static void merge_marks(mp_change *target, mp_change *looked, bool read) {
  mp_change_renew_base(looked);
  if (!target->touched) {
    target->touched = true;
    target->base = looked->base;
    target->reach = looked->reach;
    target->read = false;
  }
  if (looked->base < target->base) {
    target->base = looked->base;
    target->reach = looked->reach;
  }
  if (read) target->read = true;
}

static void merge_all_read(moonpad_changes *target, const moonpad_changes *looked) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    bool older = !target->all_read || looked->all_base[scope] < target->all_base[scope];
    if (older) target->all_base[scope] = looked->all_base[scope];
  }
  target->all_read = true;
}

static moonpad_status note_all_read(moonpad_changes *target, const moonpad_changes *looked, moonpad_error *error) {
  if (!mp_changes_reserve_in_flight(target)) return mp_no_memory(error);
  merge_all_read(target, looked);
  return MOONPAD_OK;
}

static moonpad_status merge_write(mp_change *target, mp_change *source, moonpad_error *error) {
  switch (source->kind) {
  case MP_SET:
    return merge_set(target, source, error);
  case MP_REMOVE:
    put_like(target, source, NULL);
    return MOONPAD_OK;
  default:
    return merge_operand(target, source, error);
  }
}

static moonpad_status merge_change(moonpad_changes *target, mp_change *source, moonpad_error *error) {
  mp_change *change = mp_change_of(target, mp_key_text(source->entry->key));
  if (change == NULL) return mp_no_memory(error);
  if (source->touched) merge_marks(change, source, source->read);
  return source->pending ? merge_write(change, source, error) : MOONPAD_OK;
}

static moonpad_status merge_all(moonpad_changes *target, moonpad_changes *source, moonpad_error *error) {
  size_t position = 0;
  moonpad_status status = MOONPAD_OK;
  const mp_map_slot *slot;
  while (status == MOONPAD_OK && (slot = mp_map_next(&source->map, &position)) != NULL) {
    mp_change *change = slot->value;
    if (change->touched || change->pending) status = merge_change(target, change, error);
  }
  return status == MOONPAD_OK && source->all_read ? note_all_read(target, source, error) : status;
}

/* What is to be added is copied as it is: whether it still fits is for the commit to say. */
static moonpad_status copy_change(moonpad_changes *copy, mp_change *source, moonpad_error *error) {
  mp_change *change = mp_change_of(copy, mp_key_text(source->entry->key));
  if (change == NULL) return mp_no_memory(error);
  if (source->touched) merge_marks(change, source, source->read);
  if (!source->pending) return MOONPAD_OK;
  if (source->kind == MP_SET || source->kind == MP_REMOVE) return merge_write(change, source, error);
  moonpad_status status = mp_change_fold(source, error);
  if (status != MOONPAD_OK) return status;
  mp_change_begin_pending(change, source->kind);
  change->value = mp_value_retain(source->value);
  return MOONPAD_OK;
}

static moonpad_status copy_all(moonpad_changes *copy, const moonpad_changes *changes, moonpad_error *error) {
  size_t position = 0;
  moonpad_status status = MOONPAD_OK;
  for (const mp_map_slot *slot; status == MOONPAD_OK && (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->touched || change->pending) status = copy_change(copy, change, error);
  }
  return status == MOONPAD_OK && changes->all_read ? note_all_read(copy, changes, error) : status;
}

/* A change set over the same view with the same writes pending. */
static moonpad_status copy_pending(moonpad_changes *changes, moonpad_changes **copy, moonpad_error *error) {
  moonpad_status status = changes->session != NULL ? moonpad_changes_begin(changes->session, copy, error)
                                                   : mp_changes_new_detached(changes->env, copy, error);
  if (status != MOONPAD_OK) return status;
  (*copy)->view = changes->view;
  (*copy)->branch = changes->branch == NULL ? NULL : mp_key_retain(changes->branch);
  status = copy_all(*copy, changes, error);
  if (status != MOONPAD_OK) {
    moonpad_changes_free(*copy);
    *copy = NULL;
  }
  return status;
}

/*
** Back to what such a copy holds, which is used up (NULL: nothing was pending). Its writes are moved, not
** done again: this must not fail.
*/
static void restore(moonpad_changes *changes, moonpad_changes *copy) {
  mp_changes_reset(changes, true);
  if (copy == NULL) return;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&copy->map, &position)) != NULL;) {
    mp_change *from = slot->value;
    mp_change *to = mp_map_get(&changes->map, mp_key_text(from->entry->key));
    if (from->touched) merge_marks(to, from, from->read);
    if (from->pending) mp_change_take_pending(to, from);
  }
  if (copy->all_read) merge_all_read(changes, copy);
  moonpad_changes_free(copy);
}

/* The other session's revisions mean nothing here: what counts is when its beginning was copied. */
static moonpad_status absorb_change(moonpad_changes *target, mp_change *source, moonpad_changes *copied,
                                    moonpad_error *error) {
  moonpad_string key = mp_key_text(source->entry->key);
  mp_change *looked = mp_change_of(copied, key);
  mp_change *change = mp_change_of(target, key);
  if (looked == NULL || change == NULL) return mp_no_memory(error);
  mp_change_touch(looked, false);
  merge_marks(change, looked, source->read);
  if (!source->pending) return MOONPAD_OK;
  /* What came before in one's own session cannot be a sibling's: it was removed there. */
  if (source->created_empty && !shows_nothing(change)) put_like(change, source, NULL);
  return merge_write(change, source, error);
}

static moonpad_status absorb_all(moonpad_changes *target, moonpad_changes *source, moonpad_changes *copied,
                                 moonpad_error *error) {
  size_t position = 0;
  moonpad_status status = MOONPAD_OK;
  const mp_map_slot *slot;
  while (status == MOONPAD_OK && (slot = mp_map_next(&source->map, &position)) != NULL) {
    mp_change *change = slot->value;
    bool counts = (change->touched || change->pending) && change->entry->scope != MP_SCOPE_TEMP;
    if (counts) status = absorb_change(target, change, copied, error);
  }
  return status == MOONPAD_OK && source->all_read ? note_all_read(target, copied, error) : status;
}

/* Merges, or absorbs where there is `copied`; all of it or nothing. */
static moonpad_status merge_whole(moonpad_changes *target, moonpad_changes *source, moonpad_changes *copied,
                                  moonpad_error *error) {
  moonpad_changes *before;
  moonpad_status status = mp_changes_refuse_if_ended(target, error);
  if (status == MOONPAD_OK) status = copy_pending(target, &before, error);
  if (status != MOONPAD_OK) return status;
  status = copied == NULL ? merge_all(target, source, error) : absorb_all(target, source, copied, error);
  if (status != MOONPAD_OK) {
    restore(target, before);
  } else {
    moonpad_changes_free(before);
  }
  return status;
}

moonpad_status mp_changes_merge(moonpad_changes *target, moonpad_changes *source, moonpad_error *error) {
  return merge_whole(target, source, NULL, error);
}

moonpad_status mp_changes_absorb(moonpad_changes *target, moonpad_changes *source, moonpad_changes *copied,
                                 moonpad_error *error) {
  return merge_whole(target, source, copied, error);
}

moonpad_status mp_changes_savepoint(moonpad_changes *changes, moonpad_error *error) {
  moonpad_changes *copy = NULL;
  if (changes->pending_count > 0) {
    moonpad_status status = copy_pending(changes, &copy, error);
    if (status != MOONPAD_OK) return status;
  }
  moonpad_changes_free(changes->saved);
  changes->saved = copy;
  return MOONPAD_OK;
}

void mp_changes_rollback(moonpad_changes *changes) {
  restore(changes, changes->saved);
  changes->saved = NULL;
}
