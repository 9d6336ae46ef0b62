/*
** Reading trusted JSON: text that this library wrote or has checked, so it is valid and canonical
** (compact, one spelling). Nothing is checked again here, and nothing is decoded that nobody
** asks for.
*/
#ifndef MP_CORE_JSON_TRUSTED_H
#define MP_CORE_JSON_TRUSTED_H

#include "base/buffer.h"

/*
** The offset after the value that begins at `position`. A number must be followed by a byte that
** cannot belong to it, as in an array or object.
*/
size_t mp_json_trusted_end(const char *text, size_t position);

typedef struct mp_json_shape {
  unsigned depth; /* nesting: 0 for a scalar */
  size_t tables;  /* arrays and objects, itself included */
} mp_json_shape;
mp_json_shape mp_json_trusted_shape(moonpad_string text);

/* ---- arrays and objects ---- */

/* Iterators over the members of an object and the items of an array. */
typedef struct mp_members {
  const char *text;
  size_t position;
} mp_members;
typedef struct mp_items {
  const char *text;
  size_t position;
} mp_items;
static inline mp_members mp_members_of(moonpad_string object) {
  return (mp_members){object.data, 1};
}
static inline mp_items mp_items_of(moonpad_string array) {
  return (mp_items){array.data, 1};
}
/* False at the end. `key` is the text between the quotes, escapes not decoded. */
bool mp_members_next(mp_members *members, moonpad_string *key, moonpad_string *value);
bool mp_items_next(mp_items *items, moonpad_string *item);
/*
** The value of a member. `name` needs no escapes. False if it is absent or `object` is no object.
*/
bool mp_member_find(moonpad_string object, const char *name, moonpad_string *value);

/* ---- scalars ---- */

/* The text between the quotes of a string literal. */
static inline moonpad_string mp_literal_inside(moonpad_string literal) {
  return (moonpad_string){literal.data + 1, literal.length - 2};
}
/* Has the text between the quotes no escapes? */
static inline bool mp_is_plain(moonpad_string inside) {
  return inside.length == 0 || memchr(inside.data, '\\', inside.length) == NULL;
}
/*
** Decodes the text between the quotes. *text is borrowed from `inside`, or from `scratch` if there
** are escapes. False when out of memory.
*/
bool mp_literal_text(moonpad_string inside, mp_buffer *scratch, moonpad_string *text);
/* Appends the decoded characters of a string literal (quotes included) to `out`. */
void mp_json_trusted_string(moonpad_string literal, mp_buffer *out);
/* An integer or a float. */
moonpad_value mp_json_trusted_number(moonpad_string text);

#endif
