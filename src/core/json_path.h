/*
** Reading one place of a value by its path, without decoding the rest. moonpad_json_read of the
** public API is here too.
*/
#ifndef MP_CORE_JSON_PATH_H
#define MP_CORE_JSON_PATH_H

#include "base/buffer.h"

/*
** A path is checked as a whole before anything is read: whether it is an error must not depend on
** the data.
*/
moonpad_status mp_check_path(moonpad_string path, moonpad_error *error);
/*
** Goes from `root` (any value) down `path`; an empty path gives `root` itself. A place that is not
** there: type ABSENT and MOONPAD_OK. What `value` holds is borrowed from `root`, or from `scratch`
** (which is cleared) where a string had escapes. Errors: invalid_argument (a malformed path,
** malformed JSON on the way), no_memory.
*/
moonpad_status mp_json_walk(mp_env *env, const moonpad_value *root, moonpad_string path, mp_buffer *scratch,
                            moonpad_value *value, moonpad_error *error);

#endif
