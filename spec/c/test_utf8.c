/*
** UTF-8 (base/utf8.h), code point by code point: what is valid, how characters are decoded and
** encoded, which of them make an identifier.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static size_t prefix(const char *data, size_t length) {
  return mp_utf8_valid_prefix(data, length);
}
#define PREFIX(literal) prefix(literal, sizeof(literal) - 1)

static bool is_scalar(uint32_t code_point) {
  return code_point < 0xD800 || (code_point > 0xDFFF && code_point <= 0x10FFFF);
}

static void every_character_goes_there_and_back(void **state) {
  (void)state;
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; code_point++) {
    if (!is_scalar(code_point)) continue;
    char bytes[4];
    uint32_t decoded = 0xFFFFFFFF;
    size_t size = mp_utf8_encode(code_point, bytes);
    if (mp_utf8_decode(bytes, size, &decoded) != size || decoded != code_point ||
        mp_utf8_valid_prefix(bytes, size) != size) {
      fail_msg("U+%04X", (unsigned)code_point);
    }
    for (size_t cut = 1; cut < size; cut++) {
      assert_int_equal(mp_utf8_decode(bytes, cut, &decoded), 0);
      assert_int_equal(mp_utf8_valid_prefix(bytes, cut), 0);
    }
  }
}

/*
** Counting all valid sequences of up to three bytes, and the leads of longer ones, leaves no room
** for an overlong form or a surrogate.
*/
static void nothing_else_is_valid(void **state) {
  (void)state;
  size_t two = 0, three = 0, four = 0;
  for (unsigned lead = 0x80; lead < 0x100; lead++) {
    for (unsigned second = 0; second < 0x100; second++) {
      char bytes[4] = {(char)lead, (char)second, (char)0x80, (char)0xBF};
      if (mp_utf8_valid_prefix(bytes, 2) == 2) two++;
      if (mp_utf8_valid_prefix(bytes, 3) == 3 && mp_utf8_valid_prefix(bytes, 2) == 0) three++;
      if (mp_utf8_valid_prefix(bytes, 4) == 4 && mp_utf8_valid_prefix(bytes, 3) == 0) four++;
    }
  }
  assert_int_equal(two, 0x800 - 0x80);
  assert_int_equal(three, (0x10000 - 0x800 - 0x800) / 64);
  assert_int_equal(four, 0x100000 / 4096);
}

static void the_first_bad_byte_is_found(void **state) {
  (void)state;
  assert_int_equal(prefix(NULL, 0), 0);
  assert_int_equal(PREFIX("a\0b"), 3);
  assert_int_equal(PREFIX("\xC0\x80"), 0);         /* overlong NUL */
  assert_int_equal(PREFIX("ab\xC1\xBF"), 2);       /* overlong */
  assert_int_equal(PREFIX("\xE0\x9F\xBF"), 0);     /* overlong */
  assert_int_equal(PREFIX("\xF0\x8F\xBF\xBF"), 0); /* overlong */
  assert_int_equal(PREFIX("\xED\xA0\x80"), 0);     /* a surrogate */
  assert_int_equal(PREFIX("\xF4\x90\x80\x80"), 0); /* beyond U+10FFFF */
  assert_int_equal(PREFIX("\xF5\x80\x80\x80"), 0); /* no such lead */
  assert_int_equal(PREFIX("\xC3\xA9\x80"), 2);     /* a stray continuation */
  assert_int_equal(PREFIX("12345678\xE2\x82\xAC"
                          "12345678901\xFF"),
                   22);
  char text[64];
  for (size_t bad = 0; bad < sizeof text; bad++) {
    memset(text, 'x', sizeof text);
    text[bad] = (char)0xFF;
    assert_int_equal(prefix(text, sizeof text), bad);
  }
}

static void decoding_fails_without_reading_further(void **state) {
  (void)state;
  uint32_t code_point;
  assert_int_equal(mp_utf8_decode("\x80", 1, &code_point), 0);
  assert_int_equal(mp_utf8_decode("\xE2\x82", 2, &code_point), 0);
  assert_int_equal(mp_utf8_decode("\xE2\x82\xAC", 3, &code_point), 3);
  assert_int_equal(code_point, 0x20AC);
  assert_int_equal(mp_utf8_decode("\xF0\x9F\x8C\x99z", 5, &code_point), 4);
  assert_int_equal(code_point, 0x1F319);
}

static void ascii_letters_digits_and_underscores_make_identifiers(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 0x80; c++) {
    bool letter = c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", (int)c) != NULL;
    bool digit = c >= '0' && c <= '9';
    if (mp_utf8_identifier_start(c) != letter || mp_utf8_identifier_part(c) != (letter || digit)) {
      fail_msg("U+%04X", (unsigned)c);
    }
  }
}

static void identifiers_beyond_ascii(void **state) {
  (void)state;
  static const uint32_t starts[] = {0xAA,   0xB5,   0xC0,   0xD6,   0xD8,   0xE9,   0x3B1,   0x5D0,   0x627,  0x905,
                                    0x2160, 0x3042, 0x4E2D, 0x9FFF, 0xAC00, 0xD7A3, 0x10000, 0x20000, 0x2A6DF};
  static const uint32_t parts[] = {0x300, 0x36F, 0x660, 0x669, 0x903, 0x966, 0x203F, 0xFE4F, 0xFF10, 0x1D7CE, 0xE01EF};
  static const uint32_t neither[] = {0x80,    0xA0,    0xA9,     0xB2,     0xBD,      0xD7,   0xF7,
                                     0x2014,  0x20AC,  0x3000,   0xD800,   0xE000,    0xFFFD, 0x1F319,
                                     0xE0001, 0xE01F0, 0x10FFFF, 0x110000, 0xFFFFFFFF};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    assert_true(mp_utf8_identifier_start(starts[i]));
    assert_true(mp_utf8_identifier_part(starts[i]));
  }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    assert_false(mp_utf8_identifier_start(parts[i]));
    assert_true(mp_utf8_identifier_part(parts[i]));
  }
  for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) {
    assert_false(mp_utf8_identifier_start(neither[i]));
    assert_false(mp_utf8_identifier_part(neither[i]));
  }
}

/*
** The whole of Unicode 14: how many characters are in the classes, and where (the sum of the
** code points).
*/
static void identifier_classes_are_complete(void **state) {
  (void)state;
  uint64_t starts = 0, parts = 0, start_sum = 0, part_sum = 0;
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    if (mp_utf8_identifier_start(c)) starts++, start_sum += c;
    if (mp_utf8_identifier_part(c)) parts++, part_sum += c;
  }
  assert_int_equal(starts, 131993);
  assert_int_equal(start_sum, 13916837030);
  assert_int_equal(parts, 135057);
  assert_int_equal(part_sum, 14257374257);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_character_goes_there_and_back),
      cmocka_unit_test(nothing_else_is_valid),
      cmocka_unit_test(the_first_bad_byte_is_found),
      cmocka_unit_test(decoding_fails_without_reading_further),
      cmocka_unit_test(ascii_letters_digits_and_underscores_make_identifiers),
      cmocka_unit_test(identifiers_beyond_ascii),
      cmocka_unit_test(identifier_classes_are_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
