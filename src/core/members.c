/* Walking this library's own JSON text (compact, valid) without decoding it. */
#include "core/event.h"

#include "core/json.h"
#include "core/scan.h"

mp_members mp_members_of(moonpad_string object) {
  mp_members members = {object.data, 1};
  return members;
}

/* The offset after the string literal that begins at `position`. */
static size_t literal_end(const char *text, size_t position) {
  for (position++; text[position] != '"'; position++) {
    if (text[position] == '\\') position++;
  }
  return position + 1;
}

bool mp_members_next(mp_members *members, moonpad_string *key, moonpad_string *value) {
  const char *text = members->text;
  size_t begin = members->position;
  if (text[begin] == ',') begin++;
  if (text[begin] == '}') return false;
  size_t key_end = literal_end(text, begin);
  key->data = text + begin + 1;
  key->length = key_end - begin - 2;
  size_t value_begin = key_end + 1;
  size_t value_end = mp_json_own_end(text, value_begin);
  value->data = text + value_begin;
  value->length = value_end - value_begin;
  members->position = value_end;
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

bool mp_literal_text(moonpad_string inside, mp_buffer *scratch, moonpad_string *text) {
  if (inside.length == 0 || memchr(inside.data, '\\', inside.length) == NULL) {
    *text = inside;
    return true;
  }
  moonpad_string literal = {inside.data - 1, inside.length + 2};
  mp_buffer_clear(scratch);
  mp_json_own_string(literal, scratch);
  *text = mp_buffer_text(scratch);
  return !scratch->failed;
}

uint64_t mp_json_digest(moonpad_string json) {
  mp_scan scan;
  moonpad_string all;
  uint64_t digest = 0;
  mp_scan_init(&scan, json, MP_JSON_DEPTH_LIMIT, true);
  (void)mp_scan_value(&scan, &all, &digest); /* our own text: it is valid */
  return digest;
}
