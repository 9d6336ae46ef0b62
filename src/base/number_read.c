/*
** Text to numbers. A double is the nearest one whatever the C library and the locale are. The upper
** 128 bits of a power of ten tell nearly always which one that is, as in Daniel Lemire, "Number
** Parsing at a Gigabyte per Second"; else long integers are compared.
*/
#include <float.h>
#include <string.h>

#include "base/digits.h"
#include "base/multiply.h"
#include "base/number.h"
#include "base/number_table.h"

bool mp_parse_integer(const char *text, size_t length, int64_t *integer) {
  bool negative = length > 0 && text[0] == '-';
  size_t i = negative;
  /* 19 digits fit into 64 bits. */
  if (length - i > 19) return false;
  uint64_t magnitude = mp_digits_value(0, text + i, length - i);
  if (magnitude > (uint64_t)INT64_MAX + negative) return false;
  *integer = (int64_t)(negative ? 0 - magnitude : magnitude);
  return true;
}

/* ---- The digits and the exponent of a text ---- */

#define FIRST_DIGITS 19 /* as many fit into 64 bits */

typedef struct number_text {
  const char *begin; /* the first digit that is not 0; a point may stand among those behind it */
  const char *end;   /* behind the last digit */
  size_t count;      /* of digits */
  int64_t exponent;  /* of ten, if all digits are read as one integer */
  uint64_t first;    /* the first digits, at most FIRST_DIGITS */
} number_text;

/* Stops counting at huge exponents: no text has enough digits to make up for them. */
static int64_t parse_exponent(const char *text, size_t length) {
  size_t i = 0;
  bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') i++;
  int64_t exponent = 0;
  for (; i < length; i++) {
    if (exponent < INT64_C(1) << 55) exponent = exponent * 10 + (text[i] - '0');
  }
  return negative ? -exponent : exponent;
}

static number_text split_number(const char *text, size_t length) {
  const char *at = text, *end = text + length, *point = NULL;
  number_text number = {0};
  for (; at < end; at++) {
    if (*at == '.') {
      point = at;
    } else if (!mp_is_digit(*at)) {
      break;
    } else if (number.count > 0 || *at != '0') {
      if (number.count == 0) number.begin = at;
      if (number.count < FIRST_DIGITS) number.first = number.first * 10 + (uint64_t)(*at - '0');
      number.count++;
    }
  }
  number.end = at;
  if (at < end) number.exponent = parse_exponent(at + 1, (size_t)(end - at) - 1);
  if (point != NULL) number.exponent -= at - point - 1;
  return number;
}

/* ---- Long integers ---- */

/*
** No double, and no middle of two, has more digits. Of those behind them it only matters whether
** one is not 0.
*/
#define EXACT_DIGITS 800
#define WORDS        48 /* 3072 bits: nothing below has more than 2700 */

typedef struct long_integer {
  size_t count;
  uint64_t words[WORDS]; /* the lowest first */
} long_integer;

static void multiply_and_add(long_integer *number, uint64_t factor, uint64_t summand) {
  uint64_t carry = summand;
  for (size_t i = 0; i < number->count; i++) {
    mp_wide product = mp_multiply(number->words[i], factor);
    number->words[i] = product.low + carry;
    carry = product.high + (number->words[i] < carry);
  }
  if (carry != 0) number->words[number->count++] = carry;
}

/* Does nothing if the exponent is negative. */
static void multiply_by_power(long_integer *number, uint64_t base, int64_t exponent) {
  while (exponent > 0) {
    uint64_t factor = 1;
    for (; exponent > 0 && factor <= UINT64_MAX / base; exponent--) factor *= base;
    multiply_and_add(number, factor, 0);
  }
}

static int compare(const long_integer *a, const long_integer *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (size_t i = a->count; i-- > 0;) {
    if (a->words[i] != b->words[i]) return a->words[i] < b->words[i] ? -1 : 1;
  }
  return 0;
}

/* Returns the exponent of ten that belongs to the integer. */
static int64_t read_digits(long_integer *number, const number_text *text) {
  uint64_t digits = 0, power = 1;
  size_t taken = 0;
  bool more = false;
  number->count = 0;
  for (const char *at = text->begin; at < text->end; at++) {
    if (*at == '.') continue;
    if (taken == EXACT_DIGITS) {
      more = more || *at != '0';
      continue;
    }
    taken++;
    digits = digits * 10 + (uint64_t)(*at - '0');
    power *= 10;
    if (power > UINT64_MAX / 10) {
      multiply_and_add(number, power, digits);
      digits = 0;
      power = 1;
    }
  }
  multiply_and_add(number, power, digits);
  if (more) multiply_and_add(number, 10, 1);
  return text->exponent + (int64_t)(text->count - taken) - more;
}

/*
** ---- Text to doubles. Doubles that are not negative are in the order of their bits, read as an
** integer ----
*/

#define INFINITE_BITS (UINT64_C(2047) << 52)

/*
** Which is greater: the number (1), or the middle of the double `bits` and the one behind it (-1)?
** Both are multiplied by what makes them integers, and cancelled powers of two.
*/
static int compare_with_middle(const number_text *text, uint64_t bits) {
  long_integer number, middle;
  int64_t ten = read_digits(&number, text);
  /* a double with one bit more */
  int exponent = (int)(bits >> 52), two = (exponent == 0 ? 1 : exponent) - 1076;
  uint64_t mantissa = 2 * (bits & ((UINT64_C(1) << 52) - 1)) + 1;
  if (exponent != 0) mantissa |= UINT64_C(1) << 53;
  middle.count = 0;
  multiply_and_add(&middle, 1, mantissa);
  multiply_by_power(&number, 5, ten);
  multiply_by_power(&middle, 5, -ten);
  multiply_by_power(&number, 2, ten - two);
  multiply_by_power(&middle, 2, two - ten);
  return compare(&number, &middle);
}

/* The bits of the double nearest to top * 2^exponent. The lowest of a double is bit 11 of `top`. */
static uint64_t round_to_bits(uint64_t top, int exponent) {
  for (; top >> 63 == 0; top <<= 1) exponent--;
  int biased = exponent + 63 + 1023, shift = 10;
  if (biased > 2046) return INFINITE_BITS;
  if (biased < 1) {
    shift += 1 - biased;
    biased = 1;
  }
  uint64_t halves = ((uint64_t)(biased - 1) << 53) + (shift < 64 ? top >> shift : 0);
  return (halves + 1) / 2;
}

static uint64_t nearest_bits(const number_text *number) {
  size_t taken = number->count < FIRST_DIGITS ? number->count : FIRST_DIGITS;
  int64_t power = number->exponent + (int64_t)(number->count - taken);
  if (number->count == 0 || power < MP_LEAST_POWER) return 0;
  if (power > MP_GREATEST_POWER) return INFINITE_BITS;
  const uint64_t *entry = mp_powers_of_ten[power - MP_LEAST_POWER];
  uint64_t digits = number->first, unit = 1;
  int exponent = mp_binary_exponent((int)power) + 1;
  for (int step = 32; step > 0; step /= 2) {
    if (digits >> (64 - step) != 0) continue;
    digits <<= step;
    unit <<= step;
    exponent -= step;
  }
  mp_wide high = mp_multiply(digits, entry[0]), low = mp_multiply(digits, entry[1]);
  uint64_t middle = high.low + low.high, top = high.high + (middle < high.low);
  /*
  ** The product is rounded up, by less than 1 in the lowest bit of `middle`. Digits that were left
  ** out would add less than `unit` to `top`.
  */
  uint64_t below = round_to_bits(top - (middle == 0), exponent);
  uint64_t above = round_to_bits(number->count > taken ? top + unit : top, exponent);
  if (below == above) return below;
  int order = compare_with_middle(number, below);
  return order > 0 || (order == 0 && below % 2 == 1) ? above : below;
}

bool mp_join_float(const char *text, size_t whole, size_t fraction, double *result) {
  /* the operands are exact doubles, so the result is rounded once */
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                  1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
  if (FLT_EVAL_METHOD != 0 || whole + fraction > 18) return false;
  uint64_t mantissa = mp_digits_value(mp_digits_value(0, text, whole), text + whole + 1, fraction);
  if (mantissa > UINT64_C(1) << 53) return false;
  *result = (double)mantissa / powers[fraction];
  return true;
}

/* Reads "123.45" or "123". False if it has another form or too many digits. */
static bool parse_short_float(const char *text, size_t length, double *result) {
  if (length == 0 || length > 19) return false;
  size_t whole = mp_count_digits(text, text + length), fraction = 0;
  if (whole < length) {
    const char *digits = text + whole + 1;
    fraction = length - whole - 1;
    if (text[whole] != '.' || mp_count_digits(digits, digits + fraction) != fraction) return false;
  }
  return mp_join_float(text, whole, fraction, result);
}

bool mp_parse_float(const char *text, size_t length, double *result) {
  bool negative = length > 0 && text[0] == '-';
  text += negative;
  length -= negative;
  if (!parse_short_float(text, length, result)) {
    number_text number = split_number(text, length);
    uint64_t bits = nearest_bits(&number);
    if (bits >= INFINITE_BITS) return false;
    memcpy(result, &bits, sizeof bits);
  }
  if (negative) *result = -*result;
  return true;
}
