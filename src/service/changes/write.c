/* Change sets: set, remove, increment, append (contract 1.3). */
#include "base/error.h"
#include "service/changes/change_set.h"
#include "service/limits.h"

/* Everything that may fail comes before the first change, so that a write is all or nothing. */
static moonpad_status begin_write(moonpad_changes *changes, moonpad_string key, mp_change **change,
                                  moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_ended(changes, error);
  if (status == MOONPAD_OK) status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  return mp_change_look(changes, key, change, error);
}

moonpad_status mp_changes_put(moonpad_changes *changes, moonpad_string key, mp_value *value, bool last_writer_wins,
                              moonpad_error *error) {
  mp_change *change;
  moonpad_status status = begin_write(changes, key, &change, error);
  if (status == MOONPAD_OK && changes->session != NULL) {
    status = mp_check_value_size(changes->session->service, key, value, error);
  }
  if (status == MOONPAD_OK) mp_change_put(change, value, last_writer_wins);
  return status;
}

/* A table put where there was none, by somebody who knew that or began with an empty one. */
static bool is_created(const mp_change *change, const mp_value *value) {
  if (value == NULL || !mp_is_composite(value->as.type) || *change->under != NULL) return false;
  return value->as.as.text.length == 2 || change->read_now || change->owner->all_read_now;
}

void mp_change_put(mp_change *change, mp_value *value, bool last_writer_wins) {
  mp_change_touch(change, false);
  bool created = is_created(change, value);
  mp_change_drop_root(change);
  mp_value_retain(value);
  mp_change_forget_pending(change);
  mp_change_begin_pending(change, value == NULL ? MP_REMOVE : MP_SET);
  change->value = value;
  change->last_writer_wins = last_writer_wins;
  change->created = created;
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
  change->by_path = false;
  change->created = false;
}

/* On top of what the store holds at commit: checked against what is known of it now. */
static moonpad_status put_deferred(mp_change *change, mp_operation_kind kind, const mp_value *operand, mp_value *total,
                                   moonpad_error *error) {
  mp_env *env = change->owner->env;
  moonpad_string key = mp_key_text(change->entry->key);
  mp_value *result = NULL;
  moonpad_status status = kind == MP_INCREMENT ? mp_add_number(env, key, *change->under, total, &result, error)
                                               : mp_extend_array(env, key, *change->under, total, &result, error);
  if (status != MOONPAD_OK) {
    mp_value_release(env, total);
    return status;
  }
  const mp_value *under = *change->under;
  if (change->root != NULL && kind == MP_APPEND && under != NULL && under->as.type == MOONPAD_ARRAY &&
      (change->pending || change->root_source == under)) {
    (void)mp_change_extend_root(change, operand, result, NULL);
  } else {
    mp_change_drop_root(change);
  }
  mp_value_release(env, result);
  mp_change_touch(change, false);
  mp_value_release(env, change->value);
  mp_change_begin_pending(change, kind);
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

/*
** Behind the items that are pending already. Without nodes to keep up to date, none of these
** is touched.
*/
static moonpad_status put_further(mp_change *change, const mp_value *items, moonpad_error *error) {
  moonpad_status status = mp_check_extensible(mp_key_text(change->entry->key), *change->under, error);
  if (status != MOONPAD_OK) return status;
  moonpad_string text = items->as.as.text;
  if (!mp_buffer_room(&change->further, text.length)) {
    change->further.failed = false;
    return mp_no_memory(error);
  }
  mp_buffer_add_char(&change->further, ',');
  mp_buffer_add(&change->further, text.data + 1, text.length - 2);
  return MOONPAD_OK;
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
    if (status == MOONPAD_OK && root != NULL) return mp_change_extend_node(root, key, items, error);
    if (status == MOONPAD_OK) status = mp_extend_array(env, key, pending_base(change), items, &extended, error);
    if (status == MOONPAD_OK) replace_pending_set(change, extended);
    return status;
  }
  bool has_both = change->pending && change->value->as.as.text.length > 2 && items->as.as.text.length > 2;
  if (has_both && change->root == NULL) return put_further(change, items, error);
  status = mp_change_fold(change, error);
  if (status != MOONPAD_OK) return status;
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
