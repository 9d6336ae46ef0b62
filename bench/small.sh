#!/bin/bash
# What moonpad takes of a machine with little of everything, in two tables: bytes of code by what is
# left out (also for 32-bit ARM, where that compiler is), and memory and time to start.
#   bench/small.sh [-b BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=build
while getopts b: option; do
  case $option in b) build=$OPTARG ;; *) exit 2 ;; esac
done
case $build in /*) ;; *) build=$PWD/$build ;; esac
out=$build/bench
mkdir -p "$out"
make -s -j"$(nproc)" BUILD="$build" all amalgamation >/dev/null
make -s -j"$(nproc)" BUILD="$out/size" CFLAGS=-Os all >/dev/null
folder=$(mktemp -d "$out/small.XXXXXX")
trap 'rm -rf "$folder"' EXIT
read -ra lua <<<"$(pkg-config --cflags lua5.4)"

table() { sed -e 's/\t\t/\t \t/g' -e 's/\t\t/\t \t/g' | column -t -s "$(printf '\t')"; }
with_commas() { sed ':a; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\|\t\)/\1,\2\3/; ta'; }

# ---- Code: instructions and constants, as `size` counts them ----

code_of() { size "$1" | awk 'NR == 2 { print $1 }'; }

compiled() { # COMPILER FILE FLAG...
  local compiler=$1 file=$2
  shift 2
  "$compiler" -c "$@" -o "$folder/object.o" "$build/amalgamation/$file" && code_of "$folder/object.o"
}

# Its SQLite is not there, but the header is the same.
on_arm() { # FLAG...
  if command -v arm-linux-gnueabihf-gcc >/dev/null; then
    compiled arm-linux-gnueabihf-gcc moonpad.c -Os -I"$folder" "$@"
  else
    echo -
  fi
}

library_sizes() {
  local header
  header=$(echo '#include <sqlite3.h>' | cc -E - | sed -n 's/^# 1 "\(.*sqlite3\.h\)".*/\1/p' | head -n 1)
  cp "$header" "$folder"
  while IFS="|" read -r what flags; do
    # shellcheck disable=SC2086 # flags are words
    printf '%s\t%d\t%d\t%s\n' "$what" "$(compiled cc moonpad.c -O2 $flags)" "$(compiled cc moonpad.c -Os $flags)" \
      "$(on_arm $flags)"
  done <<'VARIANTS'
moonpad.c|
moonpad.c, without threads|-DMOONPAD_NO_THREADS
moonpad.c, without SQLite|-DMOONPAD_NO_SQLITE
moonpad.c, without both|-DMOONPAD_NO_SQLITE -DMOONPAD_NO_THREADS
VARIANTS
  printf '%s\t%d\t%d\t\n' moonpad_lua.c "$(compiled cc moonpad_lua.c -O2 "${lua[@]}")" \
    "$(compiled cc moonpad_lua.c -Os "${lua[@]}")"
  cc -c -Isrc -o "$folder/object.o" "$build/lua_sources.c"
  printf '%s\t%d\t%d\t\n' "its Lua files alone" "$(code_of "$folder/object.o")" "$(code_of "$folder/object.o")"
}

module_sizes() {
  local file
  for file in libmoonpad.so moonpad/core.so $(cd "$build" && ls moonpad/*.so | grep -v '/core\.so'); do
    printf '%s\t%d\t%d\t\n' "$file" "$(code_of "$build/$file")" "$(code_of "$out/size/$file")"
  done
}

echo "bench: $(date -u +%F), $(cc --version | head -n 1)," \
  "SQLite $(sqlite3 --version | cut -d' ' -f1), $(lua5.4 -v | cut -d' ' -f1,2)" >&2
{
  printf 'bytes of code\t-O2\t-Os\t-Os, 32-bit ARM\n'
  { library_sizes; module_sizes; } | with_commas
} | table

# ---- Memory, and time to start ----

compile=(cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Iinclude -pthread)
"${compile[@]}" -o "$out/small" bench/small.c "$build/libmoonpad.a" -lsqlite3 -lpthread -lm
"${compile[@]}" "${lua[@]}" -fPIC -shared -o "$out/lua_limits.so" bench/lua_limits.c
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;$PWD/?.lua;;" LUA_CPATH="$build/?.so;$out/?.so;;"
cp "$build/libmoonpad.so" "$folder/O2.so"
cp "$out/size/libmoonpad.so" "$folder/Os.so"
strip "$folder"/O?.so

lines() {
  "$out/small" "$folder"
  lua5.4 bench/small.lua "$folder"
  for flag in -O2 -Os; do
    stat -c %s "$folder/${flag#-}.so" | awk -v flag=$flag '{
      kept = $1 <= 400 * 1024 ? "yes" : "NO"
      printf "26\tlibmoonpad.so, stripped, %s\t\t%d KB\t\t<= 400 KB\t%s\n", flag, $1 / 1024, kept
    }'
  done
}
echo
{
  printf '#\twork\tlimit\tours\tratio\tpromised\tkept\n'
  lines
} | cut -f 1,2,4,6,7 | table
