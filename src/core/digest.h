/*
** Digests of JSON text: 64-bit hashes that do not depend on the order of an object's members. An
** append with a known event id compares them to tell a retry from another event (contract 2.2).
** They are stored in files (docs/storage.md), so the algorithm must never change.
*/
#ifndef MP_CORE_DIGEST_H
#define MP_CORE_DIGEST_H

#include "base/bytes.h"
#include "moonpad.h"

/* Stands for a value that is not there: in an event, that of a removed key. */
#define MP_DIGEST_REMOVED UINT64_C(7)
/* Of a scalar's text, or of a key. */
static inline uint64_t mp_digest_text(moonpad_string text) {
  return mp_hash(text.data, text.length);
}
static inline uint64_t mp_digest_mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2))) * UINT64_C(0xff51afd7ed558ccd);
  return x ^ (x >> 32);
}

/* An object starts with this; add mp_digest_mix(digest of the key, of the value) per member. */
#define MP_DIGEST_OBJECT UINT64_C(11)
/* An array starts with this; then digest = mp_digest_mix(digest, digest of the item) per item. */
#define MP_DIGEST_ARRAY UINT64_C(13)
static inline uint64_t mp_digest_object_end(uint64_t sum) {
  return mp_digest_mix(sum, 1);
}
static inline uint64_t mp_digest_array_end(uint64_t chain) {
  return mp_digest_mix(chain, 2);
}

#endif
