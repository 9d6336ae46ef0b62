/* Functions of the Lua module moonpad.cli_core about files (src/cli/files.c). */
#ifndef MP_CLI_FILES_H
#define MP_CLI_FILES_H

#include <lua.h>

int mp_cli_push_made_folder(lua_State *L);  /* makeFolder(path) -> true; or nil, message, number */
int mp_cli_push_made_folders(lua_State *L); /* makeFolders(path) -> true, with those above it */
int mp_cli_push_is_folder(lua_State *L);    /* isFolder(path) -> boolean */
int mp_cli_push_names(lua_State *L);        /* namesIn(path) -> a list */

#endif
