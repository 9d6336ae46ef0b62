#!/bin/bash
# Runs every benchmark: the programs built from bench/*.c and the scripts bench/*.lua.
#   scripts/bench.sh [-b BUILD]
set -u
cd "$(dirname "$0")/.." || exit 1
build=build
while getopts b: option; do
  case $option in b) build=$OPTARG ;; *) exit 2 ;; esac
done
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$folder/?.so;;"

ran=0 status=0
for source in bench/*.c bench/*.lua; do
  [ -e "$source" ] || continue
  echo "== $source"
  case $source in
    *.c) "$folder/${source%.c}" || status=1 ;;
    *.lua) lua5.4 "$source" || status=1 ;;
  esac
  ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "There is no benchmark in bench/."; exit 1; }
exit $status
