/*
** A scanner for canonical JSON: compact, and spelt as this library spells it. In one pass it checks
** the text and computes its digest, and it copies nothing. Valid text in another spelling fails
** here just as invalid text does. mp_json_compact accepts the former and says what is wrong with
** the latter.
*/
#ifndef MP_CORE_JSON_SCAN_H
#define MP_CORE_JSON_SCAN_H

#include "core/digest.h"
#include "core/json_lex.h"
#include "moonpad.h"

/* Keys of all objects that are open at one time. Text with more fails, though it may be valid. */
#define MP_SCAN_KEYS 128

/* What is checked, besides that the text is compact. */
typedef enum mp_scan_kind {
  MP_SCAN_CANONICAL, /* valid, in canonical spelling, no key twice in an object */
  MP_SCAN_VALID,     /* valid, see mp_scan_check */
  MP_SCAN_TRUSTED    /* nothing */
} mp_scan_kind;

typedef struct mp_scan {
  const char *at;
  const char *end;
  mp_scan_kind kind;
  bool escaped; /* the last string may have escapes */
  unsigned depth;
  unsigned max_depth;
  unsigned deepest; /* the highest `depth` so far; the caller may set it back */
  size_t key_count;
  uint64_t keys[MP_SCAN_KEYS]; /* their hashes, for MP_SCAN_CANONICAL */
} mp_scan;

void mp_scan_init(mp_scan *scan, moonpad_string text, unsigned max_depth, mp_scan_kind kind);
/*
** Is the text one value, valid and compact (keys may come twice)? Then it can be read as trusted
** JSON. For text from files, which may be damaged or edited by hand. A NUL must follow the text.
*/
bool mp_scan_check(moonpad_string text);

/* The next byte; NUL at the end. */
static inline char mp_scan_peek(const mp_scan *scan) {
  return scan->at < scan->end ? *scan->at : '\0';
}

/* ---- strings ---- */

/* The slow path of mp_scan_string_end: escapes, non-ASCII, near the end of the text. */
const char *mp_scan_long_string_end(mp_scan *scan, const char *begin);

/*
** The closing quote of the string whose first character is at `begin`. NULL if there is none, or if
** the string is invalid or not canonical.
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

/* At a key: moves after its colon. `key` is the text between the quotes, escapes not decoded. */
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

/* The slow path of mp_scan_value: everything but strings. */
bool mp_scan_any(mp_scan *scan, uint64_t *digest);

/*
** At a value: moves after it. `text` is its text, `digest` its digest. False: invalid or not
** canonical.
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
** The same for a number, except that a number in another spelling is no failure: *canonical is
** false then.
*/
bool mp_scan_number(mp_scan *scan, moonpad_string *text, bool *canonical);

/* Scanning an array or object member by member. */
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
/* MP_SCAN_NEXT: at the next key or item. `close` is the bracket that ends the object or array. */
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
** Notes a key of an object. False if its hash was there already, or if there are too many keys. Two
** keys with one hash are almost certainly equal; mp_json_compact, which is slower, decides it.
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
