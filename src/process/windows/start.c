/* Starting a program on Windows: where it is, how its arguments are written, what it inherits. */
#include "process/start.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/platform.h"
#include "process/windows/pipe.h"

/* ---- The program: texts end in a NUL, which is the last byte of their buffer ---- */

static bool is_slash(char byte) {
  return byte == '/' || byte == '\\';
}

static bool is_absolute(const char *path) {
  return is_slash(path[0]) || (path[0] != '\0' && path[1] == ':');
}

static void add_text(mp_buffer *buffer, const char *text) {
  mp_buffer_add(buffer, text, strlen(text));
}

static DWORD attributes_of(const char *path) {
  wchar_t *wide = mp_widen(path);
  DWORD attributes = wide == NULL ? INVALID_FILE_ATTRIBUTES : GetFileAttributesW(wide);
  free(wide);
  return attributes;
}

static bool is_file(const char *path) {
  DWORD attributes = attributes_of(path);
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

static bool is_folder(const char *path) {
  DWORD attributes = attributes_of(path);
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

static const char *const suffixes[] = {".com", ".exe", ".bat", ".cmd"};
#define SUFFIXES (sizeof suffixes / sizeof suffixes[0])

static bool ends_in(const char *path, const char *suffix) {
  size_t length = strlen(path), size = strlen(suffix);
  return length > size && _stricmp(path + length - size, suffix) == 0;
}

static bool has_suffix(const char *path) {
  for (size_t i = 0; i < SUFFIXES; i++) {
    if (ends_in(path, suffixes[i])) return true;
  }
  return false;
}

/* `path` becomes BASE/FOLDER/NAME SUFFIX, as far as each is not absolute. Is there such a file? */
static bool try_path(mp_buffer *path, const char *const parts[3], const char *suffix) {
  mp_buffer_clear(path);
  for (size_t i = 0; i < 3; i++) {
    if (parts[i] == NULL || parts[i][0] == '\0') continue;
    if (is_absolute(parts[i])) mp_buffer_clear(path);
    if (path->length > 0) mp_buffer_add_char(path, '\\');
    add_text(path, parts[i]);
  }
  add_text(path, suffix);
  mp_buffer_add_char(path, '\0');
  return !path->failed && is_file(path->data);
}

static bool find_in_folder(mp_buffer *path, const mp_process_command *command, const char *folder) {
  const char *name = command->arguments[0];
  const char *const parts[] = {command->folder, folder, name};
  if (has_suffix(name)) return try_path(path, parts, "");
  for (size_t i = 0; i < SUFFIXES; i++) {
    if (try_path(path, parts, suffixes[i])) return true;
  }
  return false;
}

static const char *path_of(char *const *environment) {
  for (; *environment != NULL; environment++) {
    if (_strnicmp(*environment, "PATH=", 5) == 0) return *environment + 5;
  }
  return "";
}

static bool find_in_path(mp_buffer *path, const mp_process_command *command) {
  mp_buffer folder;
  bool is_found = false;
  mp_buffer_init(&folder, path->env);
  for (const char *rest = path_of(command->environment); !is_found && *rest != '\0';) {
    size_t length = strcspn(rest, ";");
    mp_buffer_clear(&folder);
    mp_buffer_add(&folder, rest, length);
    mp_buffer_add_char(&folder, '\0');
    is_found = length > 0 && !folder.failed && find_in_folder(path, command, folder.data);
    rest += length + (rest[length] == ';');
  }
  mp_buffer_free(&folder);
  return is_found;
}

static bool find_program(mp_buffer *path, const mp_process_command *command) {
  const char *name = command->arguments[0];
  bool is_path = strpbrk(name, "/\\:") != NULL;
  return is_path ? find_in_folder(path, command, NULL) : find_in_path(path, command);
}

/* ---- The command line, as C programs take it apart again ---- */

static void add_backslashes(mp_buffer *line, size_t count) {
  while (count-- > 0) mp_buffer_add_char(line, '\\');
}

static void add_quoted(mp_buffer *line, const char *text) {
  size_t backslashes = 0;
  mp_buffer_add_char(line, '"');
  for (; *text != '\0'; text++) {
    if (*text == '"') add_backslashes(line, backslashes + 1);
    backslashes = *text == '\\' ? backslashes + 1 : 0;
    mp_buffer_add_char(line, *text);
  }
  add_backslashes(line, backslashes);
  mp_buffer_add_char(line, '"');
}

/* Quotes only where it must: `cmd /c` takes words for its own that have none. */
static void add_argument(mp_buffer *line, const char *text) {
  if (line->length > 0) mp_buffer_add_char(line, ' ');
  if (text[0] == '\0' || strpbrk(text, " \t\"") != NULL) {
    add_quoted(line, text);
  } else {
    add_text(line, text);
  }
}

/*
** What the command interpreter, which runs files of commands, would read as its own in an argument.
** It knows no way to write all of them as they are.
*/
static bool is_plain(const char *text) {
  return strpbrk(text, "\"%!^&|<>()\r\n") == NULL;
}

static bool is_of_commands(const char *program) {
  return ends_in(program, ".bat") || ends_in(program, ".cmd");
}

static int write_line(mp_buffer *line, const char *program, char *const *arguments) {
  bool is_interpreted = is_of_commands(program);
  if (is_interpreted && !is_plain(program)) return ERROR_BAD_ARGUMENTS;
  /* It takes the outermost quotes away. */
  if (is_interpreted) add_text(line, "cmd.exe /d /s /c \"");
  add_argument(line, program);
  for (arguments++; *arguments != NULL; arguments++) {
    if (is_interpreted && !is_plain(*arguments)) return ERROR_BAD_ARGUMENTS;
    add_argument(line, *arguments);
  }
  if (is_interpreted) mp_buffer_add_char(line, '"');
  mp_buffer_add_char(line, '\0');
  return line->failed ? ERROR_NOT_ENOUGH_MEMORY : 0;
}

/* The interpreter itself, or the program. To be freed; NULL: there is none. */
static wchar_t *widen_program(const char *program) {
  static const wchar_t name[] = L"\\cmd.exe";
  if (!is_of_commands(program)) return mp_widen(program);
  UINT length = GetSystemDirectoryW(NULL, 0);
  wchar_t *path = malloc(length * sizeof *path + sizeof name);
  if (path == NULL || GetSystemDirectoryW(path, length) == 0) {
    free(path);
    return NULL;
  }
  return wcscat(path, name);
}

/* "NAME=value" each, and a NUL after the last. To be freed; NULL: no text, or memory is out. */
static wchar_t *widen_environment(char *const *environment, mp_env *env) {
  mp_buffer block;
  mp_buffer_init(&block, env);
  for (; *environment != NULL; environment++) mp_buffer_add(&block, *environment, strlen(*environment) + 1);
  mp_buffer_add(&block, "\0\0", block.length == 0 ? 2 : 1);
  wchar_t *wide = NULL;
  int length = block.failed ? 0 : (int)block.length;
  int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, block.data, length, NULL, 0);
  if (size > 0) wide = malloc((size_t)size * sizeof *wide);
  if (wide != NULL) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, block.data, length, wide, size);
  mp_buffer_free(&block);
  return wide;
}

/* ---- The pipes ---- */

static int last_error(void) {
  DWORD number = GetLastError();
  return number == 0 ? ERROR_GEN_FAILURE : (int)number;
}

/* Our end, and that of the child, which it inherits. */
typedef struct ends {
  mp_pipe ours;
  HANDLE theirs;
} ends;

/* A pipe without a name could not be used without waiting. */
static HANDLE make_named(wchar_t name[64], bool is_written) {
  static atomic_uint count;
  DWORD way = is_written ? PIPE_ACCESS_OUTBOUND : PIPE_ACCESS_INBOUND;
  swprintf(name, 64, L"\\\\.\\pipe\\moonpad-%lu-%u", GetCurrentProcessId(), atomic_fetch_add(&count, 1));
  return CreateNamedPipeW(name, way | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                          PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, 1, 65536, 65536, 0, NULL);
}

static int make_ends(ends *made, bool is_written) {
  wchar_t name[64];
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
  HANDLE ours = make_named(name, is_written);
  if (ours == INVALID_HANDLE_VALUE) return last_error();
  made->theirs = CreateFileW(name, is_written ? GENERIC_READ : GENERIC_WRITE, 0, &inherited, OPEN_EXISTING, 0, NULL);
  if (made->theirs != INVALID_HANDLE_VALUE) return mp_pipe_of_handle(ours, is_written, &made->ours);
  int number = last_error();
  CloseHandle(ours);
  return number;
}

static int make_all(ends made[3]) {
  for (size_t i = 0; i < 3; i++) {
    int number = make_ends(&made[i], i == 0);
    if (number != 0) return number;
  }
  return 0;
}

/* ---- Starting ---- */

/* What CreateProcess is told. Absent where it is NULL. */
typedef struct creation {
  wchar_t *program;
  wchar_t *line;
  wchar_t *environment;
  wchar_t *folder;
  PPROC_THREAD_ATTRIBUTE_LIST inherited;
} creation;

static void forget(creation *told) {
  free(told->program);
  free(told->line);
  free(told->environment);
  free(told->folder);
  if (told->inherited != NULL) DeleteProcThreadAttributeList(told->inherited);
  free(told->inherited);
}

/* Of our handles it inherits these alone. */
static PPROC_THREAD_ATTRIBUTE_LIST list_inherited(HANDLE handles[3]) {
  SIZE_T size = 0;
  InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  PPROC_THREAD_ATTRIBUTE_LIST list = malloc(size);
  if (list == NULL) return NULL;
  if (InitializeProcThreadAttributeList(list, 1, 0, &size)) {
    if (UpdateProcThreadAttribute(list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles, 3 * sizeof *handles, NULL,
                                  NULL)) {
      return list;
    }
    DeleteProcThreadAttributeList(list);
  }
  free(list);
  return NULL;
}

static int tell(creation *told, const mp_process_command *command, const char *program, mp_env *env) {
  mp_buffer line;
  mp_buffer_init(&line, env);
  int number = write_line(&line, program, command->arguments);
  if (number == 0) {
    told->program = widen_program(program);
    told->line = mp_widen(line.data);
    told->environment = widen_environment(command->environment, env);
    if (command->folder != NULL) told->folder = mp_widen(command->folder);
    bool is_told = told->program != NULL && told->line != NULL && told->environment != NULL &&
                   (command->folder == NULL || told->folder != NULL);
    if (!is_told) number = ERROR_BAD_ARGUMENTS;
  }
  mp_buffer_free(&line);
  return number;
}

/* A job that ends with its last handle, and the process, which has not begun to run, in it. */
static int put_into_job(mp_child *child) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;
  memset(&limits, 0, sizeof limits);
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  child->job = CreateJobObjectW(NULL, NULL);
  if (child->job == NULL) return last_error();
  if (SetInformationJobObject(child->job, JobObjectExtendedLimitInformation, &limits, sizeof limits) &&
      AssignProcessToJobObject(child->job, child->process)) {
    return 0;
  }
  int number = last_error();
  CloseHandle(child->job);
  return number;
}

static int create(const creation *told, HANDLE handles[3], mp_child *child) {
  PROCESS_INFORMATION created;
  STARTUPINFOEXW how;
  memset(&how, 0, sizeof how);
  how.StartupInfo.cb = sizeof how;
  how.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  how.StartupInfo.hStdInput = handles[0];
  how.StartupInfo.hStdOutput = handles[1];
  how.StartupInfo.hStdError = handles[2];
  how.lpAttributeList = told->inherited;
  DWORD flags = CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT;
  if (!CreateProcessW(told->program, told->line, NULL, NULL, TRUE, flags, told->environment, told->folder,
                      &how.StartupInfo, &created)) {
    return last_error();
  }
  *child = (mp_child){created.hProcess, NULL, created.dwProcessId};
  int number = put_into_job(child);
  if (number == 0) {
    ResumeThread(created.hThread);
  } else {
    TerminateProcess(created.hProcess, 1);
    CloseHandle(created.hProcess);
  }
  CloseHandle(created.hThread);
  return number;
}

static int create_with(const mp_process_command *command, const char *program, const ends made[3], mp_child *child,
                       mp_env *env) {
  HANDLE handles[] = {made[0].theirs, made[1].theirs, made[2].theirs};
  creation told = {NULL, NULL, NULL, NULL, NULL};
  int number = tell(&told, command, program, env);
  if (number == 0) {
    told.inherited = list_inherited(handles);
    number = told.inherited == NULL ? ERROR_NOT_ENOUGH_MEMORY : create(&told, handles, child);
  }
  forget(&told);
  return number;
}

static mp_process_failure start(const mp_process_command *command, const char *program, mp_child *child,
                                mp_process_pipes *pipes, int *code, mp_env *env) {
  ends made[3];
  for (size_t i = 0; i < 3; i++) made[i] = (ends){MP_NO_PIPE, INVALID_HANDLE_VALUE};
  *code = make_all(made);
  mp_process_failure failure = *code == 0 ? MP_PROCESS_STARTED : MP_PROCESS_NO_PIPES;
  if (*code == 0) {
    *code = create_with(command, program, made, child, env);
    if (*code != 0) failure = MP_PROCESS_NOT_STARTED;
  }
  for (size_t i = 0; i < 3; i++) {
    if (made[i].theirs != INVALID_HANDLE_VALUE) CloseHandle(made[i].theirs);
    if (failure != MP_PROCESS_STARTED) mp_pipe_close(&made[i].ours);
  }
  *pipes = (mp_process_pipes){made[0].ours, made[1].ours, made[2].ours};
  return failure;
}

mp_process_failure mp_process_start(const mp_process_command *command, mp_child *child, mp_process_pipes *pipes,
                                    int *code) {
  mp_buffer path;
  *code = ERROR_PATH_NOT_FOUND;
  if (command->folder != NULL && !is_folder(command->folder)) return MP_PROCESS_NO_FOLDER;
  *code = ERROR_NOT_ENOUGH_MEMORY;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return MP_PROCESS_NOT_STARTED;
  mp_buffer_init(&path, env);
  *code = ERROR_FILE_NOT_FOUND;
  mp_process_failure failure = MP_PROCESS_NO_PROGRAM;
  if (find_program(&path, command)) failure = start(command, path.data, child, pipes, code, env);
  mp_buffer_free(&path);
  mp_env_release(env);
  return failure;
}
