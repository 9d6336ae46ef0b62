/* Decimal digits, eight at a time. */
#ifndef MP_BASE_DIGITS_H
#define MP_BASE_DIGITS_H

#include "base/bytes.h"

#define MP_EVERY_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MP_DIGITS_8 1
#endif

#if defined(MP_DIGITS_8)
/*
** Four to eight bytes as the low bytes of a word, the others zero. Two overlapping reads of four
** bytes cover them.
*/
static inline uint64_t mp_read_4_to_8(const char *at, size_t count) {
  return mp_read_4(at) | mp_read_4(at + count - 4) << 8 * (count - 4);
}

/* Marks the top bit of the first byte that is no digit, and maybe of bytes after it. */
static inline uint64_t mp_mark_no_digit(uint64_t word) {
  /* digits become 0 to 9; carries of other bytes only go upwards */
  uint64_t digits = word ^ MP_EVERY_BYTE('0');
  return ((digits + MP_EVERY_BYTE(0x76)) | digits) & MP_EVERY_BYTE(0x80);
}
#endif

static inline bool mp_is_digit(int byte) {
  return byte >= '0' && byte <= '9';
}

/* How many digits the text begins with. */
static inline size_t mp_count_digits(const char *at, const char *end) {
  const char *begin = at;
#if defined(MP_DIGITS_8)
  for (; end - at >= 8; at += 8) {
    uint64_t others = mp_mark_no_digit(mp_read_8(at));
    if (others != 0) return (size_t)(at - begin) + (size_t)__builtin_ctzll(others) / 8;
  }
  if (end - at >= 4) {
    uint64_t others = mp_mark_no_digit(mp_read_4_to_8(at, (size_t)(end - at)));
    return (size_t)(at - begin) + (size_t)__builtin_ctzll(others) / 8;
  }
#endif
  while (at < end && mp_is_digit(*at)) at++;
  return (size_t)(at - begin);
}

#if defined(MP_DIGITS_8)
/* The value of four to eight digits, padded to eight with zeros in front. */
static inline uint64_t mp_digits_value_4_to_8(const char *digits, size_t count) {
  uint64_t word = mp_read_4_to_8(digits, count);
  word = (word & MP_EVERY_BYTE(0x0F)) << 8 * (8 - count);
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
  return (word * 10000 + (word >> 32)) & UINT32_MAX;
}
#endif

/* `value` followed by `count` more decimal digits. The result must fit into 64 bits. */
static inline uint64_t mp_digits_value(uint64_t value, const char *digits, size_t count) {
#if defined(MP_DIGITS_8)
  for (; count >= 8; digits += 8, count -= 8) value = value * 100000000 + mp_digits_value_4_to_8(digits, 8);
  if (count >= 4) {
    static const uint32_t powers[] = {10000, 100000, 1000000, 10000000};
    return value * powers[count - 4] + mp_digits_value_4_to_8(digits, count);
  }
#endif
  for (size_t i = 0; i < count; i++) value = value * 10 + (uint64_t)(digits[i] - '0');
  return value;
}

#endif
