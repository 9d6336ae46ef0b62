/* Escapes of JSON, and numbers that the inline path does not read. */
#include "core/json_lex.h"

#include "base/number.h"

/* Four hexadecimal digits, or -1. */
static int32_t parse_hex(const char *at, const char *end) {
  if (end - at < 4) return -1;
  int32_t code = 0;
  for (size_t i = 0; i < 4; i++) {
    char byte = at[i], letter = (char)(byte | 0x20);
    int32_t digit;
    if (byte >= '0' && byte <= '9') {
      digit = byte - '0';
    } else if (letter >= 'a' && letter <= 'f') {
      digit = letter - 'a' + 10;
    } else {
      return -1;
    }
    code = code << 4 | digit;
  }
  return code;
}

static const char *unicode_escape(const char **at, const char *end, uint32_t *code) {
  const char *begin = *at;
  int32_t unit = parse_hex(begin + 2, end), low = -1;
  if (unit < 0) return "\\u without four hexadecimal digits";
  size_t length = 6;
  if (unit >= 0xD800 && unit <= 0xDFFF) {
    if (unit < 0xDC00 && end - begin >= 12 && begin[6] == '\\' && begin[7] == 'u') low = parse_hex(begin + 8, end);
    if (low < 0xDC00 || low > 0xDFFF) return "a surrogate without its other half";
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    length = 12;
  }
  *code = (uint32_t)unit;
  *at = begin + length;
  return NULL;
}

const char *mp_json_escape(const char **at, const char *end, uint32_t *code) {
  static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  if (end - *at < 2) {
    *at = end;
    return "the text ends inside a string";
  }
  char name = (*at)[1];
  if (name == 'u') return unicode_escape(at, end, code);
  const char *found = name == '\0' ? NULL : strchr(names, name);
  if (found == NULL) return "an escape that JSON does not have";
  *code = (uint32_t)meanings[found - names];
  *at += 2;
  return NULL;
}

moonpad_value mp_json_long_number(mp_number_text number) {
  size_t length = (size_t)(number.end - number.begin);
  int64_t integer;
  double found;
  if (mp_number_is_integer(&number)) {
    if (mp_parse_integer(number.begin, length, &integer)) return moonpad_integer(integer);
  } else if (!number.has_exponent && mp_join_float(number.whole, number.whole_digits, number.fraction_digits, &found)) {
    return moonpad_float(number.whole != number.begin ? -found : found);
  }
  if (mp_parse_float(number.begin, length, &found)) return moonpad_float(found);
  moonpad_value none = moonpad_null_value();
  none.type = MOONPAD_ABSENT;
  return none;
}
