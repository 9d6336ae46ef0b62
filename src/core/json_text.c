/* Writing JSON, walking over text that this library wrote, and paths. */
#include "core/json.h"

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "core/json_scan.h"

static const char hex_digits[] = "0123456789abcdef";

/* ---- writing ---- */

/* Writes the escape of a special byte; returns its length. */
static size_t write_escape(char out[6], unsigned char byte) {
  static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
  const char *letter = byte == 0 ? NULL : strchr(letters, byte);
  out[0] = '\\';
  if (letter != NULL) {
    out[1] = names[letter - letters];
    return 2;
  }
  memcpy(out + 1, "u00", 3);
  out[4] = hex_digits[byte >> 4];
  out[5] = hex_digits[byte & 15];
  return 6;
}

void mp_json_write_string(mp_buffer *out, moonpad_string text) {
  if (text.length > SIZE_MAX - 2 || !mp_buffer_room(out, text.length + 2)) {
    out->failed = true;
    return;
  }
  mp_buffer_add_char(out, '"');
  size_t begin = 0;
  uint64_t ignored = 0;
  while (text.length != 0) {
    size_t end = mp_json_plain_end(text.data, begin, text.length, &ignored);
    mp_buffer_add(out, text.data + begin, end - begin);
    if (end == text.length) break;
    char escape[6];
    mp_buffer_add(out, escape, write_escape(escape, (unsigned char)text.data[end]));
    begin = end + 1;
  }
  mp_buffer_add_char(out, '"');
}

moonpad_status moonpad_json_string(moonpad_string text, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  size_t valid = text.length == 0 ? 0 : mp_utf8_valid_prefix(text.data, text.length);
  if (valid < text.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "text: invalid UTF-8 at byte %zu", valid + 1);
  }
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return mp_no_memory(error);
  mp_buffer out;
  mp_buffer_init(&out, env);
  mp_json_write_string(&out, text);
  moonpad_status status = mp_buffer_hand_over(&out, json, error);
  mp_buffer_free(&out);
  mp_env_release(env);
  return status;
}

void mp_json_write_integer(mp_buffer *out, int64_t integer) {
  if (mp_buffer_room(out, MP_NUMBER_BYTES)) out->length += mp_format_integer(integer, out->data + out->length);
}

void mp_json_write_float(mp_buffer *out, double number) {
  if (mp_buffer_room(out, MP_NUMBER_BYTES)) out->length += mp_format_float(number, out->data + out->length);
}

/* ---- our own text ---- */

/* Is the quote after an odd number of backslashes? */
static bool is_escaped(const char *quote) {
  const char *before = quote;
  while (before[-1] == '\\') before--;
  return ((quote - before) & 1) != 0;
}

/* The offset after the string that begins at `position`. Text that this library wrote ends every string and holds no
** NUL byte, so that strchr is safe. */
static size_t own_string_end(const char *text, size_t position) {
  const char *quote = strchr(text + position + 1, '"');
  while (is_escaped(quote)) quote = strchr(quote + 1, '"');
  return (size_t)(quote - text) + 1;
}

size_t mp_json_own_end(const char *text, size_t position) {
  switch (text[position]) {
  case '"':
    return own_string_end(text, position);
  case 't':
  case 'n':
    return position + 4;
  case 'f':
    return position + 5;
  case '[':
  case '{':
    break;
  default:
    return position + strspn(text + position, "+-.0123456789eE");
  }
  size_t depth = 0;
  for (;;) {
    char byte = text[position];
    if (byte == '"') {
      position = own_string_end(text, position);
      continue;
    }
    position++;
    if (byte == '[' || byte == '{') depth++;
    if ((byte == ']' || byte == '}') && --depth == 0) return position;
  }
}

mp_json_shape mp_json_own_shape(moonpad_string text) {
  mp_json_shape shape = {0, 0};
  unsigned depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.length; i++) {
    char byte = text.data[i];
    if (in_string) {
      if (byte == '\\') i++;
      if (byte == '"') in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '[' || byte == '{') {
      shape.tables++;
      if (++depth > shape.depth) shape.depth = depth;
    } else if (byte == ']' || byte == '}') {
      depth--;
    }
  }
  return shape;
}

static uint32_t hex_value(const char *digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; i++) {
    unsigned char byte = (unsigned char)digits[i];
    value = value << 4 | (byte <= '9' ? byte - (uint32_t)'0' : (byte | 0x20u) - (uint32_t)'a' + 10);
  }
  return value;
}

/* At a backslash; returns the offset after the escape. */
static size_t unescape(const char *text, size_t position, mp_buffer *out) {
  static const char names[] = "bfnrt", letters[] = "\b\f\n\r\t";
  char name = text[position + 1];
  if (name != 'u') {
    const char *found = strchr(names, name);
    mp_buffer_add_char(out, found != NULL ? letters[found - names] : name);
    return position + 2;
  }
  uint32_t code = hex_value(text + position + 2);
  position += 6;
  if (code >= 0xD800 && code < 0xDC00) {
    code = 0x10000 + ((code - 0xD800) << 10) + (hex_value(text + position + 2) - 0xDC00);
    position += 6;
  }
  char bytes[4];
  mp_buffer_add(out, bytes, mp_utf8_encode(code, bytes));
  return position;
}

void mp_json_own_string(moonpad_string literal, mp_buffer *out) {
  size_t position = 1, last = literal.length - 1;
  uint64_t ignored = 0;
  if (!mp_buffer_room(out, literal.length)) return;
  while (position < last) {
    size_t end = mp_json_plain_end(literal.data, position, last, &ignored);
    mp_buffer_add(out, literal.data + position, end - position);
    position = end < last ? unescape(literal.data, end, out) : end;
  }
}

/* ---- paths ---- */

#define INDEX_DIGITS 18

/* At '['. False, and nothing taken, unless an index of digits follows. */
static bool take_index(moonpad_string *rest, mp_path_step *step) {
  size_t i = 1;
  int64_t index = 0;
  for (; i < rest->length && i <= INDEX_DIGITS && rest->data[i] >= '0' && rest->data[i] <= '9'; i++) {
    index = index * 10 + (rest->data[i] - '0');
  }
  if (index == 0 || i >= rest->length || rest->data[i] != ']') return false;
  step->is_index = true;
  step->index = index;
  step->name.data = NULL;
  step->name.length = 0;
  rest->data += i + 1;
  rest->length -= i + 1;
  return true;
}

bool mp_path_next(mp_path *path, bool first, mp_path_step *step) {
  moonpad_string *rest = &path->rest;
  if (rest->length == 0) return false;
  if (rest->data[0] == '[') return take_index(rest, step);
  size_t begin = first ? 0 : 1;
  if (!first && rest->data[0] != '.') return false;
  size_t end = begin;
  while (end < rest->length && rest->data[end] != '.' && rest->data[end] != '[' && rest->data[end] != ']') end++;
  if (end == begin || (end < rest->length && rest->data[end] == ']')) return false;
  step->is_index = false;
  step->index = 0;
  step->name.data = rest->data + begin;
  step->name.length = end - begin;
  rest->data += end;
  rest->length -= end;
  return true;
}
