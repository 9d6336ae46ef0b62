/*
** What all that read JSON share: where plain text in a string ends, found sixteen or eight bytes
** at a time, what an escape stands for, and which number is written.
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
** A bit for each of sixteen bytes that is '"', '\\' or a control character; `*high` gets those
** beyond ASCII.
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
** The offset of the first '"', '\' or control character at or after `position`, or `length`.
** `*beyond` gets bits of 0x80 where there was more than ASCII (maybe also for what follows within
** the same eight bytes).
*/
MP_INLINE size_t mp_json_plain_end(const char *text, size_t position, size_t length, uint64_t *beyond) {
#if defined(MP_SCANS_16)
  while (length - position >= 16) {
    unsigned high, special = mp_json_special_16(text + position, &high);
    if (special != 0) {
      unsigned offset = (unsigned)__builtin_ctz(special);
      if ((high & ((1u << offset) - 1)) != 0) *beyond |= 0x80;
      return position + offset;
    }
    if (high != 0) *beyond |= 0x80;
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
    *beyond |= word;
    if ((special & tops) != 0) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      /* the lowest mark is always a true one */
      return position + (size_t)__builtin_ctzll(special & tops) / 8;
#else
      break;
#endif
    }
    position += 8;
  }
  while (position < length && !mp_json_is_special((unsigned char)text[position])) {
    *beyond |= (unsigned char)text[position++];
  }
  return position;
}

static inline bool mp_json_beyond_ascii(uint64_t beyond) {
  return (beyond & MP_EVERY_BYTE(0x80)) != 0;
}

/*
** Goes over the escape at the backslash `*at`: `code` is the character. Else the problem, with
** `*at` where it is.
*/
const char *mp_json_escape(const char **at, const char *end, uint32_t *code);

/* ---- numbers ---- */

typedef struct mp_number_text {
  const char *begin;
  const char *end;
  const char *whole; /* behind the sign */
  size_t whole_digits;
  size_t fraction_digits;
  bool has_exponent;
} mp_number_text;

static inline bool mp_number_is_integer(const mp_number_text *number) {
  return number->fraction_digits == 0 && !number->has_exponent;
}

/* False: `end` of the number is where a digit is missing, or a zero that must not be there. */
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

#define MP_SHORT_INTEGER 18 /* digits that fit into 64 bits, whatever they are */

/* The long way of mp_json_number. */
moonpad_value mp_json_long_number(mp_number_text number);

/*
** An integer where it is written as one and fits into 64 bits, else a float; absent: too large for
** a double.
*/
MP_INLINE moonpad_value mp_json_number(const mp_number_text *number) {
  if (!mp_number_is_integer(number) || number->whole_digits > MP_SHORT_INTEGER) return mp_json_long_number(*number);
  int64_t magnitude = (int64_t)mp_digits_value(0, number->whole, number->whole_digits);
  return moonpad_integer(number->whole != number->begin ? -magnitude : magnitude);
}

#endif
