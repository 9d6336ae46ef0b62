/*
** Checking text that comes out of a file. The file may have been damaged, or edited by hand, while the rest of the library walks over its own JSON
** without looking; so every value and event passes here first. One pass, nothing is copied.
*/
#include "base/bytes.h"
#include "base/utf8.h"
#include "core/json.h"
#include "core/json_scan.h"
#include "store/sqlite.h"

/* Where the text ends, and what has been seen of it. Where it has been checked to is handed on: each check begins there and gives the place behind it, or NULL. */
typedef struct checker {
  const char *end;
  uint64_t beyond; /* not 0: there may be more than ASCII */
} checker;

static inline bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

static bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* Four digits of a \u escape, as a number; negative when they are none. */
static int unicode_escape(const char *at) {
  int number = 0;
  for (int i = 0; i < 4; i++) {
    if (!is_hex(at[i])) return -1;
    number = number * 16 + (is_digit(at[i]) ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
  }
  return number;
}

/* An escape at the backslash; surrogates come in pairs. The NUL after the text stops every look ahead. */
static const char *check_escape(const char *at) {
  if (at[1] != 'u') return at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL ? at + 2 : NULL;
  int unit = unicode_escape(at + 2);
  if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return NULL;
  if (unit < 0xD800 || unit > 0xDBFF) return at + 6;
  if (at[6] != '\\' || at[7] != 'u') return NULL;
  unit = unicode_escape(at + 8);
  return unit >= 0xDC00 && unit <= 0xDFFF ? at + 12 : NULL;
}

/* The rest of a string that has escapes, or stands near the end of the text. */
static const char *check_long_string(checker *check, const char *at) {
  for (;;) {
    uint64_t beyond = 0;
    at += mp_json_plain_end(at, 0, (size_t)(check->end - at), &beyond);
    if (mp_json_beyond_ascii(beyond)) check->beyond = 1;
    if (*at == '"') return at + 1;
    if (*at != '\\') return NULL;
    at = check_escape(at);
    if (at == NULL) return NULL;
  }
}

/* At the first character, behind the quote. */
MP_INLINE const char *check_string(checker *check, const char *at) {
#if defined(MP_SCANS_16)
  for (; check->end - at >= 16; at += 16) {
    unsigned high, special = mp_json_special_16(at, &high);
    check->beyond |= high;
    if (special == 0) continue;
    at += __builtin_ctz(special);
    if (*at == '"') return at + 1;
    break;
  }
#endif
  return check_long_string(check, at);
}

static const char *check_digits(const char *at, const char *end) {
  size_t count = mp_count_digits(at, end);
  return count > 0 ? at + count : NULL;
}

static const char *check_number(const char *at, const char *end) {
  if (*at == '-') at++;
  at = *at == '0' ? at + 1 : check_digits(at, end);
  if (at != NULL && *at == '.') at = check_digits(at + 1, end);
  if (at == NULL || (*at | 0x20) != 'e') return at;
  at++;
  return check_digits(*at == '+' || *at == '-' ? at + 1 : at, end);
}

static const char *check_word(const char *at, const char *word, size_t length) {
  return strncmp(at, word, length) == 0 ? at + length : NULL;
}

MP_INLINE const char *check_scalar(checker *check, const char *at) {
  switch (*at) {
  case '"':
    return check_string(check, at + 1);
  case 't':
    return check_word(at, "true", 4);
  case 'f':
    return check_word(at, "false", 5);
  case 'n':
    return check_word(at, "null", 4);
  default:
    return check_number(at, check->end);
  }
}

/* The `"key":` before a member's value. */
MP_INLINE const char *check_key(checker *check, const char *at) {
  if (*at != '"') return NULL;
  at = check_string(check, at + 1);
  return at != NULL && *at == ':' ? at + 1 : NULL;
}

static const char *check_value(checker *check, const char *at) {
  char outer[MP_JSON_DEPTH_LIMIT], closer = '\0'; /* what ends the innermost object or array, and those around it */
  unsigned depth = 0;
  for (;;) {
    char byte = *at;
    if (byte == '{' || byte == '[') {
      if (depth == MP_JSON_DEPTH_LIMIT) return NULL;
      outer[depth++] = closer;
      closer = byte == '{' ? '}' : ']';
      if (*++at != closer) {
        if (byte == '{') at = check_key(check, at);
        if (at == NULL) return NULL;
        continue;
      }
    } else {
      at = check_scalar(check, at);
      if (at == NULL) return NULL;
    }
    for (; depth > 0 && *at == closer; at++) closer = outer[--depth];
    if (depth == 0) return at;
    if (*at++ != ',') return NULL;
    if (closer == '}') at = check_key(check, at);
    if (at == NULL) return NULL;
  }
}

bool mp_sqlite_json_is_own(moonpad_string text) {
  if (text.length == 0) return false;
  checker check = {text.data + text.length, 0};
  if (check_value(&check, text.data) != check.end) return false;
  return check.beyond == 0 || mp_utf8_valid_prefix(text.data, text.length) == text.length;
}
