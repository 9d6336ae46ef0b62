/* Finding the scheme of a URL. */
#include "base/url.h"

#include <stdbool.h>

moonpad_string mp_url_scheme(moonpad_string url) {
  moonpad_string found = {url.data, 0};
  for (size_t i = 0; i < url.length; i++) {
    char byte = url.data[i];
    bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    bool is_other = (byte >= '0' && byte <= '9') || byte == '+' || byte == '-' || byte == '.';
    if (byte == ':' && i > 0) found.length = i + 1;
    if (!is_letter && (!is_other || i == 0)) break;
  }
  return found;
}
