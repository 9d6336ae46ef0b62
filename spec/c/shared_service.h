/*
** For tests with many threads: one service that they share, in memory or on a file in a folder of
** its own.
*/
#ifndef SHARED_SERVICE_H
#define SHARED_SERVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "moonpad.h"
#include "slow_store.h"
#include "timeout.h"

typedef struct shared_service {
  moonpad_service *service;
  char folder[64]; /* empty: in memory */
  char file[96];
} shared_service;

/* `before` comes before the URL: "", "slow:0:". */
static inline shared_service *shared_open_behind(const char *before, bool in_file) {
  shared_service *opened = calloc(1, sizeof *opened);
  assert_non_null(opened);
  char url[128];
  snprintf(url, sizeof url, "%smemory:", before);
  if (in_file) {
    strcpy(opened->folder, "/tmp/moonpad-threads-XXXXXX");
    assert_non_null(mkdtemp(opened->folder));
    snprintf(opened->file, sizeof opened->file, "%s/test.db", opened->folder);
    snprintf(url, sizeof url, "%ssqlite:%s", before, opened->file);
  }
  moonpad_options options;
  moonpad_options_init(&options);
  options.busy_timeout_ms = TIMEOUT_MS;
  const moonpad_store_scheme stores[] = {{"slow", &slow_store_opener}};
  options.stores = stores;
  options.store_count = 1;
  moonpad_error error = {MOONPAD_OK, ""};
  if (moonpad_open(moonpad_text(url), &options, &opened->service, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  return opened;
}

static inline shared_service *shared_open(bool in_file) {
  return shared_open_behind("", in_file);
}

/* For cmocka's teardown: *state is a shared_service. */
static inline int shared_close(void **state) {
  shared_service *opened = *state;
  moonpad_service_release(opened->service);
  static const char *const endings[] = {"", "-wal", "-shm"};
  for (size_t i = 0; i < 3 && opened->folder[0] != '\0'; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s%s", opened->file, endings[i]);
    unlink(path);
  }
  if (opened->folder[0] != '\0') rmdir(opened->folder);
  free(opened);
  return 0;
}

#endif
