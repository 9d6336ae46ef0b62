/* Text in a block of just its size, so that the sanitizers see a read beyond its end. */
#ifndef EXACT_COPY_H
#define EXACT_COPY_H

#include <stdlib.h>
#include <string.h>

#include "moonpad.h"

/* The caller frees the data. */
static inline moonpad_string exact_copy(moonpad_string text) {
  char *copy = malloc(text.length == 0 ? 1 : text.length);
  if (copy == NULL) abort();
  if (text.length != 0) memcpy(copy, text.data, text.length);
  return (moonpad_string){copy, text.length};
}

#endif
