/*
** The limits that a service is configured with (contract 5): maxValueBytes, maxEventBytes and
** maxStateBytes, 0 for none; their defaults are those of moonpad_options_init (moonpad.h). Errors
** of all checks: limit, which tells both numbers and, of a value, the key.
**
** A value is checked where a whole key is written (changes/write.c), where a tool call commits
** (changes/transaction.c), where it is stored (append/decide.c, append/plan.c, shared/shared.c),
** and where state comes from outside (state_input.c, history/import.c). An event: append/decide.c,
** append/plan.c, history/import.c. A state: append/decide.c, append/plan.c, session/create.c,
** history/import.c. What a store adds up in a plan: store/plan.c. The encoder of Lua's values stops
** at the limit of a value or an event by itself (lua/codec/encode_errors.c, mp_encoder_fail_full).
**
** Fixed limits are in moonpad.h and store/store.h: keys are checked in core/scope.c, names in
** service/names.c, depth as said in core/json_reader.h, revisions in store/parts.c and
** store/plan.c.
*/
#ifndef MP_SERVICE_LIMITS_H
#define MP_SERVICE_LIMITS_H

#include "service/service.h"

/* A session's own state, a stored event. */
moonpad_status mp_check_state_size(const moonpad_service *service, size_t bytes, moonpad_error *error);
moonpad_status mp_check_event_size(const moonpad_service *service, size_t bytes, moonpad_error *error);
/* Can no number, boolean or null be too large? */
static inline bool mp_fits_small_scalars(const moonpad_service *service) {
  int64_t limit = service->options.max_value_bytes;
  return limit == 0 || limit >= MP_NUMBER_BYTES;
}

/* The long way of mp_check_value_size. */
moonpad_status mp_check_long_value_size(const moonpad_service *service, moonpad_string key, const mp_value *value,
                                        moonpad_error *error);
/* One state value against max_value_bytes; `key` without its prefix is fine for the message. */
static inline moonpad_status mp_check_value_size(const moonpad_service *service, moonpad_string key,
                                                 const mp_value *value, moonpad_error *error) {
  if (value == NULL || (mp_is_small_scalar(value->as.type) && mp_fits_small_scalars(service))) return MOONPAD_OK;
  return mp_check_long_value_size(service, key, value, error);
}

#endif
