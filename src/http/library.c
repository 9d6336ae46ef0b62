/* libcurl in this process, which may be ending: see library.h. */
#include "http/library.h"

#include <curl/curl.h>
#include <stdatomic.h>

#include "base/platform.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#endif

/*
** libcurl is initialised once, before any of its handles is made. This is never undone, because
** other code of the host may use libcurl too. So the module must not be unloaded either
** (mp_stay_loaded).
*/
static mp_once library_once = MP_ONCE_INIT;
static CURLcode library_result = CURLE_FAILED_INIT;
static atomic_bool process_is_ending = false;

/* ==== POSIX ==== */

#if !defined(_WIN32)

/*
** exit() takes OpenSSL apart while our threads may be in the middle of it. So each thread holds
** this lock for reading while it works on transfers; exit() takes it for writing, which waits for
** them, and never gives it back.
*/
static pthread_rwlock_t in_transfer = PTHREAD_RWLOCK_INITIALIZER;

/*
** Waits a second at most: where the process was forked while a thread held the lock for reading,
** nobody gives it back.
*/
static void stop_threads(void) {
  struct timespec deadline = {0, 0};
  atomic_store(&process_is_ending, true);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec++;
  pthread_rwlock_timedwrlock(&in_transfer, &deadline);
}

void mp_http_enter(void) {
  /* Without this, readers coming one after another could keep the writer waiting for ever. */
  while (atomic_load(&process_is_ending)) pause();
  pthread_rwlock_rdlock(&in_transfer);
}

void mp_http_leave(void) {
  pthread_rwlock_unlock(&in_transfer);
}

/*
** Handlers of exit() run in reverse order: this one is registered after OpenSSL's, and so comes
** before it.
*/
static bool prepare_exit(void) {
  return atexit(stop_threads) == 0;
}

/* ==== Windows: all other threads are gone before libraries hear of the end ==== */

#else

void mp_http_enter(void) {}

void mp_http_leave(void) {}

static bool prepare_exit(void) {
  return true;
}

#endif

/* ==== Both ==== */

static void initialize_library(void) {
  library_result = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (library_result == CURLE_OK && !prepare_exit()) library_result = CURLE_OUT_OF_MEMORY;
}

bool mp_http_prepare(void) {
  mp_stay_loaded();
  mp_once_run(&library_once, initialize_library);
  return library_result == CURLE_OK;
}

bool mp_http_process_is_ending(void) {
  return atomic_load(&process_is_ending);
}
