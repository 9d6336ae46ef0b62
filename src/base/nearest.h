/* Names of fields and options: the one that a wrong name was probably meant to be. */
#ifndef MP_BASE_NEAREST_H
#define MP_BASE_NEAREST_H

#include "moonpad.h"

/* One of `known`, which ends with NULL; or NULL: none is near. */
const char *mp_nearest_name(moonpad_string given, const char *const *known);

#endif
