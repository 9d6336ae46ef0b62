#!/bin/bash
# Measures moonpad against limit programs, which do the least that the same work takes, in the same
# run, and prints one table.
#   bench/run.sh [-b BUILD] [-d FOLDER] [--quick] [--plot]
#   -b       the build folder (default build); what is missing there is built
#   -d       where database files are written (default: a temporary folder inside BUILD, so on the
#            disk of the project)
#   --quick  shorter histories (100,000 events instead of 1,000,000, 20,000 instead of 100,000) than
#            those that promises speak of
#   --plot   measures only what docs/history.svg and docs/long.svg show, and draws them
# Other implementations are measured too once they are installed:
#   npm install --prefix build/peers @google/adk adk-typescript
# Ratios are what counts: absolute figures change with the machine, and with what else it does. It
# always exits with 0 unless something did not run.
set -eu
cd "$(dirname "$0")/.."
build=build place="" full=1 plot=""
while [ $# -gt 0 ]; do
  case $1 in
    -b) build=$2; shift ;;
    -d) place=$2; shift ;;
    --quick) full=0 ;;
    --plot) plot=yes ;;
    *) sed -n '2,14s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift
done
make -s -j"$(nproc)" BUILD="$build" all "$build/spec/slow_store.so" >&2
case $build in /*) ;; *) build=$PWD/$build ;; esac
out=$build/bench
mkdir -p "$out"
[ -n "$place" ] || place=$out
folder=$(mktemp -d "$place/files.XXXXXX")
trap 'rm -rf "$folder"' EXIT

read -ra compiler <<<"${CC:-cc}"
compile=("${compiler[@]}" -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -g -Wall -Wextra -Iinclude -pthread)
yyjson=() # see bench/read_json.h
if pkg-config --exists yyjson; then
  read -ra yyjson <<<"-DWITH_YYJSON $(pkg-config --cflags --libs yyjson)"
fi
for program in memory sqlite contention history fill frames; do
  "${compile[@]}" -o "$out/$program" "bench/$program.c" "$build/libmoonpad.a" "${yyjson[@]}" -lsqlite3 -lpthread -lm
done
# shellcheck disable=SC2046 # pkg-config prints a list of words
"${compile[@]}" $(pkg-config --cflags lua5.4) -fPIC -shared -o "$out/lua_limits.so" bench/lua_limits.c
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$build/?.so;$out/?.so;;" MOONPAD_BUILD=$build

lines=$out/lines
: >"$lines"
measure() { # COMMAND...: what it prints goes into the table
  echo "  ${*##*/}" | sed -e "s|$folder||g" >&2
  "$@" "$folder" "$full" >>"$lines"
  rm -rf "${folder:?}"/*
}

# What an append and a get cost with a growing history, here and elsewhere: lines for
# bench/plot.lua.
measure_history() {
  "$out/history" "$folder" "$full"
  rm -rf "${folder:?}"/*
  [ ! -d "$build/peers/node_modules" ] || node bench/peers.cjs "$build/peers"
}

# The same in lines of the table: others as the limit, ours in memory.
compare_with_peers() {
  awk -F'\t' '
    $1 == "moonpad memory" { append[$2] = $3; get[$2] = $4; next }
    $1 ~ /^moonpad/ || $2 < 10 { next }
    {
      printf "\tappend, memory, at %d events: %s / moonpad\t%.2f us\t%.2f us\t%.3fx\t\t\n",
        $2, $1, $3, append[$2], append[$2] / $3
      printf "\tgetSession, memory, %d events: %s / moonpad\t%.2f us\t%.2f us\t%.5fx\t\t\n",
        $2, $1, $4, get[$2], get[$2] / $4
    }'
}

if [ -n "$plot" ]; then
  measure_history >"$out/history.lines"
  lua5.4 bench/plot.lua "$out/history.lines" >docs/history.svg
  cat "$out/history.lines"
  lua5.4 bench/long_conversation.lua "$folder" 1 docs/long.svg
  echo "Drawn: docs/history.svg, docs/long.svg"
  exit
fi

echo "bench: $(date -u +%F), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg)," \
  "SQLite $(sqlite3 --version | cut -d' ' -f1), $(lua5.4 -v | cut -d' ' -f1,2)" >&2
measure "$out/memory"
measure "$out/sqlite"
measure "$out/contention"
"$out/fill" "$folder" "$full"
measure lua5.4 bench/lua.lua
measure lua5.4 bench/frames.lua
measure "$out/frames"
measure lua5.4 bench/steps.lua
measure lua5.4 bench/turns.lua
measure lua5.4 bench/streams.lua
# What memory costs that is new to the process depends on the system: glibc is to keep what it has.
measure env MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TOP_PAD_=300000000 \
  lua5.4 bench/images.lua
measure lua5.4 bench/long_conversation.lua
if [ -d "$build/peers/node_modules" ]; then
  echo "  peers" >&2
  measure_history | compare_with_peers >>"$lines"
fi

{
  printf '#\twork\tlimit\tours\tratio\tpromised\tkept\n'
  sort -s -t "$(printf '\t')" -k1,1n "$lines"
} | sed -e 's/\t\t/\t \t/g' -e 's/\t\t/\t \t/g' | column -t -s "$(printf '\t')"
awk -F'\t' '
  $1 != "" && $7 != "" { of[$1]++; if ($7 == "NO") missed[$1]++ }
  END {
    printf "Promises that are kept in this run:"
    for (row = 1; row <= 99; row++) if (of[row] && !missed[row]) printf " %d", row
    printf "\nNot, or not in all lines:"
    for (row = 1; row <= 99; row++) if (missed[row]) printf " %d (%d of %d)", row, missed[row], of[row]
    printf "\n"
  }' "$lines"
echo "Limit: the least that the same work takes, measured in this run; see bench/README.md."
