/*
** Folders for Lua specs: to ask a shell for each would take longer than most specs do, above all
** under a sanitizer.
*/
#define _XOPEN_SOURCE 700 /* nftw */
#include <errno.h>
#include <ftw.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moonpad.h"

/* make() -> the path of a new folder, which is its owner's alone */
static int make(lua_State *L) {
  char path[] = "/tmp/lua_XXXXXX";
  if (mkdtemp(path) == NULL) return luaL_error(L, "no folder below /tmp can be made");
  lua_pushstring(L, path);
  return 1;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *where) {
  (void)found, (void)kind, (void)where;
  return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

/* remove(path): with all that is in it, if it is there */
static int remove_all(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return 0;
  return luaL_error(L, "%s cannot be removed: %s", path, strerror(errno));
}

int luaopen_spec_folders(lua_State *L);

MOONPAD_API int luaopen_spec_folders(lua_State *L) {
  static const luaL_Reg functions[] = {{"make", make}, {"remove", remove_all}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
