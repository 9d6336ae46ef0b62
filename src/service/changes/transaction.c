/* Transactions of tool calls (contract 1.4 points 2 to 4). */
#include "service/changes/transaction.h"

#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"
#include "service/limits.h"

/*
** Why the set takes no writes between two functions. The address tells it from the other reasons in
** mp_changes.ended.
*/
static const char is_between[] = "none of its call's functions is running";

moonpad_status mp_changes_new_over(moonpad_changes *below, moonpad_changes **changes, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_session_freed(below, error);
  if (status == MOONPAD_OK && (below->session == NULL || below->below != NULL)) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "tool calls need a state that lies over a session itself");
  }
  if (status == MOONPAD_OK) status = moonpad_changes_begin(below->session, changes, error);
  if (status != MOONPAD_OK) return status;
  (*changes)->below = below;
  (*changes)->branch = below->branch == NULL ? NULL : mp_key_retain(below->branch);
  (*changes)->ended = is_between;
  return MOONPAD_OK;
}

void mp_transaction_begin(moonpad_changes *changes) {
  if (changes->session_freed || changes->ended != is_between) return;
  if (!changes->in_call) mp_call_begin(changes);
  mp_call_look_anew(changes);
  changes->ended = NULL;
}

static void end(moonpad_changes *changes) {
  if (!changes->session_freed) mp_call_look_anew(changes);
  if (changes->ended == NULL) changes->ended = is_between;
}

void mp_transaction_rollback(moonpad_changes *changes) {
  mp_changes_reset(changes, true);
  end(changes);
}

/* ---- Committing ---- */

/* What becomes of one key in the set below. */
typedef struct committed {
  mp_change *change;
  mp_change *below;
  mp_patch *patch;     /* NULL unless calls overlap */
  mp_version *version; /* NULL unless calls overlap */
  mp_operation_kind kind;
  mp_value *value;
  bool conflicts;
} committed;

/*
** On top of what is pending below. Where it does not fit there, or overflows, it is the error of
** this call, the later one, and not of the append that stores all of them.
*/
static moonpad_status add_to_pending(committed *key, moonpad_error *error) {
  mp_change *below = key->below, *change = key->change;
  mp_env *env = change->owner->env;
  moonpad_string name = mp_key_text(change->entry->key);
  const mp_value *shown;
  mp_value *owned, *result = NULL;
  if (!below->pending) {
    key->value = mp_value_retain(change->value);
    return MOONPAD_OK;
  }
  bool is_more = below->kind == change->kind;
  moonpad_status status = mp_change_fold(below, error);
  if (status == MOONPAD_OK && !(is_more && change->kind == MP_APPEND)) {
    status = mp_change_shown(below, &shown, &owned, error);
    if (status == MOONPAD_OK) status = mp_apply_pending(env, change->kind, name, shown, change->value, &result, error);
    mp_value_release(env, owned);
  }
  if (status != MOONPAD_OK) return status;
  if (!is_more) {
    key->kind = MP_SET;
    key->value = result;
    return MOONPAD_OK;
  }
  mp_value_release(env, result);
  return mp_apply_pending(env, change->kind, name, below->value, change->value, &key->value, error);
}

/* A tree without an owner is stale and takes no writes: a scratch tree has this empty one. */
static const mp_tree_owner nobody;

/* Does the patch to what the set below shows. */
static moonpad_status apply_patch(committed *key, moonpad_error *error) {
  mp_env *env = key->change->owner->env;
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(key->below, &shown, &owned, error);
  if (status != MOONPAD_OK) return status;
  mp_node *scratch = NULL;
  if (shown == NULL || !mp_is_composite(shown->as.type)) {
    status = MOONPAD_INVALID_ARGUMENT;
  } else if ((scratch = mp_tree_new(env, (mp_value *)shown, &nobody)) == NULL) {
    status = mp_no_memory(error);
  }
  if (status == MOONPAD_OK) status = mp_patch_apply(key->patch, scratch, error);
  if (status == MOONPAD_OK && (key->value = mp_node_value(scratch)) == NULL) status = mp_no_memory(error);
  mp_node_release(scratch);
  mp_value_release(env, owned);
  return status;
}

/* Others have committed that key meanwhile: `others` is what they did. */
static moonpad_status merge(committed *key, mp_patch *const *others, size_t count, moonpad_error *error) {
  mp_change *change = key->change;
  bool overlaps;
  if (!mp_patch_overlaps(key->patch, others, count, &overlaps)) return mp_no_memory(error);
  moonpad_status status = overlaps ? MOONPAD_INVALID_ARGUMENT : apply_patch(key, error);
  if (status != MOONPAD_INVALID_ARGUMENT) return status;
  key->conflicts = change->read_now && mp_checks_conflicts(change->owner->session->service);
  key->value = mp_value_retain(change->value);
  return MOONPAD_OK;
}

/*
** Has a call committed the key since the transaction began? `patches` (NULL: only counts) takes
** what they did.
*/
static size_t find_others(const committed *key, mp_patch **patches) {
  size_t count = 0;
  const mp_version *at = key->below->versions;
  for (; at != NULL && at->number > key->change->owner->began; at = at->older) {
    if (at->patch == NULL || at->patch->count == 0) continue;
    if (patches != NULL) patches[count] = at->patch;
    count++;
  }
  return count;
}

static moonpad_status merge_with_others(committed *key, size_t count, moonpad_error *error) {
  mp_env *env = key->change->owner->env;
  mp_patch **others = mp_allocate(env, count * sizeof *others);
  if (others == NULL) return mp_no_memory(error);
  find_others(key, others);
  moonpad_status status = merge(key, others, count, error);
  mp_release(env, others);
  return status;
}

static moonpad_status decide(committed *key, moonpad_error *error) {
  mp_change *change = key->change;
  moonpad_changes *below = change->owner->below;
  moonpad_string name = mp_key_text(change->entry->key);
  key->kind = change->kind;
  key->below = mp_change_of(below, name);
  if (key->below == NULL) return mp_no_memory(error);
  bool is_alone = below->open == 1;
  size_t others = find_others(key, NULL);
  if ((!is_alone || others > 0) && (key->patch = mp_change_patch(change)) == NULL) return mp_no_memory(error);
  moonpad_status status = mp_change_fold(change, error);
  if (status == MOONPAD_OK && !is_alone) status = mp_version_new(key->below, key->patch, &key->version, error);
  if (status != MOONPAD_OK) return status;
  if (mp_is_computed(change->kind)) {
    status = add_to_pending(key, error);
  } else if (others > 0) {
    status = merge_with_others(key, others, error);
  } else {
    key->value = mp_value_retain(change->value);
  }
  return status == MOONPAD_OK ? mp_check_value_size(below->session->service, name, key->value, error) : status;
}

/*
** When the key was first looked at, and whether it was read, for what others store (contract 2.2).
*/
static void hand_down_marks(mp_change *below, const mp_change *change) {
  if (!below->touched || change->base < below->base) below->base = change->base;
  below->read = (below->touched && below->read) || change->read;
  below->touched = true;
}

static void install(committed *key) {
  mp_change *change = key->change, *below = key->below;
  bool is_taken_over = key->value == change->value;
  if (key->version != NULL) mp_change_add_version(below, key->version);
  key->version = NULL;
  hand_down_marks(below, change);
  if (key->kind == MP_SET || key->kind == MP_REMOVE) {
    mp_change_put(below, key->value, change->last_writer_wins);
  } else {
    mp_change_drop_root(below);
    mp_value_release(below->owner->env, below->value);
    mp_buffer_free(&below->further);
    mp_change_begin_pending(below, key->kind);
    below->value = mp_value_retain(key->value);
  }
  /* The nodes live on where they hold what has been committed. */
  if (change->root != NULL && (is_taken_over || change->kind == MP_APPEND)) {
    mp_tree_mark_clean(change->root);
  } else {
    mp_change_drop_root(change);
  }
  mp_change_forget_pending(change);
}

static moonpad_status fail_in_conflict(const moonpad_changes *changes, const committed *keys, size_t count,
                                       moonpad_error *error) {
  mp_key **conflicts = mp_allocate(changes->env, count * sizeof *conflicts);
  if (conflicts == NULL) return mp_no_memory(error);
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (keys[i].conflicts) conflicts[found++] = mp_key_retain(keys[i].change->entry->key);
  }
  mp_session_keep_conflicts(changes->session, conflicts, found);
  return mp_fail_in_conflict(conflicts, found,
                             "in conflict with another call of the same answer, which has changed %s since this one "
                             "looked at it: what this one wrote is dropped",
                             error);
}

static moonpad_status decide_all(moonpad_changes *changes, committed *keys, size_t count, moonpad_error *error) {
  bool conflicts = false;
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    status = decide(&keys[i], error);
    conflicts = conflicts || keys[i].conflicts;
  }
  return status == MOONPAD_OK && conflicts ? fail_in_conflict(changes, keys, count, error) : status;
}

static moonpad_status commit_pending(moonpad_changes *changes, moonpad_error *error) {
  mp_change **list;
  size_t count;
  moonpad_status status = mp_changes_pending_list(changes, &list, &count, error);
  if (status != MOONPAD_OK) return status;
  committed *keys = mp_allocate_zeroed(changes->env, count * sizeof *keys);
  if (keys == NULL) status = mp_no_memory(error);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) keys[i].change = list[i];
  mp_release(changes->env, list);
  if (status == MOONPAD_OK) status = decide_all(changes, keys, count, error);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) install(&keys[i]);
  for (size_t i = 0; keys != NULL && i < count; i++) {
    mp_version_free(changes->env, keys[i].version);
    mp_patch_release(keys[i].patch);
    mp_value_release(changes->env, keys[i].value);
  }
  mp_release(changes->env, keys);
  return status;
}

moonpad_status mp_transaction_commit(moonpad_changes *changes, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status == MOONPAD_OK) status = mp_changes_refuse_if_ended(changes, error);
  if (status == MOONPAD_OK) status = mp_changes_refuse_if_ended(changes->below, error);
  if (status == MOONPAD_OK && changes->below->has_lost) status = mp_no_memory(error);
  if (status == MOONPAD_OK && changes->pending_count > 0) status = commit_pending(changes, error);
  if (status == MOONPAD_OK) end(changes);
  return status;
}
