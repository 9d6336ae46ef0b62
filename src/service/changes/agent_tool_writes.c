/* What was written in a change set, as patches, and doing it over again (contract 1.4 point 3). */
#include "service/changes/agent_tool_writes.h"

#include "base/error.h"
#include "service/changes/change_set.h"

/* ---- One key ---- */

static const moonpad_string whole_key = {"", 0};

/* A new table: all of it. A table that was written into: the paths of these writes. Else: a set. */
static bool add_set(mp_patch *patch, mp_change *change) {
  bool is_table = mp_is_composite(change->value->as.type);
  bool is_new = change->created || (change->by_path && *change->under == NULL);
  if (is_table && is_new) return mp_patch_add_whole(patch, change->value);
  if (is_table && change->by_path && change->root != NULL) return mp_patch_add_tree(patch, change->root);
  return mp_patch_add(patch, MP_EDIT_SET, whole_key, change->value);
}

mp_patch *mp_change_patch(mp_change *change) {
  static const mp_edit_kind edits[] = {
      [MP_REMOVE] = MP_EDIT_REMOVE, [MP_INCREMENT] = MP_EDIT_INCREMENT, [MP_APPEND] = MP_EDIT_APPEND};
  mp_patch *patch = mp_patch_new(change->owner->env);
  if (patch != NULL && mp_change_fold(change, NULL) == MOONPAD_OK) {
    bool is_done = change->kind == MP_SET ? add_set(patch, change)
                                          : mp_patch_add(patch, edits[change->kind], whole_key, change->value);
    if (is_done) return patch;
  }
  mp_patch_release(patch);
  return NULL;
}

/* ---- All of them ---- */

typedef struct mp_write {
  mp_key *key;
  bool read;
  bool last_writer_wins;
  mp_patch *patch; /* NULL: only read */
} mp_write;

struct mp_writes {
  mp_env *env;
  bool all_read;
  size_t count;
  mp_write keys[];
};

void mp_writes_free(mp_writes *writes) {
  if (writes == NULL) return;
  mp_env *env = writes->env;
  for (size_t i = 0; i < writes->count; i++) {
    mp_key_release(env, writes->keys[i].key);
    mp_patch_release(writes->keys[i].patch);
  }
  mp_release(env, writes);
  mp_env_release(env);
}

moonpad_status mp_changes_writes(moonpad_changes *changes, mp_writes **result, moonpad_error *error) {
  mp_writes *writes = mp_allocate(changes->env, sizeof *writes + changes->map.count * sizeof *writes->keys);
  if (writes == NULL) return mp_no_memory(error);
  writes->env = mp_env_retain(changes->env);
  writes->all_read = changes->all_read;
  writes->count = 0;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->entry->scope == MP_SCOPE_TEMP || !change->touched) continue;
    mp_patch *patch = change->pending ? mp_change_patch(change) : NULL;
    if (change->pending && patch == NULL) {
      mp_writes_free(writes);
      return mp_no_memory(error);
    }
    writes->keys[writes->count++] =
        (mp_write){mp_key_retain(change->entry->key), change->read, change->last_writer_wins, patch};
  }
  *result = writes;
  return MOONPAD_OK;
}

/*
** Does the first edit where it is of the whole key. *below_it: what is left goes into the opened
** table.
*/
static moonpad_status do_edit(mp_change *change, const mp_edit *edit, bool last_writer_wins, bool *below_it,
                              moonpad_error *error) {
  moonpad_changes *changes = change->owner;
  moonpad_string key = mp_key_text(change->entry->key);
  bool is_absent = change->pending ? change->kind == MP_REMOVE : *change->under == NULL;
  *below_it = edit->path->length > 0 || edit->kind == MP_EDIT_EXTEND;
  if (*below_it) return MOONPAD_OK;
  switch (edit->kind) {
  case MP_EDIT_SET:
  case MP_EDIT_REMOVE:
    return mp_changes_put(changes, key, edit->value, last_writer_wins, error);
  case MP_EDIT_INCREMENT:
    return mp_changes_add(changes, key, MP_INCREMENT, edit->value, error);
  case MP_EDIT_APPEND:
    return mp_changes_add(changes, key, MP_APPEND, edit->value, error);
  default:
    *below_it = true;
    return is_absent ? mp_changes_put(changes, key, edit->value, last_writer_wins, error) : MOONPAD_OK;
  }
}

static moonpad_status add_write(moonpad_changes *changes, const mp_write *write, moonpad_error *error) {
  mp_change *change;
  mp_node *root;
  bool below_it = false;
  moonpad_status status = mp_change_look(changes, mp_key_text(write->key), &change, error);
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, write->read);
  if (write->patch == NULL || write->patch->count == 0) return MOONPAD_OK;
  status = do_edit(change, &write->patch->edits[0], write->last_writer_wins, &below_it, error);
  if (status != MOONPAD_OK || !below_it) return status;
  status = mp_change_root(change, &root, error);
  if (status != MOONPAD_OK) return status;
  if (root != NULL) return mp_patch_apply(write->patch, root, error);
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s] is no table any more",
                 mp_quote(mp_key_text(write->key)).text);
}

moonpad_status mp_changes_add_writes(moonpad_changes *changes, const mp_writes *writes, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_ended(changes, error);
  for (size_t i = 0; status == MOONPAD_OK && i < writes->count; i++) {
    status = add_write(changes, &writes->keys[i], error);
  }
  if (status == MOONPAD_OK && writes->all_read) mp_changes_mark_all_read(changes);
  return status;
}
