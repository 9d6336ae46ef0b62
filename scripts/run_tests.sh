#!/bin/bash
# Runs the Lua specs and the C tests of a build folder and records the counts.
#   scripts/run_tests.sh [-b BUILD] [-r RESULTS] [-l LABEL] [-w LAUNCHER] [-o NAMES] [-g] [-s] lua|c...
# Each spec file and each C test program is a process of its own; JOBS of them (all processors) run at a time. Each
# leaves RESULTS/LABEL-NAME.log; each suite leaves RESULTS/LABEL-SUITE.count ("PASSED FAILED PENDING"), which
# scripts/total.sh adds up, and RESULTS/LABEL-SUITE.failed, which names what failed. What crashes, finds nothing to run
# or exits with an error that no test explains counts as one failure more.
# Exit code: 0 when nothing failed.
#   -w   put before each C test program (valgrind and its options)
#   -g   Lua specs with a collector that never rests (spec/helper.lua)
#   -s   BUILD was made by gcc with SANITIZE=address,undefined
#   -o   only these: "json_spec test_json"
set -u
# The specs talk to servers on this machine, whatever proxy its user has.
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
cd "$(dirname "$0")/.." || exit 1

build=build results="" label=test launcher="" sanitized="" only=""
while getopts b:r:l:w:o:gs option; do
  case $option in
    b) build=$OPTARG ;; r) results=$OPTARG ;; l) label=$OPTARG ;; w) launcher=$OPTARG ;; o) only=$OPTARG ;;
    # What is freed is overwritten, so that nobody who goes on with it finds what was there.
    g) export MOONPAD_GC=aggressive MALLOC_PERTURB_=165 ;; s) sanitized=yes ;; *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ -n "$results" ] || results=$build/test-results
mkdir -p "$results" || exit 1
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
at_once=${JOBS:-$(nproc)}

# Specs start further processes: they find the same modules as the specs themselves.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$folder/?.so;;" MOONPAD_BUILD="$folder"

# The sanitizers' library must come first in a program that was not built with it, such as lua5.4. Leaks are looked for in both:
# lua5.4 closes its state before it ends.
preload=()
if [ -n "$sanitized" ]; then
  export ASAN_OPTIONS=detect_leaks=1:exitcode=99:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
  preload=(env LD_PRELOAD="$(gcc -print-file-name=libasan.so)")
fi

# What hangs fails: this is far beyond what the slowest takes on a busy machine, one C program under valgrind.
seconds=1800
limit() { timeout --foreground -k 10 "$seconds" "$@"; }

# ---- One spec file, one C program: writes the counts, and a line for each test that failed ----

run_lua() { # FILE LOG COUNTS
  local code passed=0 failed=0 pending=0
  # Never through `env lua`, which is whatever Lua the system prefers. The command line wins over .busted.
  limit "${preload[@]}" lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.so" -o scripts/busted_output.lua \
    -Xoutput "$3" "$1" >"$2" 2>&1
  code=$?
  [ ! -s "$3" ] || read -r passed failed pending <"$3"
  if [ $((passed + failed + pending)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    printf '%d 1 %d\n%s: exit code %d, which no failed test explains\n' "$passed" "$pending" "$1" "$code" >"$3"
    tail -n 1 "$3" >>"$2"
  fi
}

# The sum of cmocka's "[  PASSED  ] 3 test(s)." lines; a program may run several groups.
cmocka_count() { # LOG WORD
  awk -v word="$2" 'index($0, "[  " word) == 1 && match($0, /[0-9]+ test\(s\)/) { n += substr($0, RSTART) + 0 } END { print n + 0 }' "$1"
}

run_c() { # NAME LOG COUNTS
  local code passed failed pending
  # shellcheck disable=SC2086 # the launcher is a list of words
  limit $launcher "$folder/spec/c/$1" >"$2" 2>&1
  code=$?
  [ "$code" -ne 124 ] || echo "ended because it took more than $seconds s" >>"$2"
  passed=$(cmocka_count "$2" PASSED) failed=$(cmocka_count "$2" FAILED) pending=$(cmocka_count "$2" SKIPPED)
  if [ $((passed + failed)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((failed + 1))
    echo "exit code $code, which no failed test explains" >>"$2"
  fi
  echo "$passed $failed $pending" >"$3"
  sed -n "s/^\[  FAILED  \] /$1: /p; s/^exit code\|^ended because/$1: &/p" "$2" >>"$3"
}

run_one() { # SUITE FILE
  local name log counts passed failed pending begun=$SECONDS
  name=$(name_of "$2")
  log=$results/$label-$name.log counts=$parts/$1.${2//\//-}
  printf '0 1 0\n%s: ended without a result\n' "$2" >"$counts"
  case $1 in
    lua) run_lua "$2" "$log" "$counts" ;;
    c) run_c "$name" "$log" "$counts" ;;
  esac
  read -r passed failed pending <"$counts"
  printf '  %-28s %4d passed, %d failed, %d s\n' "$name" "$passed" "$failed" $((SECONDS - begun))
  [ "$failed" -eq 0 ] || sed 's/^/    | /' "$log"
}

# ---- All of them ----

name_of() { basename "${1%.*}"; } # FILE

files() { # SUITE
  local file
  case $1 in
    lua) find spec examples/spec -name '*_spec.lua' | sort ;;
    c) printf '%s\n' spec/c/test_*.c ;;
  esac | while read -r file; do
    [ -n "$only" ] && [[ " $only " != *" $(name_of "$file") "* ]] || echo "$file"
  done
}

record() { # SUITE: adds up what its parts have counted
  local passed failed pending more=""
  read -r passed failed pending < <(awk 'FNR == 1 { p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' /dev/null "$parts/$1".*)
  tail -qn +2 /dev/null "$parts/$1".* >"$results/$label-$1.failed"
  if [ $((passed + failed)) -eq 0 ]; then
    echo "no test was run" | tee "$results/$label-$1.failed"
    failed=1
  fi
  echo "$passed $failed $pending" >"$results/$label-$1.count"
  [ "$pending" -eq 0 ] || more=", $pending pending"
  echo "$label, $1 tests: $passed passed, $failed failed$more"
  [ "$failed" -eq 0 ]
}

shopt -s nullglob
for suite in "$@"; do
  case $suite in lua | c) ;; *) echo "unknown suite: $suite (lua, c)" >&2; exit 2 ;; esac
  rm -f "$results/$label-$suite".{count,failed}
done
parts=$(mktemp -d) || exit 1
trap 'rm -rf "$parts"' EXIT
echo "$label: running the tests of: $*"
for suite in "$@"; do
  for file in $(files "$suite"); do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
    run_one "$suite" "$file" &
  done
done
wait
status=0
for suite in "$@"; do record "$suite" || status=1; done
exit $status
