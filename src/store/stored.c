/* Reading back values and events. */
#include "store/stored.h"

#include "core/json_compact.h"
#include "core/json_scan.h"

moonpad_status mp_stored_value(mp_env *env, moonpad_string json, mp_value **value) {
  if (mp_scan_check(json)) {
    *value = mp_value_from_trusted_json(env, json);
    return *value == NULL ? MOONPAD_NO_MEMORY : MOONPAD_OK;
  }
  /* Not as moonpad writes it: somebody may have edited it, with white space, say. */
  moonpad_status status = mp_value_parse(env, json, NULL, value, NULL);
  return status == MOONPAD_OK || status == MOONPAD_NO_MEMORY ? status : MOONPAD_CORRUPT;
}

moonpad_status mp_stored_event(mp_env *env, mp_buffer *scratch, moonpad_string *json) {
  if (json->length > 0 && json->data[0] == '{' && mp_scan_check(*json)) return MOONPAD_OK;
  moonpad_type type = MOONPAD_ABSENT;
  mp_buffer_clear(scratch);
  moonpad_status status = mp_json_compact(env, *json, MP_JSON_DEPTH_LIMIT, "event", scratch, &type, NULL);
  if (status == MOONPAD_NO_MEMORY || scratch->failed) return MOONPAD_NO_MEMORY;
  if (status != MOONPAD_OK || type != MOONPAD_OBJECT) return MOONPAD_CORRUPT;
  *json = mp_buffer_text(scratch);
  return MOONPAD_OK;
}
