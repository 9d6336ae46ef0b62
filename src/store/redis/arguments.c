/* What is sent: strings, one behind the other. */
#include <inttypes.h>
#include <stdio.h>

#include "base/number.h"
#include "core/value.h"
#include "store/redis/redis.h"

void mp_redis_arguments_init(mp_redis_arguments *arguments, mp_env *env) {
  *arguments = (mp_redis_arguments){.env = env};
  mp_buffer_init(&arguments->bytes, env);
}

void mp_redis_arguments_free(mp_redis_arguments *arguments) {
  mp_buffer_free(&arguments->bytes);
  mp_release(arguments->env, arguments->ends);
  arguments->ends = NULL;
  arguments->count = arguments->capacity = 0;
}

void mp_redis_arguments_clear(mp_redis_arguments *arguments) {
  mp_buffer_clear(&arguments->bytes);
  arguments->count = 0;
  arguments->failed = false;
}

void mp_redis_end_argument(mp_redis_arguments *arguments) {
  void *ends = arguments->ends;
  bool has_room =
      mp_reserve(arguments->env, &ends, &arguments->capacity, sizeof *arguments->ends, arguments->count + 1);
  arguments->failed = arguments->failed || !has_room || arguments->bytes.failed;
  if (arguments->failed) return;
  arguments->ends = ends;
  arguments->ends[arguments->count++] = arguments->bytes.length;
}

void mp_redis_add(mp_redis_arguments *arguments, moonpad_string text) {
  mp_buffer_add_string(&arguments->bytes, text);
  mp_redis_end_argument(arguments);
}

void mp_redis_add_text(mp_redis_arguments *arguments, const char *text) {
  mp_redis_add(arguments, moonpad_text(text));
}

void mp_redis_add_integer(mp_redis_arguments *arguments, int64_t number) {
  char digits[MP_NUMBER_BYTES];
  mp_redis_add(arguments, (moonpad_string){digits, mp_format_integer(number, digits)});
}

void mp_redis_add_switch(mp_redis_arguments *arguments, bool on) {
  mp_redis_add_text(arguments, on ? "1" : "0");
}

/* Scripts compare with "0". */
void mp_redis_add_time(mp_redis_arguments *arguments, double seconds) {
  char digits[MP_NUMBER_BYTES];
  if (seconds == 0) {
    mp_redis_add_text(arguments, "0");
    return;
  }
  mp_redis_add(arguments, (moonpad_string){digits, mp_format_float(seconds, digits)});
}

void mp_redis_add_value(mp_redis_arguments *arguments, const mp_value *value) {
  if (value != NULL) mp_value_write(&arguments->bytes, value);
  mp_redis_end_argument(arguments);
}

void mp_redis_add_about(mp_redis_arguments *arguments, const mp_event_row *event) {
  char text[MP_NUMBER_BYTES + 64];
  size_t length = mp_format_float(event->timestamp, text);
  length += (size_t)snprintf(text + length, sizeof text - length, " %" PRIu64 " %u", event->digest, event->kinds);
  mp_buffer_add(&arguments->bytes, text, length);
  if (event->invocation.length > 0) mp_buffer_add_char(&arguments->bytes, ' ');
  mp_redis_add(arguments, event->invocation);
}

static bool is_plain(char byte) {
  char lower = (char)(byte | 0x20);
  return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '~' ||
         byte == '-';
}

void mp_redis_encode(mp_redis_arguments *arguments, moonpad_string name) {
  static const char digits[] = "0123456789ABCDEF";
  for (size_t i = 0; i < name.length; i++) {
    size_t begin = i;
    while (i < name.length && is_plain(name.data[i])) i++;
    mp_buffer_add(&arguments->bytes, name.data + begin, i - begin);
    if (i == name.length) return;
    unsigned char byte = (unsigned char)name.data[i];
    const char code[] = {'%', digits[byte >> 4], digits[byte & 15]};
    mp_buffer_add(&arguments->bytes, code, sizeof code);
  }
}

moonpad_string mp_redis_argument(const mp_redis_arguments *arguments, size_t index) {
  size_t begin = index == 0 ? 0 : arguments->ends[index - 1];
  size_t length = arguments->ends[index] - begin;
  /* An empty one may stand behind nothing. */
  return (moonpad_string){length == 0 ? "" : arguments->bytes.data + begin, length};
}

void mp_redis_begin_key(mp_redis_arguments *arguments, const mp_redis *store, moonpad_string app_name) {
  mp_buffer_add_string(&arguments->bytes, moonpad_text(store->prefix));
  mp_buffer_add_char(&arguments->bytes, '{');
  mp_redis_encode(arguments, app_name);
  mp_buffer_add_literal(&arguments->bytes, "}:");
}

void mp_redis_end_key(mp_redis_arguments *arguments, const char *end) {
  mp_buffer_add_string(&arguments->bytes, moonpad_text(end));
  mp_redis_end_argument(arguments);
}

bool mp_redis_is_same(moonpad_string a, moonpad_string b) {
  return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}
