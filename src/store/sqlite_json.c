/*
** Checking text that comes out of a file. The file may have been damaged, or edited by hand, while the rest of the library walks over its own JSON
** without looking; so every value and event passes here first. One pass, nothing is copied.
*/
#include "base/utf8.h"
#include "core/json.h"
#include "core/json_scan.h"
#include "store/sqlite.h"

typedef struct checker {
  const char *text;
  size_t length;
  size_t at;
  uint64_t beyond; /* bits of 0x80 where there may be more than ASCII */
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
static bool check_escape(checker *check) {
  const char *at = check->text + check->at;
  if (at[1] != 'u') {
    check->at += 2;
    return at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL;
  }
  int unit = unicode_escape(at + 2);
  check->at += 6;
  if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return false;
  if (unit < 0xD800 || unit > 0xDBFF) return true;
  check->at += 6;
  if (at[6] != '\\' || at[7] != 'u') return false;
  unit = unicode_escape(at + 8);
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* The rest of a string that is more than plain ASCII, or stands near the end of the text. */
static bool check_long_string(checker *check) {
  for (;;) {
    check->at = mp_json_plain_end(check->text, check->at, check->length, &check->beyond);
    char byte = check->text[check->at];
    if (byte == '"') {
      check->at++;
      return true;
    }
    if (byte != '\\' || !check_escape(check)) return false;
  }
}

/* At the opening quote. */
static inline bool check_string(checker *check) {
  check->at++;
#if defined(MP_SCANS_16)
  for (; check->length - check->at >= 16; check->at += 16) {
    unsigned high, special = mp_json_special_16(check->text + check->at, &high);
    if (high != 0) check->beyond |= 0x80;
    if (special == 0) continue;
    size_t end = check->at + (size_t)__builtin_ctz(special);
    if (check->text[end] != '"') break;
    check->at = end + 1;
    return true;
  }
#endif
  return check_long_string(check);
}

static bool check_digits(checker *check) {
  size_t count = mp_count_digits(check->text + check->at, check->text + check->length);
  check->at += count;
  return count > 0;
}

static bool check_number(checker *check) {
  if (check->text[check->at] == '-') check->at++;
  if (check->text[check->at] == '0') {
    check->at++;
  } else if (!check_digits(check)) {
    return false;
  }
  if (check->text[check->at] == '.') {
    check->at++;
    if (!check_digits(check)) return false;
  }
  if ((check->text[check->at] | 0x20) == 'e') {
    check->at++;
    if (check->text[check->at] == '+' || check->text[check->at] == '-') check->at++;
    if (!check_digits(check)) return false;
  }
  return true;
}

static bool check_word(checker *check, const char *word, size_t length) {
  if (strncmp(check->text + check->at, word, length) != 0) return false;
  check->at += length;
  return true;
}

static bool check_scalar(checker *check) {
  switch (check->text[check->at]) {
  case '"':
    return check_string(check);
  case 't':
    return check_word(check, "true", 4);
  case 'f':
    return check_word(check, "false", 5);
  case 'n':
    return check_word(check, "null", 4);
  default:
    return check_number(check);
  }
}

/* The `"key":` before a member's value. */
static bool check_key(checker *check) {
  if (check->text[check->at] != '"' || !check_string(check) || check->text[check->at] != ':') return false;
  check->at++;
  return true;
}

static bool check_value(checker *check) {
  char closers[MP_JSON_DEPTH_LIMIT];
  unsigned depth = 0;
  for (;;) {
    char byte = check->text[check->at];
    if (byte == '{' || byte == '[') {
      if (depth == MP_JSON_DEPTH_LIMIT) return false;
      closers[depth++] = byte == '{' ? '}' : ']';
      check->at++;
      if (check->text[check->at] != closers[depth - 1]) {
        if (byte == '{' && !check_key(check)) return false;
        continue;
      }
    } else if (!check_scalar(check)) {
      return false;
    }
    while (depth > 0 && check->text[check->at] == closers[depth - 1]) {
      check->at++;
      depth--;
    }
    if (depth == 0) return true;
    if (check->text[check->at++] != ',') return false;
    if (closers[depth - 1] == '}' && !check_key(check)) return false;
  }
}

bool mp_sqlite_json_is_own(moonpad_string text) {
  checker check = {text.data, text.length, 0, 0};
  if (text.length == 0 || !check_value(&check) || check.at != text.length) return false;
  return !mp_json_beyond_ascii(check.beyond) || mp_utf8_valid_prefix(text.data, text.length) == text.length;
}
