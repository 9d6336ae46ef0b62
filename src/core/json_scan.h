/*
** One pass over JSON text that is already compact, as this library writes it. It checks the
** text, digests it on the way where that is wanted, and copies nothing. Text that is valid but
** spelt otherwise fails here as invalid text does: mp_json_compact tells them apart and says what
** is wrong.
*/
#ifndef MP_CORE_JSON_SCAN_H
#define MP_CORE_JSON_SCAN_H

#include "core/digest.h"
#include "core/json_lex.h"
#include "moonpad.h"

/* Of the objects that are open at one time; canonical text with more is not scanned. */
#define MP_SCAN_KEYS 128

/* What is checked besides that the text is compact. */
typedef enum mp_scan_kind {
  MP_SCAN_CANONICAL, /* that it is valid, spelt as this library spells it, and no key comes twice */
  MP_SCAN_VALID,     /* that it is valid, see mp_scan_check */
  MP_SCAN_TRUSTED    /* nothing: this library wrote it */
} mp_scan_kind;

typedef struct mp_scan {
  const char *at;
  const char *end;
  mp_scan_kind kind;
  bool escaped; /* the last string may hold escapes */
  unsigned depth;
  unsigned max_depth;
  unsigned deepest; /* where `depth` has been; may be set back */
  size_t key_count;
  uint64_t keys[MP_SCAN_KEYS]; /* hashes; where no key may come twice */
} mp_scan;

void mp_scan_init(mp_scan *scan, moonpad_string text, unsigned max_depth, mp_scan_kind kind);
/*
** Is the text one value, valid and compact (keys may come twice)? Then it may be walked over
** without looking, as our own is: what comes out of a file may have been damaged, or edited by
** hand. A NUL must follow the text.
*/
bool mp_scan_check(moonpad_string text);

/* The next byte, NUL at the end. */
static inline char mp_scan_peek(const mp_scan *scan) {
  return scan->at < scan->end ? *scan->at : '\0';
}

/* ---- strings ---- */

/* The long way of mp_scan_string_end: with escapes, beyond ASCII, near the end of the text. */
const char *mp_scan_long_string_end(mp_scan *scan, const char *begin);

/*
** The closing quote of the string of which the characters begin there; NULL: there is none, or one
** is not as it should be.
*/
MP_INLINE const char *mp_scan_string_end(mp_scan *scan, const char *begin) {
#if defined(MP_SCANS_16)
  for (const char *at = begin; scan->end - at >= 16; at += 16) {
    unsigned high, special = mp_json_special_16(at, &high);
    if (special != 0) {
      unsigned offset = (unsigned)__builtin_ctz(special);
      if (at[offset] != '"' || (high & ((1u << offset) - 1)) != 0) break;
      scan->escaped = false;
      return at + offset;
    }
    if (high != 0) break;
  }
#endif
  return mp_scan_long_string_end(scan, begin);
}

/*
** At a key: goes over it and the colon. `key` is what stands between the quotes, escapes included.
*/
MP_INLINE bool mp_scan_key(mp_scan *scan, moonpad_string *key) {
  if (mp_scan_peek(scan) != '"') return false;
  const char *begin = scan->at + 1, *quote = mp_scan_string_end(scan, begin);
  if (quote == NULL || scan->end - quote < 2 || quote[1] != ':') return false;
  scan->at = quote + 2;
  key->data = begin;
  key->length = (size_t)(quote - begin);
  return true;
}

/* ---- values ---- */

/* The long way of mp_scan_value: all but a string. */
bool mp_scan_any(mp_scan *scan, uint64_t *digest);

/*
** Any value. `text` gets where it stands, `digest` a hash that does not depend on the order of
** members. False: not valid, or not canonical.
*/
MP_INLINE bool mp_scan_value(mp_scan *scan, moonpad_string *text, uint64_t *digest) {
  const char *begin = scan->at;
  text->data = begin;
  if (mp_scan_peek(scan) == '"') {
    const char *quote = mp_scan_string_end(scan, begin + 1);
    if (quote == NULL) return false;
    scan->at = quote + 1;
    text->length = (size_t)(scan->at - begin);
    *digest = mp_digest_text(*text);
    return true;
  }
  if (!mp_scan_any(scan, digest)) return false;
  text->length = (size_t)(scan->at - begin);
  return true;
}
/*
** At a number: the same, but *canonical may come out false, which is not a failure; `digest` is
** that of the text as it stands.
*/
bool mp_scan_number(mp_scan *scan, moonpad_string *text, bool *canonical);

/* Walking an array or object whose members the caller scans one by one. */
typedef enum mp_scan_step { MP_SCAN_FAILED, MP_SCAN_NEXT, MP_SCAN_DONE } mp_scan_step;
typedef struct mp_scan_inside {
  size_t first_key;
  bool begun;
} mp_scan_inside;
/* At '{' or '['. */
static inline bool mp_scan_enter(mp_scan *scan, mp_scan_inside *inside) {
  if (scan->depth >= scan->max_depth) return false;
  scan->depth++;
  if (scan->depth > scan->deepest) scan->deepest = scan->depth;
  inside->first_key = scan->key_count;
  inside->begun = false;
  scan->at++;
  return true;
}
/* MP_SCAN_NEXT: at the key of a member, or at an item. `close` is what ends the object or array. */
MP_INLINE mp_scan_step mp_scan_next(mp_scan *scan, mp_scan_inside *inside, char close) {
  char byte = mp_scan_peek(scan);
  if (byte == close) {
    scan->at++;
    scan->depth--;
    scan->key_count = inside->first_key;
    return MP_SCAN_DONE;
  }
  if (!inside->begun) {
    inside->begun = true;
    return MP_SCAN_NEXT;
  }
  if (byte != ',') return MP_SCAN_FAILED;
  scan->at++;
  return MP_SCAN_NEXT;
}
/*
** The same hash twice in one object is most likely the same key; who is to say so for sure has more
** time. False: that, or too many keys to tell.
*/
static inline bool mp_scan_add_key(mp_scan *scan, const mp_scan_inside *inside, uint64_t hash) {
  if (scan->kind != MP_SCAN_CANONICAL) return true;
  if (scan->key_count == MP_SCAN_KEYS) return false;
  for (size_t i = inside->first_key; i < scan->key_count; i++) {
    if (scan->keys[i] == hash) return false;
  }
  scan->keys[scan->key_count++] = hash;
  return true;
}

/* The digest of any trusted JSON value. */
uint64_t mp_json_digest(moonpad_string json);

#endif
