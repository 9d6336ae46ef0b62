#!/bin/bash
# Runs the Lua specs and the C tests of a build folder and records the counts.
#   scripts/run_tests.sh [-b BUILD] [-r RESULTS] [-l LABEL] [-w LAUNCHER] [-o NAMES] [-x TAGS]
#                        [-c] [-g] [-s] [-t TURN [-p NAMES]] lua|c|peers|clusters|web...
# `peers` are the specs that talk to programs of others, `clusters` the C tests that start clusters
# of servers: scripts/deps.sh check installs what they need. `web` is the page of `make web`, and
# needs what scripts/deps.sh platforms installs.
# Each spec file and each C test program is a process of its own. Two for each of JOBS (all
# processors) run at a time, because they wait for files and sockets about as long as they compute;
# with -w, one. Each leaves RESULTS/LABEL-NAME.log; each suite leaves RESULTS/LABEL-SUITE.count
# ("PASSED FAILED PENDING LEFT"), which scripts/total.sh adds up, and RESULTS/LABEL-SUITE.failed,
# which names what failed. What crashes, finds nothing to run or exits with an error that no test
# explains counts as one failure more. LEFT are tests that another turn runs; the seconds are those
# that passed and, in brackets, those of processors.
# Exit code: 0 when nothing failed.
#   -w   put before each C test program (valgrind and its options)
#   -g   Lua specs with a collector that never rests (spec/helper.lua)
#   -s   BUILD was made by gcc with SANITIZE=address,undefined
#   -o   only these: "json_spec test_json"
#   -x   without those Lua tests whose names have one of these tags: "http,threads" for #http and
#        #threads
#   -c   on Redis Cluster alone: what runs on Redis runs there
#   -t   a number: each C test program runs on one of the servers, and of what Lua specs repeat on
#        each store and in each way, they run what has its turn (spec/support/turns.lua); without
#        it, or with "all", everything. With -g it also says which of many like cases are tried
#        (spec/support/checks.lua), and in C tests which of many faults (spec/c/fault_steps.h):
#        there "all" is each one, and without -t it is turn 0
#   -p   these files take turns as well, one in PARTS of them each time
# WITHOUT_SERVERS in the environment: BUILD was made with it, and no server is started. SO: the
# suffix of modules there, if it is not so.
set -u
# The specs talk to servers on this machine, whatever proxy its user has.
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
cd "$(dirname "$0")/.." || exit 1

build=build results="" label=test launcher="" sanitized="" only="" without="" on_cluster="" turn=all faults=0
parted=""
PARTS=8
while getopts b:r:l:w:o:x:t:p:cgs option; do
  case $option in
    b) build=$OPTARG ;; r) results=$OPTARG ;; l) label=$OPTARG ;; w) launcher=$OPTARG ;; o) only=$OPTARG ;;
    x) without=--exclude-tags=$OPTARG ;; t) turn=$OPTARG faults=$OPTARG ;; p) parted=$OPTARG ;;
    c) on_cluster=yes ;;
    # What is freed is overwritten, so that nobody who goes on with it finds what was there.
    g) export MOONPAD_GC=aggressive MALLOC_PERTURB_=165 ;; s) sanitized=yes ;; *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ -n "$results" ] || results=$build/test-results
mkdir -p "$results" || exit 1
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
at_once=${JOBS:-$(nproc)}
[ -n "$launcher" ] || at_once=$((2 * at_once))

# Specs start further processes: they find the same modules as the specs themselves.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$folder/?.${SO:-so};;" MOONPAD_BUILD="$folder"

# The sanitizers' library must come first in a program that was not built with it, such as lua5.4.
# Leaks are looked for in both: lua5.4 closes its state before it ends.
preload=()
if [ -n "$sanitized" ]; then
  # intercept_tls_get_addr: gcc 12 takes the thread-local memory of libraries that libpq loads for
  # what it is not, and the search for leaks crashes there. quarantine_size_mb: so much freed
  # memory is kept back; with the usual 256 MB nearly all memory is new, which takes a fifth of the
  # time.
  export ASAN_OPTIONS=detect_leaks=1:exitcode=99:detect_stack_use_after_return=1:intercept_tls_get_addr=0
  export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=16
  export UBSAN_OPTIONS=print_stacktrace=1
  preload=(env LD_PRELOAD="$(gcc -print-file-name=libasan.so)")
fi

# What hangs fails: this is far beyond what the slowest takes on a busy machine, one C program under
# valgrind.
seconds=1800
# With each fault it tries, that is far more.
if [ -n "$launcher" ] && [ "$turn" = all ]; then seconds=14400; fi
limit() { timeout --foreground -k 10 "$seconds" "$@"; }

# ---- The servers that the tests use: one of each, in a folder that goes with them ----

# In memory where there are 8 GB of room: there a commit waits for no disk.
servers_folder() {
  local free
  free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
  if [ "${free:-0}" -gt $((8 << 20)) ] && [ -w /dev/shm ]; then
    mktemp -d -p /dev/shm
  else
    mktemp -d
  fi
}

# Without a server its tests fail, each by itself: nothing is left out.
start_server() { # NAME VARIABLE URL-OF-NOTHING
  [ -z "${!2:-}" ] || return 0
  export "$2=$3"
  if spec/servers/"$1".sh start "$servers/$1"; then export "$2=$(spec/servers/"$1".sh url "$servers/$1")"; fi
}

start_servers() { # SUITES...
  # Clusters are started by the tests themselves.
  [ "$*" != clusters ] && [ -z "${WITHOUT_SERVERS:-}" ] || return 0
  if [ -n "$on_cluster" ]; then
    servers=$(servers_folder) && chmod 755 "$servers" || exit 1
    export STORE=redis:
    start_server redis_cluster MOONPAD_TEST_REDIS redis+cluster://:x@127.0.0.1:1,127.0.0.1:1
    return 0
  fi
  servers=$(servers_folder) && chmod 755 "$servers" || exit 1
  start_server postgresql MOONPAD_TEST_POSTGRESQL postgresql://moonpad:x@127.0.0.1:1/not-there
  start_server mariadb MOONPAD_TEST_MYSQL mysql://moonpad:x@127.0.0.1:1/not-there
  start_server redis MOONPAD_TEST_REDIS redis://:x@127.0.0.1:1/0
}

stop_servers() {
  local server
  [ -n "$servers" ] || return
  for server in "$servers"/*/; do
    [ ! -d "$server" ] || spec/servers/"$(basename "$server")".sh stop "$server"
  done
  rm -rf "$servers"
}

# ---- One spec file, one C program: writes the counts, and a line for each test that failed ----

# With a turn each file has one of its own: so each turn has some of each store. In steps of PARTS,
# which are all that a file of a part has, they go on by eleven, which two, three and five do not
# divide: so it has every store and way in its time.
turn_of() { # NAME
  if [ "$turn" = all ]; then echo all; else echo $((turn + 3 * (turn / PARTS) + $(cksum <<<"$1" | cut -d ' ' -f 1))); fi
}

run_lua() { # FILE LOG COUNTS
  local code passed=0 failed=0 pending=0 left=0
  # Whoever calls this may have a turn of its own: only -t counts.
  export MOONPAD_TURN MOONPAD_SAMPLE=$turn
  MOONPAD_TURN=$(turn_of "$(name_of "$1")")
  # Never through `env lua`, which is whatever Lua the system prefers. The command line wins over
  # .busted.
  limit "${preload[@]}" lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.${SO:-so}" ${without:+"$without"} \
    -o scripts/busted_output.lua -Xoutput "$3" "$1" >"$2" 2>&1
  code=$?
  [ ! -s "$3" ] || read -r passed failed pending left <"$3"
  if [ $((passed + failed + pending)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    printf '%d 1 %d %d\n%s: exit code %d, which no failed test explains\n' \
      "$passed" "$pending" "$left" "$1" "$code" >"$3"
    tail -n 1 "$3" >>"$2"
  fi
}

# The sum of cmocka's "[  PASSED  ] 3 test(s)." lines; a program may run several groups.
cmocka_count() { # LOG WORD
  awk -v word="$2" 'index($0, "[  " word) == 1 && match($0, /[0-9]+ test\(s\)/) {
    n += substr($0, RSTART) + 0
  } END { print n + 0 }' "$1"
}

# With a turn, on one server.
leave_one_server() { # NAME
  local due variable
  [ "$turn" != all ] && [ -z "$on_cluster" ] || return 0
  due=$(($(turn_of "$1") % 3))
  for variable in MOONPAD_TEST_POSTGRESQL MOONPAD_TEST_MYSQL MOONPAD_TEST_REDIS; do
    [ $due -eq 0 ] || unset $variable
    due=$((due - 1))
  done
}

run_c() { # NAME LOG COUNTS
  local code passed failed pending left=0
  export MOONPAD_SAMPLE=$faults
  leave_one_server "$1"
  # shellcheck disable=SC2086 # the launcher is a list of words
  limit $launcher "$folder/spec/c/$1" >"$2" 2>&1
  code=$?
  [ "$code" -ne 124 ] || echo "ended because it took more than $seconds s" >>"$2"
  passed=$(cmocka_count "$2" PASSED) failed=$(cmocka_count "$2" FAILED) pending=$(cmocka_count "$2" SKIPPED)
  # All of it is for a server whose turn it is not.
  if [ "$turn" != all ] && [ -z "$on_cluster" ] && [ "$code" -eq 0 ] && [ $((passed + failed)) -eq 0 ]; then
    left=$(grep -c 'nothing runs on that server$' "$2")
  fi
  if [ $((passed + failed + left)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((failed + 1))
    echo "exit code $code, which no failed test explains" >>"$2"
  fi
  echo "$passed $failed $pending $left" >"$3"
  sed -n "s/^\[  FAILED  \] /$1: /p; s/^exit code\|^ended because/$1: &/p" "$2" >>"$3"
}

run_one() { # SUITE FILE
  local name log counts passed failed pending left took others="" TIMEFORMAT="%0R s (%1U + %1S)"
  name=$(name_of "$2")
  log=$results/$label-$name.log counts=$parts/$1.${2//\//-}
  printf '0 1 0 0\n%s: ended without a result\n' "$2" >"$counts"
  took=$({ time case $1 in
    lua | peers | web) run_lua "$2" "$log" "$counts" ;;
    c | clusters) run_c "$name" "$log" "$counts" ;;
  esac; } 2>&1)
  read -r passed failed pending left <"$counts"
  [ "$left" -eq 0 ] || others=", $left in other turns"
  printf '  %-28s %4d passed, %d failed%s, %s\n' "$name" "$passed" "$failed" "$others" "$took"
  [ "$failed" -eq 0 ] || sed 's/^/    | /' "$log"
}

# ---- All of them ----

name_of() { basename "${1%.*}"; } # FILE

# These take longest, here or there: they begin first, so that no processor is left with one of them
# in the end.
longest="shared_tables_spec mcp_spec copy_spec nesting_spec confirmation_property_spec test_agent_faults \
  test_faults_disk test_store_history test_sqlite_faults test_faults_memory test_migration test_threads \
  test_sqlite_life test_patch_random test_service_plans sibling_property_spec tool_calls_spec tool_conflicts_spec \
  stepped_calls_spec limits_spec hostile_answers_spec finalizers_spec game_loop_spec"

# The position of a word in a list of words, from 0 on; else that of no word.
position() { # WORD LIST
  local word count=0
  for word in $2; do
    [ "$word" != "$1" ] || break
    count=$((count + 1))
  done
  echo $count
}

is_due() { # NAME
  [ "$turn" = all ] || [[ " $parted " != *" $1 "* ]] ||
    [ $(($(position "$1" "$parted") % PARTS)) -eq $((turn % PARTS)) ]
}

# All that there is, as lines "SUITE FILE", what takes longest first.
files() { # SUITES...
  local suite file name
  for suite in "$@"; do
    case $suite in
      lua) find spec examples/spec \( -path spec/peers -o -path spec/platforms \) -prune -o -name '*_spec.lua' -print ;;
      peers) printf '%s\n' spec/peers/*_spec.lua ;;
      web) printf '%s\n' spec/platforms/web_spec.lua ;;
      c) printf '%s\n' spec/c/test_*.c ;;
      clusters) printf '%s\n' spec/c/cluster_*.c ;;
    esac | sort | while read -r file; do
      name=$(name_of "$file")
      [ -n "$only" ] && [[ " $only " != *" $name "* ]] || echo "$(position "$name" "$longest") $suite $file"
    done
  done | sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

record() { # SUITE: adds up what its parts have counted
  local passed failed pending left more="" resting=""
  read -r passed failed pending left < <(awk 'FNR == 1 { p += $1; f += $2; s += $3; l += $4 }
    END { print p + 0, f + 0, s + 0, l + 0 }' /dev/null "$parts/$1".*)
  tail -qn +2 /dev/null "$parts/$1".* >"$results/$label-$1.failed"
  if [ $((passed + failed)) -eq 0 ]; then
    echo "no test was run" | tee "$results/$label-$1.failed"
    failed=1
  fi
  echo "$passed $failed $pending $left" >"$results/$label-$1.count"
  [ "$pending" -eq 0 ] || more=", $pending pending"
  [ "$left" -eq 0 ] || more="$more, $left of $((passed + failed + pending + left)) in other turns"
  [ ! -e "$parts/resting.$1" ] || resting=$(paste -s -d ' ' "$parts/resting.$1")
  echo "$label, $1 tests: $passed passed, $failed failed$more"
  [ -z "$resting" ] || echo "$label, $1 tests: turn $turn leaves to other turns: $resting"
  [ "$failed" -eq 0 ]
}

shopt -s nullglob
for suite in "$@"; do
  case $suite in lua | c | peers | clusters | web) ;; *) echo "unknown suite: $suite" >&2; exit 2 ;; esac
  rm -f "$results/$label-$suite".{count,failed}
done
parts=$(mktemp -d) servers="" || exit 1
trap 'stop_servers; rm -rf "$parts"' EXIT
start_servers "$@"
if [ "$turn" = all ]; then
  echo "$label: running the tests of: $*"
else
  echo "$label: running the tests of: $* (turn $turn)"
fi
while read -r suite file; do
  name=$(name_of "$file")
  if ! is_due "$name"; then
    echo "$name" >>"$parts/resting.$suite"
    continue
  fi
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  run_one "$suite" "$file" </dev/null &
done < <(files "$@")
wait
status=0
for suite in "$@"; do record "$suite" || status=1; done
exit $status
