/* URLs: where the path begins, and what is no URL at all. Nothing is opened that lies in a file. */
#include "base/utf8.h"
#include "fuzz.h"
#include "store/sqlite.h"

static void expect_path(moonpad_string rest) {
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moonpad_string url = input_text(data, size);
  expect_path(url);
  if (size >= 7 && memcmp(data, "sqlite:", 7) == 0) {
    moonpad_string rest = {url.data + 7, url.length - 7};
    expect_path(rest);
    return 0;
  }
  moonpad_service *service = NULL;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = moonpad_open(url, NULL, &service, &error);
  if (status == MOONPAD_OK) {
    HOLDS(same_text(url, moonpad_text("memory:")));
    moonpad_service_release(service);
  } else {
    expect_error(&error, status, MOONPAD_UNSUPPORTED, MOONPAD_INVALID_ARGUMENT);
    HOLDS(service == NULL);
  }
  return 0;
}
