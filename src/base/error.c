/* Names of status codes, filling errors, and quoting text for messages. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define QUOTED_BYTES 60
#define PATH_BYTES   600

const char *moonpad_status_name(moonpad_status status) {
  switch (status) {
  case MOONPAD_OK:
    return "ok";
  case MOONPAD_INVALID_ARGUMENT:
    return "invalid_argument";
  case MOONPAD_NOT_FOUND:
    return "not_found";
  case MOONPAD_ALREADY_EXISTS:
    return "already_exists";
  case MOONPAD_CONFLICT:
    return "conflict";
  case MOONPAD_TEMPLATE:
    return "template";
  case MOONPAD_MODEL:
    return "model";
  case MOONPAD_TOOL:
    return "tool";
  case MOONPAD_LIMIT:
    return "limit";
  case MOONPAD_BUSY:
    return "busy";
  case MOONPAD_CLOSED:
    return "closed";
  case MOONPAD_CANCELLED:
    return "cancelled";
  case MOONPAD_STORAGE:
    return "storage";
  case MOONPAD_CORRUPT:
    return "corrupt";
  case MOONPAD_NO_MEMORY:
    return "no_memory";
  case MOONPAD_UNSUPPORTED:
    return "unsupported";
  }
  return "unknown";
}

/* The length to which `text` can be cut so that its last character is complete. */
static size_t character_boundary(const char *text, size_t length) {
  size_t start = length;
  while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) start--;
  if (start == 0) return length;
  unsigned char lead = (unsigned char)text[start - 1];
  size_t needed = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return length - (start - 1) < needed ? start - 1 : length;
}

moonpad_status mp_fail(moonpad_error *error, moonpad_status status, const char *format, ...) {
  if (error == NULL) return status;
  /* A copy, because an argument may be the old message. */
  char message[sizeof error->message];
  va_list arguments;
  va_start(arguments, format);
  int wanted = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  size_t length = wanted < 0 ? 0 : (size_t)wanted;
  if (length >= sizeof message) length = character_boundary(message, sizeof message - 1);
  memcpy(error->message, message, length);
  error->message[length] = '\0';
  error->code = status;
  return status;
}

moonpad_status mp_no_memory(moonpad_error *error) {
  return mp_fail(error, MOONPAD_NO_MEMORY, "out of memory");
}

moonpad_status mp_fail_at_path(moonpad_error *error, moonpad_status status, moonpad_string path, const char *reason) {
  if (path.length <= PATH_BYTES) {
    return mp_fail(error, status, "%.*s%s", (int)path.length, path.data, reason);
  }
  size_t head = PATH_BYTES / 2, tail = path.length - PATH_BYTES / 2;
  while (head > 0 && mp_utf8_is_continuation(path.data[head])) head--;
  while (tail < path.length && mp_utf8_is_continuation(path.data[tail])) tail++;
  return mp_fail(error, status, "%.*s ... %.*s%s", (int)head, path.data, (int)(path.length - tail), path.data + tail,
                 reason);
}

/*
** Writes the first character of `text` in visible form. `size` is its number of bytes, 0 if it is
** invalid. Returns the bytes written.
*/
static size_t quote_character(char *out, const char *text, size_t size) {
  static const char hex[] = "0123456789ABCDEF";
  unsigned char byte = (unsigned char)text[0];
  if (byte == '"' || byte == '\\') {
    out[0] = '\\';
    out[1] = (char)byte;
    return 2;
  }
  if (size == 0 || byte < 0x20 || byte == 0x7F) {
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[byte >> 4];
    out[3] = hex[byte & 15];
    return 4;
  }
  memcpy(out, text, size);
  return size;
}

mp_quoted mp_quote(moonpad_string text) {
  mp_quoted quoted;
  size_t used = 0, position = 0;
  quoted.text[used++] = '"';
  while (position < text.length) {
    uint32_t code_point;
    size_t size = mp_utf8_decode(text.data + position, text.length - position, &code_point);
    size_t taken = size == 0 ? 1 : size;
    if (position + taken > QUOTED_BYTES) break;
    used += quote_character(quoted.text + used, text.data + position, size);
    position += taken;
  }
  if (position < text.length) {
    memcpy(quoted.text + used, "...", 3);
    used += 3;
  }
  quoted.text[used++] = '"';
  quoted.text[used] = '\0';
  return quoted;
}
