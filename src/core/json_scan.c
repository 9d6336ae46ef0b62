/* The scanner for canonical JSON. It recurses; nesting is limited, so recursion is too. */
#include "core/json_scan.h"

#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

void mp_scan_init(mp_scan *scan, moonpad_string text, unsigned max_depth, mp_scan_kind kind) {
  scan->at = text.data;
  scan->end = text.data + text.length;
  scan->escaped = false;
  scan->kind = kind;
  scan->depth = 0;
  scan->max_depth = max_depth;
  scan->deepest = 0;
  scan->key_count = 0;
}

/* ---- strings ---- */

/*
** The escapes of canonical text, except \u00XX of other control characters: those are rare enough
** to go through the compactor.
*/
static bool is_written_escape(char name) {
  return name == '"' || name == '\\' || name == 'n' || name == 't' || name == 'r' || name == 'b' || name == 'f';
}

/* At a backslash. Returns the byte after the escape, or NULL. */
static const char *escape_end(const mp_scan *scan, const char *at) {
  uint32_t code;
  if (scan->kind == MP_SCAN_VALID) return mp_json_escape(&at, scan->end, &code) == NULL ? at : NULL;
  if (scan->end - at < 2) return NULL;
  return scan->kind == MP_SCAN_TRUSTED || is_written_escape(at[1]) ? at + 2 : NULL;
}

const char *mp_scan_long_string_end(mp_scan *scan, const char *begin) {
  size_t length = (size_t)(scan->end - begin), position = 0;
  uint64_t non_ascii = 0;
  scan->escaped = false;
  for (;;) {
    position = mp_json_plain_end(begin, position, length, &non_ascii);
    if (position == length) return NULL;
    if (begin[position] == '"') break;
    const char *behind = begin[position] == '\\' ? escape_end(scan, begin + position) : NULL;
    if (behind == NULL) return NULL;
    scan->escaped = true;
    position = (size_t)(behind - begin);
  }
  bool valid = scan->kind == MP_SCAN_TRUSTED || !mp_json_has_non_ascii(non_ascii) ||
               mp_utf8_valid_prefix(begin, position) == position;
  return valid ? begin + position : NULL;
}

/* ---- numbers ---- */

/* Floats of up to this many digits read back as the same text. */
#define SURE_FLOAT_DIGITS 15

static bool is_as_formatted(const mp_number_text *number) {
  char formatted[MP_NUMBER_BYTES];
  moonpad_value value = mp_json_number(number);
  if (value.type == MOONPAD_ABSENT) return false;
  size_t length = value.type == MOONPAD_INTEGER ? mp_format_integer(value.as.integer, formatted)
                                                : mp_format_float(value.as.number, formatted);
  return length == (size_t)(number->end - number->begin) && memcmp(formatted, number->begin, length) == 0;
}

/*
** True only if formatting the number gives this text. Few enough digits identify one double, so
** only needless zeros have to be ruled out.
*/
static inline bool is_surely_canonical(const mp_number_text *number) {
  /* The second: 0, -0, 0.5, 0.000001. */
  if (number->has_exponent || number->whole[0] == '0') return false;
  if (number->fraction_digits == 0) return number->whole_digits <= MP_SHORT_INTEGER;
  return number->whole_digits + number->fraction_digits <= SURE_FLOAT_DIGITS &&
         (number->end[-1] != '0' || number->fraction_digits == 1);
}

bool mp_scan_number(mp_scan *scan, moonpad_string *text, bool *canonical) {
  mp_number_text number;
  if (!mp_json_scan_number(scan->at, scan->end, &number)) return false;
  *text = (moonpad_string){number.begin, (size_t)(number.end - number.begin)};
  scan->at = number.end;
  *canonical = scan->kind == MP_SCAN_TRUSTED || is_surely_canonical(&number) || is_as_formatted(&number);
  return true;
}

/* ---- arrays and objects ---- */

static bool scan_object(mp_scan *scan, uint64_t *digest) {
  mp_scan_inside inside;
  moonpad_string key, text;
  uint64_t sum = MP_DIGEST_OBJECT, value;
  if (!mp_scan_enter(scan, &inside)) return false;
  for (;;) {
    mp_scan_step step = mp_scan_next(scan, &inside, '}');
    if (step == MP_SCAN_DONE) break;
    if (step == MP_SCAN_FAILED || !mp_scan_key(scan, &key)) return false;
    uint64_t hash = mp_digest_text(key);
    if (!mp_scan_add_key(scan, &inside, hash) || !mp_scan_value(scan, &text, &value)) return false;
    sum += mp_digest_mix(hash, value);
  }
  *digest = mp_digest_object_end(sum);
  return true;
}

static bool scan_array(mp_scan *scan, uint64_t *digest) {
  mp_scan_inside inside;
  moonpad_string text;
  uint64_t chain = MP_DIGEST_ARRAY, item;
  if (!mp_scan_enter(scan, &inside)) return false;
  for (;;) {
    mp_scan_step step = mp_scan_next(scan, &inside, ']');
    if (step == MP_SCAN_DONE) break;
    if (step == MP_SCAN_FAILED || !mp_scan_value(scan, &text, &item)) return false;
    chain = mp_digest_mix(chain, item);
  }
  *digest = mp_digest_array_end(chain);
  return true;
}

static bool scan_word(mp_scan *scan, const char *word, size_t length) {
  if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0) return false;
  scan->at += length;
  return true;
}

/* A number or word. */
static bool scan_scalar(mp_scan *scan, uint64_t *digest) {
  moonpad_string text = {scan->at, 4};
  bool canonical = true;
  switch (*scan->at) {
  case 't':
    if (!scan_word(scan, "true", 4)) return false;
    break;
  case 'f':
    text.length = 5;
    if (!scan_word(scan, "false", 5)) return false;
    break;
  case 'n':
    if (!scan_word(scan, "null", 4)) return false;
    break;
  default:
    if (!mp_scan_number(scan, &text, &canonical) || !canonical) return false;
    break;
  }
  *digest = mp_digest_text(text);
  return true;
}

bool mp_scan_any(mp_scan *scan, uint64_t *digest) {
  if (scan->at >= scan->end) return false;
  if (*scan->at == '{') return scan_object(scan, digest);
  if (*scan->at == '[') return scan_array(scan, digest);
  return scan_scalar(scan, digest);
}

uint64_t mp_json_digest(moonpad_string json) {
  mp_scan scan;
  moonpad_string all;
  uint64_t digest = 0;
  mp_scan_init(&scan, json, MP_JSON_DEPTH_LIMIT, MP_SCAN_TRUSTED);
  /* Trusted: it is valid. */
  (void)mp_scan_value(&scan, &all, &digest);
  return digest;
}

/*
** ---- mp_scan_check ----
**
** The position is passed along instead of kept in the scan, so that it stays in a register. Each
** function returns the byte after what it checked, or NULL. The NUL after the text ends every look
** ahead.
*/

MP_INLINE const char *valid_string_end(mp_scan *scan, const char *at) {
  const char *quote = *at == '"' ? mp_scan_string_end(scan, at + 1) : NULL;
  return quote == NULL ? NULL : quote + 1;
}

MP_INLINE const char *valid_key_end(mp_scan *scan, const char *at) {
  at = valid_string_end(scan, at);
  return at != NULL && *at == ':' ? at + 1 : NULL;
}

static const char *valid_word_end(const char *at, const char *word, size_t length) {
  return strncmp(at, word, length) == 0 ? at + length : NULL;
}

static const char *valid_number_end(const mp_scan *scan, const char *at) {
  mp_number_text number;
  if (!mp_json_scan_number(at, scan->end, &number)) return NULL;
  bool may_be_too_large = number.has_exponent || number.whole_digits > 300;
  return may_be_too_large && mp_json_long_number(number).type == MOONPAD_ABSENT ? NULL : number.end;
}

MP_INLINE const char *valid_scalar_end(mp_scan *scan, const char *at) {
  switch (*at) {
  case '"':
    return valid_string_end(scan, at);
  case 't':
    return valid_word_end(at, "true", 4);
  case 'f':
    return valid_word_end(at, "false", 5);
  case 'n':
    return valid_word_end(at, "null", 4);
  default:
    return valid_number_end(scan, at);
  }
}

static const char *valid_value_end(mp_scan *scan, const char *at) {
  /* the closing bracket of the innermost array or object, and of those around it */
  char outer[MP_JSON_DEPTH_LIMIT], closer = '\0';
  unsigned depth = 0;
  for (;;) {
    char byte = *at;
    if (byte == '{' || byte == '[') {
      if (depth == MP_JSON_DEPTH_LIMIT) return NULL;
      outer[depth++] = closer;
      closer = byte == '{' ? '}' : ']';
      if (*++at != closer) {
        if (byte == '{') at = valid_key_end(scan, at);
        if (at == NULL) return NULL;
        continue;
      }
    } else {
      at = valid_scalar_end(scan, at);
      if (at == NULL) return NULL;
    }
    for (; depth > 0 && *at == closer; at++) closer = outer[--depth];
    if (depth == 0) return at;
    if (*at++ != ',') return NULL;
    if (closer == '}') at = valid_key_end(scan, at);
    if (at == NULL) return NULL;
  }
}

bool mp_scan_check(moonpad_string text) {
  mp_scan scan;
  mp_scan_init(&scan, text, MP_JSON_DEPTH_LIMIT, MP_SCAN_VALID);
  return text.length != 0 && valid_value_end(&scan, scan.at) == scan.end;
}
