/* UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef MP_BASE_UTF8_H
#define MP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The offset of the first byte that is not valid UTF-8, or `length`. */
size_t mp_utf8_valid_prefix(const char *data, size_t length);
/* Decodes the character at `data` (length > 0): its bytes, or 0 when invalid. */
size_t mp_utf8_decode(const char *data, size_t length, uint32_t *code_point);
/* Encodes into `out`; returns 1 to 4. */
size_t mp_utf8_encode(uint32_t code_point, char out[4]);
/*
** May a character start, or continue, an identifier? ASCII letters, digits and '_', and letters
** (marks, numbers too, after the first) beyond.
*/
bool mp_utf8_identifier_start(uint32_t code_point);
bool mp_utf8_identifier_part(uint32_t code_point);

#endif
