/*
** The lexical part of JSON that all readers share: where the plain text of a string ends (16 or 8
** bytes at a time), what an escape stands for, and the value of a number.
*/
#ifndef MP_CORE_JSON_LEX_H
#define MP_CORE_JSON_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/digits.h"
#include "moonpad.h"

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#endif

/* No JSON text may nest deeper: readers keep a stack of this size. */
#define MP_JSON_DEPTH_LIMIT 192

/* ---- strings ---- */

static inline bool mp_json_is_special(unsigned char byte) {
  return byte < 0x20 || byte == '"' || byte == '\\';
}

#if defined(__SSE2__) && defined(__GNUC__)
#define MP_SCANS_16 1
/*
** The result has a bit for each of sixteen bytes that is '"', '\\' or a control character, *high
** one for each byte that is not ASCII.
*/
static inline unsigned mp_json_special_16(const char *text, unsigned *high) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
  __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
  __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
  *high = (unsigned)_mm_movemask_epi8(bytes);
  return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control));
}
#endif

/*
** The offset of the first '"', '\' or control character at or after `position`, or `length`. Sets
** bits of *non_ascii if any byte on the way is not ASCII: see mp_json_has_non_ascii. Bytes shortly
** after the result may set them too.
*/
MP_INLINE size_t mp_json_plain_end(const char *text, size_t position, size_t length, uint64_t *non_ascii) {
#if defined(MP_SCANS_16)
  while (length - position >= 16) {
    unsigned high, special = mp_json_special_16(text + position, &high);
    if (special != 0) {
      unsigned offset = (unsigned)__builtin_ctz(special);
      if ((high & ((1u << offset) - 1)) != 0) *non_ascii |= 0x80;
      return position + offset;
    }
    if (high != 0) *non_ascii |= 0x80;
    position += 16;
  }
#endif
  const uint64_t ones = MP_EVERY_BYTE(1), tops = MP_EVERY_BYTE(0x80);
  while (length - position >= 8) {
    uint64_t word;
    memcpy(&word, text + position, sizeof word);
    uint64_t quote = word ^ MP_EVERY_BYTE('"'), backslash = word ^ MP_EVERY_BYTE('\\');
    uint64_t special =
        ((word - MP_EVERY_BYTE(0x20)) & ~word) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash);
    *non_ascii |= word;
    if ((special & tops) != 0) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      /* only bits above the lowest one can be wrong */
      return position + (size_t)__builtin_ctzll(special & tops) / 8;
#else
      break;
#endif
    }
    position += 8;
  }
  while (position < length && !mp_json_is_special((unsigned char)text[position])) {
    *non_ascii |= (unsigned char)text[position++];
  }
  return position;
}

static inline bool mp_json_has_non_ascii(uint64_t non_ascii) {
  return (non_ascii & MP_EVERY_BYTE(0x80)) != 0;
}

/*
** Decodes the escape at the backslash *at and moves *at after it. Returns NULL, or what is wrong,
** with *at at the byte at fault.
*/
const char *mp_json_escape(const char **at, const char *end, uint32_t *code);

/* ---- numbers ---- */

typedef struct mp_number_text {
  const char *begin;
  const char *end;
  const char *whole; /* the digits before the point; a sign stands before them */
  size_t whole_digits;
  size_t fraction_digits;
  bool has_exponent;
} mp_number_text;

static inline bool mp_number_is_integer(const mp_number_text *number) {
  return number->fraction_digits == 0 && !number->has_exponent;
}

/* False if malformed: `end` is then at the missing digit, or at the zero too many. */
MP_INLINE bool mp_json_scan_number(const char *begin, const char *end, mp_number_text *number) {
  const char *at = begin < end && *begin == '-' ? begin + 1 : begin;
  number->begin = begin;
  number->end = number->whole = at;
  number->whole_digits = mp_count_digits(at, end);
  number->fraction_digits = 0;
  number->has_exponent = false;
  if (number->whole_digits == 0 || (number->whole_digits > 1 && *at == '0')) return false;
  at += number->whole_digits;
  if (at < end && *at == '.') {
    number->end = ++at;
    number->fraction_digits = mp_count_digits(at, end);
    if (number->fraction_digits == 0) return false;
    at += number->fraction_digits;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < end && (*at == '+' || *at == '-')) at++;
    number->end = at;
    size_t digits = mp_count_digits(at, end);
    if (digits == 0) return false;
    number->has_exponent = true;
    at += digits;
  }
  number->end = at;
  return true;
}

#define MP_SHORT_INTEGER 18 /* this many digits always fit into 64 bits */

/* The slow path of mp_json_number. */
moonpad_value mp_json_long_number(mp_number_text number);

/*
** An integer if it is spelt as one and fits into 64 bits, else a float. Type ABSENT: too large for
** a double.
*/
MP_INLINE moonpad_value mp_json_number(const mp_number_text *number) {
  if (!mp_number_is_integer(number) || number->whole_digits > MP_SHORT_INTEGER) return mp_json_long_number(*number);
  int64_t magnitude = (int64_t)mp_digits_value(0, number->whole, number->whole_digits);
  return moonpad_integer(number->whole != number->begin ? -magnitude : magnitude);
}

#endif
