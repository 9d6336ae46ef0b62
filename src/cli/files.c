/*
** cli/files.c: folders and names of files, for the command. Every function that fails gives nil, a
** message that names the path, and the number of the error.
*/
#include "cli/files.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "cli/system.h"

static int fail(lua_State *L, const char *path, int number) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(number));
  lua_pushinteger(L, number);
  return 3;
}

int mp_cli_push_made_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  int number = mp_cli_make_folder(path, false);
  if (number != 0) return fail(L, path, number);
  lua_pushboolean(L, 1);
  return 1;
}

/* One after the other, from the first that is missing. What is there is no error. */
int mp_cli_push_made_folders(lua_State *L) {
  size_t length;
  const char *path = luaL_checklstring(L, 1, &length);
  luaL_Buffer buffer;
  char *copy = luaL_buffinitsize(L, &buffer, length + 1);
  memcpy(copy, path, length + 1);
  for (size_t end = 1; end <= length; end++) {
    if (!mp_cli_is_slash(copy[end]) && copy[end] != '\0') continue;
    char rest = copy[end];
    copy[end] = '\0';
    int number = mp_cli_is_folder(copy) ? 0 : mp_cli_make_folder(copy, true);
    if (number != 0 && number != EEXIST) return fail(L, path, number);
    copy[end] = rest;
  }
  if (!mp_cli_is_folder(path)) return fail(L, path, ENOTDIR);
  lua_pushboolean(L, 1);
  return 1;
}

int mp_cli_push_is_folder(lua_State *L) {
  lua_pushboolean(L, mp_cli_is_folder(luaL_checkstring(L, 1)));
  return 1;
}

static void add_name(void *context, const char *name) {
  lua_State *L = context;
  lua_pushstring(L, name);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* The names in a folder, in no order, without "." and "..". */
int mp_cli_push_names(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  lua_newtable(L);
  int number = mp_cli_list(path, add_name, L);
  return number == 0 ? 1 : fail(L, path, number);
}
