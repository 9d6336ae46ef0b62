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
** Four to eight bytes as the first ones of a word, zeros behind them: two words that overlap
** hold them.
*/
static inline uint64_t mp_read_4_to_8(const char *at, size_t count) {
  return mp_read_4(at) | mp_read_4(at + count - 4) << 8 * (count - 4);
}

/* A mark for the first byte, and maybe for others behind it, that is no digit. */
static inline uint64_t mp_mark_no_digit(uint64_t word) {
  /* 0 to 9, where they are; others carry only upwards */
  uint64_t digits = word ^ MP_EVERY_BYTE('0');
  return ((digits + MP_EVERY_BYTE(0x76)) | digits) & MP_EVERY_BYTE(0x80);
}
#endif

/* How many digits there are before anything else. */
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
  while (at < end && *at >= '0' && *at <= '9') at++;
  return (size_t)(at - begin);
}

#if defined(MP_DIGITS_8)
/* Four to eight digits; moved up, with zeros in front, they are eight. */
static inline uint64_t mp_few_digits_value(const char *digits, size_t count) {
  uint64_t word = mp_read_4_to_8(digits, count);
  word = (word & MP_EVERY_BYTE(0x0F)) << 8 * (8 - count);
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
  return (word * 10000 + (word >> 32)) & UINT32_MAX;
}
#endif

/* What follows `value` and at most so many digits that it fits. */
static inline uint64_t mp_digits_value(uint64_t value, const char *digits, size_t count) {
#if defined(MP_DIGITS_8)
  for (; count >= 8; digits += 8, count -= 8) value = value * 100000000 + mp_few_digits_value(digits, 8);
  if (count >= 4) {
    static const uint32_t powers[] = {10000, 100000, 1000000, 10000000};
    return value * powers[count - 4] + mp_few_digits_value(digits, count);
  }
#endif
  for (size_t i = 0; i < count; i++) value = value * 10 + (uint64_t)(digits[i] - '0');
  return value;
}

#endif
