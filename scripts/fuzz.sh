#!/bin/bash
# Builds the fuzz targets with libFuzzer, ASan and UBSan, and runs them on their corpora, JOBS at a
# time.
#   scripts/fuzz.sh [-r RUNS] [-t SECONDS] [-s SANITIZERS] [-f] [TARGET...]
#   TARGET: json, template, ... (default: all)
#   -r  executions of each target (default 20000; with -t as many as there is time for)
#   -t  ends each target after so many seconds
#   -s  sanitizers besides the fuzzer (default address,undefined; "none" is faster)
#   -f  afresh: neither uses nor keeps the inputs that former runs have found
# What a target finds is kept in $BUILD/fuzz/TARGET.crash-*; run it again with:
# $BUILD/fuzz/spec/fuzz/fuzz_TARGET FILE
# Environment: BUILD (build), JOBS, SEED (of libFuzzer, 1; what Lua makes of it differs from process
# to process)
# Exit code: 0 when nothing was found.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} jobs=${JOBS:-$(nproc)}
runs="" seconds=0 sanitizers=address,undefined afresh=""
while getopts r:t:s:f option; do
  case $option in r) runs=$OPTARG ;; t) seconds=$OPTARG ;; s) sanitizers=$OPTARG ;; f) afresh=yes ;; *) exit 2 ;; esac
done
[ -n "$runs" ] || { [ "$seconds" = 0 ] && runs=20000 || runs=-1; }
shift $((OPTIND - 1))
unset MAKEFLAGS MAKELEVEL MFLAGS

folder=$build/fuzz
if [ "$sanitizers" = none ]; then
  folder=$build/fuzz-plain
  sanitizers=""
fi
make -s -j"$jobs" BUILD="$folder" WERROR=1 CC=clang \
  SANITIZE="fuzzer-no-link${sanitizers:+,$sanitizers}" CFLAGS="-O2 -g" fuzzers || exit 1

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in spec/fuzz/fuzz_*.c; do
    source=${source##*/fuzz_}
    targets+=("${source%.c}")
  done
fi
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT

# Leaks are looked for at the end: after each input that would cost more than all the rest.
run_target() { # NAME
  local found=$folder/corpus/$1 dictionary=spec/fuzz/$1.dict
  [ -z "$afresh" ] || found=$temporary/$1
  mkdir -p "$found"
  local options=(-seed="${SEED:-1}" -runs="$runs" -max_total_time="$seconds" -max_len=4096 -timeout=60 -detect_leaks=0
    -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/$1.")
  [ ! -e "$dictionary" ] || options+=(-dict="$dictionary")
  MOONPAD_FUZZ_LUA=$PWD/spec/fuzz "$folder/spec/fuzz/fuzz_$1" "${options[@]}" "$found" "spec/fuzz/corpus/$1" \
    >"$folder/$1.log" 2>&1
}

for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  { run_target "$target"; echo $? >"$temporary/$target.code"; } &
done
wait

status=0
for target in "${targets[@]}"; do
  code=$(cat "$temporary/$target.code")
  executed=$(awk '/stat::number_of_executed_units/ { print $2 }' "$folder/$target.log")
  if [ "$code" -eq 0 ] && [ -n "$executed" ]; then
    echo "fuzz $target: $executed executions, nothing found"
  else
    echo "fuzz $target: exit code $code after ${executed:-?} executions"
    tail -n 40 "$folder/$target.log"
    status=1
  fi
done
exit $status
