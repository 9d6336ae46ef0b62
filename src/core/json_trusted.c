/* Iterating over trusted JSON without decoding it, and decoding its scalars. */
#include "core/json_trusted.h"

#include "base/utf8.h"
#include "core/json_lex.h"

/* ---- where a value ends ---- */

/* Is the quote after an odd number of backslashes? */
static bool is_escaped(const char *quote) {
  const char *before = quote;
  while (before[-1] == '\\') before--;
  return ((quote - before) & 1) != 0;
}

/*
** The offset after the string that begins at `position`. In valid JSON every string ends and there
** is no NUL byte, so strchr is safe.
*/
static size_t string_end(const char *text, size_t position) {
  const char *quote = strchr(text + position + 1, '"');
  while (is_escaped(quote)) quote = strchr(quote + 1, '"');
  return (size_t)(quote - text) + 1;
}

/* At '[' or '{': the offset after its closing bracket. Updates `shape`. */
static inline size_t composite_end(const char *text, size_t position, mp_json_shape *shape) {
  unsigned depth = 0;
  for (;;) {
    char byte = text[position];
    if (byte == '"') {
      position = string_end(text, position);
      continue;
    }
    position++;
    if (byte == '[' || byte == '{') {
      shape->tables++;
      if (++depth > shape->depth) shape->depth = depth;
    }
    if ((byte == ']' || byte == '}') && --depth == 0) return position;
  }
}

size_t mp_json_trusted_end(const char *text, size_t position) {
  mp_json_shape ignored = {0, 0};
  switch (text[position]) {
  case '"':
    return string_end(text, position);
  case 't':
  case 'n':
    return position + 4;
  case 'f':
    return position + 5;
  case '[':
  case '{':
    return composite_end(text, position, &ignored);
  default:
    return position + strspn(text + position, "+-.0123456789eE");
  }
}

mp_json_shape mp_json_trusted_shape(moonpad_string text) {
  mp_json_shape shape = {0, 0};
  if (text.data[0] == '[' || text.data[0] == '{') (void)composite_end(text.data, 0, &shape);
  return shape;
}

/* ---- iterators ---- */

bool mp_items_next(mp_items *items, moonpad_string *item) {
  const char *text = items->text;
  size_t begin = items->position;
  if (text[begin] == ',') begin++;
  if (text[begin] == ']') return false;
  items->position = mp_json_trusted_end(text, begin);
  *item = (moonpad_string){text + begin, items->position - begin};
  return true;
}

bool mp_members_next(mp_members *members, moonpad_string *key, moonpad_string *value) {
  const char *text = members->text;
  size_t begin = members->position;
  if (text[begin] == ',') begin++;
  if (text[begin] == '}') return false;
  size_t colon = string_end(text, begin);
  members->position = mp_json_trusted_end(text, colon + 1);
  *key = (moonpad_string){text + begin + 1, colon - begin - 2};
  *value = (moonpad_string){text + colon + 1, members->position - colon - 1};
  return true;
}

bool mp_member_find(moonpad_string object, const char *name, moonpad_string *value) {
  if (object.length == 0 || object.data[0] != '{') return false;
  size_t length = strlen(name);
  mp_members members = mp_members_of(object);
  moonpad_string key;
  while (mp_members_next(&members, &key, value)) {
    if (key.length == length && memcmp(key.data, name, length) == 0) return true;
  }
  return false;
}

/* ---- strings ---- */

void mp_json_trusted_string(moonpad_string literal, mp_buffer *out) {
  const char *at = literal.data + 1, *last = literal.data + literal.length - 1;
  uint64_t ignored = 0;
  if (!mp_buffer_room(out, literal.length)) return;
  for (;;) {
    size_t plain = mp_json_plain_end(at, 0, (size_t)(last - at), &ignored);
    mp_buffer_add(out, at, plain);
    at += plain;
    if (at == last) return;
    uint32_t code = 0;
    char bytes[4];
    (void)mp_json_escape(&at, last, &code);
    mp_buffer_add(out, bytes, mp_utf8_encode(code, bytes));
  }
}

moonpad_value mp_json_trusted_number(moonpad_string text) {
  mp_number_text number;
  (void)mp_json_scan_number(text.data, text.data + text.length, &number);
  return mp_json_number(&number);
}

bool mp_literal_text(moonpad_string inside, mp_buffer *scratch, moonpad_string *text) {
  *text = inside;
  if (mp_is_plain(inside)) return true;
  mp_buffer_clear(scratch);
  mp_json_trusted_string((moonpad_string){inside.data - 1, inside.length + 2}, scratch);
  *text = mp_buffer_text(scratch);
  return !scratch->failed;
}
