/*
** URLs: where the path begins, what file is meant, what is no URL at all. No secret gets into a
** message. Nothing is opened that lies in a file.
*/
#include "base/utf8.h"
#include "fuzz.h"
#include "store/sqlite/sqlite.h"

#define SECRET     "hunter22@"
#define PART       "hunter" /* of it */
#define MAX_SECRET 4096

/*
** SQLite takes a name that begins with "file:" for a URI and ":memory:" for no file; a path
** is neither.
*/
static void expect_file_name(mp_env *env, moonpad_string path) {
  char *name = mp_sqlite_file_name(env, path);
  HOLDS(name != NULL && name[0] != ':' && strncmp(name, "file:", 5) != 0);
  moonpad_string shown = moonpad_text(name);
  size_t before = shown.length - path.length;
  HOLDS(before == 0 || (before == 2 && memcmp(name, "./", 2) == 0));
  moonpad_string rest = {name + before, path.length};
  HOLDS(same_text(rest, path));
  mp_release(env, name);
}

static void expect_path(mp_env *env, moonpad_string rest) {
  moonpad_string path;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = mp_sqlite_path_of_url(rest, &path, &error);
  if (status != MOONPAD_OK) {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_INVALID_ARGUMENT);
    return;
  }
  HOLDS(path.length > 0 && memchr(path.data, '\0', path.length) == NULL);
  HOLDS(mp_utf8_valid_prefix(path.data, path.length) == path.length);
  /* It is the end of what was given, less the slashes of an authority. */
  HOLDS(path.data + path.length == rest.data + rest.length && path.data >= rest.data && path.data <= rest.data + 3);
  expect_file_name(env, path);
}

/* Both schemes are as long. */
static bool is_scheme(moonpad_string url, const char *scheme) {
  return url.length >= 7 && memcmp(url.data, scheme, 7) == 0;
}

static void expect_error_or_memory(moonpad_string url, moonpad_error *error) {
  moonpad_service *service = NULL;
  moonpad_status status = moonpad_open(url, NULL, &service, error);
  if (status == MOONPAD_OK) {
    HOLDS(same_text(url, moonpad_text("memory:")));
    moonpad_service_release(service);
  } else {
    expect_error(error, status, MOONPAD_UNSUPPORTED, MOONPAD_INVALID_ARGUMENT);
    HOLDS(service == NULL);
  }
}

static bool has_part(moonpad_string text) {
  for (size_t i = 0; i + sizeof PART - 1 <= text.length; i++) {
    if (memcmp(text.data + i, PART, sizeof PART - 1) == 0) return true;
  }
  return false;
}

/*
** Before each @ there may stand a password, whatever is wrong with the rest. Stores that know none
** name what they were given.
*/
static void expect_no_secret(moonpad_string url) {
  char with_secret[MAX_SECRET];
  size_t length = 0, secrets = 0;
  for (size_t i = 0; i < url.length && length + sizeof SECRET < sizeof with_secret; i++) {
    if (url.data[i] == '@') {
      memcpy(with_secret + length, SECRET, sizeof SECRET - 1);
      length += sizeof SECRET - 1;
      secrets++;
    } else {
      with_secret[length++] = url.data[i];
    }
  }
  moonpad_string given = {with_secret, length};
  if (secrets == 0 || has_part(url) || is_scheme(given, "memory:")) return;
  moonpad_error error = {MOONPAD_OK, ""};
  expect_error_or_memory(given, &error);
  HOLDS(strstr(error.message, PART) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mp_env *env;
  if (env == NULL) env = mp_env_new(NULL);
  moonpad_string url = input_text(data, size);
  expect_path(env, url);
  if (is_scheme(url, "sqlite:")) {
    moonpad_string rest = {url.data + 7, url.length - 7};
    expect_path(env, rest);
    return 0;
  }
  moonpad_error error = {MOONPAD_OK, ""};
  expect_error_or_memory(url, &error);
  expect_no_secret(url);
  return 0;
}
