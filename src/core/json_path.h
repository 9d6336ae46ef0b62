/*
** Paths such as "items[2].name": their grammar, and reading the value at a path of JSON text
** without decoding the rest. Implements moonpad_json_read of the public API.
*/
#ifndef MP_CORE_JSON_PATH_H
#define MP_CORE_JSON_PATH_H

#include "base/buffer.h"

/* What is left of a path: "address.city", "items[2].name", "a[1][2]". */
typedef struct mp_path {
  moonpad_string rest;
} mp_path;
typedef struct mp_path_step {
  bool is_index;
  int64_t index;       /* from 1 */
  moonpad_string name; /* borrowed from the path */
} mp_path_step;
/*
** The next step. False at the end, or where the path is malformed: then `rest` is not empty.
** `first` is true for the first step, which has no dot.
*/
bool mp_path_next(mp_path *path, bool first, mp_path_step *step);
/*
** Checks a whole path before anything is read, so that a malformed path is an error whatever the
** data is.
*/
moonpad_status mp_check_path(moonpad_string path, moonpad_error *error);

/*
** The value at `path` below `root`; an empty path gives `root` itself. Nothing at that path: type
** ABSENT and MOONPAD_OK. `value` is borrowed from `root`, or from `scratch` (cleared first) if a
** string had escapes. Errors: invalid_argument (a malformed path, malformed JSON on the way),
** no_memory.
*/
moonpad_status mp_json_get(mp_env *env, const moonpad_value *root, moonpad_string path, mp_buffer *scratch,
                           moonpad_value *value, moonpad_error *error);

#endif
