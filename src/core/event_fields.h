/*
** The known fields of an event (contract 3) and of what it holds. Others are kept as they are, near
** misses of these are refused.
*/
#ifndef MP_CORE_EVENT_FIELDS_H
#define MP_CORE_EVENT_FIELDS_H

#include "moonpad.h"

typedef enum mp_field_kind {
  MP_FIELD_ANYTHING,
  MP_FIELD_TEXT,
  MP_FIELD_NUMBER,
  MP_FIELD_BOOLEAN,
  MP_FIELD_OBJECT,
  MP_FIELD_ARRAY,
  MP_FIELD_TEXT_LIST
} mp_field_kind;

typedef struct mp_field {
  const char *quoted; /* as it stands in canonical text, with the colon after it */
  const char *name;
  size_t length; /* of the name */
  mp_field_kind kind;
  char opening;                  /* how a value of that kind begins as a rule */
  uint64_t digest;               /* mp_digest_text of the name, made beforehand */
  const struct mp_field *inside; /* of an object: the names that are known in it; or NULL */
} mp_field;

/* The fields that are more than kept, among others. */
enum {
  MP_EVENT_ID,
  MP_EVENT_INVOCATION,
  MP_EVENT_TIMESTAMP,
  MP_EVENT_AUTHOR,
  MP_EVENT_CONTENT,
  MP_EVENT_ACTIONS,
  MP_EVENT_PARTIAL,
  MP_EVENT_REMOVED_KEYS,
  MP_EVENT_REVISION
};
enum { MP_ACTIONS_DELTA };
enum { MP_CONTENT_PARTS };

/* In the order in which they are mostly met, at most 32; each ends with a field without a name. */
extern const mp_field mp_event_fields[];
extern const mp_field mp_action_fields[];
extern const mp_field mp_content_fields[];
extern const mp_field mp_part_fields[];

/* Where an object stands in the event, spelt out only for an error. */
typedef struct mp_event_path {
  const char *name;
  int index; /* of a part; 0: none */
} mp_event_path;

/* NULL: not known. */
const mp_field *mp_field_find(const mp_field *fields, moonpad_string name);
/*
** For a name that is not known: is it a slip of the pen? At the top level, a field of `actions` is
** one as well.
*/
moonpad_status mp_field_refuse_near_miss(const mp_field *fields, mp_event_path where, moonpad_string name,
                                         moonpad_error *error);
/* The long way of mp_field_check. */
moonpad_status mp_field_check_closely(const mp_field *known, mp_event_path where, moonpad_string value,
                                      moonpad_error *error);
/* The value of a known field, as compact JSON: null stands for absent. */
static inline moonpad_status mp_field_check(const mp_field *known, mp_event_path where, moonpad_string value,
                                            moonpad_error *error) {
  return value.data[0] == known->opening ? MOONPAD_OK : mp_field_check_closely(known, where, value, error);
}
/* The value of such an object, as compact JSON: no name in it is a slip of the pen. */
moonpad_status mp_field_check_inside(const mp_field *object, mp_event_path where, moonpad_string value,
                                     moonpad_error *error);
/* "event.content.parts[2]: must be an object" */
moonpad_status mp_field_refuse(mp_event_path where, const char *problem, moonpad_error *error);

#endif
