/* UTF-8 (RFC 3629): no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef MP_BASE_UTF8_H
#define MP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mp_utf8_is_continuation(int byte) {
  return (byte & 0xC0) == 0x80;
}
/* The offset of the first byte that is not valid UTF-8, or `length`. */
size_t mp_utf8_valid_prefix(const char *data, size_t length);
/* Decodes the character at `data` (length > 0). Returns its bytes, or 0 if it is invalid. */
size_t mp_utf8_decode(const char *data, size_t length, uint32_t *code_point);
/* Returns the bytes written, 1 to 4. */
size_t mp_utf8_encode(uint32_t code_point, char out[4]);
/*
** May a character start, or continue, an identifier? In ASCII letters, digits and '_'; beyond that
** letters, and after the first character also marks, decimal digits and connectors.
*/
bool mp_utf8_identifier_start(uint32_t code_point);
bool mp_utf8_identifier_part(uint32_t code_point);

#endif
