/*
** Comparing and hashing short byte strings, inline: a library call would cost more than the work.
*/
#ifndef MP_BASE_BYTES_H
#define MP_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/multiply.h"

/* For short functions that every append runs through: inlined even if the compiler would not. */
#if defined(__GNUC__)
#define MP_INLINE static inline __attribute__((always_inline))
#else
#define MP_INLINE static inline
#endif

static inline uint64_t mp_read_8(const char *data) {
  uint64_t word;
  memcpy(&word, data, sizeof word);
  return word;
}

static inline uint64_t mp_read_4(const char *data) {
  uint32_t word;
  memcpy(&word, data, sizeof word);
  return word;
}

/* Little-endian on every machine. */
static inline uint64_t mp_read_little_8(const char *data) {
  uint64_t word = mp_read_8(data);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

static inline uint64_t mp_read_little_4(const char *data) {
  uint64_t word = mp_read_4(data);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap32((uint32_t)word);
#endif
  return word;
}

/* Are the first `length` bytes equal? Two words that may overlap cover up to 16 bytes. */
static inline bool mp_same_bytes(const char *a, const char *b, size_t length) {
  if (length > 16) return memcmp(a, b, length) == 0;
  if (length >= 8) {
    return ((mp_read_8(a) ^ mp_read_8(b)) | (mp_read_8(a + length - 8) ^ mp_read_8(b + length - 8))) == 0;
  }
  if (length >= 4) {
    return ((mp_read_4(a) ^ mp_read_4(b)) | (mp_read_4(a + length - 4) ^ mp_read_4(b + length - 4))) == 0;
  }
  return length == 0 || (a[0] == b[0] && a[length >> 1] == b[length >> 1] && a[length - 1] == b[length - 1]);
}

/*
** A hash after wyhash: 16 bytes per step, no loop for short texts. Digests in files (core/digest.h)
** use it, so it must never change.
*/
static inline uint64_t mp_hash(const char *data, size_t length) {
  const uint64_t first = UINT64_C(0xA0761D6478BD642F), second = UINT64_C(0xE7037ED1A0B428DB);
  uint64_t seed = UINT64_C(0x8EBC6AF09C88C6E3), a = 0, b = 0;
  if (length > 16) {
    size_t left = length;
    for (; left > 16; left -= 16, data += 16)
      seed = mp_mix(mp_read_little_8(data) ^ first, mp_read_little_8(data + 8) ^ seed);
    a = mp_read_little_8(data + left - 16);
    b = mp_read_little_8(data + left - 8);
  } else if (length >= 8) {
    a = mp_read_little_8(data);
    b = mp_read_little_8(data + length - 8);
  } else if (length >= 4) {
    a = mp_read_little_4(data);
    b = mp_read_little_4(data + length - 4);
  } else if (length > 0) {
    a = (uint64_t)(unsigned char)data[0] << 16 | (uint64_t)(unsigned char)data[length >> 1] << 8 |
        (unsigned char)data[length - 1];
  }
  return mp_mix(second ^ length, mp_mix(a ^ first, b ^ seed));
}

#endif
