/* Taking moonpad's own options out of a server's URL. */
#include "store/server/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  char lower = (char)(byte | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Into `out`, which has room for all of `text`. False: not percent-encoding, or a NUL. */
static bool decode(moonpad_string text, char *out) {
  for (size_t i = 0; i < text.length; i++) {
    char byte = text.data[i];
    if (byte == '%') {
      bool is_whole = i + 2 < text.length;
      int high = is_whole ? hex_digit(text.data[i + 1]) : -1;
      int low = is_whole ? hex_digit(text.data[i + 2]) : -1;
      if (high < 0 || low < 0) return false;
      byte = (char)(high << 4 | low);
      i += 2;
    }
    if (byte == '\0') return false;
    *out++ = byte;
  }
  *out = '\0';
  return true;
}

static mp_url_option *find(mp_url_option *options, size_t count, moonpad_string name) {
  for (size_t i = 0; i < count; i++) {
    if (strlen(options[i].name) == name.length && memcmp(options[i].name, name.data, name.length) == 0)
      return &options[i];
  }
  return NULL;
}

static moonpad_status take(mp_env *env, mp_url_option *option, moonpad_string value, moonpad_error *error) {
  if (option->value != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL has its option %s twice", option->name);
  }
  if (value.length == 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s has no value", option->name);
  }
  option->value = mp_allocate(env, value.length + 1);
  if (option->value == NULL) return mp_no_memory(error);
  if (decode(value, option->value)) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s is not valid percent-encoding", option->name);
}

/* Each NAME=VALUE behind the "?" is taken, or moved to the end of `left`. */
static moonpad_status take_each(mp_env *env, moonpad_string query, mp_url_option *options, size_t count, char *left,
                                moonpad_error *error) {
  char separator = '?';
  while (query.length > 0) {
    const char *end = memchr(query.data, '&', query.length);
    moonpad_string pair = {query.data, end == NULL ? query.length : (size_t)(end - query.data)};
    const char *sign = memchr(pair.data, '=', pair.length);
    moonpad_string name = {pair.data, sign == NULL ? pair.length : (size_t)(sign - pair.data)};
    moonpad_string value = {pair.data + name.length + 1, sign == NULL ? 0 : pair.length - name.length - 1};
    mp_url_option *option = find(options, count, name);
    moonpad_status status = option == NULL ? MOONPAD_OK : take(env, option, value, error);
    if (status != MOONPAD_OK) return status;
    if (option == NULL && pair.length > 0) {
      *left++ = separator;
      memcpy(left, pair.data, pair.length);
      left += pair.length;
      separator = '&';
    }
    size_t used = pair.length + (end != NULL);
    query = (moonpad_string){query.data + used, query.length - used};
  }
  *left = '\0';
  return MOONPAD_OK;
}

moonpad_status mp_url_take_options(mp_env *env, moonpad_string url, mp_url_option *options, size_t count, char **left,
                                   moonpad_error *error) {
  const char *mark = memchr(url.data, '?', url.length);
  size_t before = mark == NULL ? url.length : (size_t)(mark - url.data);
  moonpad_string query = {url.data + before + (mark != NULL), url.length - before - (mark != NULL)};
  *left = mp_allocate(env, url.length + 2);
  if (*left == NULL) return mp_no_memory(error);
  memcpy(*left, url.data, before);
  moonpad_status status = take_each(env, query, options, count, *left + before, error);
  if (status == MOONPAD_OK) return status;
  mp_release(env, *left);
  *left = NULL;
  return status;
}

void mp_url_free(mp_env *env, mp_url_option *options, size_t count) {
  for (size_t i = 0; i < count; i++) {
    mp_release(env, options[i].value);
    options[i].value = NULL;
  }
}

moonpad_status mp_url_number(const mp_url_option *option, int64_t least, int64_t most, int64_t otherwise,
                             int64_t *number, moonpad_error *error) {
  *number = otherwise;
  if (option->value == NULL) return MOONPAD_OK;
  char *end = NULL;
  errno = 0;
  long long given = strtoll(option->value, &end, 10);
  bool is_number = option->value[0] >= '0' && option->value[0] <= '9' && *end == '\0' && errno == 0;
  *number = given;
  if (is_number && given >= least && given <= most) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s: expects a whole number from %lld to %lld",
                 option->name, (long long)least, (long long)most);
}

moonpad_status mp_url_switch(const mp_url_option *option, bool otherwise, bool *on, moonpad_error *error) {
  *on = otherwise;
  if (option->value == NULL) return MOONPAD_OK;
  *on = strcmp(option->value, "on") == 0 || strcmp(option->value, "1") == 0;
  if (*on || strcmp(option->value, "off") == 0 || strcmp(option->value, "0") == 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s: expects on or off", option->name);
}
