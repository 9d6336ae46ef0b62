#!/bin/bash
# What `make check` runs: everything that must hold besides the tests of a plain build. Each check,
# and each test of the test runs among them, is counted in $BUILD/test-results; the last line is the
# total of them all.
#   BUILD=build JOBS=2 MOONPAD_TURN=3 EXCEPT="NAME..." scripts/check.sh [NAME...]
# With names: only these checks, or all but these. What needs no build, or little time, comes first;
# what depends on something that failed is left out, and all else runs. How long each stage took is
# in $BUILD/test-results/stages.
#
# Some tests take turns where each takes many times as long, so that all is over in time:
#   - gc, asan, redis-cluster: of what a spec file repeats on each store and in each way, one
#     variant, which spec/support/turns.lua chooses.
#   - gc, redis-cluster: what is not close to C, one file in eight.
#   - gc: of many cases of one kind, one in seven, which spec/support/checks.lua chooses.
#   - asan: the specs of the command, other specs that take long, and C programs, one in eight.
#   - gc, asan, redis-cluster: of tests that take long, one in three (`rarely` in turns.lua).
#   - asan, valgrind, tsan: each C program on one of the servers. asan, valgrind: of many faults of
#     one kind, one in so many, which spec/c/fault_steps.h chooses.
#   - valgrind or tsan; valgrind: one program in eight.
#   - others: one cluster of servers in four.
# The turn, a number, begins with that of the commit and goes on from run to run (scripts/turn.sh);
# MOONPAD_TURN=NUMBER asks for one. TURNS numbers in succession run each file of a part on each
# store and in each way, though not each case in each variant, nor each fault: MOONPAD_TURN=all
# does, as `make soak` has it. With "all", too, a server has one of the ways to drive a run
# (spec/support/tool_calls.lua), and what is repeated with random values is repeated less often
# under gc and valgrind (`scaled` in checks.lua, `valgrind_rounds` in fault_steps.h).
set -u
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
results=$build/test-results
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT
mkdir -p "$results"
# The builds below are runs of make of their own.
unset MAKEFLAGS MAKELEVEL MFLAGS

# Parts of eight, five stores, three ways; and two halves, valgrind and tsan.
TURNS=120

turn=$(scripts/turn.sh "$build") || exit 2
if [ "$turn" = all ]; then much=(-k whole); else much=(-k turn -t "$turn"); fi

c_files() { find include src spec bench examples -name '*.[ch]' 2>/dev/null | sort; }
build_in() { # FOLDER TARGETS AND VARIABLES...
  local folder=$1
  shift
  make -j"$jobs" BUILD="$build/check/$folder" "$@"
}

# ---- The checks: one function each, silent work, an exit code ----

# The build below has shown none where .ci/run has asked for it.
warnings_gcc() { [ "${CC:-} ${WERROR:-}" = "gcc 1" ] || build_in gcc CC=gcc WERROR=1 all tests clusters; }
# clang warns of the same things whether it optimizes or not.
warnings_clang() { build_in clang CC=clang WERROR=1 CFLAGS=-O0 objects; }

format() {
  c_files | xargs clang-format --dry-run -Werror &&
    {
      c_files
      find lua spec examples bench scripts src -name '*.lua'
      find scripts bench -name '*.sh'
      ls docs/*.md README.md CHANGELOG.md CONTRIBUTING.md
      echo bin/moonpad Makefile make/*.mk .ci/run bench/peers.cjs ./*.rockspec
    } | xargs lua5.4 scripts/check_lines.lua
}

# What Redis runs is Lua 5.1, in parts that go together.
lint_for_redis() { # FILE...
  cat "$@" | luacheck --no-color -q --std lua51 --read-globals redis KEYS ARGV -- - ||
    { echo "together: $*"; return 1; }
}

lint() {
  local ours=src/store/redis/scripts others=src/agent_stores/redis/scripts
  local before=$(printf "$ours/%s.lua " pages places writes questions store)
  # shellcheck disable=SC2086 # lists of files
  luacheck --no-color -q . &&
    lint_for_redis $ours/append.lua &&
    lint_for_redis $ours/find_commit.lua &&
    lint_for_redis $ours/register_app.lua &&
    lint_for_redis $before $ours/run.lua &&
    lint_for_redis $before $others/lists.lua $others/artifacts.lua $ours/run.lua &&
    lint_for_redis $before $others/lists.lua $others/memories.lua $ours/run.lua
}

# Public headers stand alone, as C11 and as C++17, and each function in them says its errors and
# threads.
headers() {
  local header
  for header in include/*.h; do
    # shellcheck disable=SC2046 # flags are words
    g++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -Iinclude $(pkg-config --cflags lua5.4) -x c++ "$header" &&
      gcc -std=c11 -fsyntax-only -Wall -Wextra -Wstrict-prototypes -Werror -Iinclude \
        $(pkg-config --cflags lua5.4) -x c "$header" ||
      return 1
  done
  {
    nm -D --defined-only "$build"/libmoonpad.so.0
    nm --defined-only "$build"/libmoonpad_lua.a "$build"/whole/libmoonpad_{postgres,mysql,redis}.a |
      grep -E ' T (moonpad_|luaopen_)'
  } | awk '{ print $3 }' | lua5.4 scripts/check_header.lua include/*.h
}

# Which of its own folders each folder of src/service may include. Nobody includes history and
# shared but they themselves, and the files beside the folders include none; binding alone has them
# all, but shared.
service_folders() {
  local folder allowed broken=0
  while read -r folder allowed; do
    if grep -nE '#include *"service/[a-z_]+/' "src/service/$folder"/*.[ch] /dev/null |
      grep -vE "\"service/($allowed)"; then
      echo "src/service/$folder includes what it must not: of the service's folders it may include $allowed"
      broken=1
    fi
  done <<'FOLDERS'
. expiry/
expiry expiry/
session expiry/|session/
changes session/|changes/
append expiry/|session/|changes/changes\.h|append/
history expiry/|session/|append/|history/
shared expiry/|session/|shared/
binding session/|changes/|append/|history/
FOLDERS
  return $broken
}

# Only src/lua and the modules know Lua, the core does without the modules, and the libraries export
# nothing but the API.
layers() {
  local file name strangers lua='#include *[<"](lua|lauxlib|lualib)\.h'
  if grep -nE "$lua" -r src/base src/core src/service src/store include/moonpad.h ||
    grep -nE "$lua" -r src/agent_stores --exclude=module.c --exclude='lua_*'; then
    echo "The C core must not include Lua's headers."
    return 1
  fi
  local modules='#include *"(agent_stores|http|process|server|store/(server|postgres|mysql|redis))/'
  if grep -nE "$modules" -r src/base src/core src/service src/store/*.[ch] src/store/memory src/store/sqlite \
    src/lua; then
    echo "The core does without its modules."
    return 1
  fi
  if grep -n '#include *"\(service\|store\)/' -r src/lua | grep -v '"service/binding/'; then
    echo "src/lua includes service/binding/ and nothing else of the service and its stores."
    return 1
  fi
  # They are linked without it.
  if grep -n '#include *"service/' -r src --include='*.[ch]' | grep -vE '^src/(service|lua)/'; then
    echo "Stores and modules do without the service."
    return 1
  fi
  if grep -n '#include *"service/append/append\.h"' -r src | grep -v '^src/service/append/'; then
    echo "service/append/append.h is for the files of its own folder."
    return 1
  fi
  # C11's threads.h and the headers of POSIX and Windows.
  local systems='#include *<(threads|pthread|unistd|fcntl|sched|signal|poll|dlfcn|sys/.*|windows|winsock2)\.h>'
  if grep -nE "$systems" -r src/base src/core src/service src/store/*.[ch] src/store/memory src/store/sqlite src/lua \
    src/agent_stores include | grep -vE '^src/(base/platform\.[ch]|store/sqlite/system\.c):'; then
    echo "What the core asks of the system is in base/platform.h and store/sqlite/system.h."
    return 1
  fi
  service_folders || return 1
  # What the Lua binding takes of the service is what those headers name.
  for name in $(comm -12 <(nm -u "$build"/libmoonpad_lua.a 2>/dev/null | awk '/ mp_/ { print $2 }' | sort -u) \
    <(find "$build"/obj/src/service "$build"/obj/src/store -name '*.o' -exec nm --defined-only {} + |
      awk '/ mp_/ { print $3 }' | sort -u)); do
    grep -qw "$name" src/service/binding/*.h ||
      { echo "src/lua calls $name, which no header of service/binding/ names."; return 1; }
  done
  for file in "$build"/libmoonpad.a "$build"/libmoonpad_lua.a "$build/moonpad/core.so"; do
    if nm "$file" | grep -E ' mp_(artifacts|memories|sqlite_tables|http|process|remote|postgres|mysql|redis)_'; then
      echo "$file holds what belongs to a module."
      return 1
    fi
  done
  for file in "$build/libmoonpad.so.0:moonpad_" "$build/moonpad/core.so:(moonpad_|luaopen_)" \
    "$build/moonpad/agent_stores_core.so:luaopen_" "$build/moonpad/process_core.so:luaopen_" \
    "$build/moonpad/server_core.so:luaopen_"; do
    strangers=$(nm -D --defined-only "${file%%:*}" | awk '{ print $3 }' | grep -vE "^${file#*:}")
    [ -z "$strangers" ] || { printf '%s exports what is not its API:\n%s\n' "${file%%:*}" "$strangers"; return 1; }
  done
}

# A fixed number of inputs. The targets that run Lua (encoder, stateful) go another way each time:
# Lua seeds its hashes anew in each process. `make fuzz` looks for more.
fuzz() {
  BUILD=$build JOBS=$jobs scripts/fuzz.sh -f -r 50000 json template url import request &&
    BUILD=$build JOBS=$jobs scripts/fuzz.sh -f -r 15000 event encoder &&
    BUILD=$build JOBS=$jobs scripts/fuzz.sh -f -r 2500 stateful
}

# A list of names, and after them those of the files that are neither there nor in another list.
others() { # NAMES FILES NAMES-LEFT-OUT
  local file name
  printf '%s ' "$1"
  # shellcheck disable=SC2086 # patterns of files
  for file in $2; do
    name=$(basename "${file%.*}")
    [[ " $1 $3 " == *" $name "* ]] || printf '%s ' "$name"
  done
}

# Close to C: finalizers, the codec, nodes, state, sessions, what is under way.
close_to_c="append_spec async_spec binding_spec closing_spec codec_spec conflict_spec errors_spec \
  event_tables_spec events_spec export_spec finalizers_spec history_spec hostile_values_spec kept_node_calls_spec \
  kept_node_spec node_spec property_spec proxies_spec session_spec shared_state_spec state_spec \
  state_values_spec template_spec update_session_spec"
# The command, as processes of its own. They take long, and call the same C.
command_specs="cli_commands_spec cli_servers_spec cli_conversation_spec cli_spec cli_talk_spec"
# Other specs that take long under AddressSanitizer.
long_for_asan="shared_tables_spec redact_spec models_responses_spec models_gemini_spec models_anthropic_spec \
  models_openai_spec models_resolve_spec stepped_calls_spec http_spec mcp_spec full_disk_spec demo_spec \
  nesting_spec cli_serve_spec tutorial_spec ahead_spec process_spec copy_spec moved_file_spec isolation_calls_spec \
  agent_expiry_spec process_core_spec tool_conflicts_spec turns_spec models_answers_spec tool_calls_spec \
  migration_spec housekeeping_process_spec forgetting_spec testing_failures_spec trimming_spec memory_spec \
  artifacts_spec expiry_spec turn_cost_spec game_loop_spec loop_spec hostile_answers_spec tls_spec open_spec \
  locked_file_spec server_runs_spec models_bodies_spec"
# What takes longest comes first in these, so that each part of eight takes about as long as
# the others.
lua_in_turns="$(others "shared_tables_spec nesting_spec copy_spec models_answers_spec tool_conflicts_spec \
  models_anthropic_spec models_openai_spec models_gemini_spec models_recorded_spec \
  models_responses_spec confirmation_property_spec hostile_answers_spec contents_property_spec \
  tool_calls_spec models_bodies_spec sibling_property_spec \
  $command_specs" "spec/*_spec.lua examples/spec/*_spec.lua" "$close_to_c")"
longest_in_c="test_agent_faults test_faults_disk test_store_history test_sqlite_faults \
  test_sqlite_life test_threads test_migration test_faults_memory \
  test_patch_random test_service_plans test_lua_embed test_store_transactions \
  test_mysql test_postgres test_server_faults \
  test_lua_run test_redis test_redis_hosts test_agent_servers"
valgrind_in_turns="$(others "$longest_in_c" "spec/c/test_*.c" "")"

# As many as half of the parts of eight.
clusters="cluster_galera cluster_hosts cluster_redis cluster_promotion"

# What repeats its tests on every store.
on_redis_cluster="$(grep -lE 'RUN_ON_EVERY_STORE|ON_EVERY_STORE|"redis:"|setup_redis' spec/c/test_*.c |
  grep -vE 'test_(redis|server_|agent_redis|agent_servers)' | xargs -n 1 basename -s .c | tr '\n' ' ')
  $(grep -lE 'each_store|any_store' spec/*_spec.lua | xargs -n 1 basename -s .lua | tr '\n' ' ')"

# What runs threads. SQLite is Debian's, which ThreadSanitizer did not instrument: it sees that what
# goes in and comes out is guarded, and nothing inside is reported, so there is nothing to suppress.
threaded="test_threads test_lua_threads test_service_async test_append_when_stored test_append_under_way \
  test_service_locks test_queue test_tasks test_run_again test_sqlite_life test_sqlite_files test_agent_stores \
  test_lua_agent_stores test_lua_run test_service_binding test_store_transactions test_callbacks \
  test_own_writes test_queued_plans"
tsan_build() {
  # shellcheck disable=SC2046,SC2086 # lists of words
  build_in tsan CC=gcc WERROR= SANITIZE=thread CFLAGS="-O1 -g" $(printf "$build/check/tsan/spec/c/%s " $threaded)
}

asan_build() { build_in asan AMALGAMATION=1 CC=gcc WERROR= SANITIZE=address,undefined CFLAGS="-O1 -g1" all tests; }

# In a copy, because LuaRocks builds in the tree, and without a network: the rock must not ask for
# one.
rockspec() {
  local copy=$temporary/rock
  mkdir "$copy" &&
    cp -r Makefile make bin include lua scripts src LICENSE README.md ./*.rockspec ./*.in "$copy" || return 1
  (
    cd "$copy" || exit 1
    export HOME=$copy http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9
    luarocks-5.4 lint moonpad-scm-1.rockspec &&
      luarocks-5.4 make --tree "$copy/tree" moonpad-scm-1.rockspec CFLAGS=-O0 &&
      cd / &&
      LUA_PATH="$copy/tree/share/lua/5.4/?.lua;$copy/tree/share/lua/5.4/?/init.lua" \
        LUA_CPATH="$copy/tree/lib/lua/5.4/?.so" \
        lua5.4 -e 'print("rock: moonpad " .. require("moonpad")._VERSION)
          require("moonpad").memoryService("memory:"):close()' &&
      "$copy/tree/bin/moonpad" --help
  )
}

# Staged below DESTDIR and then put in its place, as packagers do it.
installation() {
  local stage=$temporary/stage prefix=$temporary/moonpad
  make BUILD="$build" install DESTDIR="$stage" PREFIX="$prefix" && mv "$stage$prefix" "$prefix" || return 1
  cat >"$temporary/program.c" <<'C'
#include <moonpad.h>
#include <string.h>
int main(void) {
  moonpad_service *service;
  moonpad_error error;
  if (moonpad_open(moonpad_text("sqlite::memory:"), NULL, &service, &error) != MOONPAD_OK) return 1;
  moonpad_service_release(service);
  return strcmp(moonpad_version(), MOONPAD_VERSION) != 0;
}
C
  # Without any path to Lua files: all of moonpad is inside the program.
  cat >"$temporary/embed.c" <<'C'
#include <lauxlib.h>
#include <lualib.h>
#include <moonpad_lua.h>
#include <stdio.h>
int main(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_moonpad);
  lua_setfield(L, -2, "moonpad");
  int failed = luaL_dostring(L, "local service <close> = require('moonpad').open('memory:')");
  if (failed) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return failed;
}
C
  # No server is needed to be told that there is none.
  cat >"$temporary/server.c" <<'C'
#include <moonpad_stores.h>
#include <string.h>
int main(void) {
  moonpad_store_scheme stores[] = {{SCHEME, STORE()}};
  moonpad_options options;
  moonpad_service *service;
  moonpad_error error;
  moonpad_options_init(&options);
  options.stores = stores;
  options.store_count = 1;
  return moonpad_open(moonpad_text(SCHEME "://127.0.0.1:1/0"), &options, &service, &error) != MOONPAD_STORAGE ||
         strstr(error.message, SAYS) == NULL;
}
C
  cat >"$temporary/module.lua" <<'LUA'
local moonpad = require("moonpad")
local service <close> = moonpad.open("sqlite::memory:")
local artifacts <close> = moonpad.artifactService("sqlite::memory:")
local ok, err = pcall(moonpad.open, "postgresql://127.0.0.1:1/none")
assert(not ok and err.code == "storage", tostring(err))
LUA
  # shellcheck disable=SC2046 # flags are words
  for_server() { # NAME SCHEME WHAT-IT-SAYS
    gcc -o "$1" server.c -DSCHEME="\"$2\"" -DSTORE="moonpad_$1_store" -DSAYS="\"$3\"" \
      $(pkg-config --cflags --libs "moonpad-$1") && "./$1"
  }
  (
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
    cd "$temporary" || exit 1
    # shellcheck disable=SC2046 # flags are words
    gcc -o shared program.c $(pkg-config --cflags --libs moonpad) && ./shared &&
      gcc -o static program.c $(pkg-config --cflags moonpad) -Wl,-Bstatic -L"$prefix/lib" -lmoonpad -Wl,-Bdynamic \
        $(pkg-config --libs sqlite3) -pthread -lm && LD_LIBRARY_PATH='' ./static &&
      gcc -o placed program.c $(pkg-config --cflags --libs moonpad) -Wl,-rpath,"$prefix/lib" &&
      LD_LIBRARY_PATH='' ./placed &&
      for_server postgres postgresql refused && for_server mysql mysql "t connect to server" &&
      for_server redis redis refused &&
      gcc -o embed embed.c $(pkg-config --cflags --libs moonpad-lua) && LUA_PATH='?' LUA_CPATH='?' ./embed &&
      LUA_PATH="$prefix/share/lua/5.4/?.lua;$prefix/share/lua/5.4/?/init.lua" LUA_CPATH="$prefix/lib/lua/5.4/?.so" \
        lua5.4 module.lua
  ) || return 1
  make BUILD="$build" uninstall PREFIX="$prefix" || return 1
  if [ -n "$(find "$prefix" ! -type d)" ]; then
    echo "uninstall left behind:"
    find "$prefix" ! -type d
    return 1
  fi
}

amalgamation() { mkdir "$temporary/one" && scripts/check_amalgamation.sh "$build" "$temporary/one"; }

cmake_projects() { mkdir "$temporary/cmake" && scripts/check_cmake.sh "$build" "$temporary/cmake"; }

guide() { lua5.4 scripts/check_doc_examples.lua "$build" docs/c.md; }

abi() { mkdir "$temporary/abi" && scripts/check_abi.sh "$build" "$temporary/abi"; }

readme() { lua5.4 scripts/readme_examples.lua "$build"; }

# Links between the pages lead somewhere.
links() {
  local page target broken=0
  while read -r page target; do
    [ -e "$(dirname "$page")/$target" ] || { echo "$page links to $target, which does not exist"; broken=1; }
  done < <(grep -oE '\]\([^):#]+[)#]' README.md CHANGELOG.md CONTRIBUTING.md docs/*.md /dev/null |
    sed -e 's/:\](/ /' -e 's/.$//')
  return $broken
}

# ---- Running them ----

only="$*" except=${EXCEPT:-} known=""
wanted() { # NAME
  known="$known $1"
  [[ " $except " != *" $1 "* ]] && { [ -z "$only" ] || [[ " $only " == *" $1 "* ]]; }
}

# A name that is misspelt would check nothing, and pass.
refuse_unknown_names() {
  local name
  for name in $only $except; do
    [[ " $known " == *" $name "* ]] || { echo "No check is called \"$name\"; there are:$known" >&2; return 2; }
  done
}

# These alone need no build.
needs_build() {
  local name
  [ -n "$only" ] || return 0
  for name in $only; do [[ " format lint links " == *" $name "* ]] || return 0; done
  return 1
}

# Of this run alone: with names, an earlier one may have left its counts.
touch "$temporary/begun" && mkdir "$temporary/now"
total() {
  find "$results" -name 'check-*' \( -name '*.count' -o -name '*.failed' \) -newer "$temporary/begun" \
    -exec cp -t "$temporary/now" {} +
  scripts/total.sh "$temporary/now" check
}

# What has run since the last call was this stage, unless it was left out.
begun=$SECONDS
stage() { # NAME
  [ $SECONDS -eq $begun ] || echo "$1 $((SECONDS - begun))" >>"$results/stages"
  begun=$SECONDS
}

run_check() { # NAME "WHAT IT SAYS" FUNCTION
  local log=$results/check-$1.log begun=$SECONDS
  rm -f "$results/check-$1".{count,failed}
  if "$3" >"$log" 2>&1; then
    printf '  ok      %s, %d s\n' "$2" $((SECONDS - begun))
    echo "1 0 0" >"$results/check-$1.count"
  else
    printf '  FAILED  %s, %d s\n%s\n' "$2" $((SECONDS - begun)) "$(sed 's/^/    | /' "$log" | tail -n 100)"
    echo "0 1 0" >"$results/check-$1.count"
    echo "$2" >"$results/check-$1.failed"
    return 1
  fi
}

check() { ! wanted "$1" || run_check "$@"; }

# For what needs one processor: as many at a time as there are. `wait` ends them.
check_beside() {
  wanted "$1" || return 0
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  run_check "$@" &
}

# Half of the turns, in succession, are for the one, half for the other of two.
half_is_due() { # 0|1
  [ "$turn" = all ] || [ -n "$only" ] || [ $((turn % TURNS * 2 / TURNS)) -eq "$1" ]
}

tests() { # NAME ARGUMENTS OF run_tests.sh...
  wanted "$1" || return 0
  local name=$1
  shift
  JOBS=$jobs scripts/run_tests.sh -r "$results" -l "check-$name" "$@" ||
    # What could not begin has counted nothing.
    ls "$results/check-$name"-*.count >/dev/null 2>&1 || echo "0 1 0" >"$results/check-$name-begin.count"
  stage "$name"
}

[ -n "$only$except" ] || rm -f "$results"/check-*
if [ "$turn" = all ]; then
  echo "Checking moonpad whole (logs in $results)"
else
  echo "Checking moonpad, turn $turn (MOONPAD_TURN=$turn does it again, MOONPAD_TURN=all is whole; logs in $results)"
fi

check_beside format "C files are formatted as .clang-format says, and no line is too long" format
check_beside lint "no warning from luacheck" lint
check_beside links "links between the pages lead to files" links
wait
stage lint

plain_build() { make -j"$jobs" BUILD="$build" all tests clusters; }
if ! needs_build; then
  total
  exit
fi
run_check build "moonpad and its tests are built" plain_build || {
  echo "What needs the build is left out."
  total
  exit 1
}
stage build

check gcc "no warning from gcc" warnings_gcc
check clang "no warning from clang" warnings_clang
stage warnings

check_beside headers "public headers compile alone as C11 and as C++17, and say errors and threads" headers
check_beside layers "the core knows no Lua, the libraries export only the API" layers
check_beside readme "the examples of README.md print what it says" readme
check_beside guide "the examples of docs/c.md compile and print what it says" guide
check_beside rockspec "the rockspec builds and installs without a network" rockspec
check_beside amalgamation "moonpad in two files compiles without flags, and runs" amalgamation
check_beside cmake "projects built with CMake take moonpad in three ways" cmake_projects
check_beside abi "programs built with an older or newer header run with this library" abi
check_beside install "an installed moonpad links, loads and is removed again" installation
wait
stage builds-of-users

# Programs of others, in whatever they are written, and clusters of servers: what make test does
# without.
tests others -b "$build" "${much[@]}" -p "$clusters $clusters" peers clusters
tests redis-cluster -b "$build" -c "${much[@]}" -o "$on_redis_cluster" -p "$lua_in_turns" lua c

# The long ones. Each of them has work for all processors.
tests gc -b "$build" -g "${much[@]}" -p "$lua_in_turns" lua
if wanted asan && run_check asan-build "builds with AddressSanitizer and UBSan" asan_build; then
  stage asan-build
  tests asan -b "$build/check/asan" -s "${much[@]}" -p "$command_specs $long_for_asan $longest_in_c" lua c
fi
check fuzz "random input finds nothing in the fuzz targets" fuzz
stage fuzz
# Valgrind runs one thread at a time; left to itself it may run the same one for ever, while others
# wait for their turn.
if half_is_due 0; then
  tests valgrind -b "$build" "${much[@]}" -p "$valgrind_in_turns" \
    -w "valgrind -q --fair-sched=yes --leak-check=full --suppressions=spec/valgrind.supp \
      --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=99" c
fi
if half_is_due 1 && wanted tsan && run_check tsan-build "builds with ThreadSanitizer" tsan_build; then
  stage tsan-build
  TSAN_OPTIONS=exitcode=99 tests tsan -b "$build/check/tsan" "${much[@]}" -o "$threaded" c
fi

refuse_unknown_names && total
