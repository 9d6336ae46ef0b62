/*
** The Lua module `moonpad.process_core`: children as userdata, and waiting for descriptors.
** Failures come back as nil, message; only wrong arguments raise. What people use is
** lua/moonpad/mcp.
*/
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "base/buffer.h"
#include "base/platform.h"
#include "process/process.h"

#define PROCESS_TYPE "moonpad.process"
#define READ_SIZE    65536

typedef struct process_handle {
  mp_process *process; /* NULL: closed */
  mp_env *env;
  mp_process_pipes pipes; /* MP_NO_PIPE: closed */
  mp_buffer unwritten;
  size_t written; /* of what is in `unwritten` */
} process_handle;

/* ---- Results ---- */

static int push_failure(lua_State *L, int code) {
  char reason[128];
  lua_pushnil(L);
  lua_pushstring(L, mp_system_message(code, reason, sizeof reason));
  return 2;
}

static int push_no_memory(lua_State *L) {
  lua_pushnil(L);
  lua_pushstring(L, strerror(ENOMEM));
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
  handle->pipes = (mp_process_pipes){MP_NO_PIPE, MP_NO_PIPE, MP_NO_PIPE};
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
  if (handle->env == NULL) return push_no_memory(L);
  mp_buffer_init(&handle->unwritten, handle->env);
  mp_child child;
  int code;
  mp_process_failure failure = mp_process_start(&command, &child, &handle->pipes, &code);
  if (failure != MP_PROCESS_STARTED) {
    push_failure(L, code);
    lua_pushstring(L, failures[failure]);
    return 3;
  }
  handle->process = mp_process_new(child);
  if (handle->process == NULL) {
    push_no_memory(L);
    lua_pushliteral(L, "start");
    return 3;
  }
  return 1;
}

/* ---- The end ---- */

/* process:close(): it ends in the background */
static int process_close(lua_State *L) {
  process_handle *handle = luaL_checkudata(L, 1, PROCESS_TYPE);
  mp_process *process = handle->process;
  handle->process = NULL;
  mp_pipe_close(&handle->pipes.input);
  mp_pipe_close(&handle->pipes.output);
  mp_pipe_close(&handle->pipes.error);
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
  char text[64];
  if (!mp_process_is_over(check_process(L)->process, &status)) return 0;
  mp_process_tell_end(status, text, sizeof text);
  lua_pushstring(L, text);
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

/* What the pipe does not take now stays for later. 0, or the system's error number. */
static int flush(process_handle *handle) {
  mp_buffer *unwritten = &handle->unwritten;
  if (handle->pipes.input == MP_NO_PIPE) return MP_PIPE_BROKEN;
  while (handle->written < unwritten->length) {
    size_t taken;
    const char *rest = unwritten->data + handle->written;
    int code = mp_pipe_write(handle->pipes.input, rest, unwritten->length - handle->written, &taken);
    if (code != 0 || taken == 0) return code;
    handle->written += taken;
  }
  handle->written = 0;
  mp_buffer_free(unwritten);
  return 0;
}

static int push_flushed(lua_State *L, process_handle *handle) {
  int code = flush(handle);
  if (code != 0) {
    /* Nobody reads it any more: it is not to be waited for. */
    mp_pipe_close(&handle->pipes.input);
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
  if (handle->unwritten.failed) return push_no_memory(L);
  return push_flushed(L, handle);
}

static int process_flush(lua_State *L) {
  return push_flushed(L, check_process(L));
}

/* process:isWriting(): is there something that flush() has to write? */
static int process_is_writing(lua_State *L) {
  lua_pushboolean(L, check_process(L)->unwritten.length > 0);
  return 1;
}

/* ---- Reading ---- */

static mp_pipe *check_stream(lua_State *L, process_handle *handle) {
  static const char *const names[] = {"output", "error", NULL};
  return luaL_checkoption(L, 2, NULL, names) == 0 ? &handle->pipes.output : &handle->pipes.error;
}

/*
** process:read("output" | "error" [, limit]) -> what has come; nil when nothing has; nil, true at
** the end
*/
static int process_read(lua_State *L) {
  process_handle *handle = check_process(L);
  mp_pipe *pipe = check_stream(L, handle);
  lua_Integer limit = luaL_optinteger(L, 3, READ_SIZE);
  luaL_argcheck(L, limit > 0, 3, "a number of bytes expected");
  size_t size = limit < READ_SIZE ? (size_t)limit : READ_SIZE;
  luaL_Buffer buffer;
  char *room = luaL_buffinitsize(L, &buffer, size);
  size_t length = 0;
  bool has_come = *pipe == MP_NO_PIPE || mp_pipe_read(*pipe, room, size, &length);
  luaL_pushresultsize(&buffer, length);
  if (length > 0) return 1;
  lua_pushnil(L);
  if (!has_come) return 1;
  mp_pipe_close(pipe);
  lua_pushboolean(L, 1);
  return 2;
}

/* ---- Waiting ---- */

static void append_descriptor(lua_State *L, int index, mp_pipe pipe) {
  if (pipe == MP_NO_PIPE) return;
  lua_pushinteger(L, mp_pipe_descriptor(pipe));
  lua_rawseti(L, index, (lua_Integer)lua_rawlen(L, index) + 1);
}

/* process:descriptors(readable, writable): adds those that tell when something can be done */
static int process_descriptors(lua_State *L) {
  process_handle *handle = check_process(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  append_descriptor(L, 2, handle->pipes.output);
  append_descriptor(L, 2, handle->pipes.error);
  if (handle->unwritten.length > 0) append_descriptor(L, MP_ROOM_IS_READABLE ? 2 : 3, handle->pipes.input);
  return 0;
}

/* Sets items of the list from `begin` on: the descriptors in the table at `index`. */
static void fill(lua_State *L, int index, void *list, size_t begin, size_t count) {
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    mp_waited_set(list, begin + i, (int)lua_tointeger(L, -1), index == 2);
    lua_pop(L, 1);
  }
}

/* poll(readable, writable, seconds): waits for one of these descriptors -> is one ready? */
static int wait_for(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Number seconds = luaL_checknumber(L, 3);
  size_t readable = (size_t)lua_rawlen(L, 1), writable = (size_t)lua_rawlen(L, 2);
  void *list = lua_newuserdatauv(L, (readable + writable + 1) * mp_waited_size(), 0);
  fill(L, 1, list, 0, readable);
  fill(L, 2, list, readable, writable);
  lua_pushboolean(L, mp_wait(list, readable + writable, seconds));
  return 1;
}

/* ---- The module ---- */

static void make_type(lua_State *L) {
  static const luaL_Reg methods[] = {{"write", process_write},
                                     {"flush", process_flush},
                                     {"isWriting", process_is_writing},
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

MOONPAD_API int luaopen_moonpad_process_core(lua_State *L);

int luaopen_moonpad_process_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", start}, {"poll", wait_for}, {NULL, NULL}};
  luaL_checkversion(L);
  mp_stay_loaded();
  make_type(L);
  luaL_newlib(L, functions);
  return 1;
}
