/*
** Folders for Lua specs: to ask a shell for each would take longer than most specs do, above all
** under a sanitizer.
*/
#define _XOPEN_SOURCE 700 /* nftw */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moonpad.h"

#if !defined(_WIN32)

#include <ftw.h>

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

#else

#include <windows.h>
/* behind windows.h */
#include <direct.h>

#include "base/platform.h"

/* Wine's host, whose shell the specs ask, has a folder of its own. */
static DWORD temporary(wchar_t path[MAX_PATH + 1]) {
  static const wchar_t of_host[] = L"/tmp/";
  if (GetFileAttributesW(of_host) == INVALID_FILE_ATTRIBUTES) return GetTempPathW(MAX_PATH + 1, path);
  wcscpy(path, of_host);
  return sizeof of_host / sizeof *of_host - 1;
}

static int make(lua_State *L) {
  wchar_t path[MAX_PATH + 1];
  GUID part;
  DWORD length = temporary(path);
  if (!mp_system_random((unsigned char *)&part, sizeof part)) return luaL_error(L, "there are no random numbers");
  swprintf(path + length, MAX_PATH - length, L"lua_%08lx%04x", part.Data1, part.Data2);
  if (_wmkdir(path) != 0) return luaL_error(L, "no folder can be made");
  for (wchar_t *at = path; *at != L'\0'; at++) {
    if (*at == L'\\') *at = L'/';
  }
  char *narrow = mp_narrow(path);
  lua_pushstring(L, narrow);
  free(narrow);
  return 1;
}

static bool remove_folder(const wchar_t *path);

static bool remove_found(const wchar_t *folder, const WIN32_FIND_DATAW *found) {
  wchar_t path[2 * MAX_PATH];
  if (wcscmp(found->cFileName, L".") == 0 || wcscmp(found->cFileName, L"..") == 0) return true;
  swprintf(path, 2 * MAX_PATH, L"%ls/%ls", folder, found->cFileName);
  if ((found->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return remove_folder(path);
  SetFileAttributesW(path, FILE_ATTRIBUTE_NORMAL);
  return DeleteFileW(path);
}

static bool remove_folder(const wchar_t *path) {
  wchar_t pattern[2 * MAX_PATH];
  WIN32_FIND_DATAW found;
  swprintf(pattern, 2 * MAX_PATH, L"%ls/*", path);
  HANDLE search = FindFirstFileW(pattern, &found);
  if (search == INVALID_HANDLE_VALUE) return GetLastError() == ERROR_PATH_NOT_FOUND;
  bool is_removed = true;
  do {
    is_removed = remove_found(path, &found) && is_removed;
  } while (FindNextFileW(search, &found));
  FindClose(search);
  return is_removed && RemoveDirectoryW(path);
}

static int remove_all(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  wchar_t *wide = mp_widen(path);
  bool is_removed = wide != NULL && remove_folder(wide);
  free(wide);
  return is_removed ? 0 : luaL_error(L, "%s cannot be removed: error %d", path, (int)GetLastError());
}

#endif

int luaopen_spec_folders(lua_State *L);

MOONPAD_API int luaopen_spec_folders(lua_State *L) {
  static const luaL_Reg functions[] = {{"make", make}, {"remove", remove_all}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
