/* Powers of ten for writing and reading doubles. */
#ifndef MP_BASE_NUMBER_TABLE_H
#define MP_BASE_NUMBER_TABLE_H

#include <stdint.h>

#define MP_LEAST_POWER    (-342)
#define MP_GREATEST_POWER 324

/* Their upper 128 bits, rounded up; the higher half first. */
extern const uint64_t mp_powers_of_ten[MP_GREATEST_POWER - MP_LEAST_POWER + 1][2];

static inline int mp_floor_shift(int number, unsigned bits) {
  return number >= 0 ? number >> bits : -((-number + (1 << bits) - 1) >> bits);
}

/* The binary exponent of 10^power: the greatest power of two that is not above it. */
static inline int mp_binary_exponent(int power) {
  return mp_floor_shift(power * 1741647, 19);
}

#endif
