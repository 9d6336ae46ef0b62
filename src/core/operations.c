/* Increments and appends (contract 1.3). */
#include "core/operations.h"

#include <math.h>

#include "base/error.h"

static bool is_number(moonpad_type type) {
  return type == MOONPAD_INTEGER || type == MOONPAD_FLOAT;
}

static double as_float(const mp_value *value) {
  return value->as.type == MOONPAD_INTEGER ? (double)value->as.as.integer : value->as.as.number;
}

/*
** Integers stay integers and must not overflow; with a float the sum is one, and must stay finite.
*/
moonpad_status mp_add_number(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *by,
                             mp_value **result, moonpad_error *error) {
  *result = NULL;
  if (!is_number(by->as.type)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: cannot be incremented by %s", mp_quote(key).text,
                   mp_type_name(by->as.type));
  }
  if (there != NULL && !is_number(there->as.type)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: holds %s, which cannot be incremented",
                   mp_quote(key).text, mp_type_name(there->as.type));
  }
  if (there == NULL) {
    *result = by->as.type == MOONPAD_INTEGER ? mp_value_new_integer(env, by->as.as.integer)
                                             : mp_value_new_float(env, by->as.as.number);
  } else if (there->as.type == MOONPAD_INTEGER && by->as.type == MOONPAD_INTEGER) {
    int64_t number = there->as.as.integer, more = by->as.as.integer;
    if (more > 0 ? number > INT64_MAX - more : number < INT64_MIN - more) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: incrementing overflows 64 bits", mp_quote(key).text);
    }
    *result = mp_value_new_integer(env, number + more);
  } else {
    double sum = as_float(there) + as_float(by);
    if (!isfinite(sum)) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: incrementing overflows to infinity",
                     mp_quote(key).text);
    }
    *result = mp_value_new_float(env, sum);
  }
  return *result == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static bool is_empty(const mp_value *composite) {
  return composite->as.as.text.length == 2;
}

static bool starts_empty(const mp_value *there) {
  return there == NULL || (mp_is_composite(there->as.type) && is_empty(there));
}

moonpad_status mp_check_extensible(moonpad_string key, const mp_value *there, moonpad_error *error) {
  if (starts_empty(there) || there->as.type == MOONPAD_ARRAY) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state[%s]: holds %s, which cannot be appended to",
                 mp_quote(key).text, mp_type_name(there->as.type));
}

moonpad_status mp_extend_array(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *items,
                               mp_value **result, moonpad_error *error) {
  *result = NULL;
  moonpad_status status = mp_check_extensible(key, there, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer text;
  mp_buffer_init(&text, env);
  if (starts_empty(there) || is_empty(items)) {
    const mp_value *whole = starts_empty(there) ? items : there;
    mp_buffer_add_string(&text, whole->as.as.text);
  } else {
    mp_buffer_add(&text, there->as.as.text.data, there->as.as.text.length - 1);
    mp_buffer_add_char(&text, ',');
    mp_buffer_add(&text, items->as.as.text.data + 1, items->as.as.text.length - 1);
  }
  if (!text.failed) *result = mp_value_new_json(env, MOONPAD_ARRAY, mp_buffer_text(&text));
  mp_buffer_free(&text);
  return *result == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_apply_pending(mp_env *env, mp_operation_kind kind, moonpad_string key, const mp_value *there,
                                const mp_value *operand, mp_value **result, moonpad_error *error) {
  bool adds = kind == MP_INCREMENT;
  moonpad_error reason;
  moonpad_status status = (adds ? mp_add_number : mp_extend_array)(env, key, there, operand, result, &reason);
  if (status == MOONPAD_OK) return status;
  if (status != MOONPAD_INVALID_ARGUMENT) return mp_fail(error, status, "%s", reason.message);
  return mp_fail(error, status, "%s: the value has been changed since %s was written here; assign or delete the key",
                 reason.message, adds ? "this increment" : "this append");
}
