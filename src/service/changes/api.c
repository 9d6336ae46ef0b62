/* The public face of change sets: keys and paths (moonpad.h). */
#include <stdio.h>

#include "base/error.h"
#include "core/json_path.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"

moonpad_status moonpad_changes_get(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                   moonpad_value *value, moonpad_error *error) {
  value->type = MOONPAD_ABSENT;
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK || key.length > MOONPAD_MAX_KEY_BYTES) return status;
  mp_change *change;
  status = mp_change_look(changes, key, &change, error);
  if (status != MOONPAD_OK) return status;
  mp_change_touch(change, true);
  const mp_value *shown;
  mp_value *owned;
  status = mp_change_shown(change, &shown, &owned, error);
  if (status == MOONPAD_OK && shown != NULL) {
    /* What is owned lives on as the result that the caller reads. */
    if (owned != NULL) {
      mp_value_release(changes->env, changes->handed_out);
      changes->handed_out = mp_value_retain(owned);
    }
    status = mp_json_get(changes->env, &shown->as, path, &changes->scratch, value, error);
  }
  mp_value_release(changes->env, owned);
  return status;
}

moonpad_status moonpad_changes_has(moonpad_changes *changes, moonpad_string key, bool *there, moonpad_error *error) {
  *there = false;
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  return status == MOONPAD_OK ? mp_changes_has(changes, key, there, error) : status;
}

/* Where a path into the value of a key leads. */
typedef struct destination {
  /* What holds the last step; NULL: the way there leads through something that is no table. */
  mp_node *parent;
  mp_path_step last;
  /* The path to that. */
  moonpad_string through;
  /* Its type. */
  moonpad_type found;
} destination;

/* The path is a valid one, and not empty. */
static moonpad_status walk(moonpad_changes *changes, moonpad_string key, moonpad_string path, destination *to,
                           moonpad_error *error) {
  mp_item item;
  mp_path left = {path};
  moonpad_status status = mp_changes_item(changes, key, &item, error);
  while (status == MOONPAD_OK) {
    to->parent = item.node;
    to->found = item.scalar.type;
    to->through = (moonpad_string){path.data, path.length - left.rest.length};
    mp_path_next(&left, to->through.length == 0, &to->last);
    if (item.node == NULL || left.rest.length == 0) break;
    status = to->last.is_index ? mp_node_index(to->parent, to->last.index, &item, error)
                               : mp_node_member(to->parent, to->last.name, &item, error);
  }
  return status;
}

static moonpad_status fail_on_the_way(const destination *to, moonpad_string key, moonpad_string path,
                                      moonpad_error *error) {
  mp_quoted through = mp_quote(to->through);
  bool in_key = to->through.length == 0;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]%s%s is %s: path %s needs a table there",
                 mp_quote(key).text, in_key ? "" : " at ", in_key ? "" : through.text, mp_type_name(to->found),
                 mp_quote(path).text);
}

/* `value` NULL: removes. */
static moonpad_status set_at_path(moonpad_changes *changes, moonpad_string key, moonpad_string path, mp_value *value,
                                  moonpad_error *error) {
  destination to;
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status == MOONPAD_OK) status = mp_check_key(key, error);
  if (status != MOONPAD_OK) return status;
  if (path.length == 0) return mp_changes_put(changes, key, value, false, error);
  status = mp_check_path(path, error);
  if (status == MOONPAD_OK) status = walk(changes, key, path, &to, error);
  if (status != MOONPAD_OK) return status;
  if (to.parent == NULL) return value == NULL ? MOONPAD_OK : fail_on_the_way(&to, key, path, error);
  return to.last.is_index ? mp_node_set_index(to.parent, to.last.index, value, error)
                          : mp_node_set_member(to.parent, to.last.name, value, error);
}

/* The text that names the path is made only for a message. `what` may be "". */
static moonpad_status copy_in(moonpad_changes *changes, moonpad_string key, moonpad_string path, const char *what,
                              const moonpad_value *value, mp_value **copy, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK) return status;
  status = mp_value_copy_in(changes->env, value, NULL, copy, error);
  if (status != MOONPAD_INVALID_ARGUMENT) return status;
  mp_quoted in_key = mp_quote(key), in_path = mp_quote(path);
  bool whole = path.length == 0;
  char where[2 * sizeof in_key.text + 32];
  snprintf(where, sizeof where, "state[%s]%s%s%s", in_key.text, whole ? "" : " at ", whole ? "" : in_path.text, what);
  return mp_value_copy_in(changes->env, value, where, copy, error);
}

moonpad_status moonpad_changes_set(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                   const moonpad_value *value, moonpad_error *error) {
  mp_value *copy;
  moonpad_status status = copy_in(changes, key, path, "", value, &copy, error);
  if (status != MOONPAD_OK) return status;
  status = set_at_path(changes, key, path, copy, error);
  mp_value_release(changes->env, copy);
  return status;
}

moonpad_status moonpad_changes_remove(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                      moonpad_error *error) {
  return set_at_path(changes, key, path, NULL, error);
}

moonpad_status moonpad_changes_increment(moonpad_changes *changes, moonpad_string key, const moonpad_value *by,
                                         moonpad_error *error) {
  mp_value *operand;
  moonpad_status status = copy_in(changes, key, (moonpad_string){NULL, 0}, ": by", by, &operand, error);
  if (status != MOONPAD_OK) return status;
  status = mp_changes_add(changes, key, MP_INCREMENT, operand, error);
  mp_value_release(changes->env, operand);
  return status;
}

/* [item] */
static mp_value *array_of(mp_env *env, const mp_value *item) {
  mp_buffer text;
  mp_buffer_init(&text, env);
  mp_buffer_add_char(&text, '[');
  mp_value_write(&text, item);
  mp_buffer_add_char(&text, ']');
  mp_value *array = text.failed ? NULL : mp_value_new_json(env, MOONPAD_ARRAY, mp_buffer_text(&text));
  mp_buffer_free(&text);
  return array;
}

moonpad_status moonpad_changes_append(moonpad_changes *changes, moonpad_string key, const moonpad_value *item,
                                      moonpad_error *error) {
  mp_value *copy;
  moonpad_status status = copy_in(changes, key, (moonpad_string){NULL, 0}, ": item", item, &copy, error);
  if (status != MOONPAD_OK) return status;
  if (!mp_value_fits_below(copy, 1)) {
    mp_value_release(changes->env, copy);
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "state[%s]: item: the value would be nested more than %d levels deep", mp_quote(key).text,
                   MOONPAD_MAX_DEPTH);
  }
  mp_value *items = array_of(changes->env, copy);
  mp_value_release(changes->env, copy);
  if (items == NULL) return mp_no_memory(error);
  status = mp_changes_add(changes, key, MP_APPEND, items, error);
  mp_value_release(changes->env, items);
  return status;
}

/* ---- all keys at once ---- */

struct moonpad_key_list {
  mp_entries keys;
};

moonpad_status moonpad_changes_keys(moonpad_changes *changes, moonpad_key_list **keys, moonpad_error *error) {
  *keys = NULL;
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK) return status;
  moonpad_key_list *list = mp_allocate(changes->env, sizeof *list);
  if (list == NULL) return mp_no_memory(error);
  status = mp_changes_keys(changes, &list->keys, error);
  if (status != MOONPAD_OK) {
    mp_release(changes->env, list);
    return status;
  }
  mp_env_retain(changes->env);
  *keys = list;
  return MOONPAD_OK;
}

size_t moonpad_key_list_count(const moonpad_key_list *list) {
  return list->keys.count;
}

moonpad_string moonpad_key_list_at(const moonpad_key_list *list, size_t index) {
  return index < list->keys.count ? list->keys.items[index].key : moonpad_text(NULL);
}

void moonpad_key_list_free(moonpad_key_list *list) {
  if (list == NULL) return;
  mp_env *env = list->keys.env;
  mp_entries_free(&list->keys);
  mp_release(env, list);
  mp_env_release(env);
}

moonpad_status moonpad_changes_delta(moonpad_changes *changes, moonpad_buffer *delta, moonpad_buffer *removed,
                                     moonpad_error *error) {
  memset(delta, 0, sizeof *delta);
  if (removed != NULL) memset(removed, 0, sizeof *removed);
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer out, keys;
  mp_buffer_init(&out, changes->env);
  mp_buffer_init(&keys, changes->env);
  status = mp_changes_write_delta(changes, &out, removed == NULL ? NULL : &keys, error);
  if (status == MOONPAD_OK && removed != NULL) status = mp_buffer_hand_over(&keys, removed, error);
  if (status == MOONPAD_OK) status = mp_buffer_hand_over(&out, delta, error);
  if (status != MOONPAD_OK) moonpad_buffer_free(removed);
  mp_buffer_free(&keys);
  mp_buffer_free(&out);
  return status;
}

moonpad_status moonpad_changes_state(moonpad_changes *changes, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer out;
  mp_buffer_init(&out, changes->env);
  status = mp_changes_write_all(changes, true, &out, error);
  if (status == MOONPAD_OK) status = mp_buffer_hand_over(&out, json, error);
  mp_buffer_free(&out);
  return status;
}

/* ---- the change set of a session object itself ---- */

moonpad_status moonpad_session_changes(moonpad_session *session, moonpad_changes **changes, moonpad_error *error) {
  *changes = mp_session_own_changes(session);
  return *changes == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status moonpad_session_read(moonpad_session *session, moonpad_string key, moonpad_string path,
                                    moonpad_value *value, moonpad_error *error) {
  moonpad_changes *own = mp_session_own_changes(session);
  value->type = MOONPAD_ABSENT;
  if (own == NULL) return mp_no_memory(error);
  return moonpad_changes_get(own, key, path, value, error);
}

moonpad_status moonpad_session_state(moonpad_session *session, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  moonpad_changes *own = mp_session_own_changes(session);
  if (own == NULL) return mp_no_memory(error);
  return moonpad_changes_state(own, json, error);
}

static bool look_up_state(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  return mp_changes_peek(context, name, value, error) == MOONPAD_OK;
}

moonpad_status moonpad_session_render(moonpad_session *session, moonpad_string source,
                                      const moonpad_template_options *options, moonpad_buffer *result,
                                      moonpad_error *error) {
  memset(result, 0, sizeof *result);
  moonpad_changes *own = mp_session_own_changes(session);
  if (own == NULL) return mp_no_memory(error);
  return moonpad_render(source, options, look_up_state, own, result, error);
}
