/*
** Numbers to text and back (base/number.h), without JSON around them: exact, short, and the same in
** every locale.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/digits.h"
#include "base/number.h"
#include "comma_locale.h"
#include "fault_steps.h"

static void check_integer(int64_t integer, const char *expected) {
  char text[MP_NUMBER_BYTES];
  size_t length = mp_format_integer(integer, text);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(text, expected, length);
  int64_t back = 1;
  assert_true(mp_parse_integer(text, length, &back));
  assert_true(back == integer);
}

static void integers_are_exact(void **state) {
  (void)state;
  int64_t integer;
  check_integer(0, "0");
  check_integer(-1, "-1");
  check_integer(9007199254740993, "9007199254740993");
  check_integer(INT64_MAX, "9223372036854775807");
  check_integer(INT64_MIN, "-9223372036854775808");
  assert_false(mp_parse_integer("9223372036854775808", 19, &integer));
  assert_false(mp_parse_integer("-9223372036854775809", 20, &integer));
  assert_false(mp_parse_integer("10000000000000000000", 20, &integer));
  assert_true(mp_parse_integer("-0", 2, &integer));
  assert_true(integer == 0);
  for (int i = 0; i < 100000; i++) {
    char expected[32];
    integer = (int64_t)(next_random() >> next_random() % 64);
    if (i % 2 == 0) integer = (int64_t)(0 - (uint64_t)integer);
    snprintf(expected, sizeof expected, "%lld", (long long)integer);
    check_integer(integer, expected);
  }
}

static void check_float(double number, const char *expected) {
  char text[MP_NUMBER_BYTES + 1];
  size_t length = mp_format_float(number, text);
  text[length] = '\0';
  assert_string_equal(text, expected);
}

static void floats_are_written_short_and_stay_floats(void **state) {
  (void)state;
  check_float(0.0, "0.0");
  check_float(-0.0, "-0.0");
  check_float(1.0, "1.0");
  check_float(-2.5, "-2.5");
  check_float(0.1, "0.1");
  check_float(0.1 + 0.2, "0.30000000000000004");
  check_float(1.0 / 3.0, "0.3333333333333333");
  check_float(100.0, "100.0");
  check_float(1758000000.123456, "1758000000.123456");
  check_float(9007199254740993.0, "9007199254740992.0");
  check_float(1e16, "10000000000000000.0");
  check_float(1e17, "1e+17");
  check_float(0.00001, "0.00001");
  check_float(0.00001234, "0.00001234");
  check_float(0.000001, "1e-6");
  check_float(1.5e300, "1.5e+300");
  check_float(5e-324, "5e-324");
  check_float(2.2250738585072014e-308, "2.2250738585072014e-308");
  check_float(1.7976931348623157e308, "1.7976931348623157e+308");
  check_float(9.5367431640625e-07, "9.5367431640625e-7");
}

static void check_parsed(const char *text, double expected) {
  double number = 1.0;
  if (!mp_parse_float(text, strlen(text), &number)) fail_msg("%.60s: refused", text);
  if (memcmp(&number, &expected, sizeof number) != 0) fail_msg("%.60s gives %a, not %a", text, number, expected);
}

/* The C library agrees, where it is known to be exact. */
static void check_like_strtod(const char *text) {
#ifdef __GLIBC__
  double number, expected = strtod(text, NULL);
  if (isfinite(expected)) {
    check_parsed(text, expected);
  } else if (mp_parse_float(text, strlen(text), &number)) {
    fail_msg("%.60s gives %a", text, number);
  }
#else
  (void)text;
#endif
}

/* Reads back as the same bits, and no shorter text does. */
static void check_shortest(double number) {
  char text[MP_NUMBER_BYTES + 1], other[40];
  size_t length = mp_format_float(number, text);
  text[length] = '\0';
  check_parsed(text, number);
  check_like_strtod(text);
  size_t digits = 0, zeros = 0;
  for (const char *at = text; *at != '\0' && *at != 'e'; at++) {
    if (*at < '0' || *at > '9' || (digits == 0 && *at == '0')) continue;
    digits++;
    zeros = *at == '0' ? zeros + 1 : 0;
  }
  if (digits - zeros < 2) return;
  snprintf(other, sizeof other, "%.*e", (int)(digits - zeros) - 2, number);
  double back = 0.0;
  if (mp_parse_float(other, strlen(other), &back) && back == number) fail_msg("%s is longer than %s", text, other);
}

static void random_floats_survive(void **state) {
  (void)state;
  for (uint64_t exponent = 0; exponent < 2047; exponent++) {
    for (uint64_t i = 0; i < 3; i++) {
      uint64_t bits = (exponent << 52) + i - (exponent != 0);
      double number;
      memcpy(&number, &bits, sizeof number);
      if (number != 0.0) check_shortest(number);
    }
  }
  for (int i = 0; i < 200000; i++) {
    uint64_t bits = next_random();
    if (i % 4 == 1) bits &= (UINT64_C(1) << 52) - 1; /* denormal */
    double number;
    memcpy(&number, &bits, sizeof number);
    if (i % 4 == 2) number = (double)(int64_t)(bits >> 30) / 1000.0;
    if (isfinite(number) && number != 0.0) check_shortest(number);
  }
}

static void floats_are_read_to_the_nearest(void **state) {
  (void)state;
  double number;
  check_parsed("-0.0", -0.0);
  check_parsed("0e99999999999999999999", 0.0);
  check_parsed("1E2", 100.0);
  check_parsed("1e-400", 0.0);
  check_parsed("1e-99999999999999999999", 0.0);
  check_parsed("123456789012345678901234567890", 123456789012345678901234567890.0);
  check_parsed("9223372036854775808", 9223372036854775808.0);
  check_parsed("9007199254740993.0", 9007199254740992.0);
  check_parsed("9007199254740993.00000000000000000000000000000000000001", 9007199254740994.0);
  check_parsed("2.4703282292062327e-324", 0.0);
  check_parsed("2.4703282292062328e-324", 5e-324);
  check_parsed("1.7976931348623158e308", 1.7976931348623157e308);
  assert_false(mp_parse_float("1.7976931348623159e308", 22, &number));
  assert_false(mp_parse_float("1e400", 5, &number));
  assert_false(mp_parse_float("9999999999999999999e308", 23, &number));
  assert_false(mp_parse_float("-1e99999999999999999999", 23, &number));
}

/* ---- Doubles and the middles between them, in full ---- */

#define FRACTION_BITS ((UINT64_C(1) << 52) - 1)
#define INFINITE_BITS (UINT64_C(2047) << 52)

#define LIMBS      96 /* nine digits in each */
#define LIMB       1000000000
#define MOST_TEXT  2000
#define MORE_ZEROS 900

static void multiply_limbs(uint32_t limbs[LIMBS], uint32_t factor) {
  uint64_t carry = 0;
  for (size_t i = 0; i < LIMBS; i++) {
    carry += (uint64_t)limbs[i] * factor;
    limbs[i] = (uint32_t)(carry % LIMB);
    carry /= LIMB;
  }
  assert_true(carry == 0);
}

/* All digits of mantissa * 2^exponent. Returns the exponent of ten that belongs behind them. */
static int write_digits_of(char *digits, uint64_t mantissa, int exponent) {
  uint32_t limbs[LIMBS] = {(uint32_t)(mantissa % LIMB), (uint32_t)(mantissa / LIMB % LIMB),
                           (uint32_t)(mantissa / LIMB / LIMB)};
  int twos = exponent, fives = -exponent;
  for (; twos >= 29; twos -= 29) multiply_limbs(limbs, UINT32_C(1) << 29);
  for (; twos > 0; twos--) multiply_limbs(limbs, 2);
  for (; fives >= 12; fives -= 12) multiply_limbs(limbs, 244140625);
  for (; fives > 0; fives--) multiply_limbs(limbs, 5);
  size_t i = LIMBS - 1;
  while (i > 0 && limbs[i] == 0) i--;
  digits += sprintf(digits, "%u", (unsigned)limbs[i]);
  while (i-- > 0) digits += sprintf(digits, "%09u", (unsigned)limbs[i]);
  return exponent < 0 ? exponent : 0;
}

static double double_of_bits(uint64_t bits) {
  double number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

/* The digits with a point somewhere and an exponent that makes up for it. */
static void check_digits(const char *digits, int exponent, uint64_t expected) {
  char text[MOST_TEXT];
  size_t length = strlen(digits), whole = 1 + random_size() % length;
  const char *point = whole < length ? "." : "";
  snprintf(text, sizeof text, "%.*s%s%se%d", (int)whole, digits, point, digits + whole,
           exponent + (int)(length - whole));
  if (expected < INFINITE_BITS) {
    check_parsed(text, double_of_bits(expected));
  } else {
    double number;
    if (mp_parse_float(text, strlen(text), &number)) fail_msg("%.60s gives %a", text, number);
  }
  check_like_strtod(text);
}

/* Takes 1 from the digit behind the last one. */
static void decrement(char *digits) {
  char *at = digits + strlen(digits);
  strcpy(at, "9");
  while (*--at == '0') *at = '9';
  (*at)--;
}

/* A double, the middle between it and the next one, and what is near to that. */
static void check_neighbourhood(uint64_t bits) {
  char digits[MOST_TEXT];
  int exponent = (int)(bits >> 52), two = (exponent == 0 ? 1 : exponent) - 1075;
  uint64_t mantissa = (bits & FRACTION_BITS) | (uint64_t)(exponent != 0) << 52;
  int ten = write_digits_of(digits, mantissa, two);
  check_digits(digits, ten, bits);
  ten = write_digits_of(digits, 2 * mantissa + 1, two - 1);
  check_digits(digits, ten, bits + bits % 2);
  size_t length = strlen(digits);
  size_t zeros = random_size() % MORE_ZEROS;
  memset(digits + length, '0', zeros);
  strcpy(digits + length + zeros, "1");
  check_digits(digits, ten - (int)zeros - 1, bits + 1);
  digits[length] = '\0';
  decrement(digits);
  check_digits(digits, ten - 1, bits);
}

/* The n-th of the doubles that are tried: it is finite, and not negative. */
static uint64_t hard_bits(long n) {
  uint64_t power_of_two = (uint64_t)n / 6 % 2047 << 52, random = next_random(), fraction = random & FRACTION_BITS;
  switch (n % 6) {
  case 0:
    return power_of_two;
  case 1:
    return power_of_two + FRACTION_BITS - random % 3; /* just below the next one */
  case 2:
    return power_of_two + (UINT64_C(1) << random % 52);
  case 3:
    return fraction >> n % 52; /* denormal */
  case 4:
    return INFINITE_BITS - 1 - random % 64;
  default:
    return power_of_two + fraction;
  }
}

static void middles_of_doubles_decide(void **state) {
  (void)state;
  const long all = 200000, stride = 23 * valgrind_stride();
  for (uint64_t i = 0; i < 5; i++) {
    check_neighbourhood(i);
    check_neighbourhood(INFINITE_BITS - 1 - i);
    check_neighbourhood(FRACTION_BITS - 2 + i);
  }
  for (long n = fault_in_turn(0, stride); n <= all; n = fault_in_turn(n, stride)) {
    random_state = (uint64_t)n * UINT64_C(0x9E3779B97F4A7C15);
    check_neighbourhood(hard_bits(n));
  }
}

/* Up to 900 digits by chance, or a double in 15 to 19 digits. */
static void write_random_number(char *text) {
  size_t kind = random_size() % 4, count = 1 + random_size() % (kind == 0 ? 900 : 40);
  if (kind < 2) {
    for (size_t i = 0; i < count; i++) text[i] = (char)('0' + next_random() % 10);
    sprintf(text + count, "e%d", (int)(next_random() % 700) - 350 - (int)(kind == 0 ? count : 0));
  } else {
    uint64_t bits = next_random() >> 1;
    if (kind == 3) bits &= (UINT64_C(1) << 56) - 1;
    double number = double_of_bits(bits);
    sprintf(text, "%.*e", 14 + (int)(count % 5), isfinite(number) ? number : 1.0);
  }
}

static void random_texts_are_read_like_strtod(void **state) {
  (void)state;
#ifndef __GLIBC__
  skip();
#endif
  char text[MOST_TEXT];
  const long all = 2000000, stride = 23 * valgrind_stride();
  for (long n = fault_in_turn(0, stride); n <= all; n = fault_in_turn(n, stride)) {
    random_state = (uint64_t)n * UINT64_C(0x9E3779B97F4A7C15);
    write_random_number(text);
    check_like_strtod(text);
  }
}

/*
** The exact middle of two doubles, written in full, decides by what comes after hundreds of digits.
*/
static void long_digit_strings_stay_exact(void **state) {
  (void)state;
  static char text[20000];
  static char exact[2000];
  snprintf(exact, sizeof exact, "%.1100f", 2.2250738585072011e-308);
  check_parsed(exact, 2.2250738585072011e-308);
  memset(text, '0', 15000);
  memcpy(text, "9007199254740993.", 17);
  text[15000] = '\0';
  check_parsed(text, 9007199254740992.0);
  text[14999] = '1';
  check_parsed(text, 9007199254740994.0);
  memset(text, '0', 15000);
  memcpy(text, "0.", 2);
  memcpy(text + 14990, "25e+14989", 10);
  check_parsed(text, 2.5);
  memset(text, '0', 15000);
  text[0] = '7';
  memcpy(text + 14990, "e-14989", 8);
  check_parsed(text, 7.0);
}

static void the_locale_does_not_matter(void **state) {
  (void)state;
  begin_comma_locale();
  check_float(0.1, "0.1");
  check_parsed("0.1", 0.1);
  check_parsed("0.30000000000000004", 0.1 + 0.2);
  check_parsed("123456789012345678901234567890.5e-3", 123456789012345678901234567.8905);
  end_comma_locale();
}

/* Whatever stands around them, in memory of exactly their size. */
static void digits_are_counted_and_read_eight_at_a_time(void **state) {
  static const char digits[] = "9876543210123456789", ends[] = {'\0', '/', ':', '.', ' ', '\xB0', '\xFF', 'e'};
  (void)state;
  for (size_t length = 0; length < sizeof digits; length++) {
    char *exact = malloc(length + 9);
    assert_non_null(exact);
    memcpy(exact, digits, length);
    for (size_t i = 0; i < sizeof ends; i++) {
      memset(exact + length, '7', 9);
      exact[length] = ends[i];
      assert_int_equal(mp_count_digits(exact, exact + length + 9), length);
      assert_int_equal(mp_count_digits(exact, exact + length), length);
    }
    uint64_t expected = 5;
    for (size_t i = 0; i < length; i++) expected = expected * 10 + (uint64_t)(digits[i] - '0');
    char *alone = malloc(length + 1);
    assert_non_null(alone);
    memcpy(alone + 1, digits, length);
    assert_true(mp_digits_value(5, alone + 1, length) == expected);
    free(alone);
    free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_are_exact),
      cmocka_unit_test(floats_are_written_short_and_stay_floats),
      cmocka_unit_test(random_floats_survive),
      cmocka_unit_test(floats_are_read_to_the_nearest),
      cmocka_unit_test(middles_of_doubles_decide),
      cmocka_unit_test(random_texts_are_read_like_strtod),
      cmocka_unit_test(long_digit_strings_stay_exact),
      cmocka_unit_test(digits_are_counted_and_read_eight_at_a_time),
      cmocka_unit_test(the_locale_does_not_matter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
