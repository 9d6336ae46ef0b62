/* Numbers to text and back: exact, and independent of the locale. */
#ifndef MP_BASE_NUMBER_H
#define MP_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_NUMBER_BYTES 40 /* enough for either format function */

/* Writes without a NUL; returns the bytes written. */
size_t mp_format_integer(int64_t integer, char *out);
/* The bytes that mp_format_integer writes. */
size_t mp_integer_length(int64_t integer);
/*
** The shortest text that reads back as the same double, always with '.', 'e' or both ("1.0",
** "1e+300"): a float stays a float. Finite numbers only.
*/
size_t mp_format_float(double number, char *out);
/*
** Decimal digits with an optional '-'; false when it does not fit into 64 bits. The text is a valid
** JSON integer.
*/
bool mp_parse_integer(const char *text, size_t length, int64_t *integer);
/*
** The double of `whole` digits, a point and `fraction` digits. False if there are too many digits
** for this fast way: then use mp_parse_float.
*/
bool mp_join_float(const char *text, size_t whole, size_t fraction, double *number);
/* The nearest double. The text is a valid JSON number. False if it overflows to infinity. */
bool mp_parse_float(const char *text, size_t length, double *number);

#endif
