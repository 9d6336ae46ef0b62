#!/bin/bash
# Builds moonpad for other systems and machines and runs the C tests there, without servers: a check
# for releases (docs/install.md). All libraries that the tests need are built from source, once.
#   BUILD=build JOBS=2 scripts/platforms.sh [NAME...]
# Names: no-threads (this machine, MOONPAD_NO_THREADS), musl (this machine, static), armhf (32
# bits), s390x (big-endian), mingw (Windows, by wine); without names all of them. Then each reads
# the SQLite file that each wrote.
set -u
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
export JOBS=${JOBS:-$(nproc)} WITHOUT_SERVERS=1
results=$build/test-results
folder=$build/platforms
sources=$folder/sources
unset MAKEFLAGS MAKELEVEL MFLAGS
wine=""
trap '[ -z "$wine" ] || { wineserver -k; rm -rf "$wine"; }' EXIT
mkdir -p "$results" "$folder"

# What tells the platforms apart: compiler, flags, what runs a program, and what is left out, with
# the reason.
platform() { # NAME
  cc=gcc ar=ar cppflags="" ldflags=-static launcher="" left_out="" port=() libs="-lsqlite3 -lpthread -lm"
  case $1 in
    no-threads)
      cppflags=-DMOONPAD_NO_THREADS
      # They are about threads, or wait for a worker to begin.
      left_out="test_lua_threads test_queued_plans test_service_locks test_tasks test_threads"
      ;;
    musl)
      cc=musl-gcc
      # Starting a child there would hand it the host's descriptors: it is refused.
      left_out=test_process
      ;;
    armhf | s390x)
      # qemu wipes no page at a fork, though it says that it does, and has its own way to start
      # a child.
      left_out="test_fork test_process"
      case $1 in
        armhf) cc=arm-linux-gnueabihf-gcc ar=arm-linux-gnueabihf-ar launcher=qemu-arm ;;
        s390x) cc=s390x-linux-gnu-gcc ar=s390x-linux-gnu-ar launcher=qemu-s390x ;;
      esac
      ;;
    mingw)
      cc=x86_64-w64-mingw32-gcc-posix ar=x86_64-w64-mingw32-ar launcher=wine
      libs="$libs -lws2_32 -lbcrypt"
      port=(TEST_PORT=spec/support/windows/posix.c
        TEST_CFLAGS="-Ispec/support/windows -include spec/support/windows/posix.h")
      # Not below the project: wine's drive Z: is the whole file system.
      [ -n "${WINEPREFIX:-}" ] || wine=$(mktemp -d)
      export WINEPREFIX=${WINEPREFIX:-$wine} WINEDEBUG=-all
      # They fork, or ask for limits of a process; a file that is open is not moved there; pthreads'
      # locks are not moonpad's there; a shell; SQLite waits long before it gives up on a disk that
      # fails.
      left_out="test_fork test_migration test_process test_queue test_sqlite test_sqlite_life test_sqlite_files \
        test_service_locks test_old_events test_agent_faults test_faults_disk test_faults_memory"
      ;;
    *) echo "$1: no such platform" >&2; exit 2 ;;
  esac
}

# ---- Libraries ----

get_sources() { [ -e "$sources/complete" ] || scripts/platform_sources.sh "$sources"; }

# SQLite, cmocka and Lua in $root.
build_libraries() {
  local lua=$sources/lua/src posix="-DHAVE_STRINGS_H -DHAVE_SIGLONGJMP" lua_posix=-DLUA_USE_POSIX
  if [ "$launcher" = wine ]; then posix="" lua_posix=""; fi
  mkdir -p "$root/include" "$root/lib" && cd "$root" || return 1
  cp "$sources"/sqlite/sqlite3.h "$sources"/cmocka/include/*.h "$lua"/{lua,luaconf,lualib,lauxlib}.h include &&
    $cc -O1 -DSQLITE_ENABLE_FTS5 -DSQLITE_OMIT_LOAD_EXTENSION -c "$sources/sqlite/sqlite3.c" &&
    $ar rcs lib/libsqlite3.a sqlite3.o &&
    $cc -O1 -w -DHAVE_SIGNAL_H -DHAVE_MALLOC_H -DHAVE_INTTYPES_H $posix -D_GNU_SOURCE -DHAVE_STRUCT_TIMESPEC \
      -DHAVE_CLOCK_REALTIME -DHAVE_GCC_THREAD_LOCAL_STORAGE -Iinclude -c "$sources/cmocka/src/cmocka.c" &&
    $ar rcs lib/libcmocka.a cmocka.o &&
    mkdir -p lua && cd lua && $cc -O1 $lua_posix -c "$lua"/l*.c && rm -f luac.o && $ar rcs ../lib/liblua.a ./*.o
}

# ---- Tests ----

make_tests() {
  # Tests print sizes with %zu, which mingw warns of.
  local werror=1
  [ "$launcher" != wine ] || werror=""
  make -k -j"$JOBS" BUILD="$out" CC="$cc" AR="$ar" WERROR="$werror" WITHOUT_SERVERS=1 CFLAGS="-O1 -g" \
    CPPFLAGS="-I$root/include $cppflags" LDFLAGS="-L$root/lib $ldflags" LUA_CFLAGS="-I$root/include" \
    LUA_LIBS=-llua CURL_LIBS= SERVER_LIBS= EDITLINE_LIBS= POSTGRES_LIBS= MYSQL_LIBS= REDIS_LIBS= \
    SKIPPED_TESTS="$left_out" LIBS="$libs" "${port[@]}" "$out/libmoonpad.a" test-programs &&
    $cc -std=c11 -O1 -Wall -Wextra -Werror $cppflags -Iinclude -I"$root/include" -L"$root/lib" $ldflags \
      -o "$out/exchange" spec/platforms/exchange.c "$out/libmoonpad.a" $libs
}

run_platform() { # NAME
  local begun=$SECONDS log=$results/platform-$1.log programs program
  platform "$1"
  root=$folder/$1/root out=$folder/$1/build
  mkdir -p "$out"
  if ! { [ -e "$root/complete" ] || { (build_libraries) && touch "$root/complete"; }; } >"$log" 2>&1 ||
    ! make_tests >>"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$1: does not build"
    echo "0 1 0" >"$results/platforms-$1.count"
    return 1
  fi
  # Where programs have a suffix, those without one are what tests are called.
  for program in "$out"/*.exe "$out"/spec/c/*.exe; do [ ! -e "$program" ] || ln -sf "$program" "${program%.exe}"; done
  # shellcheck disable=SC2086 # a list of words
  # What was built before it was left out is still there.
  programs=$(cd "$out/spec/c" && printf '%s\n' test_* | grep -v '[.]exe$' |
    grep -vwE "$(echo $left_out none | tr ' ' '|')" | tr '\n' ' ')
  scripts/run_tests.sh -b "$out" -r "$results" -l "platforms-$1" ${launcher:+-w "$launcher"} -o "$programs" c
  # shellcheck disable=SC2086 # a list of words
  [ -z "$left_out" ] || echo "platforms-$1: left out, scripts/platforms.sh says why:" $left_out
  echo "platforms-$1 took $((SECONDS - begun)) s"
}

# Each reads what each has written, after all others have appended to it.
exchange() { # NAMES...
  local writer reader passed=0 failed=0 file
  mkdir -p "$folder/files"
  for writer in "$@"; do
    platform "$writer"
    file=$folder/files/$writer.db
    rm -f "$file"*
    $launcher "$folder/$writer/build/exchange" write "$file" || { failed=$((failed + 1)); continue; }
    for reader in "$@"; do
      platform "$reader"
      if $launcher "$folder/$reader/build/exchange" read "$file" >/dev/null; then
        passed=$((passed + 1))
      else
        echo "$reader does not read what $writer wrote"
        failed=$((failed + 1))
      fi
    done
  done
  echo "$passed $failed 0" >"$results/platforms-files.count"
  echo "platforms, files of one read on another: $passed passed, $failed failed"
}

names=("$@")
[ ${#names[@]} -gt 0 ] || names=(no-threads musl armhf s390x mingw)
rm -f "$results"/platforms-*
for name in "${names[@]}"; do platform "$name"; done
get_sources || { echo "The sources of the libraries could not be had: nothing was built."; exit 1; }
for name in "${names[@]}"; do run_platform "$name"; done
exchange "${names[@]}"
scripts/total.sh "$results" platforms
