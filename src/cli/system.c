/* What the command asks of the system: POSIX first, then Windows. */
#define _FILE_OFFSET_BITS 64 /* for folders whose entries are numbered with more than 32 bits */
#include "cli/system.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"

/* ==== POSIX ==== */

#if !defined(_WIN32)

#include <dirent.h>
#include <fcntl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

void mp_cli_prepare(void) {}

char *mp_cli_argument(const char *text, int index, int count) {
  (void)index, (void)count;
  return strdup(text);
}

/* ---- Ctrl-C ---- */

/* A global, because a signal handler can reach nothing else. */
static volatile sig_atomic_t interrupted_once;

/* A second Ctrl-C ends the program: nobody has noticed the first, so an agent does not return. */
static void note_interrupt(int signal_number) {
  if (interrupted_once) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  interrupted_once = 1;
}

void mp_cli_catch_interrupts(void) {
  struct sigaction action;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, NULL);
}

bool mp_cli_interrupted(void) {
  bool result = interrupted_once;
  interrupted_once = 0;
  return result;
}

/* ---- Terminals ---- */

bool mp_cli_is_terminal(int fd) {
  return isatty(fd);
}

bool mp_cli_has_codes(void) {
  const char *name = getenv("TERM");
  return name != NULL && name[0] != '\0' && strcmp(name, "dumb") != 0;
}

/*
** False: a SIGINT came first. It is blocked between the test for it and the wait: otherwise one
** that came in between would not end the wait.
*/
static bool wait_for_input(void) {
  fd_set input;
  sigset_t interrupt, before;
  FD_ZERO(&input);
  FD_SET(STDIN_FILENO, &input);
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  bool is_there = !interrupted_once && pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &before) > 0;
  if (!is_there) interrupted_once = 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_there;
}

mp_cli_input mp_cli_read_line(char **line, size_t *length) {
  size_t room = 0;
  *line = NULL;
  if (!wait_for_input()) return MP_CLI_INTERRUPTED;
  clearerr(stdin);
  ssize_t count = getline(line, &room, stdin);
  if (count <= 0) {
    free(*line);
    return MP_CLI_END;
  }
  *length = (size_t)count - ((*line)[count - 1] == '\n');
  return MP_CLI_LINE;
}

/* ---- The end ---- */

/* Globals as well: what the handler of signals that end a server writes to; which one it was. */
static int end_pipe[2] = {-1, -1};
static volatile sig_atomic_t end_signal;

/* The second one ends the program at once. */
static void note_end(int signal_number) {
  int code = errno;
  if (end_signal != 0) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  end_signal = signal_number;
  ssize_t written = write(end_pipe[1], "", 1);
  (void)written; /* nobody could be told */
  errno = code;
}

static bool make_pipe(int fds[2]) {
  if (pipe(fds) != 0) return false;
  for (int i = 0; i < 2; i++) {
    fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    fcntl(fds[i], F_SETFL, O_NONBLOCK);
  }
  return true;
}

int mp_cli_catch_end(void) {
  struct sigaction action;
  if (end_pipe[0] < 0 && !make_pipe(end_pipe)) return -1;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = note_end;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  return end_pipe[0];
}

bool mp_cli_was_interrupted(void) {
  return end_signal == SIGINT;
}

/* ---- Folders ---- */

bool mp_cli_is_folder(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

int mp_cli_make_folder(const char *path, bool is_private) {
  return mkdir(path, is_private ? 0700 : 0777) == 0 ? 0 : errno;
}

bool mp_cli_is_slash(char byte) {
  return byte == '/';
}

int mp_cli_list(const char *path, void (*take)(void *context, const char *name), void *context) {
  DIR *folder = opendir(path);
  if (folder == NULL) return errno;
  const struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) take(context, entry->d_name);
  }
  closedir(folder);
  return 0;
}

/* ==== Windows ==== */

#else

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* behind windows.h */
#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>
#include <stdatomic.h>

/* ---- Texts of the console ---- */

/* The console is not ours alone: its code page is what it was again when the program has ended. */
static UINT code_page_before;

static void restore_console(void) {
  SetConsoleOutputCP(code_page_before);
}

/* What is read and written stays as it is: no CR comes and goes, and Ctrl-Z ends nothing. */
static void keep_bytes(void) {
  for (int fd = 0; fd < 3; fd++) _setmode(fd, _O_BINARY);
}

void mp_cli_prepare(void) {
  keep_bytes();
  /* As on POSIX: else what cannot be written fails where it is printed, not when it is flushed. */
  if (!mp_cli_is_terminal(1)) setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
  code_page_before = GetConsoleOutputCP();
  if (code_page_before == 0 || code_page_before == CP_UTF8) return;
  if (SetConsoleOutputCP(CP_UTF8)) atexit(restore_console);
}

static wchar_t *widen_of_code_page(const char *text) {
  int length = MultiByteToWideChar(CP_ACP, 0, text, -1, NULL, 0);
  wchar_t *wide = length <= 0 ? NULL : malloc((size_t)length * sizeof *wide);
  if (wide != NULL) MultiByteToWideChar(CP_ACP, 0, text, -1, wide, length);
  return wide;
}

/*
** main() gets its arguments in the system's code page, which may not have all characters of them.
** If the C library has put names of files in the place of *, there are more than were given.
*/
char *mp_cli_argument(const char *text, int index, int count) {
  int given = 0;
  char *argument;
  wchar_t **all = CommandLineToArgvW(GetCommandLineW(), &given);
  if (all != NULL && given == count && index < count) {
    argument = mp_narrow(all[index]);
  } else {
    wchar_t *wide = widen_of_code_page(text);
    argument = wide == NULL ? NULL : mp_narrow(wide);
    free(wide);
  }
  LocalFree(all);
  return argument;
}

/* ---- Ctrl-C: the system calls the handler on a thread of its own ---- */

static atomic_bool is_interrupted = false;

/* After a second one the system ends the program. */
static BOOL WINAPI note_interrupt(DWORD event) {
  return event == CTRL_C_EVENT && !atomic_exchange(&is_interrupted, true);
}

void mp_cli_catch_interrupts(void) {
  static bool is_caught = false;
  if (!is_caught) is_caught = SetConsoleCtrlHandler(note_interrupt, TRUE) != 0;
}

bool mp_cli_interrupted(void) {
  return atomic_exchange(&is_interrupted, false);
}

/* There are no signals that end a server. */
int mp_cli_catch_end(void) {
  return -1;
}

bool mp_cli_was_interrupted(void) {
  return false;
}

/* ---- Terminals ---- */

static HANDLE handle_of(int fd) {
  static const DWORD names[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
  return fd >= 0 && fd < 3 ? GetStdHandle(names[fd]) : INVALID_HANDLE_VALUE;
}

bool mp_cli_is_terminal(int fd) {
  DWORD mode;
  return GetConsoleMode(handle_of(fd), &mode) != 0;
}

#if !defined(ENABLE_VIRTUAL_TERMINAL_PROCESSING)
#define ENABLE_VIRTUAL_TERMINAL_PROCESSING 0x0004
#endif

bool mp_cli_has_codes(void) {
  DWORD mode;
  HANDLE console = handle_of(1);
  return GetConsoleMode(console, &mode) && SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

#define CHUNK  512 /* in Windows's own units */
#define CTRL_Z L'\x1A'

/* Appends what is typed to the line, to its end. False: nothing has come. */
static bool read_console(wchar_t **line, size_t *length) {
  DWORD count = 0;
  do {
    wchar_t *grown = realloc(*line, (*length + CHUNK + 1) * sizeof **line);
    if (grown == NULL) return false;
    *line = grown;
    if (!ReadConsoleW(handle_of(0), grown + *length, CHUNK, &count, NULL) || count == 0) return false;
    *length += count;
  } while ((*line)[*length - 1] != L'\n');
  return true;
}

/* The handler may run a little later than the wait ends. */
static bool has_ended_by_interrupt(void) {
  for (int i = 0; i < 20; i++) {
    if (mp_cli_interrupted()) return true;
    Sleep(5);
  }
  return false;
}

mp_cli_input mp_cli_read_line(char **line, size_t *length) {
  wchar_t *wide = NULL;
  size_t wide_length = 0;
  if (mp_cli_interrupted()) return MP_CLI_INTERRUPTED;
  bool has_come = read_console(&wide, &wide_length);
  bool is_end = !has_come || wide[0] == CTRL_Z;
  if (!is_end) {
    while (wide_length > 0 && (wide[wide_length - 1] == L'\n' || wide[wide_length - 1] == L'\r')) wide_length--;
    wide[wide_length] = L'\0';
    *line = mp_narrow(wide);
    is_end = *line == NULL;
    *length = is_end ? 0 : strlen(*line);
  }
  free(wide);
  if (!is_end) return MP_CLI_LINE;
  return !has_come && has_ended_by_interrupt() ? MP_CLI_INTERRUPTED : MP_CLI_END;
}

/* ---- Folders ---- */

bool mp_cli_is_folder(const char *path) {
  wchar_t *wide = mp_widen(path);
  DWORD attributes = wide == NULL ? INVALID_FILE_ATTRIBUTES : GetFileAttributesW(wide);
  free(wide);
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

/* Whose it is says the folder above it. */
int mp_cli_make_folder(const char *path, bool is_private) {
  (void)is_private;
  wchar_t *wide = mp_widen(path);
  int number = wide != NULL && _wmkdir(wide) == 0 ? 0 : errno;
  free(wide);
  return number;
}

bool mp_cli_is_slash(char byte) {
  return byte == '/' || byte == '\\';
}

static void take_name(const wchar_t *wide, void (*take)(void *context, const char *name), void *context) {
  char *name = wcscmp(wide, L".") == 0 || wcscmp(wide, L"..") == 0 ? NULL : mp_narrow(wide);
  if (name != NULL) take(context, name);
  free(name);
}

static int list_pattern(const wchar_t *pattern, void (*take)(void *context, const char *name), void *context) {
  struct _wfinddata64_t found;
  intptr_t search = _wfindfirst64(pattern, &found);
  if (search == -1) return errno;
  do {
    take_name(found.name, take, context);
  } while (_wfindnext64(search, &found) == 0);
  _findclose(search);
  return 0;
}

int mp_cli_list(const char *path, void (*take)(void *context, const char *name), void *context) {
  wchar_t *wide = mp_widen(path);
  wchar_t *pattern = wide == NULL ? NULL : malloc((wcslen(wide) + 3) * sizeof *pattern);
  int number = errno;
  if (pattern != NULL) {
    wcscpy(pattern, wide);
    wcscat(pattern, L"/*");
    number = list_pattern(pattern, take, context);
  }
  free(pattern);
  free(wide);
  return number;
}

#endif
