/* Increment and append of what is pending (contract 1.3). */
#include "base/error.h"
#include "service/append/append.h"

moonpad_status mp_add_pending(mp_env *env, mp_operation_kind kind, moonpad_string key, const mp_value *there,
                              const mp_value *operand, mp_value **result, moonpad_error *error) {
  bool adds = kind == MP_INCREMENT;
  moonpad_error reason;
  moonpad_status status = (adds ? mp_add_number : mp_extend_array)(env, key, there, operand, result, &reason);
  if (status == MOONPAD_OK) return status;
  if (status != MOONPAD_INVALID_ARGUMENT) return mp_fail(error, status, "%s", reason.message);
  return mp_fail(error, status, "%s: the value has been changed since %s was written here; assign or delete the key",
                 reason.message, adds ? "this increment" : "this append");
}
