/* POSIX first, then Windows; threads have a part of their own. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* for anonymous mappings and madvise */
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* the same there, and waits for so many seconds */
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* for files beyond 2 GB, on 32 bits */
#endif
#include "base/platform.h"

#include <stdlib.h>
#include <string.h>

/* Beyond it a time is as good as never: seconds may be counted in 32 bits. */
#define LONGEST 2e9 /* seconds */

/* ==== POSIX ==== */

#if !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/eventfd.h>
#include <sys/random.h>
#endif

/* ---- Time ---- */

static double seconds_of(clockid_t clock) {
  struct timespec time = {0, 0};
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double mp_monotonic(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

double mp_system_time(void) {
  return seconds_of(CLOCK_REALTIME);
}

static struct timespec to_timespec(double seconds) {
  struct timespec time = {0, 0};
  if (!(seconds < LONGEST)) seconds = LONGEST;
  time.tv_sec = (time_t)seconds;
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  return time;
}

void mp_sleep(double seconds) {
  if (!(seconds > 0)) return;
  struct timespec time = to_timespec(seconds);
  nanosleep(&time, NULL);
}

void mp_thread_yield(void) {
  sched_yield();
}

/* ---- Memory, random bytes, processes ---- */

static bool fill_from_device(unsigned char *bytes, size_t length) {
  int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (device < 0) return false;
  size_t done = 0;
  while (done < length) {
    ssize_t count = read(device, bytes + done, length - done);
    if (count > 0) {
      done += (size_t)count;
    } else if (count == 0 || errno != EINTR) {
      break;
    }
  }
  close(device);
  return done == length;
}

bool mp_system_random(unsigned char *bytes, size_t length) {
#if defined(__linux__)
  size_t done = 0;
  while (done < length) {
    ssize_t count = getrandom(bytes + done, length - done, 0);
    if (count > 0) {
      done += (size_t)count;
    } else if (errno != EINTR) {
      return fill_from_device(bytes, length);
    }
  }
  return true;
#else
  return fill_from_device(bytes, length);
#endif
}

static bool wipe_on_fork(void *pages, size_t size) {
#if defined(__EMSCRIPTEN__)
  /* Nothing forks there. */
  (void)pages, (void)size;
  return true;
#elif defined(MADV_WIPEONFORK)
  return madvise(pages, size, MADV_WIPEONFORK) == 0;
#else
  (void)pages, (void)size;
  return false;
#endif
}

void *mp_map_wiped_on_fork(size_t size) {
  void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  if (wipe_on_fork(pages, size)) return pages;
  munmap(pages, size);
  return NULL;
}

void mp_unmap(void *pages, size_t size) {
  munmap(pages, size);
}

void mp_prepare_pages(void *block, size_t size) {
#if defined(MADV_POPULATE_WRITE)
  long page_bytes = sysconf(_SC_PAGESIZE);
  if (page_bytes <= 0) return;
  size_t page = (size_t)page_bytes, before = (page - (uintptr_t)block % page) % page;
  if (size < before + page) return;
  /* Older kernels do not know this advice: no error. */
  int saved = errno;
  (void)madvise((char *)block + before, (size - before) / page * page, MADV_POPULATE_WRITE);
  errno = saved;
#else
  (void)block;
  (void)size;
#endif
}

unsigned long mp_this_process(void) {
  return (unsigned long)getpid();
}

void mp_stay_loaded(void) {}

const char *mp_system_message(int number, char *buffer, size_t size) {
  if (number == 0) return "unknown reason";
  /* POSIX's strerror_r answers a number, that of GNU the text. */
  intptr_t result = (intptr_t)strerror_r(number, buffer, size);
  bool is_text = _Generic(strerror_r(number, buffer, size), char * : true, default : false);
  if (is_text) return (const char *)result;
  return result == 0 ? buffer : "unknown reason";
}

/* ---- Files, and variables of the environment ---- */

FILE *mp_open_file(const char *path, const char *mode) {
  return fopen(path, mode);
}

char *mp_environment(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? NULL : strdup(value);
}

/* ---- Descriptors: eventfd where there is one, else a pipe ---- */

static bool prepare_descriptor(int descriptor) {
  return fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0;
}

static int make_pipe(int pair[2]) {
  if (pipe(pair) != 0) return errno;
  if (prepare_descriptor(pair[0]) && prepare_descriptor(pair[1])) return 0;
  int number = errno;
  mp_close_descriptors(pair);
  return number;
}

int mp_make_descriptors(int pair[2]) {
#if defined(__linux__)
  pair[0] = pair[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (pair[0] >= 0) return 0;
  if (errno != ENOSYS) return errno;
#endif
  return make_pipe(pair);
}

void mp_close_descriptors(const int pair[2]) {
  close(pair[0]);
  if (pair[1] != pair[0]) close(pair[1]);
}

void mp_write_descriptor(int descriptor) {
  static const uint64_t one = 1;
  while (write(descriptor, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void mp_empty_descriptor(int descriptor) {
  uint64_t written;
  while (read(descriptor, &written, sizeof written) < 0 && errno == EINTR) continue;
}

/* ---- SIGPIPE ---- */

static bool is_pending(void) {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

static void set_of_sigpipe(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
}

/* A system without threads need not have pthread_sigmask. */
static void change_mask(int how, const sigset_t *set, sigset_t *before) {
#if MP_HAS_THREADS
  pthread_sigmask(how, set, before);
#else
  sigprocmask(how, set, before);
#endif
}

void mp_sigpipe_hold(mp_sigpipe *held) {
  sigset_t set;
  set_of_sigpipe(&set);
  held->was_pending = is_pending();
  change_mask(SIG_BLOCK, &set, &held->before);
}

void mp_sigpipe_release(const mp_sigpipe *held) {
  int saved = errno;
  sigset_t set;
  set_of_sigpipe(&set);
  if (!held->was_pending && is_pending()) {
#if defined(__APPLE__)
    int taken;
    sigwait(&set, &taken);
#else
    while (sigtimedwait(&set, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR) continue;
#endif
  }
  change_mask(SIG_SETMASK, &held->before, NULL);
  errno = saved;
}

/* ---- Threads ---- */

#if MP_HAS_THREADS

void mp_once_run(mp_once *once, void (*run)(void)) {
  pthread_once(once, run);
}

bool mp_mutex_init(mp_mutex *mutex) {
  return pthread_mutex_init(mutex, NULL) == 0;
}

void mp_mutex_destroy(mp_mutex *mutex) {
  pthread_mutex_destroy(mutex);
}

void mp_mutex_lock(mp_mutex *mutex) {
  pthread_mutex_lock(mutex);
}

void mp_mutex_unlock(mp_mutex *mutex) {
  pthread_mutex_unlock(mutex);
}

bool mp_condition_init(mp_condition *condition) {
#if defined(__APPLE__)
  /* It has no choice of clocks, but a wait of its own for so many seconds. */
  return pthread_cond_init(condition, NULL) == 0;
#else
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  bool is_made =
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  return is_made;
#endif
}

void mp_condition_destroy(mp_condition *condition) {
  pthread_cond_destroy(condition);
}

void mp_condition_signal(mp_condition *condition) {
  pthread_cond_signal(condition);
}

void mp_condition_broadcast(mp_condition *condition) {
  pthread_cond_broadcast(condition);
}

void mp_condition_wait(mp_condition *condition, mp_mutex *mutex) {
  pthread_cond_wait(condition, mutex);
}

bool mp_condition_wait_until(mp_condition *condition, mp_mutex *mutex, double until) {
#if defined(__APPLE__)
  double left = until - mp_monotonic();
  struct timespec time = to_timespec(left > 0 ? left : 0);
  return pthread_cond_timedwait_relative_np(condition, mutex, &time) != ETIMEDOUT;
#else
  struct timespec time = to_timespec(until);
  return pthread_cond_timedwait(condition, mutex, &time) != ETIMEDOUT;
#endif
}

static void *run_thread(void *context) {
  mp_thread *thread = context;
  thread->work(thread->context);
  return NULL;
}

bool mp_thread_start(mp_thread *thread, void (*work)(void *context), void *context) {
  sigset_t all, before;
  thread->work = work;
  thread->context = context;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_started = pthread_create(&thread->handle, NULL, run_thread, thread) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_started;
}

void mp_thread_join(mp_thread *thread) {
  pthread_join(thread->handle, NULL);
}

#endif

/* ==== Windows ==== */

#else

#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0602 /* Windows 8: a precise time of day */
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <winsock2.h>
/* behind windows.h */
#include <bcrypt.h>
#include <errno.h>
#include <process.h>

/* ---- Time ---- */

double mp_monotonic(void) {
  LARGE_INTEGER count, per_second;
  QueryPerformanceFrequency(&per_second);
  QueryPerformanceCounter(&count);
  return (double)count.QuadPart / (double)per_second.QuadPart;
}

double mp_system_time(void) {
  FILETIME time;
  GetSystemTimePreciseAsFileTime(&time);
  ULARGE_INTEGER ticks = {.LowPart = time.dwLowDateTime, .HighPart = time.dwHighDateTime};
  /* 100 ns each, since 1601. */
  return (double)(ticks.QuadPart - 116444736000000000ULL) * 1e-7;
}

/* Rounded up, so that what is waited for has come. */
static DWORD to_milliseconds(double seconds) {
  const double longest = 1e6; /* seconds: others wait again */
  if (!(seconds > 0)) return 0;
  return (DWORD)((seconds < longest ? seconds : longest) * 1e3) + 1;
}

void mp_sleep(double seconds) {
  if (!(seconds > 0)) return;
  double until = mp_monotonic() + (seconds < LONGEST ? seconds : LONGEST);
  do {
    Sleep(to_milliseconds(until - mp_monotonic()));
  } while (mp_monotonic() < until);
}

void mp_thread_yield(void) {
  SwitchToThread();
}

/* ---- Memory, random bytes, processes ---- */

bool mp_system_random(unsigned char *bytes, size_t length) {
  return BCryptGenRandom(NULL, bytes, (ULONG)length, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0;
}

/* Nothing forks. */
void *mp_map_wiped_on_fork(size_t size) {
  return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void mp_unmap(void *pages, size_t size) {
  (void)size;
  VirtualFree(pages, 0, MEM_RELEASE);
}

void mp_prepare_pages(void *block, size_t size) {
  (void)block;
  (void)size;
}

unsigned long mp_this_process(void) {
  return GetCurrentProcessId();
}

void mp_stay_loaded(void) {
  HMODULE module;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (LPCWSTR)(void *)&mp_stay_loaded, &module);
}

const char *mp_system_message(int number, char *buffer, size_t size) {
  WCHAR wide[256];
  DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
  DWORD length = number == 0 ? 0 : FormatMessageW(flags, NULL, (DWORD)number, 0, wide, 256, NULL);
  /* It ends in a full stop and a space. */
  while (length > 0 && (wide[length - 1] == L' ' || wide[length - 1] == L'.')) wide[--length] = L'\0';
  if (length == 0 || WideCharToMultiByte(CP_UTF8, 0, wide, -1, buffer, (int)size, NULL, NULL) == 0) {
    return "unknown reason";
  }
  return buffer;
}

/* ---- Text, files, and variables of the environment ---- */

static void *no_text(int number, DWORD error) {
  errno = number;
  SetLastError(error);
  return NULL;
}

wchar_t *mp_widen(const char *text) {
  int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  if (length <= 0) return no_text(EINVAL, ERROR_NO_UNICODE_TRANSLATION);
  wchar_t *wide = malloc((size_t)length * sizeof *wide);
  if (wide == NULL) return no_text(ENOMEM, ERROR_NOT_ENOUGH_MEMORY);
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
  return wide;
}

/* File names may hold halves of characters: what is no text in them becomes U+FFFD. */
char *mp_narrow(const wchar_t *text) {
  int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
  if (length <= 0) return no_text(EINVAL, ERROR_NO_UNICODE_TRANSLATION);
  char *narrow = malloc((size_t)length);
  if (narrow == NULL) return no_text(ENOMEM, ERROR_NOT_ENOUGH_MEMORY);
  WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, length, NULL, NULL);
  return narrow;
}

/* fopen would take the path for text of the system's code page. */
FILE *mp_open_file(const char *path, const char *mode) {
  wchar_t *wide_path = mp_widen(path), *wide_mode = mp_widen(mode);
  FILE *file = wide_path == NULL || wide_mode == NULL ? NULL : _wfopen(wide_path, wide_mode);
  int number = errno;
  free(wide_path);
  free(wide_mode);
  errno = number;
  return file;
}

char *mp_environment(const char *name) {
  wchar_t *wide = mp_widen(name);
  const wchar_t *value = wide == NULL ? NULL : _wgetenv(wide);
  free(wide);
  return value == NULL ? NULL : mp_narrow(value);
}

/* ---- Descriptors: two sockets that are connected, for Windows waits for nothing else ---- */

/* No child inherits it. */
static SOCKET make_socket(void) {
  return WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
}

static SOCKET make_listener(struct sockaddr_in *address) {
  int size = sizeof *address;
  SOCKET listener = make_socket();
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener == INVALID_SOCKET) return listener;
  if (bind(listener, (struct sockaddr *)address, size) == 0 && listen(listener, 1) == 0 &&
      getsockname(listener, (struct sockaddr *)address, &size) == 0) {
    return listener;
  }
  closesocket(listener);
  return INVALID_SOCKET;
}

/* Somebody else may have been faster: the one who is accepted must be `writer`. */
static SOCKET accept_own(SOCKET listener, SOCKET writer) {
  struct sockaddr_in own, other;
  int own_size = sizeof own, other_size = sizeof other;
  SOCKET reader = accept(listener, (struct sockaddr *)&other, &other_size);
  if (reader == INVALID_SOCKET) return reader;
  if (getsockname(writer, (struct sockaddr *)&own, &own_size) == 0 && own.sin_port == other.sin_port) return reader;
  closesocket(reader);
  WSASetLastError(WSAECONNABORTED);
  return INVALID_SOCKET;
}

/* One that was accepted would be inherited. */
static bool prepare_socket(SOCKET socket) {
  u_long yes = 1;
  SetHandleInformation((HANDLE)socket, HANDLE_FLAG_INHERIT, 0);
  return ioctlsocket(socket, (long)FIONBIO, &yes) == 0;
}

/* A byte is sent at once, and not held back for more. */
static void send_at_once(SOCKET writer) {
  BOOL yes = TRUE;
  setsockopt(writer, IPPROTO_TCP, TCP_NODELAY, (const char *)&yes, sizeof yes);
}

static bool connect_pair(SOCKET listener, const struct sockaddr_in *address, SOCKET *reader, SOCKET *writer) {
  *writer = make_socket();
  if (*writer == INVALID_SOCKET) return false;
  send_at_once(*writer);
  if (connect(*writer, (const struct sockaddr *)address, sizeof *address) != 0) return false;
  *reader = accept_own(listener, *writer);
  return *reader != INVALID_SOCKET && prepare_socket(*reader) && prepare_socket(*writer);
}

int mp_make_descriptors(int pair[2]) {
  WSADATA data;
  struct sockaddr_in address;
  SOCKET reader = INVALID_SOCKET, writer = INVALID_SOCKET;
  /* Counted by Windows, and given back by mp_close_descriptors. */
  int number = WSAStartup(MAKEWORD(2, 2), &data);
  if (number != 0) return number;
  SOCKET listener = make_listener(&address);
  bool is_made = listener != INVALID_SOCKET && connect_pair(listener, &address, &reader, &writer);
  if (!is_made) number = WSAGetLastError();
  if (number == 0) number = WSAECONNABORTED;
  if (listener != INVALID_SOCKET) closesocket(listener);
  if (is_made) {
    /* Handles of Windows fit in 32 bits, that is promised. */
    pair[0] = (int)reader;
    pair[1] = (int)writer;
    return 0;
  }
  if (reader != INVALID_SOCKET) closesocket(reader);
  if (writer != INVALID_SOCKET) closesocket(writer);
  WSACleanup();
  return number;
}

void mp_close_descriptors(const int pair[2]) {
  closesocket((SOCKET)pair[0]);
  closesocket((SOCKET)pair[1]);
  WSACleanup();
}

void mp_write_descriptor(int descriptor) {
  send((SOCKET)descriptor, "1", 1, 0);
}

/* What has just been written may still be under way. */
#define LONGEST_WAY 100 /* milliseconds */

void mp_empty_descriptor(int descriptor) {
  char written[16];
  WSAPOLLFD arrival = {.fd = (SOCKET)descriptor, .events = POLLRDNORM};
  WSAPoll(&arrival, 1, LONGEST_WAY);
  while (recv((SOCKET)descriptor, written, sizeof written, 0) == (int)sizeof written) continue;
}

/* ---- There is no SIGPIPE ---- */

void mp_sigpipe_hold(mp_sigpipe *held) {
  held->was_pending = false;
}

void mp_sigpipe_release(const mp_sigpipe *held) {
  (void)held;
}

/* ---- Threads ---- */

#if MP_HAS_THREADS

_Static_assert(sizeof(SRWLOCK) == sizeof(void *) && sizeof(CONDITION_VARIABLE) == sizeof(void *) &&
                   sizeof(INIT_ONCE) == sizeof(void *),
               "mp_mutex, mp_condition and mp_once are a pointer each");

static BOOL CALLBACK run_once(PINIT_ONCE once, void *context, void **result) {
  (void)once, (void)result;
  (*(void (**)(void))context)();
  return TRUE;
}

void mp_once_run(mp_once *once, void (*run)(void)) {
  InitOnceExecuteOnce((INIT_ONCE *)&once->system, run_once, &run, NULL);
}

bool mp_mutex_init(mp_mutex *mutex) {
  InitializeSRWLock((SRWLOCK *)&mutex->system);
  return true;
}

void mp_mutex_destroy(mp_mutex *mutex) {
  (void)mutex;
}

void mp_mutex_lock(mp_mutex *mutex) {
  AcquireSRWLockExclusive((SRWLOCK *)&mutex->system);
}

void mp_mutex_unlock(mp_mutex *mutex) {
  ReleaseSRWLockExclusive((SRWLOCK *)&mutex->system);
}

bool mp_condition_init(mp_condition *condition) {
  InitializeConditionVariable((CONDITION_VARIABLE *)&condition->system);
  return true;
}

void mp_condition_destroy(mp_condition *condition) {
  (void)condition;
}

void mp_condition_signal(mp_condition *condition) {
  WakeConditionVariable((CONDITION_VARIABLE *)&condition->system);
}

void mp_condition_broadcast(mp_condition *condition) {
  WakeAllConditionVariable((CONDITION_VARIABLE *)&condition->system);
}

static bool wait_for(mp_condition *condition, mp_mutex *mutex, DWORD milliseconds) {
  return SleepConditionVariableSRW((CONDITION_VARIABLE *)&condition->system, (SRWLOCK *)&mutex->system, milliseconds,
                                   0) != 0;
}

void mp_condition_wait(mp_condition *condition, mp_mutex *mutex) {
  wait_for(condition, mutex, INFINITE);
}

bool mp_condition_wait_until(mp_condition *condition, mp_mutex *mutex, double until) {
  return wait_for(condition, mutex, to_milliseconds(until - mp_monotonic())) || mp_monotonic() < until;
}

static unsigned __stdcall run_thread(void *context) {
  mp_thread *thread = context;
  thread->work(thread->context);
  return 0;
}

bool mp_thread_start(mp_thread *thread, void (*work)(void *context), void *context) {
  thread->work = work;
  thread->context = context;
  thread->handle = (void *)_beginthreadex(NULL, 0, run_thread, thread, 0, NULL);
  return thread->handle != NULL;
}

void mp_thread_join(mp_thread *thread) {
  WaitForSingleObject(thread->handle, INFINITE);
  CloseHandle(thread->handle);
}

#endif
#endif

/* ==== Without threads ==== */

#if !MP_HAS_THREADS

void mp_once_run(mp_once *once, void (*run)(void)) {
  if (*once) return;
  *once = true;
  run();
}

bool mp_mutex_init(mp_mutex *mutex) {
  mutex->unused = 0;
  return true;
}

void mp_mutex_destroy(mp_mutex *mutex) {
  (void)mutex;
}

void mp_mutex_lock(mp_mutex *mutex) {
  (void)mutex;
}

void mp_mutex_unlock(mp_mutex *mutex) {
  (void)mutex;
}

bool mp_condition_init(mp_condition *condition) {
  condition->unused = 0;
  return true;
}

void mp_condition_destroy(mp_condition *condition) {
  (void)condition;
}

void mp_condition_signal(mp_condition *condition) {
  (void)condition;
}

void mp_condition_broadcast(mp_condition *condition) {
  (void)condition;
}

/* Nobody could ever signal it. */
void mp_condition_wait(mp_condition *condition, mp_mutex *mutex) {
  (void)condition;
  (void)mutex;
  abort();
}

/* As above: only the time ends it. */
bool mp_condition_wait_until(mp_condition *condition, mp_mutex *mutex, double until) {
  (void)condition;
  (void)mutex;
  mp_sleep(until - mp_monotonic());
  return false;
}

bool mp_thread_start(mp_thread *thread, void (*work)(void *context), void *context) {
  thread->work = work;
  thread->context = context;
  return false;
}

void mp_thread_join(mp_thread *thread) {
  (void)thread;
}

#endif
