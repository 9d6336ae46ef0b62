/*
** cli/files.c: folders and names of files, for the command.
** Belongs here: calls of the operating system about files. Every function that fails gives nil, a
** message that names the path, and the number of the error.
*/
#include "cli/files.h"

#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail(lua_State *L, const char *path, int number) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(number));
  lua_pushinteger(L, number);
  return 3;
}

int mp_cli_make_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  if (mkdir(path, 0777) != 0) return fail(L, path, errno);
  lua_pushboolean(L, 1);
  return 1;
}

/* One after the other, from the first that is missing. What is there is no error. */
int mp_cli_make_folders(lua_State *L) {
  size_t length;
  const char *path = luaL_checklstring(L, 1, &length);
  luaL_Buffer buffer;
  char *copy = luaL_buffinitsize(L, &buffer, length + 1);
  memcpy(copy, path, length + 1);
  for (size_t end = 1; end <= length; end++) {
    if (copy[end] != '/' && copy[end] != '\0') continue;
    char rest = copy[end];
    copy[end] = '\0';
    if (mkdir(copy, 0700) != 0 && errno != EEXIST) return fail(L, path, errno);
    copy[end] = rest;
  }
  struct stat found;
  if (stat(path, &found) != 0) return fail(L, path, errno);
  if (!S_ISDIR(found.st_mode)) return fail(L, path, ENOTDIR);
  lua_pushboolean(L, 1);
  return 1;
}

int mp_cli_is_folder(lua_State *L) {
  struct stat found;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &found) == 0 && S_ISDIR(found.st_mode));
  return 1;
}

/* The names in a folder, in no order, without "." and "..". */
int mp_cli_names_in(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  lua_newtable(L);
  DIR *folder = opendir(path);
  if (folder == NULL) return fail(L, path, errno);
  const struct dirent *entry;
  for (lua_Integer count = 0; (entry = readdir(folder)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    lua_pushstring(L, entry->d_name);
    lua_rawseti(L, -2, ++count);
  }
  closedir(folder);
  return 1;
}
