/* Reading URLs of servers. */
#include "store/server/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"

static int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  char lower = (char)(byte | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/*
** Into `out`, which has room for all of `text`, and ends with a NUL in any case. False: not
** percent-encoding, or a NUL.
*/
static bool decode(moonpad_string text, char *out) {
  *out = '\0';
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
    *out = '\0';
  }
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

/* ---- the parts of a URL ---- */

static moonpad_status decode_part(mp_env *env, moonpad_string text, const char *expected, char **part,
                                  moonpad_error *error) {
  *part = mp_allocate(env, text.length + 1);
  if (*part == NULL) return mp_no_memory(error);
  return decode(text, *part) ? MOONPAD_OK : mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
}

/* The text up to `end`, which is in it or at its end; *rest is what is behind that. */
static moonpad_string before(moonpad_string text, const char *end, moonpad_string *rest) {
  size_t length = end == NULL ? text.length : (size_t)(end - text.data);
  size_t used = length + (end != NULL);
  *rest = (moonpad_string){text.data + used, text.length - used};
  return (moonpad_string){text.data, length};
}

static bool read_port(moonpad_string text, int *port) {
  *port = 0;
  if (text.length == 0 || text.length > 5) return false;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    *port = *port * 10 + (text.data[i] - '0');
  }
  return *port > 0 && *port <= 65535;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static moonpad_status read_host(mp_env *env, moonpad_string text, const char *expected, mp_url_host *host,
                                moonpad_error *error) {
  moonpad_string name, port = {"", 0};
  if (text.length > 0 && text.data[0] == '[') {
    const char *end = memchr(text.data, ']', text.length);
    if (end == NULL) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
    text = (moonpad_string){text.data + 1, text.length - 1};
    name = before(text, end, &port);
    if (port.length == 1 || (port.length > 1 && port.data[0] != ':')) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
    }
    if (port.length > 0) port = (moonpad_string){port.data + 1, port.length - 1};
  } else {
    name = before(text, memchr(text.data, ':', text.length), &port);
    if (name.length < text.length && port.length == 0) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
    }
  }
  if (name.length == 0 || (port.length > 0 && !read_port(port, &host->port))) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
  }
  return decode_part(env, name, expected, &host->name, error);
}

static moonpad_status read_hosts(mp_env *env, moonpad_string text, const char *expected, mp_url_parts *parts,
                                 moonpad_error *error) {
  while (text.length > 0) {
    bool is_last = memchr(text.data, ',', text.length) == NULL;
    moonpad_string host = before(text, memchr(text.data, ',', text.length), &text);
    if (parts->host_count == MP_URL_MOST_HOSTS || (!is_last && text.length == 0)) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
    }
    moonpad_status status = read_host(env, host, expected, &parts->hosts[parts->host_count++], error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status read_account(mp_env *env, moonpad_string text, const char *expected, mp_url_parts *parts,
                                   moonpad_error *error) {
  moonpad_string password;
  moonpad_string user = before(text, memchr(text.data, ':', text.length), &password);
  moonpad_status status = MOONPAD_OK;
  if (user.length > 0) status = decode_part(env, user, expected, &parts->user, error);
  if (status != MOONPAD_OK || password.length == 0) return status;
  return decode_part(env, password, expected, &parts->password, error);
}

/* A password with a raw @ or / would otherwise be taken for hosts and a path. */
static moonpad_status split(mp_env *env, moonpad_string text, const char *expected, mp_url_parts *parts,
                            moonpad_error *error) {
  const char *at = memchr(text.data, '@', text.length);
  moonpad_status status = MOONPAD_OK;
  if (at != NULL) status = read_account(env, before(text, at, &text), expected, parts, error);
  if (status == MOONPAD_OK && memchr(text.data, '@', text.length) != NULL) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
  }
  if (status != MOONPAD_OK) return status;
  const char *slash = memchr(text.data, '/', text.length);
  moonpad_string path;
  status = read_hosts(env, before(text, slash, &path), expected, parts, error);
  return status == MOONPAD_OK && path.length > 0 ? decode_part(env, path, expected, &parts->path, error) : status;
}

moonpad_status mp_url_split(mp_env *env, const char *url, const char *expected, mp_url_parts *parts,
                            moonpad_error *error) {
  *parts = (mp_url_parts){NULL, NULL, {{NULL, 0}}, 0, NULL};
  if (strncmp(url, "//", 2) != 0) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
  moonpad_status status = split(env, (moonpad_string){url + 2, strlen(url + 2)}, expected, parts, error);
  if (status != MOONPAD_OK) mp_url_free_parts(env, parts);
  return status;
}

size_t mp_url_write_hosts(const mp_url_parts *parts, char *text, size_t size) {
  size_t length = 0;
  for (size_t i = 0; i < parts->host_count && length + 1 < size; i++) {
    char port[8] = "";
    if (parts->hosts[i].port != 0) snprintf(port, sizeof port, ":%d", parts->hosts[i].port);
    length +=
        (size_t)snprintf(text + length, size - length, "%s%.60s%s", i == 0 ? "" : ",", parts->hosts[i].name, port);
  }
  return length < size ? length : size - 1;
}

void mp_url_free_parts(mp_env *env, mp_url_parts *parts) {
  if (parts->password != NULL) memset(parts->password, 0, strlen(parts->password));
  mp_release(env, parts->user);
  mp_release(env, parts->password);
  mp_release(env, parts->path);
  for (size_t i = 0; i < parts->host_count; i++) mp_release(env, parts->hosts[i].name);
  *parts = (mp_url_parts){NULL, NULL, {{NULL, 0}}, 0, NULL};
}

bool mp_url_is_loopback(const char *host) {
  return host[0] == '\0' || host[0] == '/' || host[0] == '@' || strcmp(host, "localhost") == 0 ||
         strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

moonpad_status mp_url_check_names(const char *scheme, const char *url, const char *const *known, moonpad_error *error) {
  for (const char *query = strchr(url, '?'); query != NULL && query[1] != '\0'; query = strchr(query + 1, '&')) {
    moonpad_string name = {query + 1, strcspn(query + 1, "=&")};
    bool is_known = false;
    for (size_t i = 0; known[i] != NULL; i++) {
      is_known = is_known || (strlen(known[i]) == name.length && memcmp(known[i], name.data, name.length) == 0);
    }
    if (is_known) continue;
    const char *near = mp_nearest_name(name, known);
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: the URL has an unknown option %s%s%s", scheme,
                   mp_quote(name).text, near == NULL ? "" : ": did you mean ", near == NULL ? "" : near);
  }
  return MOONPAD_OK;
}
