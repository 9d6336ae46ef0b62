/* What is too large for a service (contract 5). */
#include "service/limits.h"

#include "base/error.h"

moonpad_status mp_check_long_value_size(const moonpad_service *service, moonpad_string key, const mp_value *value,
                                        moonpad_error *error) {
  int64_t limit = service->options.max_value_bytes;
  if (limit == 0) return MOONPAD_OK;
  if (mp_value_size(value) <= (size_t)limit) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_LIMIT, "state[%s]: %zu bytes, and maxValueBytes is %lld", mp_quote(key).text,
                 mp_value_size(value), (long long)limit);
}

moonpad_status mp_check_state_size(const moonpad_service *service, size_t bytes, moonpad_error *error) {
  int64_t limit = service->options.max_state_bytes;
  if (limit == 0 || bytes <= (size_t)limit) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_LIMIT, "state: %zu bytes, and maxStateBytes is %lld", bytes, (long long)limit);
}

moonpad_status mp_check_event_size(const moonpad_service *service, size_t bytes, moonpad_error *error) {
  int64_t limit = service->options.max_event_bytes;
  if (limit == 0 || bytes <= (size_t)limit) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_LIMIT, "the event: %zu bytes, and maxEventBytes is %lld", bytes, (long long)limit);
}
