/*
** JSON of RFC 8259, strict: a pull reader (no tree, no recursion) and writers. Integers of 64
** bits and doubles are kept apart: a number with '.', 'e' or 'E', or one beyond 64 bits, is a
** float. Duplicate keys are an error. Depth is limited.
*/
#ifndef MP_CORE_JSON_H
#define MP_CORE_JSON_H

#include "base/buffer.h"

typedef enum mp_json_token {
  MP_JSON_END = 0, /* the one value is complete and only white space follows */
  MP_JSON_ERROR,   /* see `problem` and `position` */
  MP_JSON_OBJECT_BEGIN,
  MP_JSON_OBJECT_END,
  MP_JSON_ARRAY_BEGIN,
  MP_JSON_ARRAY_END,
  MP_JSON_KEY,    /* `string` */
  MP_JSON_STRING, /* `string` */
  MP_JSON_INTEGER,
  MP_JSON_FLOAT,
  MP_JSON_TRUE,
  MP_JSON_FALSE,
  MP_JSON_NULL
} mp_json_token;

#define MP_JSON_DEPTH_LIMIT 192 /* hard limit of the reader's own stack */

typedef struct mp_json_reader {
  const char *text;
  size_t length;
  size_t position;       /* of the next byte; on error, of the byte at fault */
  size_t token_position; /* where the last token began */
  unsigned depth;
  unsigned max_depth;
  bool in_array[MP_JSON_DEPTH_LIMIT];
  int expecting; /* private */
  /* borrowed from the text, or from `scratch` where it had escapes; until the next token */
  moonpad_string string;
  int64_t integer;
  double number;
  mp_buffer scratch;
  const char *problem; /* a constant; "out of memory" is one of them */
} mp_json_reader;

/*
** `max_depth` at most MP_JSON_DEPTH_LIMIT. Free it with mp_json_reader_free. Duplicate keys are not
** checked by the pull reader itself.
*/
void mp_json_reader_init(mp_json_reader *reader, mp_env *env, moonpad_string text, unsigned max_depth);
void mp_json_reader_free(mp_json_reader *reader);
mp_json_token mp_json_next(mp_json_reader *reader);
/* After a token that begins a value: reads to its end. False on error. */
bool mp_json_skip(mp_json_reader *reader, mp_json_token token);
/*
** Fills `error` from the reader's problem: "WHERE: PROBLEM at byte N", counted from 1
** (invalid_argument, or no_memory).
*/
moonpad_status mp_json_fail(const mp_json_reader *reader, const char *where, moonpad_error *error);

/*
** Checks `text` strictly (duplicate keys too) and writes it compact to `out`; gives the type of
** the value.
*/
moonpad_status mp_json_compact(mp_env *env, moonpad_string text, unsigned max_depth, const char *where, mp_buffer *out,
                               moonpad_type *type, moonpad_error *error);

/*
** ---- Text that this library wrote: valid and compact (json_own.c) ----
**
** The end of the value that begins at `position`. A number must have something after it, as in an
** array or object.
*/
size_t mp_json_trusted_end(const char *text, size_t position);
/* How deep a value is nested (0 of a scalar), and how many arrays and objects are in it. */
typedef struct mp_json_shape {
  unsigned depth;
  size_t tables;
} mp_json_shape;
mp_json_shape mp_json_trusted_shape(moonpad_string text);

/* Walks over the members of an object, or the items of an array. */
typedef struct mp_members {
  const char *text;
  size_t position;
} mp_members, mp_items;
static inline mp_members mp_members_of(moonpad_string object) {
  return (mp_members){object.data, 1};
}
static inline mp_items mp_items_of(moonpad_string array) {
  return (mp_items){array.data, 1};
}
/* False at the end. `key` is what stands between the quotes, escapes included. */
bool mp_members_next(mp_members *members, moonpad_string *key, moonpad_string *value);
bool mp_items_next(mp_items *items, moonpad_string *item);
/* A member by a name without escapes; false when it is not there, or `object` is none. */
bool mp_member_find(moonpad_string object, const char *name, moonpad_string *value);

/* What stands between the quotes of a string literal. */
static inline moonpad_string mp_literal_inside(moonpad_string literal) {
  return (moonpad_string){literal.data + 1, literal.length - 2};
}
/* Has it no escapes? */
static inline bool mp_is_plain(moonpad_string inside) {
  return inside.length == 0 || memchr(inside.data, '\\', inside.length) == NULL;
}
/*
** The characters of what stands between the quotes; `scratch` is used where it has escapes. False
** when out of memory.
*/
bool mp_literal_text(moonpad_string inside, mp_buffer *scratch, moonpad_string *text);
/* Adds the characters of a string literal (quotes included). */
void mp_json_trusted_string(moonpad_string literal, mp_buffer *out);

/* An integer, or a float. */
moonpad_value mp_json_trusted_number(moonpad_string text);

/* A hash that does not depend on the order of members. */
uint64_t mp_json_digest(moonpad_string json);

void mp_json_write_string(mp_buffer *out,
                          /* valid UTF-8; escapes ", \ and U+0000 to U+001F only */
                          moonpad_string text);
/*
** The key and colon of a member of the object that `out` ends in, behind a comma where it is not
** the first.
*/
static inline void mp_json_write_key(mp_buffer *out, moonpad_string key) {
  if (out->length != 0 && out->data[out->length - 1] != '{') mp_buffer_add_char(out, ',');
  mp_json_write_string(out, key);
  mp_buffer_add_char(out, ':');
}
void mp_json_write_integer(mp_buffer *out, int64_t integer);
void mp_json_write_float(mp_buffer *out, double number);

/* A path into a value: "address.city", "items[2].name", "a[1][2]". */
typedef struct mp_path {
  moonpad_string rest;
} mp_path;
typedef struct mp_path_step {
  bool is_index;
  int64_t index;       /* from 1 */
  moonpad_string name; /* borrowed from the path */
} mp_path_step;
/*
** The next step; false at the end or where the path is malformed (then `rest` is not empty).
** `first` is true for the first step, which has no dot.
*/
bool mp_path_next(mp_path *path, bool first, mp_path_step *step);

#endif
