/*
** What the library asks of the system it runs on: POSIX, Windows, or with MOONPAD_NO_THREADS a
** system without threads. Stores look after their files themselves (store/sqlite/system.h); all
** else of the core is standard C.
**
** Error numbers are the system's: errno, or on Windows GetLastError(). Texts are UTF-8.
*/
#ifndef MP_BASE_PLATFORM_H
#define MP_BASE_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#if defined(MOONPAD_NO_THREADS)
#define MP_HAS_THREADS 0
#else
#define MP_HAS_THREADS 1
#endif
#if MP_HAS_THREADS && !defined(_WIN32)
#include <pthread.h>
#endif
#if !defined(_WIN32)
#include <signal.h>
#endif

/* ---- Threads. Without them locks do nothing, and nobody may wait for a condition. ---- */

#if !MP_HAS_THREADS
typedef struct mp_mutex {
  char unused;
} mp_mutex;
typedef struct mp_condition {
  char unused;
} mp_condition;
typedef char mp_thread_handle;
typedef bool mp_once;
#define MP_ONCE_INIT false
#elif defined(_WIN32)
/* Windows has them as one pointer, which begins as NULL. */
typedef struct mp_mutex {
  void *system;
} mp_mutex;
typedef struct mp_condition {
  void *system;
} mp_condition;
typedef void *mp_thread_handle;
typedef struct mp_once {
  void *system;
} mp_once;
#define MP_ONCE_INIT                                                                                                   \
  { NULL }
#else
typedef pthread_mutex_t mp_mutex;
typedef pthread_cond_t mp_condition;
typedef pthread_t mp_thread_handle;
typedef pthread_once_t mp_once;
#define MP_ONCE_INIT PTHREAD_ONCE_INIT
#endif

/* Runs it, if nobody has; comes back when it has run. */
void mp_once_run(mp_once *once, void (*run)(void));

/* False: the system has none left, and there is nothing to destroy. */
bool mp_mutex_init(mp_mutex *mutex);
void mp_mutex_destroy(mp_mutex *mutex);
void mp_mutex_lock(mp_mutex *mutex);
void mp_mutex_unlock(mp_mutex *mutex);

/* As above. */
bool mp_condition_init(mp_condition *condition);
void mp_condition_destroy(mp_condition *condition);
void mp_condition_signal(mp_condition *condition);
void mp_condition_broadcast(mp_condition *condition);
void mp_condition_wait(mp_condition *condition, mp_mutex *mutex);
/* At most until mp_monotonic() is `until`: false then. No change of the date makes it longer. */
bool mp_condition_wait_until(mp_condition *condition, mp_mutex *mutex, double until);

/* Stays where it is from its start until it is joined. */
typedef struct mp_thread {
  mp_thread_handle handle;
  void (*work)(void *context);
  void *context;
} mp_thread;

/* With all signals blocked: they are for the host's own threads. False: there is no thread. */
bool mp_thread_start(mp_thread *thread, void (*work)(void *context), void *context);
void mp_thread_join(mp_thread *thread);
/* Lets others go first. */
void mp_thread_yield(void);

/* ---- Time ---- */

/* Seconds of a clock that only goes forwards. */
double mp_monotonic(void);
/* Seconds since 1970. */
double mp_system_time(void);
/* Returns at once if `seconds` is not above 0. A signal may end it early. */
void mp_sleep(double seconds);

/* ---- Memory, random bytes, processes ---- */

/* False: the system has no source of random bytes. */
bool mp_system_random(unsigned char *bytes, size_t length);
/*
** Pages that are all zeros in a forked child, whatever its parent has written there; NULL: the
** system has none.
*/
void *mp_map_wiped_on_fork(size_t size);
void mp_unmap(void *pages, size_t size);
/*
** Asks the system to map the pages inside a block now, instead of one by one as they are first
** written. Only advice: may do nothing.
*/
void mp_prepare_pages(void *block, size_t size);
/* A number that no other process has now. */
unsigned long mp_this_process(void);

/*
** The shared library that this code is in stays loaded until the process ends. On POSIX the linker
** is told so (-z nodelete), and this does nothing.
*/
void mp_stay_loaded(void);

/* What an error number means, maybe in `buffer`. */
const char *mp_system_message(int number, char *buffer, size_t size);

/* ---- Files, and variables of the environment ---- */

/* fopen. NULL: errno says why. */
FILE *mp_open_file(const char *path, const char *mode);
/* A copy, which free() frees; NULL: it is not set, or memory is out. */
char *mp_environment(const char *name);

#if defined(_WIN32)
/*
** UTF-8 as Windows takes it, and back: a copy, which free() frees. NULL: it is no text, or memory
** is out; both errno and GetLastError() say so.
*/
wchar_t *mp_widen(const char *text);
char *mp_narrow(const wchar_t *text);
#endif

/* ---- Descriptors to wait for (wakeup.h). On Windows they are sockets. ---- */

/*
** Makes what one waits for (the first) and what is written to (the second, which may be the same):
** both without blocking, and not inherited. 0, or why there are none.
*/
int mp_make_descriptors(int pair[2]);
void mp_close_descriptors(const int pair[2]);
void mp_write_descriptor(int descriptor);
/* Reads all that was written. */
void mp_empty_descriptor(int descriptor);

/* ---- Writing where the other side is gone, without SIGPIPE reaching the host ---- */

typedef struct mp_sigpipe {
#if !defined(_WIN32)
  sigset_t before;
#endif
  bool was_pending;
} mp_sigpipe;

/* From now on this thread gets no SIGPIPE. */
void mp_sigpipe_hold(mp_sigpipe *held);
/* As before; what has come meanwhile is gone. Keeps errno. */
void mp_sigpipe_release(const mp_sigpipe *held);

#endif
