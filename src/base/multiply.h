/* The 128-bit product of two 64-bit numbers, with or without a 128-bit type of the compiler. */
#ifndef MP_BASE_MULTIPLY_H
#define MP_BASE_MULTIPLY_H

#include <stdint.h>

typedef struct mp_wide {
  uint64_t high;
  uint64_t low;
} mp_wide;

static inline mp_wide mp_multiply(uint64_t a, uint64_t b) {
  mp_wide product;
#if defined(__SIZEOF_INT128__)
  __extension__ typedef unsigned __int128 wide;
  wide full = (wide)a * b;
  product.high = (uint64_t)(full >> 64);
  product.low = (uint64_t)full;
#else
  uint64_t a_low = a & UINT32_MAX, a_high = a >> 32, b_low = b & UINT32_MAX, b_high = b >> 32;
  uint64_t low = a_low * b_low, middle = a_high * b_low + (low >> 32);
  uint64_t carry = a_low * b_high + (middle & UINT32_MAX);
  product.high = a_high * b_high + (middle >> 32) + (carry >> 32);
  product.low = carry << 32 | (low & UINT32_MAX);
#endif
  return product;
}

/* Both halves of the product, combined by XOR: the step of mp_hash. */
static inline uint64_t mp_mix(uint64_t a, uint64_t b) {
  mp_wide product = mp_multiply(a, b);
  return product.high ^ product.low;
}

#endif
