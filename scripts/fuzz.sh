#!/bin/bash
# Builds the fuzz targets with libFuzzer, ASan and UBSan, and runs them one after the other on their corpora.
#   scripts/fuzz.sh [-r RUNS] [-s SANITIZERS] [TARGET...]      TARGET: json, template, ... (default: all)
#   -r  executions of each target (default 20000)
#   -s  sanitizers besides the fuzzer (default address,undefined; "none" is faster)
# What a target finds is kept in $BUILD/fuzz/TARGET.crash-*; run it again with: $BUILD/fuzz/spec/fuzz/fuzz_TARGET FILE
# Exit code: 0 when nothing was found.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} jobs=${JOBS:-$(nproc)}
runs=20000 sanitizers=address,undefined
while getopts r:s: option; do
  case $option in r) runs=$OPTARG ;; s) sanitizers=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
unset MAKEFLAGS MAKELEVEL MFLAGS

folder=$build/fuzz
if [ "$sanitizers" = none ]; then
  folder=$build/fuzz-plain
  sanitizers=""
fi
make -s -j"$jobs" BUILD="$folder" WERROR=1 CC=clang SANITIZE="fuzzer-no-link${sanitizers:+,$sanitizers}" CFLAGS="-O2 -g" fuzzers || exit 1

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in spec/fuzz/fuzz_*.c; do
    source=${source##*/fuzz_}
    targets+=("${source%.c}")
  done
fi

# The same seed, so that a failure in one place is one in every place.
status=0
for target in "${targets[@]}"; do
  found=$folder/corpus/$target
  mkdir -p "$found"
  dictionary=spec/fuzz/$target.dict
  MOONPAD_FUZZ_LUA=$PWD/spec/fuzz ASAN_OPTIONS=detect_leaks=1 "$folder/spec/fuzz/fuzz_$target" -seed="${SEED:-1}" -runs="$runs" -max_len=4096 -timeout=60 \
    -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/$target." ${dictionary:+$([ -e "$dictionary" ] && echo "-dict=$dictionary")} \
    "$found" "spec/fuzz/corpus/$target" >"$folder/$target.log" 2>&1
  code=$?
  executed=$(awk '/stat::number_of_executed_units/ { print $2 }' "$folder/$target.log")
  if [ $code -eq 0 ]; then
    echo "fuzz $target: ${executed:-?} executions, nothing found"
  else
    echo "fuzz $target: exit code $code after ${executed:-?} executions"
    tail -n 40 "$folder/$target.log"
    status=1
  fi
done
exit $status
