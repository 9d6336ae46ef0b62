/* Finding the known name that a wrong one was probably meant to be. */
#include "base/nearest.h"

#define NEAREST_BYTES 48

/* Case and underscores are the commonest typos: they count for nothing. */
static size_t simplify(moonpad_string text, char out[NEAREST_BYTES]) {
  size_t length = 0;
  for (size_t i = 0; i < text.length && length < NEAREST_BYTES; i++) {
    char byte = text.data[i];
    if (byte == '_') continue;
    out[length++] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
  }
  return length;
}

/* Edit distance in which a swap of neighbours counts once. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  unsigned rows[3][NEAREST_BYTES + 1];
  for (size_t j = 0; j <= b_length; j++) rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= a_length; i++) {
    unsigned *row = rows[i % 3];
    const unsigned *above = rows[(i - 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_length; j++) {
      unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        unsigned swapped = rows[(i - 2) % 3][j - 2] + 1;
        if (swapped < best) best = swapped;
      }
      row[j] = best;
    }
  }
  return rows[a_length % 3][b_length];
}

const char *mp_nearest_name(moonpad_string given, const char *const *known) {
  char a[NEAREST_BYTES], b[NEAREST_BYTES];
  size_t a_length = simplify(given, a);
  const char *nearest = NULL;
  unsigned best = 0;
  for (size_t i = 0; known[i] != NULL; i++) {
    size_t b_length = simplify(moonpad_text(known[i]), b);
    unsigned apart = distance(a, a_length, b, b_length);
    size_t longer = a_length > b_length ? a_length : b_length;
    unsigned allowed = longer <= 3 ? 1 : longer <= 6 ? 2 : 3;
    if (apart <= allowed && (nearest == NULL || apart < best)) {
      nearest = known[i];
      best = apart;
    }
  }
  return nearest;
}
