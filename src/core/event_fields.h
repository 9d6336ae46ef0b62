/*
** The known fields of an event and of the objects in it (contract 3). Unknown fields are stored as
** they are; near misses of known names are refused.
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
  const char *quoted; /* "\"name\":", as in canonical text */
  const char *name;
  size_t length; /* of the name */
  mp_field_kind kind;
  char opening;                  /* the usual first byte of a value of this kind */
  uint64_t digest;               /* mp_digest_text of the name, precomputed */
  const struct mp_field *inside; /* of an object: the fields known in it, or NULL */
} mp_field;

/* Positions in the tables below of the fields that the library itself looks at. */
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

/* At most 32 each, the most frequent order first. The last field of a table has no name. */
extern const mp_field mp_event_fields[];
extern const mp_field mp_action_fields[];
extern const mp_field mp_content_fields[];
extern const mp_field mp_part_fields[];

/* Which object of the event is being read. Only error messages spell it out. */
typedef struct mp_event_path {
  const char *name;
  int index; /* of an item of a list, from 1; 0: none */
} mp_event_path;

/* NULL if the name is not known. */
const mp_field *mp_field_find(const mp_field *fields, moonpad_string name);
/*
** Refuses an unknown name that differs from a known one only by case or underscores. At the top
** level, the name of a field of `actions` is refused too. Errors: invalid_argument.
*/
moonpad_status mp_field_refuse_near_miss(const mp_field *fields, mp_event_path where, moonpad_string name,
                                         moonpad_error *error);
/* The slow path of mp_field_check. */
moonpad_status mp_field_check_closely(const mp_field *known, mp_event_path where, moonpad_string value,
                                      moonpad_error *error);
/* Checks the type of a known field's value (canonical JSON). null counts as absent. */
static inline moonpad_status mp_field_check(const mp_field *known, mp_event_path where, moonpad_string value,
                                            moonpad_error *error) {
  return value.data[0] == known->opening ? MOONPAD_OK : mp_field_check_closely(known, where, value, error);
}
/* Refuses near misses among the names inside an object whose field has `inside`. */
moonpad_status mp_field_check_inside(const mp_field *object, mp_event_path where, moonpad_string value,
                                     moonpad_error *error);
/* Fails with "WHERE: PROBLEM", as in "event.content.parts[2]: must be an object". */
moonpad_status mp_field_refuse(mp_event_path where, const char *problem, moonpad_error *error);

#endif
