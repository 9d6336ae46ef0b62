/*
** Reading back what a store has written: JSON as moonpad writes it, unless somebody has edited the
** database.
*/
#ifndef MP_STORE_STORED_H
#define MP_STORE_STORED_H

#include "core/value.h"

/*
** A state value: one reference for the caller. MOONPAD_CORRUPT (it is not JSON) or
** MOONPAD_NO_MEMORY, no message.
*/
moonpad_status mp_stored_value(mp_env *env, moonpad_string json, mp_value **value);
/*
** The JSON of an event: *json stays as it is, or is the compact text in `scratch`, which is
** cleared. MOONPAD_CORRUPT (it is no JSON object) or MOONPAD_NO_MEMORY, no message.
*/
moonpad_status mp_stored_event(mp_env *env, mp_buffer *scratch, moonpad_string *json);

#endif
