#!/bin/bash
# Builds the page of examples/web with emcc, in BUILD/web, of the two files of `make amalgamation`,
# and of Lua and SQLite from their sources. What is as new as its source stays.
#   BUILD=build JOBS=2 scripts/web.sh
set -eu
cd "$(dirname "$0")/.."

build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
sources=$build/platforms/sources objects=$build/obj/web page=$build/web
# Debian's emcc needs acorn of Debian's Node.js, which another Node.js does not find by itself.
export NODE_PATH=${NODE_PATH:-/usr/share/nodejs}

[ -e "$sources/complete" ] || scripts/platform_sources.sh "$sources"
mkdir -p "$objects" "$page"

compile() { # SOURCE FLAGS...
  local object
  object=$objects/$(basename "$1" .c).o
  [ ! "$object" -nt "$1" ] || [ ! "$object" -nt scripts/web.sh ] || return 0
  echo "  EMCC     $(basename "$1")"
  emcc -Os -I"$build/amalgamation" -I"$sources/lua/src" -I"$sources/sqlite" "${@:2}" -c -o "$object" "$1"
}

for file in "$sources"/lua/src/l*.c; do
  case $file in */lua.c | */luac.c) ;; *) compile "$file" ;; esac
done
# One thread, one process: what SQLite does for more is left out.
compile "$sources/sqlite/sqlite3.c" -DSQLITE_ENABLE_FTS5 -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION
compile "$build/amalgamation/moonpad.c" -DMOONPAD_NO_THREADS
compile "$build/amalgamation/moonpad_lua.c" -DMOONPAD_NO_THREADS
compile examples/web/main.c -Wall -Wextra -Werror

echo "  LINK     moonpad.wasm"
emcc -Os -o "$page/moonpad.js" "$objects"/*.o -s MODULARIZE=1 -s EXPORT_NAME=moonpad -s ENVIRONMENT=web \
  -s ALLOW_MEMORY_GROWTH=1 -s FORCE_FILESYSTEM=1 -s EXPORTED_RUNTIME_METHODS=ccall,FS
cp examples/web/*.{html,css,lua} examples/web/page.js examples/web/storage.js "$page"
