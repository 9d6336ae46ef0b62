/*
** What the store asks of the system. In a file of its own: files.c needs _GNU_SOURCE, with which
** strerror_r is another function.
*/
#include <string.h>
#include <time.h>

#include "store/sqlite/sqlite.h"

void mp_sqlite_sleep(int64_t microseconds) {
  struct timespec pause = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

const char *mp_sqlite_system_message(int number, char *buffer, size_t size) {
  if (number == 0 || strerror_r(number, buffer, size) != 0) return "unknown reason";
  return buffer;
}
