/* Finding the end of plain text in JSON strings, eight bytes at a time. */
#ifndef MP_CORE_JSON_SCAN_H
#define MP_CORE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MP_EVERY_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline bool mp_json_is_special(unsigned char byte) {
  return byte < 0x20 || byte == '"' || byte == '\\';
}

/* The offset of the first '"', '\' or control character at or after `position`, or `length`. `*beyond` gets bits of
** 0x80 where there was more than ASCII (maybe also for what follows within the same eight bytes). */
static inline size_t mp_json_plain_end(const char *text, size_t position, size_t length, uint64_t *beyond) {
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
      return position + (size_t)__builtin_ctzll(special & tops) / 8; /* the lowest mark is always a true one */
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

#endif
