/*
** Finding secrets in a text, in the ways of writing that servers use to quote: as they are, and
** escaped for JSON, for an address, for HTML, also twice.
*/
#ifndef MP_BASE_SECRETS_H
#define MP_BASE_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "moonpad.h"

/* The words that are looked for. Where several begin at one place, the first of them counts. */
typedef struct mp_secrets {
  bool starts[256]; /* the bytes that one may begin with */
  size_t count;
  moonpad_string words[]; /* borrowed, not empty */
} mp_secrets;

/* The memory that `count` words need. */
static inline size_t mp_secrets_size(size_t count) {
  return sizeof(mp_secrets) + count * sizeof(moonpad_string);
}
/* To be called when the words are there. */
void mp_secrets_prepare(mp_secrets *secrets);

typedef struct mp_secret_place {
  bool is_found;
  bool is_cut; /* the text ends in what may be one: there is no `end` */
  size_t begin;
  size_t end; /* behind it */
} mp_secret_place;

/*
** The next place that begins at `first` or behind it, and before `last`. A text that is whole ends
** in none.
*/
mp_secret_place mp_secrets_find(const mp_secrets *secrets, moonpad_string text, size_t first, size_t last,
                                bool is_whole);

#endif
