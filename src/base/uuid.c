/* UUIDs, versions 4 and 7. */
#include "base/uuid.h"

#include <string.h>

/* Runs for every event, so it has no branches and no table. */
static void write_uuid(const unsigned char bytes[16], char out[MP_UUID_BYTES]) {
  char digits[32];
  for (size_t i = 0; i < 16; i++) {
    digits[2 * i] = (char)(bytes[i] >> 4);
    digits[2 * i + 1] = (char)(bytes[i] & 15);
  }
  for (size_t i = 0; i < 32; i++) digits[i] = (char)(digits[i] + '0' + ('a' - '0' - 10) * (digits[i] > 9));
  memcpy(out, digits, 8);
  memcpy(out + 9, digits + 8, 4);
  memcpy(out + 14, digits + 12, 4);
  memcpy(out + 19, digits + 16, 4);
  memcpy(out + 24, digits + 20, 12);
  out[8] = out[13] = out[18] = out[23] = '-';
}

static void mark_variant(unsigned char bytes[16]) {
  bytes[8] = (unsigned char)((bytes[8] & 0x3Fu) | 0x80u);
}

void mp_uuid4(mp_env *env, char out[MP_UUID_BYTES]) {
  unsigned char bytes[16];
  mp_random(env, bytes);
  bytes[6] = (unsigned char)((bytes[6] & 0x0Fu) | 0x40u);
  mark_variant(bytes);
  write_uuid(bytes, out);
}

void mp_uuid7(mp_env *env, double now, char out[MP_UUID_BYTES]) {
  unsigned char bytes[16];
  mp_random_bytes(env, bytes + 8, 8);
  double exact = now * 1000.0;
  /* It stays 0 if the clock gives a time before 1970, or NaN. */
  uint64_t milliseconds = 0;
  unsigned fraction = 0;
  if (exact >= 281474976710655.0) {
    milliseconds = UINT64_C(0xFFFFFFFFFFFF);
  } else if (exact > 0.0) {
    milliseconds = (uint64_t)exact;
    fraction = (unsigned)((exact - (double)milliseconds) * 4096.0);
  }
  uint64_t head = milliseconds << 16 | 0x7000u | fraction;
  for (size_t i = 0; i < 8; i++) bytes[i] = (unsigned char)(head >> (56 - 8 * i));
  mark_variant(bytes);
  write_uuid(bytes, out);
}
