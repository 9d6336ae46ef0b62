/* Growing byte buffers, and handing their bytes to the host as moonpad_buffer. */
#include "base/buffer.h"

#include "base/error.h"

#define SMALLEST 64

void mp_buffer_init(mp_buffer *buffer, mp_env *env) {
  buffer->data = NULL;
  buffer->length = 0;
  buffer->capacity = 0;
  buffer->env = env;
  buffer->failed = buffer->over_limit = false;
  buffer->limit = 0;
}

void mp_buffer_free(mp_buffer *buffer) {
  mp_release(buffer->env, buffer->data);
  mp_buffer_init(buffer, buffer->env);
}

void mp_buffer_clear(mp_buffer *buffer) {
  buffer->length = 0;
  buffer->failed = buffer->over_limit = false;
}

bool mp_buffer_grow(mp_buffer *buffer, size_t more) {
  if (buffer->failed) return false;
  if (buffer->capacity - buffer->length >= more) return true;
  buffer->failed = true;
  if (more > SIZE_MAX - buffer->length) return false;
  size_t needed = buffer->length + more;
  size_t wanted = buffer->capacity > SIZE_MAX / 2 ? needed : buffer->capacity * 2;
  if (wanted < SMALLEST) wanted = SMALLEST;
  if (buffer->limit != 0 && needed > buffer->limit) {
    buffer->over_limit = true;
    return false;
  }
  if (buffer->limit != 0 && wanted > buffer->limit) wanted = buffer->limit;
  if (wanted < needed) wanted = needed;
  char *grown = mp_resize(buffer->env, buffer->data, wanted);
  if (grown == NULL) return false;
  buffer->data = grown;
  buffer->capacity = wanted;
  buffer->failed = false;
  return true;
}

moonpad_status mp_buffer_hand_over(mp_buffer *buffer, moonpad_buffer *result, moonpad_error *error) {
  if (!mp_buffer_room(buffer, 1)) return mp_no_memory(error);
  buffer->data[buffer->length] = '\0';
  result->data = buffer->data;
  result->length = buffer->length;
  /* So that the bytes can outlive the service. */
  result->owner = mp_env_retain(buffer->env);
  mp_buffer_init(buffer, buffer->env);
  return MOONPAD_OK;
}

void moonpad_buffer_free(moonpad_buffer *buffer) {
  if (buffer == NULL) return;
  mp_env *env = buffer->owner;
  if (env != NULL) {
    mp_release(env, buffer->data);
    mp_env_release(env);
  }
  buffer->data = NULL;
  buffer->length = 0;
  buffer->owner = NULL;
}
