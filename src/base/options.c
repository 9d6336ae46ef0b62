/* Reading option structs of older and newer programs. */
#include "base/options.h"

#include <stdalign.h>
#include <string.h>

#include "base/error.h"

/*
** No option struct will ever be larger. A larger size comes from a struct that was never
** initialised, and must not be read.
*/
#define MOST_BYTES 4096

moonpad_status mp_take_options(const char *name, size_t first_size, const void *given, void *options, size_t size,
                               moonpad_error *error) {
  size_t given_size;
  if (given == NULL) return MOONPAD_OK;
  memcpy(&given_size, given, sizeof given_size);
  if (given_size < first_size || given_size > MOST_BYTES || given_size % alignof(size_t) != 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: its size cannot be %zu (here it is %zu): start from %s_init",
                   name, given_size, size, name);
  }
  const unsigned char *bytes = given;
  for (size_t at = size; at < given_size; at++) {
    if (bytes[at] == 0) continue;
    return mp_fail(error, MOONPAD_UNSUPPORTED,
                   "%s: the field at byte %zu belongs to a later version of moonpad than this library (%s)", name, at,
                   MOONPAD_VERSION);
  }
  memcpy(options, given, given_size < size ? given_size : size);
  memcpy(options, &size, sizeof size);
  return MOONPAD_OK;
}
