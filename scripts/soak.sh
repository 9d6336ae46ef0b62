#!/bin/bash
# First `make check` with all that takes turns there (scripts/check.sh). Then, for as long as one
# likes, what `make test` and `make check` do for a little while: chance with other seeds, more
# power cuts, more kills, more random input. Stops at the first failure, with what it takes to see
# it again.
#   scripts/soak.sh [-b BUILD] [-m MINUTES]      default: build, 60 after the checks
set -u
cd "$(dirname "$0")/.." || exit 1
build=build minutes=60
while getopts b:m: option; do
  case $option in b) build=$OPTARG ;; m) minutes=$OPTARG ;; *) exit 2 ;; esac
done
unset MOONPAD_TURN
MOONPAD_TURN=all BUILD=$build scripts/check.sh || { echo "soak: the checks failed"; exit 1; }

case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$folder/?.so;;" MOONPAD_BUILD="$folder"
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
attempt() { # WHAT COMMAND...
  local what=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "soak: $what failed: $*"
    exit 1
  fi
  echo "soak: $what: fine"
}

specs() { lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.so" "$@"; }
specs_of_faults() { MOONPAD_FAULTS=$1 specs "${@:2}"; }

until=$((SECONDS + minutes * 60)) round=0
while [ $SECONDS -lt $until ]; do
  round=$((round + 1))
  export MOONPAD_SEED=$((RANDOM * 32768 + RANDOM))
  echo "soak: round $round, MOONPAD_SEED=$MOONPAD_SEED"
  attempt "random writers against a model" specs spec/conflict_model_spec.lua spec/sibling_property_spec.lua \
    spec/property_spec.lua spec/event_tables_spec.lua
  attempt "processes, some of them killed" specs_of_faults 5 spec/process_spec.lua
  attempt "SQLite's own limit" env MOONPAD_LARGE=1 \
    lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.so" spec/limits_spec.lua
  attempt "threads" "$folder/spec/c/test_threads"
  attempt "threads with a Lua state each" "$folder/spec/c/test_lua_threads"
  attempt "killed while appending, full disk" "$folder/spec/c/test_sqlite_life"
  attempt "failing disks and power cuts" env MOONPAD_FAULTS=20 "$folder/spec/c/test_sqlite_faults"
  attempt "every call without memory" env MOONPAD_FAULTS=20 "$folder/spec/c/test_faults_memory"
  attempt "every call on a failing disk" "$folder/spec/c/test_faults_disk"
  attempt "damaged files" env MOONPAD_FAULTS=20 "$folder/spec/c/test_sqlite_damage"
  attempt "random input" env BUILD="$folder" SEED=$MOONPAD_SEED \
    scripts/fuzz.sh -r 200000 json template event url import encoder
  attempt "random calls on both stores" env BUILD="$folder" SEED=$MOONPAD_SEED scripts/fuzz.sh -r 20000 stateful
done
echo "soak: $round rounds, nothing found"
