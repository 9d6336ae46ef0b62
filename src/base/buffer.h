/*
** A growing byte buffer. When an allocation fails, or the buffer would grow beyond `limit`, it
** becomes `failed` and ignores further writes: a writer checks once, at its end.
*/
#ifndef MP_BASE_BUFFER_H
#define MP_BASE_BUFFER_H

#include <string.h>

#include "base/env.h"

typedef struct mp_buffer {
  char *data;
  size_t length;
  size_t capacity;
  mp_env *env; /* borrowed */
  bool failed;
  bool over_limit; /* it failed because of `limit` */
  size_t limit;    /* no allocation beyond this many bytes; 0: no limit */
} mp_buffer;

void mp_buffer_init(mp_buffer *buffer, mp_env *env);
void mp_buffer_free(mp_buffer *buffer);              /* it is empty and usable afterwards */
void mp_buffer_clear(mp_buffer *buffer);             /* length 0, no failure, memory kept */
bool mp_buffer_grow(mp_buffer *buffer, size_t more); /* the slow path of mp_buffer_room */

/* Makes sure that `more` bytes fit; false (and failed) when they do not. */
static inline bool mp_buffer_room(mp_buffer *buffer, size_t more) {
  return (!buffer->failed && buffer->capacity - buffer->length >= more) || mp_buffer_grow(buffer, more);
}
static inline void mp_buffer_add(mp_buffer *buffer, const char *data, size_t length) {
  if (length != 0 && mp_buffer_room(buffer, length)) {
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
  }
}
static inline void mp_buffer_add_string(mp_buffer *buffer, moonpad_string text) {
  mp_buffer_add(buffer, text.data, text.length);
}
static inline void mp_buffer_add_char(mp_buffer *buffer, char byte) {
  if (mp_buffer_room(buffer, 1)) buffer->data[buffer->length++] = byte;
}
/* `literal` is a string literal. */
#define mp_buffer_add_literal(buffer, literal) mp_buffer_add((buffer), (literal), sizeof(literal) - 1)

static inline moonpad_string mp_buffer_text(const mp_buffer *buffer) {
  moonpad_string text;
  text.data = buffer->data;
  text.length = buffer->length;
  return text;
}

/*
** Moves the bytes, NUL-terminated, to a public moonpad_buffer; `buffer` is empty afterwards.
** Errors: no_memory, also if the buffer has `failed`.
*/
moonpad_status mp_buffer_hand_over(mp_buffer *buffer, moonpad_buffer *result, moonpad_error *error);

#endif
