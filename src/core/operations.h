/* Increment and append on values (contract 1.3). */
#ifndef MP_CORE_OPERATIONS_H
#define MP_CORE_OPERATIONS_H

#include "core/value.h"

/*
** Adds a number to what is there (NULL: 0). *result is one reference for the caller. Errors:
** invalid_argument naming the key.
*/
moonpad_status mp_add_number(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *by,
                             mp_value **result, moonpad_error *error);
/* Is it something that items can be appended to? */
moonpad_status mp_check_extensible(moonpad_string key, const mp_value *there, moonpad_error *error);
/* Appends the items of an array to what is there (NULL or an empty object: an empty array). */
moonpad_status mp_extend_array(mp_env *env, moonpad_string key, const mp_value *there, const mp_value *items,
                               mp_value **result, moonpad_error *error);

#endif
