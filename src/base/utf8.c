/* UTF-8: checking, decoding, encoding, and which characters make an identifier. */
#include "base/utf8.h"

#include <string.h>

#include "base/utf8_tables.h"

#define MP_WORD_HIGH_BITS UINT64_C(0x8080808080808080)

/*
** After some lead bytes the range of the second byte is smaller. That rules out overlong forms,
** surrogates and characters beyond U+10FFFF.
*/
static bool second_byte_fits(unsigned char lead, unsigned char second) {
  switch (lead) {
  case 0xE0:
    return second >= 0xA0 && second <= 0xBF;
  case 0xED:
    return second >= 0x80 && second <= 0x9F;
  case 0xF0:
    return second >= 0x90 && second <= 0xBF;
  case 0xF4:
    return second >= 0x80 && second <= 0x8F;
  default:
    return mp_utf8_is_continuation(second);
  }
}

/* The number of bytes of the character at `at`, or 0 if it is invalid. */
static size_t character_length(const unsigned char *at, size_t length) {
  unsigned char lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  size_t needed = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length < needed || !second_byte_fits(lead, at[1])) return 0;
  for (size_t i = 2; i < needed; i++) {
    if (!mp_utf8_is_continuation(at[i])) return 0;
  }
  return needed;
}

size_t mp_utf8_valid_prefix(const char *data, size_t length) {
  const unsigned char *bytes = (const unsigned char *)data;
  size_t position = 0;
  while (position < length) {
    if (bytes[position] < 0x80) {
      uint64_t word;
      while (length - position >= sizeof word) {
        memcpy(&word, bytes + position, sizeof word);
        if ((word & MP_WORD_HIGH_BITS) != 0) break;
        position += sizeof word;
      }
      while (position < length && bytes[position] < 0x80) position++;
      continue;
    }
    size_t step = character_length(bytes + position, length - position);
    if (step == 0) return position;
    position += step;
  }
  return length;
}

size_t mp_utf8_decode(const char *data, size_t length, uint32_t *code_point) {
  const unsigned char *bytes = (const unsigned char *)data;
  size_t size = character_length(bytes, length);
  switch (size) {
  case 1:
    *code_point = bytes[0];
    break;
  case 2:
    *code_point = (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu);
    break;
  case 3:
    *code_point = (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu);
    break;
  case 4:
    *code_point = (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3Fu) << 12 | (bytes[2] & 0x3Fu) << 6 | (bytes[3] & 0x3Fu);
    break;
  default:
    break;
  }
  return size;
}

size_t mp_utf8_encode(uint32_t code_point, char out[4]) {
  if (code_point < 0x80) {
    out[0] = (char)code_point;
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = (char)(0xC0u | code_point >> 6);
    out[1] = (char)(0x80u | (code_point & 0x3Fu));
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = (char)(0xE0u | code_point >> 12);
    out[1] = (char)(0x80u | (code_point >> 6 & 0x3Fu));
    out[2] = (char)(0x80u | (code_point & 0x3Fu));
    return 3;
  }
  out[0] = (char)(0xF0u | (code_point >> 18 & 0x07u));
  out[1] = (char)(0x80u | (code_point >> 12 & 0x3Fu));
  out[2] = (char)(0x80u | (code_point >> 6 & 0x3Fu));
  out[3] = (char)(0x80u | (code_point & 0x3Fu));
  return 4;
}

/* The run that contains the character, or NULL. */
static const mp_utf8_run *find_run(uint32_t code_point) {
  size_t low = 0, high = sizeof mp_utf8_identifier_runs / sizeof mp_utf8_identifier_runs[0];
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const mp_utf8_run *run = &mp_utf8_identifier_runs[middle];
    if (code_point < run->first) {
      high = middle;
    } else if (code_point - run->first >= run->count) {
      low = middle + 1;
    } else {
      return run;
    }
  }
  return NULL;
}

static bool is_ascii_letter(uint32_t code_point) {
  return (code_point | 0x20u) - 'a' < 26u;
}

bool mp_utf8_identifier_start(uint32_t code_point) {
  if (code_point < 0x80) return is_ascii_letter(code_point) || code_point == '_';
  const mp_utf8_run *run = find_run(code_point);
  return run != NULL && run->starts != 0;
}

bool mp_utf8_identifier_part(uint32_t code_point) {
  if (code_point < 0x80) {
    return is_ascii_letter(code_point) || code_point - '0' < 10u || code_point == '_';
  }
  return find_run(code_point) != NULL;
}
