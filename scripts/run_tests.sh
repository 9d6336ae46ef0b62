#!/bin/bash
# Runs the Lua specs and the C tests of a build folder and records the counts.
#   scripts/run_tests.sh [-b BUILD] [-r RESULTS] [-l LABEL] [-w LAUNCHER] [-g] [-s] lua|c...
# Each suite leaves RESULTS/LABEL-SUITE.count ("PASSED FAILED PENDING"), which scripts/total.sh adds up, and RESULTS/LABEL-SUITE.failed, which names
# what failed. A suite that crashes, finds nothing to run or exits with an error that no test explains counts as one failure more.
# Exit code: 0 when nothing failed.
#   -w   put before each C test program (valgrind and its options)
#   -g   Lua specs with an aggressive garbage collector (spec/helper.lua)
#   -s   BUILD was made by gcc with SANITIZE=address,undefined
#   -o   only these C test programs, "test_one test_two"
set -u
# The specs talk to servers on this machine, whatever proxy its user has.
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
cd "$(dirname "$0")/.." || exit 1

build=build results="" label=test launcher="" sanitized="" only=""
while getopts b:r:l:w:o:gs option; do
  case $option in
    b) build=$OPTARG ;; r) results=$OPTARG ;; l) label=$OPTARG ;; w) launcher=$OPTARG ;; o) only=$OPTARG ;;
    g) export MOONPAD_GC=aggressive ;; s) sanitized=yes ;; *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ -n "$results" ] || results=$build/test-results
mkdir -p "$results" || exit 1
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac

# Specs start further processes: they find the same modules as the specs themselves.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$folder/?.so;;" MOONPAD_BUILD="$folder"

# The sanitizers' library must come first in a program that was not built with it, such as lua5.4. Leaks are looked for in both:
# lua5.4 closes its state before it ends.
preload=()
if [ -n "$sanitized" ]; then
  export ASAN_OPTIONS=detect_leaks=1:exitcode=99:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
  preload=(env LD_PRELOAD="$(gcc -print-file-name=libasan.so)")
fi

# A test that hangs fails: this is far beyond what the slowest takes, all Lua specs with the collector always at work, one C program under valgrind, on a busy machine.
limit() { timeout --foreground -k 10 "$@"; }
lua_seconds=4500 c_seconds=1800

record() { # SUITE PASSED FAILED PENDING
  local pending=""
  [ "$4" -eq 0 ] || pending=", $4 pending"
  echo "$2 $3 $4" >"$results/$label-$1.count"
  echo "$label, $1 tests: $2 passed, $3 failed$pending"
  [ "$3" -eq 0 ]
}

run_lua() {
  local counts=$results/$label-lua.busted failures=$results/$label-lua.failed passed=0 failed=0 pending=0 code
  rm -f "$counts"
  echo "$label: running the Lua specs (busted)"
  # Never through `env lua`, which is whatever Lua the system prefers. The command line wins over .busted.
  limit $lua_seconds "${preload[@]}" lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.so" -o scripts/busted_output.lua -Xoutput "$counts"
  code=$?
  if [ -s "$counts" ]; then
    read -r passed failed pending <"$counts"
    tail -n +2 "$counts" >"$failures"
    rm -f "$counts"
  else
    echo "busted ended (exit code $code) without a result" | tee "$failures"
  fi
  if [ $((passed + failed)) -eq 0 ]; then
    echo "no Lua spec was run" | tee -a "$failures"
    failed=1
  elif [ $code -ne 0 ] && [ "$failed" -eq 0 ]; then
    echo "busted ended with exit code $code although no spec failed" | tee -a "$failures"
    failed=1
  fi
  record lua "$passed" "$failed" "$pending"
}

# The sum of cmocka's "[  PASSED  ] 3 test(s)." lines; a program may run several groups.
cmocka_count() { # LOG WORD
  awk -v word="$2" 'index($0, "[  " word) == 1 && match($0, /[0-9]+ test\(s\)/) { n += substr($0, RSTART) + 0 } END { print n + 0 }' "$1"
}

run_c() {
  local source name log code passed=0 failed=0 pending=0 ok bad skipped
  echo "$label: running the C tests (cmocka)"
  for source in spec/c/test_*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    [ -z "$only" ] || [[ " $only " == *" $name "* ]] || continue
    log=$results/$label-$name.log
    # shellcheck disable=SC2086 # the launcher is a list of words
    limit $c_seconds $launcher "$folder/spec/c/$name" >"$log" 2>&1
    code=$?
    [ $code -ne 124 ] || echo "ended because it took more than $c_seconds s" >>"$log"
    ok=$(cmocka_count "$log" PASSED) bad=$(cmocka_count "$log" FAILED) skipped=$(cmocka_count "$log" SKIPPED)
    if [ $((ok + bad)) -eq 0 ] || { [ $code -ne 0 ] && [ "$bad" -eq 0 ]; }; then
      bad=$((bad + 1))
      echo "exit code $code, which no failed test explains" >>"$log"
    fi
    printf '  %-28s %4d passed, %d failed\n' "$name" "$ok" "$bad"
    [ "$bad" -eq 0 ] || { sed 's/^/    | /' "$log"; sed -n "s/^\[  FAILED  \] /$name: /p; s/^exit code\|^ended because/$name: &/p" "$log" >>"$results/$label-c.failed"; }
    passed=$((passed + ok)) failed=$((failed + bad)) pending=$((pending + skipped))
  done
  if [ $((passed + failed)) -eq 0 ]; then
    echo "$label: there is no C test in spec/c"
    failed=1
  fi
  record c "$passed" "$failed" "$pending"
}

status=0
for suite in "$@"; do rm -f "$results/$label-$suite".{count,failed}; done
for suite in "$@"; do
  case $suite in
    lua) run_lua || status=1 ;;
    c) run_c || status=1 ;;
    *) echo "unknown suite: $suite (lua, c)" >&2; exit 2 ;;
  esac
done
exit $status
