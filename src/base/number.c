/*
** Numbers to text and back. The locale does not matter: no text that the C library gets to parse
** has a decimal point.
*/
#include "base/number.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "base/multiply.h"
#include "base/number_table.h"

static const char two_digits[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes digits so that they end at `end`; returns where they begin. */
static char *write_digits(char *end, uint64_t number) {
  while (number >= 100) {
    end -= 2;
    memcpy(end, two_digits + number % 100 * 2, 2);
    number /= 100;
  }
  if (number >= 10) {
    end -= 2;
    memcpy(end, two_digits + number * 2, 2);
  } else {
    *--end = (char)('0' + number);
  }
  return end;
}

size_t mp_format_integer(int64_t integer, char *out) {
  char area[20];
  uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
  char *start = write_digits(area + sizeof area, magnitude);
  size_t length = (size_t)(area + sizeof area - start), sign = 0;
  if (integer < 0) out[sign++] = '-';
  memcpy(out + sign, start, length);
  return sign + length;
}

size_t mp_integer_length(int64_t integer) {
  uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
  size_t length = integer < 0 ? 2 : 1;
  for (; magnitude >= 10000; magnitude /= 10000) length += 4;
  return length + (magnitude >= 10) + (magnitude >= 100) + (magnitude >= 1000);
}

/*
** ---- doubles to text: the Schubfach algorithm (Raffaello Giulietti, "The Schubfach way to render
** doubles") ----
*/

typedef struct decimal {
  uint64_t digits;
  int exponent; /* of ten */
} decimal;

static int floor_shift(int number, unsigned bits) {
  return number >= 0 ? number >> bits : -((-number + (1 << bits) - 1) >> bits);
}

/* The upper 64 bits of power * factor; the lowest bit is set if lower bits were lost. */
static uint64_t round_to_odd(const uint64_t power[2], uint64_t factor) {
  mp_wide low = mp_multiply(power[1], factor), high = mp_multiply(power[0], factor);
  uint64_t middle = high.low + low.high;
  return (high.high + (middle < high.low)) | (middle > 1);
}

/*
** The shortest decimal in the rounding interval of mantissa * 2^exponent; of several the nearest.
** Calculates in quarters of a unit.
*/
static decimal shortest(uint64_t mantissa, int exponent, bool lower_is_closer) {
  int k = floor_shift(exponent * 1262611 - (lower_is_closer ? 524031 : 0), 22);
  int shift = exponent + floor_shift(-k * 1741647, 19) + 1;
  const uint64_t *power = mp_powers_of_ten[-k - MP_LEAST_POWER];
  uint64_t lower = round_to_odd(power, (4 * mantissa - 2 + lower_is_closer) << shift);
  uint64_t value = round_to_odd(power, (4 * mantissa) << shift);
  uint64_t upper = round_to_odd(power, (4 * mantissa + 2) << shift);
  /* the ends of the interval belong to it only if the mantissa is even */
  uint64_t odd = mantissa & 1;
  lower += odd;
  upper -= odd;
  uint64_t unit = value / 4;
  if (unit >= 10) {
    uint64_t ten = unit / 10;
    bool below = lower <= 40 * ten, above = 40 * ten + 40 <= upper;
    if (below != above) return (decimal){ten + above, k + 1};
  }
  bool below = lower <= 4 * unit, above = 4 * unit + 4 <= upper;
  if (below != above) return (decimal){unit + above, k};
  uint64_t middle = 4 * unit + 2;
  bool up = value > middle || (value == middle && (unit & 1) != 0);
  return (decimal){unit + up, k};
}

static decimal decimal_of(uint64_t bits) {
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  int exponent = (int)(bits >> 52 & 0x7FF);
  uint64_t mantissa = exponent == 0 ? fraction : fraction | UINT64_C(1) << 52;
  int power = (exponent == 0 ? 1 : exponent) - 1075;
  if (power <= 0 && power > -53 && (mantissa & ((UINT64_C(1) << -power) - 1)) == 0) {
    return (decimal){mantissa >> -power, 0};
  }
  return shortest(mantissa, power, fraction == 0 && exponent > 1);
}

static size_t write_zeros(char *out, size_t count) {
  memset(out, '0', count);
  return count;
}

/* Writes "123.45". `point` is the number of digits before the point; zeros fill up. */
static size_t write_plain(char *out, const char *digits, size_t count, int point) {
  size_t used = 0;
  if (point <= 0) {
    used += write_zeros(out, 1);
    out[used++] = '.';
    used += write_zeros(out + used, (size_t)-point);
    memcpy(out + used, digits, count);
    return used + count;
  }
  size_t whole = (size_t)point < count ? (size_t)point : count;
  memcpy(out, digits, whole);
  used = whole + write_zeros(out + whole, (size_t)point - whole);
  out[used++] = '.';
  if (whole == count) return used + write_zeros(out + used, 1);
  memcpy(out + used, digits + whole, count - whole);
  return used + count - whole;
}

static size_t write_scientific(char *out, const char *digits, size_t count, int exponent) {
  size_t used = 0;
  out[used++] = digits[0];
  if (count > 1) {
    out[used++] = '.';
    memcpy(out + used, digits + 1, count - 1);
    used += count - 1;
  }
  out[used++] = 'e';
  out[used++] = exponent < 0 ? '-' : '+';
  return used + mp_format_integer(exponent < 0 ? -exponent : exponent, out + used);
}

size_t mp_format_float(double number, char *out) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  size_t sign = 0;
  if (bits >> 63 != 0) out[sign++] = '-';
  bits &= UINT64_MAX >> 1;
  if (bits == 0) {
    memcpy(out + sign, "0.0", 3);
    return sign + 3;
  }
  decimal shown = decimal_of(bits);
  char area[20];
  char *end = area + sizeof area, *digits = write_digits(end, shown.digits);
  int exponent = shown.exponent + (int)(end - digits) - 1;
  while (end[-1] == '0') end--;
  size_t count = (size_t)(end - digits);
  if (exponent < -5 || exponent >= 17) return sign + write_scientific(out + sign, digits, count, exponent);
  return sign + write_plain(out + sign, digits, count, exponent + 1);
}

/* ---- text to numbers ---- */

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

/*
** More digits than any double, or any midpoint of two doubles, has. Of the digits after these it
** only matters whether one is not 0.
*/
#define EXACT_DIGITS  800
#define HUGE_EXPONENT 100000

typedef struct number_text {
  /* the significant digits; one more if some were left out; the exponent */
  char digits[EXACT_DIGITS + 1 + 16];
  size_t count;
  uint64_t mantissa; /* the first 19 digits */
  int64_t exponent;  /* of ten, if `digits` is read as an integer */
  bool more;         /* a digit other than 0 was left out */
} number_text;

static void take_digit(number_text *number, char digit) {
  if (number->count == 0 && digit == '0') return;
  if (number->count < EXACT_DIGITS) {
    if (number->count < 19) number->mantissa = number->mantissa * 10 + (uint64_t)(digit - '0');
    number->digits[number->count++] = digit;
    return;
  }
  number->exponent++;
  number->more = number->more || digit != '0';
}

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

static void split_number(number_text *number, const char *text, size_t length) {
  number->count = 0;
  number->mantissa = 0;
  number->exponent = 0;
  number->more = false;
  size_t i = 0;
  for (; i < length && mp_is_digit(text[i]); i++) take_digit(number, text[i]);
  if (i < length && text[i] == '.') {
    size_t point = ++i;
    for (; i < length && mp_is_digit(text[i]); i++) take_digit(number, text[i]);
    number->exponent -= (int64_t)(i - point);
  }
  if (i < length) number->exponent += parse_exponent(text + i + 1, length - i - 1);
}

/* strtod is exact. Given only digits and an exponent, it does not depend on the locale. */
static double convert_exactly(number_text *number) {
  size_t count = number->count;
  int64_t exponent = number->exponent;
  if (number->more) {
    number->digits[count++] = '1';
    exponent--;
  }
  if (exponent > HUGE_EXPONENT) exponent = HUGE_EXPONENT;
  if (exponent < -HUGE_EXPONENT) exponent = -HUGE_EXPONENT;
  number->digits[count++] = 'e';
  count += mp_format_integer(exponent, number->digits + count);
  number->digits[count] = '\0';
  int saved = errno;
  double result = strtod(number->digits, NULL);
  errno = saved;
  return result;
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool mp_join_float(const char *text, size_t whole, size_t fraction, double *result) {
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
  double magnitude;
  if (parse_short_float(text + negative, length - negative, &magnitude)) {
    *result = negative ? -magnitude : magnitude;
    return true;
  }
  number_text number;
  split_number(&number, text + negative, length - negative);
  if (number.count == 0) {
    magnitude = 0.0;
  } else if (FLT_EVAL_METHOD == 0 && number.count <= 19 && number.mantissa <= UINT64_C(1) << 53 &&
             number.exponent >= -22 && number.exponent <= 22) {
    /* both operands are exact doubles, so the result is rounded once */
    magnitude = (double)number.mantissa;
    if (number.exponent < 0) {
      magnitude /= powers[-number.exponent];
    } else {
      magnitude *= powers[number.exponent];
    }
  } else {
    magnitude = convert_exactly(&number);
  }
  if (isinf(magnitude)) return false;
  *result = negative ? -magnitude : magnitude;
  return true;
}
