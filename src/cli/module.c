/*
** cli/: what the command `moonpad` needs of the system and Lua does not have: is there a terminal,
** has Ctrl-C been pressed, is a server to end, has all output been written. The Lua module
** moonpad.cli_core.
** Belongs here: calls of the operating system (system.c), nothing of moonpad. A module of its own,
** because a signal handler belongs to a program, not to a library.
** Does not belong here: the command itself (bin/moonpad, lua/moonpad/cli).
** Arrows: module, files -> system -> base. lua/moonpad/cli uses it, and nothing in src does.
*/
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/files.h"
#include "cli/system.h"
#include "moonpad.h"

/* isTerminal(fd) */
static int is_terminal(lua_State *L) {
  lua_pushboolean(L, mp_cli_is_terminal((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* hasCodes(): does the terminal of standard output understand codes? */
static int has_codes(lua_State *L) {
  lua_pushboolean(L, mp_cli_has_codes());
  return 1;
}

/* catchInterrupts(): from now on Ctrl-C is noted instead of ending the program */
static int catch_interrupts(lua_State *L) {
  (void)L;
  mp_cli_catch_interrupts();
  return 0;
}

/* interrupted(): has there been one since the last call? */
static int interrupted(lua_State *L) {
  lua_pushboolean(L, mp_cli_interrupted());
  return 1;
}

/* readLine() -> a line of the terminal; nil at the end; false when a Ctrl-C came first */
static int read_line(lua_State *L) {
  char *line;
  size_t length;
  switch (mp_cli_read_line(&line, &length)) {
  case MP_CLI_LINE:
    lua_pushlstring(L, line, length);
    free(line);
    return 1;
  case MP_CLI_INTERRUPTED:
    lua_pushboolean(L, 0);
    return 1;
  default:
    return 0;
  }
}

/*
** catchEnd() -> a descriptor that is readable once SIGINT or SIGTERM has come, instead of the end
** of the program; nil where the system has none
*/
static int catch_end(lua_State *L) {
  int descriptor = mp_cli_catch_end();
  if (descriptor < 0) return 0;
  lua_pushinteger(L, descriptor);
  return 1;
}

/* wasInterrupted(): was it SIGINT that has ended the server? */
static int was_interrupted(lua_State *L) {
  lua_pushboolean(L, mp_cli_was_interrupted());
  return 1;
}

/* hasLostOutput(): did any write to standard output fail? A flush only says how it went itself. */
static int has_lost_output(lua_State *L) {
  lua_pushboolean(L, fflush(stdout) != 0 || ferror(stdout) != 0);
  return 1;
}

/* The options of lua, the script and its arguments are what main() has got. */
static int count_before(lua_State *L) {
  int count = 0;
  while (lua_rawgeti(L, 1, -(count + 1)) != LUA_TNIL) {
    lua_pop(L, 1);
    count++;
  }
  lua_pop(L, 1);
  return count;
}

/* arguments(arg) -> a list: those of the script, in UTF-8 */
static int arguments(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  int before = count_before(L), count = (int)lua_rawlen(L, 1);
  lua_createtable(L, count, 0);
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    char *text = mp_cli_argument(luaL_checkstring(L, -1), before + i, before + 1 + count);
    if (text == NULL) return luaL_error(L, "argument %d is no text", i);
    lua_pushstring(L, text);
    free(text);
    lua_rawseti(L, -3, i);
    lua_pop(L, 1);
  }
  return 1;
}

MOONPAD_API int luaopen_moonpad_cli_core(lua_State *L);

int luaopen_moonpad_cli_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"isTerminal", is_terminal},
                                       {"hasCodes", has_codes},
                                       {"catchInterrupts", catch_interrupts},
                                       {"interrupted", interrupted},
                                       {"readLine", read_line},
                                       {"catchEnd", catch_end},
                                       {"wasInterrupted", was_interrupted},
                                       {"hasLostOutput", has_lost_output},
                                       {"arguments", arguments},
                                       {"makeFolder", mp_cli_push_made_folder},
                                       {"makeFolders", mp_cli_push_made_folders},
                                       {"isFolder", mp_cli_push_is_folder},
                                       {"namesIn", mp_cli_push_names},
                                       {NULL, NULL}};
  luaL_checkversion(L);
  mp_cli_prepare();
  luaL_newlib(L, functions);
  return 1;
}
