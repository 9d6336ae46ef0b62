/*
** The keys of a head that were changed last: a reader that is a little behind reads these rows
** instead of every key. The head stores them as [AS_OF,FLOOR,"KEY",REVISION,...]. All keys that
** were changed after FLOOR are in the list, provided that the head's revision is AS_OF: otherwise a
** version of moonpad that does not know the list has changed the head. A key that is written again
** moves to the front, so a key that is written all the time is in the list once. An entry that no
** longer fits is dropped, and its revision becomes the floor.
*/
#include <string.h>

#include "base/digits.h"
#include "base/number.h"
#include "store/sqlite/sqlite.h"

#define MOST_DIGITS 18

/* A key that needs no escapes in JSON, and is short enough to leave room for others. */
static bool is_listable(moonpad_string key) {
  if (key.length > MP_SQLITE_RECENT_BYTES / 2) return false;
  for (size_t i = 0; i < key.length; i++) {
    if ((unsigned char)key.data[i] < 0x20 || key.data[i] == '"' || key.data[i] == '\\') return false;
  }
  return true;
}

static bool skip(moonpad_string text, size_t *at, char expected) {
  if (*at >= text.length || text.data[*at] != expected) return false;
  ++*at;
  return true;
}

static bool read_number(moonpad_string text, size_t *at, int64_t *number) {
  size_t count = mp_count_digits(text.data + *at, text.data + text.length);
  if (count == 0 || count > MOST_DIGITS) return false;
  *number = (int64_t)mp_digits_value(0, text.data + *at, count);
  *at += count;
  return true;
}

static bool read_entry(moonpad_string text, size_t *at, moonpad_string *key, int64_t *revision) {
  if (!skip(text, at, ',') || !skip(text, at, '"')) return false;
  const char *end = memchr(text.data + *at, '"', text.length - *at);
  if (end == NULL) return false;
  *key = (moonpad_string){text.data + *at, (size_t)(end - text.data) - *at};
  *at += key->length + 1;
  return skip(text, at, ',') && read_number(text, at, revision);
}

static bool read_list(mp_sqlite_recent *recent, moonpad_string text) {
  size_t at = 0;
  moonpad_string key;
  int64_t revision;
  bool begins = skip(text, &at, '[') && read_number(text, &at, &recent->as_of) && skip(text, &at, ',') &&
                read_number(text, &at, &recent->floor);
  if (!begins) return false;
  const char *entries = text.data + at;
  while (at < text.length && text.data[at] == ',') {
    if (!read_entry(text, &at, &key, &revision) || !is_listable(key)) return false;
  }
  recent->length = (size_t)(text.data + at - entries);
  if (!skip(text, &at, ']') || at != text.length || recent->length > MP_SQLITE_RECENT_BYTES) return false;
  memcpy(recent->entries, entries, recent->length);
  return true;
}

void mp_sqlite_recent_read(mp_sqlite_recent *recent, moonpad_string text, int64_t revision) {
  if (text.length > 0 && read_list(recent, text) && recent->as_of == revision) return;
  mp_sqlite_recent_reset(recent, revision);
}

void mp_sqlite_recent_reset(mp_sqlite_recent *recent, int64_t revision) {
  recent->as_of = recent->floor = revision;
  recent->length = 0;
}

bool mp_sqlite_recent_next(const mp_sqlite_recent *recent, size_t *position, moonpad_string *key, int64_t *revision) {
  return read_entry((moonpad_string){recent->entries, recent->length}, position, key, revision);
}

/* ---- changing the list: no key in it has a quote, so quotes separate the entries ---- */

/* Where the entry of a key begins, and in *end where it ends; the end of the list: it has none. */
static size_t find_entry(const mp_sqlite_recent *recent, moonpad_string key, size_t *end) {
  const char *list_end = recent->entries + recent->length, *at = recent->entries;
  while (at < list_end) {
    const char *name = at + 2, *name_end = name;
    while (*name_end != '"') name_end++;
    for (at = name_end + 1; at < list_end && *at != '"';) at++;
    /* Back to the comma. */
    if (at < list_end) at--;
    if ((size_t)(name_end - name) != key.length || memcmp(name, key.data, key.length) != 0) continue;
    *end = (size_t)(at - recent->entries);
    return (size_t)(name - 2 - recent->entries);
  }
  *end = recent->length;
  return recent->length;
}

/* Drops the last entry of a list that is not empty. */
static void drop_last(mp_sqlite_recent *recent) {
  size_t at = recent->length;
  while (recent->entries[at - 1] != '"') at--;
  int64_t revision = (int64_t)mp_digits_value(0, recent->entries + at + 1, recent->length - at - 1);
  if (revision > recent->floor) recent->floor = revision;
  for (at--; recent->entries[at - 1] != '"';) at--;
  recent->length = at - 2;
}

void mp_sqlite_recent_add(mp_sqlite_recent *recent, moonpad_string key, int64_t revision) {
  if (!is_listable(key)) {
    if (revision > recent->floor) recent->floor = revision;
    return;
  }
  char digits[MP_NUMBER_BYTES];
  size_t count = mp_format_integer(revision, digits);
  size_t length = key.length + count + 4;
  size_t end, begin = find_entry(recent, key, &end);
  while (begin + length + recent->length - end > MP_SQLITE_RECENT_BYTES) {
    if (begin < end && end == recent->length) {
      /* The key's old entry is the last one: drop it. */
      recent->length = end = begin;
      continue;
    }
    drop_last(recent);
    if (begin > recent->length) begin = end = recent->length;
  }
  /* The entries before the old one move back; the new one goes to the front. */
  memmove(recent->entries + begin + length, recent->entries + end, recent->length - end);
  memmove(recent->entries + length, recent->entries, begin);
  recent->length += length - (end - begin);
  char *at = recent->entries;
  *at++ = ',';
  *at++ = '"';
  memcpy(at, key.data, key.length);
  at += key.length;
  *at++ = '"';
  *at++ = ',';
  memcpy(at, digits, count);
}

moonpad_string mp_sqlite_recent_write(const mp_sqlite_recent *recent, char text[MP_SQLITE_RECENT_TEXT]) {
  char *at = text;
  *at++ = '[';
  at += mp_format_integer(recent->as_of, at);
  *at++ = ',';
  at += mp_format_integer(recent->floor, at);
  memcpy(at, recent->entries, recent->length);
  at += recent->length;
  *at++ = ']';
  return (moonpad_string){text, (size_t)(at - text)};
}
