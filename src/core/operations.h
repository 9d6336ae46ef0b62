/*
** What can be done to the value of a key, and its result (contract 1.3). What is stored gets it in
** service/append/decide.c, service/shared/shared.c and store/plan.c.
*/
#ifndef MP_CORE_OPERATIONS_H
#define MP_CORE_OPERATIONS_H

#include "core/value.h"

/* The numbers are part of digests in files. */
typedef enum mp_operation_kind { MP_SET = 0, MP_REMOVE = 1, MP_INCREMENT = 2, MP_APPEND = 3 } mp_operation_kind;

/* Does the result depend on the value that is there? */
static inline bool mp_is_computed(mp_operation_kind kind) {
  return kind == MP_INCREMENT || kind == MP_APPEND;
}

/*
** Adds a number to what is there (NULL: 0). *result is one reference for the caller. Errors:
** invalid_argument naming the key (what is there is no number; the sum overflows 64 bits, or is not
** finite).
*/
moonpad_status mp_add_number(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *by,
                             mp_value **result, moonpad_error *error);
/* Is it something that items can be appended to? */
moonpad_status mp_check_extensible(moonpad_string key, const mp_value *there, moonpad_error *error);
/* Appends the items of an array to what is there (NULL or an empty object: an empty array). */
moonpad_status mp_extend_array(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *items,
                               mp_value **result, moonpad_error *error);

/*
** The result of a pending increment or append (`kind`) on what is there now: mp_add_number or
** mp_extend_array. It fitted when it was written, so the error says that the value has been changed
** since, and what to do.
*/
moonpad_status mp_apply_pending(mp_env *env, mp_operation_kind kind, moonpad_string key, const mp_value *there,
                                const mp_value *operand, mp_value **result, moonpad_error *error);

#endif
