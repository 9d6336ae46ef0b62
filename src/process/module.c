/*
** The Lua module `moonpad.process_core`: children as userdata, and waiting for descriptors.
** Failures come back as nil, message; only wrong arguments raise. What people use is
** lua/moonpad/mcp.
*/
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/platform.h"
#include "process/process.h"
#include "process/start.h"

#define PROCESS_TYPE "moonpad.process"
#define READ_SIZE    65536

typedef struct process_handle {
  mp_process *process; /* NULL: closed */
  mp_env *env;
  mp_process_pipes pipes; /* -1: closed */
  mp_buffer unwritten;
  size_t written; /* of what is in `unwritten` */
} process_handle;

/* ---- Results ---- */

static int push_failure(lua_State *L, int code) {
  lua_pushnil(L);
  lua_pushstring(L, strerror(code));
  return 2;
}

static process_handle *check_process(lua_State *L) {
  process_handle *handle = luaL_checkudata(L, 1, PROCESS_TYPE);
  if (handle->process == NULL) luaL_error(L, "the process is closed");
  return handle;
}

/* ---- Starting ---- */

/*
** The strings of the list at the top, as C strings; a table on the stack in place of the list keeps
** them alive.
*/
static char *const *check_strings(lua_State *L, const char *name) {
  if (!lua_istable(L, -1)) luaL_error(L, "%s: expected a list of strings", name);
  lua_Unsigned count = lua_rawlen(L, -1);
  const char **strings = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *strings, 1);
  for (lua_Unsigned i = 0; i < count; i++) {
    size_t length = 0;
    if (lua_rawgeti(L, -2, (lua_Integer)i + 1) != LUA_TSTRING) luaL_error(L, "%s: expected strings", name);
    strings[i] = lua_tolstring(L, -1, &length);
    if (strlen(strings[i]) != length) luaL_error(L, "%s: a string has a NUL byte", name);
    lua_pop(L, 1);
  }
  strings[count] = NULL;
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  /* posix_spawn does not write to them: its type is older than const. */
  return (char *const *)strings;
}

static const char *const failures[] = {
    [MP_PROCESS_NO_PROGRAM] = "program",
    [MP_PROCESS_NO_FOLDER] = "folder",
    [MP_PROCESS_NO_PIPES] = "pipes",
    [MP_PROCESS_NOT_STARTED] = "start",
};

static process_handle *push_handle(lua_State *L) {
  process_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  memset(handle, 0, sizeof *handle);
  handle->pipes = (mp_process_pipes){-1, -1, -1};
  luaL_setmetatable(L, PROCESS_TYPE);
  return handle;
}

/*
** start{ command = { PROGRAM, ARGUMENT... }, environment = { "NAME=value" }, folder? } -> process,
** or nil, message and what failed: "program", "folder", "pipes", "start"
*/
static int start(lua_State *L) {
  mp_process_command command;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "command");
  command.arguments = check_strings(L, "command");
  if (command.arguments[0] == NULL) luaL_error(L, "command: it is empty");
  lua_getfield(L, 1, "environment");
  command.environment = check_strings(L, "environment");
  lua_getfield(L, 1, "folder");
  command.folder = luaL_optstring(L, -1, NULL);
  process_handle *handle = push_handle(L);
  handle->env = mp_env_new(NULL);
  if (handle->env == NULL) return push_failure(L, ENOMEM);
  mp_buffer_init(&handle->unwritten, handle->env);
  pid_t pid;
  int code;
  mp_process_failure failure = mp_process_start(&command, &pid, &handle->pipes, &code);
  if (failure != MP_PROCESS_STARTED) {
    push_failure(L, code);
    lua_pushstring(L, failures[failure]);
    return 3;
  }
  handle->process = mp_process_new(pid);
  if (handle->process == NULL) {
    push_failure(L, ENOMEM);
    lua_pushliteral(L, "start");
    return 3;
  }
  return 1;
}

/* ---- The end ---- */

static void close_pipe(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* process:close(): it ends in the background */
static int process_close(lua_State *L) {
  process_handle *handle = luaL_checkudata(L, 1, PROCESS_TYPE);
  mp_process *process = handle->process;
  handle->process = NULL;
  close_pipe(&handle->pipes.input);
  close_pipe(&handle->pipes.output);
  close_pipe(&handle->pipes.error);
  mp_process_end(process);
  if (handle->env != NULL) {
    mp_buffer_free(&handle->unwritten);
    mp_env_release(handle->env);
    handle->env = NULL;
  }
  return 0;
}

/* process:ending() -> nil while it lives; else how it ended */
static int process_ending(lua_State *L) {
  int status;
  if (!mp_process_is_over(check_process(L)->process, &status)) return 0;
  if (status >= 0 && WIFEXITED(status)) {
    lua_pushfstring(L, "it ended with exit code %d", WEXITSTATUS(status));
  } else if (status >= 0 && WIFSIGNALED(status)) {
    lua_pushfstring(L, "it was ended by signal %d", WTERMSIG(status));
  } else {
    lua_pushliteral(L, "it ended");
  }
  return 1;
}

/* process:isForeign(): has it been started by the process that this one was forked from? */
static int process_is_foreign(lua_State *L) {
  lua_pushboolean(L, mp_process_is_foreign(check_process(L)->process));
  return 1;
}

static int process_id(lua_State *L) {
  lua_pushinteger(L, mp_process_id(check_process(L)->process));
  return 1;
}

/* ---- Writing ---- */

static ssize_t write_quietly(int fd, const char *data, size_t length) {
  mp_sigpipe held;
  mp_sigpipe_hold(&held);
  ssize_t written = write(fd, data, length);
  mp_sigpipe_release(&held);
  return written;
}

/* What the pipe does not take now stays for later. 0 or an errno. */
static int flush(process_handle *handle) {
  mp_buffer *unwritten = &handle->unwritten;
  if (handle->pipes.input < 0) return EPIPE;
  while (handle->written < unwritten->length) {
    ssize_t written =
        write_quietly(handle->pipes.input, unwritten->data + handle->written, unwritten->length - handle->written);
    if (written >= 0) {
      handle->written += (size_t)written;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return 0;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  handle->written = 0;
  mp_buffer_free(unwritten);
  return 0;
}

static int push_flushed(lua_State *L, process_handle *handle) {
  int code = flush(handle);
  if (code != 0) {
    /* Nobody reads it any more: it is not to be waited for. */
    close_pipe(&handle->pipes.input);
    mp_buffer_free(&handle->unwritten);
    handle->written = 0;
    return push_failure(L, code);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* process:write(text) -> true, or nil and a message. What cannot be written now, flush() writes. */
static int process_write(lua_State *L) {
  process_handle *handle = check_process(L);
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  mp_buffer_add(&handle->unwritten, text, length);
  if (handle->unwritten.failed) return push_failure(L, ENOMEM);
  return push_flushed(L, handle);
}

static int process_flush(lua_State *L) {
  return push_flushed(L, check_process(L));
}

/* ---- Reading ---- */

static int *check_stream(lua_State *L, process_handle *handle) {
  static const char *const names[] = {"output", "error", NULL};
  return luaL_checkoption(L, 2, NULL, names) == 0 ? &handle->pipes.output : &handle->pipes.error;
}

/*
** process:read("output" | "error" [, limit]) -> what has come; nil when nothing has; nil, true at
** the end
*/
static int process_read(lua_State *L) {
  process_handle *handle = check_process(L);
  int *fd = check_stream(L, handle);
  lua_Integer limit = luaL_optinteger(L, 3, READ_SIZE);
  luaL_argcheck(L, limit > 0, 3, "a number of bytes expected");
  size_t size = limit < READ_SIZE ? (size_t)limit : READ_SIZE;
  luaL_Buffer buffer;
  char *room = luaL_buffinitsize(L, &buffer, size);
  ssize_t length = 0;
  bool is_waiting = false;
  if (*fd >= 0) {
    do {
      length = read(*fd, room, size);
    } while (length < 0 && errno == EINTR);
    is_waiting = length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  luaL_pushresultsize(&buffer, length > 0 ? (size_t)length : 0);
  if (length > 0) return 1;
  lua_pushnil(L);
  if (is_waiting) return 1;
  close_pipe(fd);
  lua_pushboolean(L, 1);
  return 2;
}

/* ---- Waiting ---- */

static void append_descriptor(lua_State *L, int index, int fd) {
  if (fd < 0) return;
  lua_pushinteger(L, fd);
  lua_rawseti(L, index, (lua_Integer)lua_rawlen(L, index) + 1);
}

/* process:descriptors(readable, writable): adds those that tell when something can be done */
static int process_descriptors(lua_State *L) {
  process_handle *handle = check_process(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  append_descriptor(L, 2, handle->pipes.output);
  append_descriptor(L, 2, handle->pipes.error);
  if (handle->unwritten.length > 0) append_descriptor(L, 3, handle->pipes.input);
  return 0;
}

static void fill(lua_State *L, int index, struct pollfd *list, lua_Unsigned count, short events) {
  for (lua_Unsigned i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    list[i] = (struct pollfd){(int)lua_tointeger(L, -1), events, 0};
    lua_pop(L, 1);
  }
}

static struct timespec duration(double seconds) {
  struct timespec time = {0, 0};
  if (!(seconds > 0)) return time;
  if (seconds > 1e6) seconds = 1e6;
  time.tv_sec = (time_t)seconds;
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  return time;
}

/* poll(readable, writable, seconds): waits for one of these descriptors -> is one ready? */
static int wait_for(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Number seconds = luaL_checknumber(L, 3);
  lua_Unsigned readable = lua_rawlen(L, 1), writable = lua_rawlen(L, 2);
  struct pollfd *list = lua_newuserdatauv(L, ((size_t)(readable + writable) + 1) * sizeof *list, 0);
  fill(L, 1, list, readable, POLLIN);
  fill(L, 2, list + readable, writable, POLLOUT);
  struct timespec time = duration(seconds);
  lua_pushboolean(L, ppoll(list, (nfds_t)(readable + writable), &time, NULL) > 0);
  return 1;
}

/* ---- The module ---- */

static void make_type(lua_State *L) {
  static const luaL_Reg methods[] = {{"write", process_write},
                                     {"flush", process_flush},
                                     {"read", process_read},
                                     {"ending", process_ending},
                                     {"isForeign", process_is_foreign},
                                     {"id", process_id},
                                     {"descriptors", process_descriptors},
                                     {"close", process_close},
                                     {NULL, NULL}};
  if (luaL_newmetatable(L, PROCESS_TYPE)) {
    lua_pushcfunction(L, process_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, process_close);
    lua_setfield(L, -2, "__close");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_moonpad_process_core(lua_State *L);

int luaopen_moonpad_process_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", start}, {"poll", wait_for}, {NULL, NULL}};
  luaL_checkversion(L);
  make_type(L);
  luaL_newlib(L, functions);
  return 1;
}
