rockspec_format = "3.0"
package = "moonpad"
version = "scm-1"

source = {
  -- This rockspec builds the tree it lies in: luarocks-5.4 make
  url = "git+file://.",
}

description = {
  summary = "An embeddable agent state runtime",
  detailed = [[
A C library owns sessions, scoped state and an append-only event log on SQLite or in memory; a Lua 5.4 layer on top is
where agents, callbacks and tools are written. The moonpad command needs the rock argparse as well.]],
  license = "MIT",
}

supported_platforms = { "unix" }

-- Used where they are there, not needed: argparse (the moonpad command, which says so where it is
-- missing), lua-cjson (moonpad.null is cjson.null). As dependencies, LuaRocks would fetch them even
-- where the system has them.
dependencies = { "lua >= 5.4, < 5.5" }

external_dependencies = {
  SQLITE = { header = "sqlite3.h", library = "sqlite3" },
}

build = {
  type = "make",
  build_target = "build/rock/moonpad/core.so",
  build_variables = {
    BUILD = "build/rock",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    CPPFLAGS = "-I$(SQLITE_INCDIR)",
    LDFLAGS = "-L$(SQLITE_LIBDIR)",
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
  },
  install_target = "install-lua",
  install_variables = {
    BUILD = "build/rock",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    CPPFLAGS = "-I$(SQLITE_INCDIR)",
    LDFLAGS = "-L$(SQLITE_LIBDIR)",
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    LUA_LMOD = "$(LUADIR)",
    LUA_CMOD = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
  },
}

test = {
  type = "command",
  command = "make test",
}
