#!/bin/bash
# Runs the Lua specs and the C tests of a build folder and records the counts.
#   scripts/run_tests.sh [-b BUILD] [-r RESULTS] [-l LABEL] [-w LAUNCHER] [-o NAMES] [-x TAGS]
#                        [-c] [-g] [-s] [-k SCOPE] [-t TURN] [-p NAMES] lua|c|peers|clusters|web...
# `peers` are the specs that talk to programs of others, `clusters` the C tests that start clusters
# of servers: scripts/deps.sh checks installs what they need. `web` is the page of `make web`, and
# needs what scripts/deps.sh platforms installs.
# Each spec file and each C test program is a process of its own. Three for each of JOBS (all
# processors) run at a time, because they wait for files, servers and sockets longer than they
# compute; with -w one, in the scope "quick" two. Each leaves RESULTS/LABEL-NAME.log; each suite
# leaves RESULTS/LABEL-SUITE.count ("PASSED FAILED PENDING LEFT"), which scripts/total.sh adds up,
# and RESULTS/LABEL-SUITE.failed, which names what failed. What crashes, finds nothing to run or
# exits with an error that no test explains counts as one failure more. LEFT are tests that another
# turn runs; the seconds are those that passed and, in brackets, those of processors.
# Exit code: 0 when nothing failed.
#   -w   put before each C test program (valgrind and its options)
#   -g   Lua specs with a collector that never rests (spec/helper.lua)
#   -s   BUILD was made by gcc with SANITIZE=address,undefined
#   -o   only these: "json_spec test_json"; "json" is json_spec. A name that is nowhere is an error.
#   -x   without those Lua tests whose names have one of these tags: "http,threads" for #http and
#        #threads
#   -c   on Redis Cluster alone: what runs on Redis runs there
#   -k   how much (spec/support/scope.lua, spec/c/scope.h):
#        all    everything, the default
#        whole  everything, and of many cases of one kind each one
#        test   each file on one of the servers, and the suites of stores on all of them; of many
#               cases a sample
#        turn   Lua specs run one of each list of variants, each C program is on one of the servers
#        quick  no servers, the store in memory; of many cases a few. Several spec files share a
#               process, and only failures are shown.
#   -t   a number: which variants, which servers, which of many cases (scripts/turn.sh). Else 0.
#   -p   with -k turn, these files take turns as well, one in PARTS of them each time; who is named
#        twice has two turns
# WITHOUT_SERVERS in the environment: BUILD was made with it, and no server is started. SO: the
# suffix of modules there, if it is not so.
set -u
# The specs talk to servers on this machine, whatever proxy its user has.
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
cd "$(dirname "$0")/.." || exit 1

build=build results="" label=test launcher="" sanitized="" only="" without="" on_cluster="" scope=all turn=0
parted=""
PARTS=8
while getopts b:r:l:w:o:x:k:t:p:cgs option; do
  case $option in
    b) build=$OPTARG ;; r) results=$OPTARG ;; l) label=$OPTARG ;; w) launcher=$OPTARG ;; o) only=$OPTARG ;;
    x) without=--exclude-tags=$OPTARG ;; k) scope=$OPTARG ;; t) turn=$OPTARG ;; p) parted=$OPTARG ;;
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
if [ "$scope" = quick ]; then at_once=$((2 * at_once)); elif [ -z "$launcher" ]; then at_once=$((3 * at_once)); fi

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
seconds=3600
# With each fault it tries, that is far more.
if [ -n "$launcher" ] && [ "$scope" = whole ]; then seconds=14400; fi
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

servers_of_tests="MOONPAD_TEST_POSTGRESQL MOONPAD_TEST_MYSQL MOONPAD_TEST_REDIS"

# Beside the others. Without a server its tests fail, each by itself: nothing is left out.
start_server() { # NAME VARIABLE
  [ -n "${!2:-}" ] || spec/servers/"$1".sh start "$servers/$1" || rm -rf "${servers:?}/$1"
}

tell_of_server() { # NAME VARIABLE URL-OF-NOTHING
  [ -z "${!2:-}" ] || return 0
  export "$2=$3"
  [ ! -d "$servers/$1" ] || export "$2=$(spec/servers/"$1".sh url "$servers/$1")"
}

start_servers() { # SUITES...
  # Clusters are started by the tests themselves.
  [ "$*" != clusters ] && [ "$scope" != quick ] && [ -z "${WITHOUT_SERVERS:-}" ] || return 0
  if [ -n "$on_cluster" ]; then
    servers=$(servers_folder) && chmod 755 "$servers" || exit 1
    export STORE=redis:
    start_server redis_cluster MOONPAD_TEST_REDIS
    tell_of_server redis_cluster MOONPAD_TEST_REDIS redis+cluster://:x@127.0.0.1:1,127.0.0.1:1
    return 0
  fi
  servers=$(servers_folder) && chmod 755 "$servers" || exit 1
  start_server postgresql MOONPAD_TEST_POSTGRESQL &
  start_server mariadb MOONPAD_TEST_MYSQL &
  start_server redis MOONPAD_TEST_REDIS &
  wait
  tell_of_server postgresql MOONPAD_TEST_POSTGRESQL postgresql://moonpad:x@127.0.0.1:1/not-there
  tell_of_server mariadb MOONPAD_TEST_MYSQL mysql://moonpad:x@127.0.0.1:1/not-there
  tell_of_server redis MOONPAD_TEST_REDIS redis://:x@127.0.0.1:1/0
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

# Sets MOONPAD_TURN. Each file has a turn of its own: so each run has some of each store. With -p it
# goes on by eleven from run to run of the file, which two, three and five do not divide: so the
# file has every store and way in its time.
set_turn() { # NAME
  local i code sum=0
  MOONPAD_TURN=$turn
  [ "$scope" != all ] && [ "$scope" != whole ] || return 0
  for ((i = 0; i < ${#1}; i++)); do
    printf -v code %d "'${1:i:1}"
    sum=$((sum * 31 % 9973 + code))
  done
  [ "$scope" != turn ] || sum=$((sum + 3 * (turn / PARTS)))
  MOONPAD_TURN=$((turn + sum))
}

# The suite that every store has to pass.
is_suite_of_stores() { # NAME
  case $1 in test_store | test_store_*) true ;; *) false ;; esac
}

# Another third of the turn than the one that chooses among three stores.
leave_one_server() {
  local due variable
  due=$((MOONPAD_TURN / 3 % 3))
  for variable in $servers_of_tests; do
    [ $due -eq 0 ] || unset "$variable"
    due=$((due - 1))
  done
}

# In a process of its own: NAME's environment.
prepare() { # SUITE NAME
  export MOONPAD_SCOPE=$scope MOONPAD_TURN
  set_turn "$2"
  [ -z "$on_cluster" ] || return 0
  # shellcheck disable=SC2086 # a list of words
  case $scope/$1 in
    quick/*) unset $servers_of_tests ;;
    test/*) is_suite_of_stores "$2" || leave_one_server ;;
    turn/c) leave_one_server ;;
  esac
}

run_lua() { # LOG COUNTS FILE...
  local code passed=0 failed=0 pending=0 left=0 log=$1 counts=$2
  shift 2
  # Never through `env lua`, which is whatever Lua the system prefers. The command line wins over
  # .busted.
  limit "${preload[@]}" lua5.4 /usr/bin/busted --ignore-lua --cpath="$folder/?.${SO:-so}" ${without:+"$without"} \
    -o scripts/busted_output.lua -Xoutput "$counts" "$@" >"$log" 2>&1
  code=$?
  [ ! -s "$counts" ] || read -r passed failed pending left <"$counts"
  if [ $((passed + failed + pending)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    printf '%d 1 %d %d\n%s: exit code %d, which no failed test explains\n' \
      "$passed" "$pending" "$left" "$*" "$code" >"$counts"
    tail -n 1 "$counts" >>"$log"
  fi
}

# The sums of cmocka's "[  PASSED  ] 3 test(s)." lines; a program may run several groups.
cmocka_counts() { # LOG: prints PASSED FAILED SKIPPED LEFT
  awk '/^\[  (PASSED|FAILED|SKIPPED) / && match($0, /[0-9]+ test\(s\)/) { n[$2] += substr($0, RSTART) + 0 }
    /nothing runs on that server$/ { left++ }
    END { print n["PASSED"] + 0, n["FAILED"] + 0, n["SKIPPED"] + 0, left + 0 }' "$1"
}

run_c() { # LOG COUNTS NAME
  local code passed failed pending left
  # shellcheck disable=SC2086 # the launcher is a list of words
  limit $launcher "$folder/spec/c/$3" >"$1" 2>&1
  code=$?
  [ "$code" -ne 124 ] || echo "ended because it took more than $seconds s" >>"$1"
  read -r passed failed pending left < <(cmocka_counts "$1")
  # A program may be all for a server whose turn it is not.
  case $scope in all | whole) left=0 ;; esac
  [ "$code" -eq 0 ] && [ $((passed + failed)) -eq 0 ] && [ -z "$on_cluster" ] || left=0
  if [ $((passed + failed + left)) -eq 0 ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((failed + 1))
    echo "exit code $code, which no failed test explains" >>"$1"
  fi
  echo "$passed $failed $pending $left" >"$2"
  [ "$failed" -eq 0 ] ||
    sed -n "s/^\[  FAILED  \] /$3: /p; s/^exit code\|^ended because/$3: &/p" "$1" >>"$2"
}

# What it took is not of interest where it is quick.
show() { # NAME COUNTS LOG TOOK
  local passed failed pending left others=""
  read -r passed failed pending left <"$2"
  [ "$left" -eq 0 ] || others=", $left in other turns"
  [ "$scope" = quick ] && [ "$failed" -eq 0 ] ||
    printf '  %-28s %4d passed, %d failed%s, %s\n' "$1" "$passed" "$failed" "$others" "$4"
  [ "$failed" -eq 0 ] || sed 's/^/    | /' "$3"
}

run_one() { # SUITE FILE...
  local suite=$1 name=${2##*/} log counts took TIMEFORMAT="%0R s (%1U + %1S)"
  shift
  name=${name%.*}
  log=$results/$label-$name.log counts=$parts/$suite.${1//\//-}
  printf '0 1 0 0\n%s: ended without a result\n' "$*" >"$counts"
  prepare "$suite" "$name"
  took=$({ time case $suite in
    lua | peers | web) run_lua "$log" "$counts" "$@" ;;
    c | clusters) run_c "$log" "$counts" "$name" ;;
  esac; } 2>&1)
  echo "$name: $took" >>"$parts/took.$suite"
  show "$name" "$counts" "$log" "$took"
}

# ---- All of them ----

# These take longest, here or there: they begin first, so that no processor is left with one of them
# in the end.
longest="shared_tables_spec test_mysql test_agent_faults test_faults_disk test_postgres test_server_faults \
  test_store_history test_service_plans tool_conflicts_spec stepped_calls_spec trimming_spec mcp_spec cli_talk_spec \
  copy_spec test_store_transactions models_anthropic_spec turn_cost_spec conflict_spec test_server_queued \
  test_sqlite_faults test_faults_memory test_migration test_threads nesting_spec demo_spec cli_spec full_disk_spec \
  test_sqlite_life test_patch_random stepping_spec sibling_property_spec tool_calls_spec limits_spec \
  hostile_answers_spec finalizers_spec game_loop_spec confirmation_property_spec"

is_due() { # NAME
  local other place=0 is_parted=""
  [ "$scope" = turn ] || return 0
  for other in $parted; do
    [ "$other" != "$1" ] || is_parted=yes
    [ "$other" != "$1" ] || [ $((place % PARTS)) -ne $((turn % PARTS)) ] || return 0
    place=$((place + 1))
  done
  [ -z "$is_parted" ]
}

# A name that is misspelt would test nothing, and pass.
refuse_unknown_names() { # LINES OF files
  local name broken=0
  for name in $only; do
    grep -qE "/$name(_spec)?\.(lua|c)\$" <<<"$1" && continue
    echo "No test is called \"$name\"." >&2
    broken=1
  done
  return $broken
}

paths() { # SUITES...
  local suite
  for suite in "$@"; do
    case $suite in
      lua) find spec examples/spec \( -path spec/peers -o -path spec/platforms \) -prune -o -name '*_spec.lua' -print ;;
      peers) printf '%s\n' spec/peers/*_spec.lua ;;
      web) printf '%s\n' spec/platforms/web_spec.lua ;;
      c) printf '%s\n' spec/c/test_*.c ;;
      clusters) printf '%s\n' spec/c/cluster_*.c ;;
    esac | sort | sed "s/^/$suite /"
  done
}

# All that there is, or what -o names, as lines "SUITE FILE", what takes longest first.
files() { # SUITES...
  paths "$@" | awk -v only="$only" -v longest="$longest" '
    BEGIN { count = split(longest, names); for (i in names) place[names[i]] = i
            some = split(only, names); for (i in names) wanted[names[i]] = wanted[names[i] "_spec"] = 1 }
    { name = $2; sub(".*/", "", name); sub("[.].*", "", name) }
    !some || name in wanted { print name in place ? place[name] : count + 1, $0 }' |
    sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

# The three files that took the processors longest.
slowest() { # SUITE
  awk '{ gsub(/[(:)]/, ""); work = $4 + $6; printf "%.1f %s %s s, %.1f s of processors\n", work, $1, $2, work }' \
    "$parts/took.$1" | sort -rn | head -n 3 | cut -d ' ' -f 2- | paste -s -d ';' | sed 's/;/; /g'
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
  echo "$label, $1 tests: slowest: $(slowest "$1")"
  [ -z "$resting" ] || echo "$label, $1 tests: turn $turn leaves to other turns: $resting"
  [ "$failed" -eq 0 ]
}

shopt -s nullglob
case $scope in whole | all | test | turn | quick) ;; *) echo "unknown scope: $scope" >&2; exit 2 ;; esac
for suite in "$@"; do
  case $suite in lua | c | peers | clusters | web) ;; *) echo "unknown suite: $suite" >&2; exit 2 ;; esac
  rm -f "$results/$label-$suite".{count,failed}
done
found=$(files "$@")
refuse_unknown_names "$found" || exit 2
parts=$(mktemp -d) servers="" || exit 1
trap 'stop_servers; rm -rf "$parts"' EXIT
start_servers "$@"
case $scope in
  all | whole) echo "$label: running the tests of: $*" ;;
  *) echo "$label: running the tests of: $* (turn $turn)" ;;
esac

in_turn() { # SUITE FILE...
  local running
  while mapfile -t running < <(jobs -rp) && [ ${#running[@]} -ge "$at_once" ]; do wait -n; done
  run_one "$@" </dev/null &
}

# Spec files that share a process: each process has some of those that take longest.
BATCHES=42
run_batches() { # LINES OF files
  local batch
  while read -ra batch; do in_turn lua "${batch[@]}"; done < <(awk -v batches=$BATCHES '
    $1 == "lua" { n++; batch[n % batches] = batch[n % batches] " " $2 }
    END { for (i = 1; i <= batches && i <= n; i++) print batch[i % batches] }' <<<"$1")
}

[ "$scope" != quick ] || run_batches "$found"
while read -r suite file; do
  [ "$scope/$suite" != quick/lua ] && [ -n "$file" ] || continue
  name=${file##*/} name=${name%.*}
  if is_due "$name"; then in_turn "$suite" "$file"; else echo "$name" >>"$parts/resting.$suite"; fi
done <<<"$found"
wait
status=0
for suite in "$@"; do
  # With -o a suite may have nothing to run.
  [ -n "$only" ] && ! grep -q "^$suite " <<<"$found" || record "$suite" || status=1
done
exit $status
