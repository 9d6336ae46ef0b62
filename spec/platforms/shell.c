/*
** The shell that Lua specs write their commands for where Windows is wine, and on WebAssembly: that
** of the host. Both start its programs, but hand them no pipe, and tell nothing of their end: so
** spec/platforms/shell.sh makes a pipe that has a name, and leaves the exit code in a file.
*/
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>

#include "moonpad.h"

enum { PATH_BYTES = 128, LINE_BYTES = 256 };

#if defined(_WIN32)

#include <io.h>
#include <windows.h>

static void nap(void) {
  Sleep(1);
}

/* A new file. */
static FILE *create(char path[PATH_BYTES]) {
  static unsigned count;
  snprintf(path, PATH_BYTES, "/tmp/lua_shell_%lu_%u", GetCurrentProcessId(), count++);
  return fopen(path, "wb");
}

/* Begins what a shell is told. */
static bool tell_shell(const char *words) {
  wchar_t line[LINE_BYTES];
  STARTUPINFOW how = {.cb = sizeof how, .dwFlags = STARTF_USESTDHANDLES};
  PROCESS_INFORMATION created;
  how.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
  how.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  how.hStdError = GetStdHandle(STD_ERROR_HANDLE);
  swprintf(line, LINE_BYTES, L"sh %hs", words);
  return CreateProcessW(L"Z:\\bin\\sh", line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &created);
}

#else

#include <time.h>
#include <unistd.h>

#define _O_WRONLY O_WRONLY
#define _O_BINARY 0
#define _O_RDONLY O_RDONLY
#define _O_TEXT   0
#define _open     open
#define _fdopen   fdopen

static void nap(void) {
  nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static FILE *create(char path[PATH_BYTES]) {
  snprintf(path, PATH_BYTES, "/tmp/lua_shell_XXXXXX");
  int file = mkstemp(path);
  return file < 0 ? NULL : fdopen(file, "wb");
}

/* In the background, with its standard input all the same. */
static bool tell_shell(const char *words) {
  char line[LINE_BYTES + 32];
  snprintf(line, sizeof line, "exec 3<&0; sh %s <&3 &", words);
  return system(line) == 0;
}

#endif

/* A file of a name that no other has, with the command in it. */
static void write_command(lua_State *L, char path[PATH_BYTES], const char *command, size_t length) {
  FILE *file = create(path);
  if (file == NULL || fwrite(command, 1, length, file) != length || fclose(file) != 0) {
    luaL_error(L, "%s cannot be written", path);
  }
}

/* `way`: "r" or "w" if there is a pipe, else "". */
static void run(lua_State *L, const char *path, const char *way) {
  char words[LINE_BYTES];
  snprintf(words, sizeof words, "spec/platforms/shell.sh %s %s", path, way);
  fflush(NULL);
  if (!tell_shell(words)) luaL_error(L, "the host's shell cannot be started");
}

/* Opens PATH.SUFFIX once it is there. */
static FILE *await(const char *path, const char *suffix, bool is_written) {
  char name[PATH_BYTES + 8];
  int file;
  snprintf(name, sizeof name, "%s.%s", path, suffix);
  while ((file = _open(name, is_written ? _O_WRONLY | _O_BINARY : _O_RDONLY | _O_TEXT)) < 0) nap();
  return _fdopen(file, is_written ? "wb" : "rt");
}

/* Makes an empty file. Whoever waits for it may have removed it before Emscripten has looked at it,
** which is an error there. */
static void note(const char *path, const char *suffix) {
  char name[PATH_BYTES + 8];
  snprintf(name, sizeof name, "%s.%s", path, suffix);
  FILE *file = fopen(name, "wb");
  if (file != NULL) fclose(file);
}

/* Waits for the end of a command, whose last file this is. */
static int exit_code(const char *path) {
  int code = -1;
  FILE *file = await(path, "code", false);
  if (fscanf(file, "%d", &code) != 1) code = -1;
  fclose(file);
  note(path, "read");
  return code;
}

static int push_exit(lua_State *L, int code) {
  if (code == 0) {
    lua_pushboolean(L, 1);
  } else {
    luaL_pushfail(L);
  }
  lua_pushliteral(L, "exit");
  lua_pushinteger(L, code);
  return 3;
}

/* os.execute */
static int execute(lua_State *L) {
  char path[PATH_BYTES];
  size_t length;
  const char *command = luaL_checklstring(L, 1, &length);
  write_command(L, path, command, length);
  run(L, path, "");
  return push_exit(L, exit_code(path));
}

static int close_stream(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  fclose(stream->f);
  lua_getiuservalue(L, 1, 1);
  return push_exit(L, exit_code(lua_tostring(L, -1)));
}

/* io.popen */
static int start(lua_State *L) {
  char path[PATH_BYTES];
  size_t length;
  const char *command = luaL_checklstring(L, 1, &length);
  const char *way = luaL_optstring(L, 2, "r");
  write_command(L, path, command, length);
  luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 1);
  stream->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  lua_pushstring(L, path);
  lua_setiuservalue(L, -2, 1);
  run(L, path, way);
  stream->f = await(path, "pipe", way[0] == 'w');
  stream->closef = close_stream;
  note(path, "open");
  return 1;
}

int luaopen_spec_shell(lua_State *L);

MOONPAD_API int luaopen_spec_shell(lua_State *L) {
  static const luaL_Reg functions[] = {{"execute", execute}, {"popen", start}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
