/* Numbers to text. Back: number_read.c. */
#include "base/number.h"

#include <string.h>

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
  int k = mp_floor_shift(exponent * 1262611 - (lower_is_closer ? 524031 : 0), 22);
  int shift = exponent + mp_binary_exponent(-k) + 1;
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
