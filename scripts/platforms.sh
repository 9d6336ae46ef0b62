#!/bin/bash
# Builds moonpad for other systems and machines and runs the C tests and the Lua specs there,
# without servers: a check for releases (docs/install.md). All libraries that the tests need are
# built from source, once. Specs run all their variants: under qemu, too, that is a matter of
# minutes.
#   BUILD=build JOBS=2 scripts/platforms.sh [NAME...]
# Names: no-threads (this machine, MOONPAD_NO_THREADS), musl (this machine, static), armhf (32
# bits), s390x (big-endian), mingw (Windows, by wine), wasm (WebAssembly, by node), wasm-asan (the
# same with AddressSanitizer, C tests alone), web (the page of examples/web, in Chromium: its own
# specs instead); without names all of them. All but mingw and web trap at what C leaves undefined.
# Then each but web reads the SQLite file that each wrote.
set -u
cd "$(dirname "$0")/.." || exit 1

project=$PWD
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
export JOBS=${JOBS:-$(nproc)} WITHOUT_SERVERS=1
results=$build/test-results
folder=$build/platforms
sources=$folder/sources
unset MAKEFLAGS MAKELEVEL MFLAGS
wine=""
# shellcheck source=scripts/platform_windows.sh
. scripts/platform_windows.sh
trap '[ -z "$wine" ] || { wineserver -k; rm -rf "$wine"; }' EXIT
mkdir -p "$results" "$folder"

# Lua specs that are left out, because what they need is not built: files of which nearly all tests
# need it. Single tests in other files have a tag in their names. Nowhere are there libevent and
# http_parser (#server), the clients of databases (#databases) and programs in C that users build
# (#examples).
WITHOUT_SPECS="cli_serve_spec server_page_spec server_runs_spec server_sessions_spec server_spec \
  cli_servers_spec mysql_url_spec postgres_url_spec redis_url_spec tutorial_spec"
WITHOUT_TAGS=server,databases,examples
# libcurl (#http): it is built for Windows alone.
HTTP_SPECS="http_spec mcp_http_spec models_answers_spec models_anthropic_settings_spec models_anthropic_spec \
  models_compatible_spec models_docs_spec models_gemini_spec models_openai_spec models_responses_spec \
  models_retry_spec nonblocking_spec tls_spec"

# What tells the platforms apart: compiler, flags, what runs a program, and what is left out, with
# the reason.
platform() { # NAME
  # These are about threads, or wait for a worker to begin.
  local about_threads="test_lua_threads test_queued_plans test_run_again test_service_locks test_tasks test_threads"
  # Where no child can be started; single tests: #process.
  local about_processes="mcp_spec mcp_programs_spec process_core_spec process_lua_spec wake_sources_spec"
  cc=gcc ar=ar cppflags="" ldflags=-static launcher="" left_out="" libs="-lsqlite3 -lpthread -lm"
  pthread=-pthread sanitize=undefined
  libraries=libraries_and_modules tests=make_tests specs=run_specs
  tags_left_out=$WITHOUT_TAGS,http specs_left_out="$WITHOUT_SPECS $HTTP_SPECS"
  case $1 in
    no-threads)
      cppflags=-DMOONPAD_NO_THREADS
      # What waits for what a worker does meanwhile: #threads. No thread could wait for a child.
      left_out="$about_threads test_process" tags_left_out=$tags_left_out,threads,process
      specs_left_out="$specs_left_out $about_processes locked_file_spec"
      ;;
    musl)
      cc=musl-gcc
      # Starting a child there would hand it the host's descriptors: it is refused.
      left_out=test_process tags_left_out=$tags_left_out,process specs_left_out="$specs_left_out $about_processes"
      ;;
    armhf | s390x)
      # qemu wipes no page at a fork, though it says that it does, and has its own way to start
      # a child.
      left_out="test_fork test_process"
      # It needs memory of its own, ignores signals, and may be too slow for sixty frames a second:
      # #native.
      tags_left_out=$tags_left_out,native
      case $1 in
        armhf) cc=arm-linux-gnueabihf-gcc ar=arm-linux-gnueabihf-ar launcher=qemu-arm ;;
        s390x) cc=s390x-linux-gnu-gcc ar=s390x-linux-gnu-ar launcher=qemu-s390x ;;
      esac
      ;;
    mingw)
      cc=x86_64-w64-mingw32-gcc-posix ar=x86_64-w64-mingw32-ar launcher=wine
      libraries=windows_libraries tests=windows_build specs=windows_specs libs="-lsqlite3 -lws2_32 -lbcrypt"
      # Not below the project: wine's drive Z: is the whole file system.
      [ -n "${WINEPREFIX:-}" ] || wine=$(mktemp -d)
      export WINEPREFIX=${WINEPREFIX:-$wine} WINEDEBUG=-all
      WINEPATH=$(windows_path "$folder/$1/root/bin")
      export WINEPATH
      # They fork; have POSIX programs for children; move a file that is open; unpack files by a
      # shell; SQLite waits long there before it gives up on a disk that fails.
      left_out="test_fork test_process test_sqlite_files test_migration test_old_events \
        test_agent_faults test_faults_disk test_faults_memory"
      # Children that are POSIX programs; files that are moved while they are open; a disk that is
      # mounted, and is full. #posix: signals, terminals, permissions and names of files, and what a
      # program pipes into one of POSIX. #native: see above; wine does not tell that a server has
      # ended TLS.
      specs_left_out="$WITHOUT_SPECS process_core_spec moved_file_spec full_disk_spec"
      tags_left_out=$WITHOUT_TAGS,posix,native
      ;;
    wasm | wasm-asan)
      # With -pthread it would build for another machine, which has threads.
      cc=emcc ar=emar launcher=node pthread="" libraries=libraries_without_shell
      # Without the second, cmocka.h has a uintptr_t of its own.
      cppflags="-DMOONPAD_NO_THREADS -D_UINTPTR_T_DEFINED"
      # The files are this machine's. Newer releases of node would be asked for the program's file
      # by its URL, which is none, were it not compiled at once.
      ldflags="-sENVIRONMENT=node -sNODERAWFS=1 -sWASM_ASYNC_COMPILATION=0 -sALLOW_MEMORY_GROWTH=1 \
        -sEXIT_RUNTIME=1 --pre-js spec/platforms/wasm.js"
      # AddressSanitizer cannot be linked with all symbols exported.
      libs="$libs -Wl,--no-export-dynamic"
      # emcc runs JavaScript of Debian's, which only Debian's node finds by itself.
      export NODE_PATH=${NODE_PATH:-/usr/share/nodejs}
      # There are no threads at all, nor child processes. Some tests of others are skipped.
      left_out="$about_threads test_fork test_process"
      # No program knows there what another one does with the same file: #together. The command
      # takes everything for a terminal. luasocket's clock goes by milliseconds: #clock.
      tags_left_out=$tags_left_out,threads,process,native,together,clock
      specs_left_out="$specs_left_out $about_processes locked_file_spec moved_file_spec ahead_spec process_spec \
        housekeeping_process_spec cli_commands_spec cli_conversation_spec cli_spec cli_talk_spec demo_spec"
      if [ "$1" = wasm-asan ]; then
        sanitize=address,undefined libraries=build_libraries specs=true
        # It does not see there that longjmp leaves functions.
        cppflags="$cppflags -mllvm -asan-stack=0"
      fi
      ;;
    *) echo "$1: no such platform" >&2; exit 2 ;;
  esac
}

# ---- Libraries ----

get_sources() {
  [ "$sources/complete" -nt scripts/platform_sources.sh ] || scripts/platform_sources.sh "$sources"
}

# SQLite, cmocka and Lua in $root.
build_libraries() {
  local lua=$sources/lua/src posix="-DHAVE_STRINGS_H -DHAVE_SIGLONGJMP" lua_posix=-DLUA_USE_POSIX
  # Debian's folder of Lua files, for busted, and this one, for specs.
  local lua_path='-DLUA_PATH_DEFAULT="/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;./?.lua;./?/init.lua"'
  mkdir -p "$root/include" "$root/lib" && cd "$root" || return 1
  cp "$sources"/sqlite/sqlite3.h "$sources"/cmocka/include/*.h "$lua"/{lua,luaconf,lualib,lauxlib}.h include &&
    $cc -O1 -DSQLITE_ENABLE_FTS5 -DSQLITE_OMIT_LOAD_EXTENSION -c "$sources/sqlite/sqlite3.c" &&
    $ar rcs lib/libsqlite3.a sqlite3.o &&
    $cc -O1 -w $cppflags -DHAVE_SIGNAL_H -DHAVE_MALLOC_H -DHAVE_INTTYPES_H $posix -D_GNU_SOURCE \
      -DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_REALTIME -DHAVE_GCC_THREAD_LOCAL_STORAGE -Iinclude \
      -c "$sources/cmocka/src/cmocka.c" &&
    $ar rcs lib/libcmocka.a cmocka.o &&
    mkdir -p lua && cd lua && $cc -O1 $lua_posix "$lua_path" -c "$lua"/l*.c && rm -f luac.o &&
    $ar rcs ../lib/liblua.a ./*.o
}

# Those that specs load.
build_modules() {
  local socket=$sources/socket/src
  mkdir -p "$root/modules" && cd "$root/modules" &&
    $cc -O1 -w -I../include -c "$sources/filesystem/src/lfs.c" "$sources"/cjson/{lua_cjson,strbuf,fpconv}.c \
      "$socket"/{luasocket,timeout,buffer,io,auxiliar,compat,options,inet,except,select,tcp,udp,usocket}.c &&
    $ar rcs ../lib/libmodules.a ./*.o
}

# Processes that have a file open share memory with numbers in the machine's own order.
build_sqlite_shell() {
  cd "$root" && $cc -O1 -w $ldflags -DSQLITE_OMIT_LOAD_EXTENSION -o sqlite3 "$sources/sqlite/shell.c" -Llib $libs
}

libraries_without_shell() { (build_libraries) && (build_modules); }

libraries_and_modules() { libraries_without_shell && (build_sqlite_shell); }

make_root() { rm -rf "$root" && ($libraries) && touch "$root/complete"; }

# ---- Tests ----

make_tests() {
  local lua_program=""
  [ "$specs" != run_specs ] || lua_program=$out/lua5.4
  # shellcheck disable=SC2086 # a word or none
  make -k -j"$JOBS" BUILD="$out" CC="$cc" AR="$ar" WERROR=1 WITHOUT_SERVERS=1 PTHREAD="$pthread" \
    SANITIZE="$sanitize" CFLAGS="-O1 -g -fsanitize-undefined-trap-on-error" \
    CPPFLAGS="-I$root/include $cppflags" LDFLAGS="-L$root/lib $ldflags" LUA_CFLAGS="-I$root/include" \
    LUA_LIBS="${lua_program:+-lmodules} -llua" CURL_LIBS= SERVER_LIBS= EDITLINE_LIBS= POSTGRES_LIBS= MYSQL_LIBS= \
    REDIS_LIBS= SKIPPED_TESTS="$left_out" LIBS="$libs" "$out/libmoonpad.a" test-programs $lua_program
}

make_exchange() {
  $cc -std=c11 -O1 -Wall -Wextra -Werror "-fsanitize=$sanitize" -fsanitize-undefined-trap-on-error $cppflags \
    -Iinclude -I"$root/include" -L"$root/lib" $ldflags -o "$out/exchange" spec/platforms/exchange.c \
    "$out/libmoonpad.a" $libs
}

# Specs, and what they start, call lua5.4 and sqlite3: those that are in this folder.
make_program() { # NAME FILE
  mkdir -p "$out/bin" && rm -f "$out/bin/$1"
  if [ -z "$launcher" ]; then
    ln -s "$2" "$out/bin/$1"
  else
    # The shell would add PWD to what programs inherit.
    printf '#!/bin/sh\nunset PWD\nexec %s "%s" "$@"\n' "$launcher" "$2" >"$out/bin/$1"
    chmod +x "$out/bin/$1"
  fi
}

# With what is set for them in the environment.
run_all_but_left_out() { # LABEL NAME=VALUE...
  local label=$1 names
  shift
  # shellcheck disable=SC2086 # a list of words
  names=$(find spec examples/spec -path spec/peers -prune -o -name '*_spec.lua' -printf '%f\n' | sed 's/[.]lua$//' |
    grep -vwE "$(echo $specs_left_out none | tr ' ' '|')" | tr '\n' ' ')
  env "PATH=$out/bin:$PATH" "$@" \
    scripts/run_tests.sh -b "$out" -r "$results" -l "$label" -x "$tags_left_out" -o "$names" lua
  # shellcheck disable=SC2086 # a list of words
  echo "$label: left out, scripts/platforms.sh says why:" $specs_left_out "#${tags_left_out//,/ #}"
}

run_specs() { # LABEL
  make_program lua5.4 "$out/lua5.4"
  # Without one of its own, that of this machine.
  [ ! -e "$root/sqlite3" ] || make_program sqlite3 "$root/sqlite3"
  run_all_but_left_out "$1"
}

run_platform() { # NAME
  local begun=$SECONDS log=$results/platform-$1.log programs program
  platform "$1"
  root=$folder/$1/root out=$folder/$1/build
  mkdir -p "$out"
  if ! { [ "$root/complete" -nt "$sources/complete" ] || make_root; } >"$log" 2>&1 ||
    ! { $tests && make_exchange; } >>"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$1: does not build"
    echo "0 1 0" >"$results/platforms-$1.count"
    return 1
  fi
  # On Windows programs have a suffix: those without one are what tests are called.
  for program in "$out"/*.exe "$out"/spec/c/*.exe; do [ ! -e "$program" ] || ln -sf "$program" "${program%.exe}"; done
  # shellcheck disable=SC2086 # a list of words
  # What was built before it was left out is still there.
  programs=$(cd "$out/spec/c" && printf '%s\n' test_* | grep -vE '[.](exe|wasm)$' |
    grep -vwE "$(echo $left_out none | tr ' ' '|')" | tr '\n' ' ')
  scripts/run_tests.sh -b "$out" -r "$results" -l "platforms-$1" ${launcher:+-w "$launcher"} -o "$programs" c
  # shellcheck disable=SC2086 # a list of words
  [ -z "$left_out" ] || echo "platforms-$1: left out, scripts/platforms.sh says why:" $left_out
  $specs "platforms-$1"
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

run_web() {
  local begun=$SECONDS log=$results/platform-web.log
  if ! make -j"$JOBS" BUILD="$build" all web "$build/spec/folders.so" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "web: does not build"
    echo "0 1 0" >"$results/platforms-web.count"
    return 1
  fi
  scripts/run_tests.sh -b "$build" -r "$results" -l platforms web
  grep '^web: ' "$results/platforms-web_spec.log"
  echo "platforms-web took $((SECONDS - begun)) s"
}

names=("$@") web=""
[ ${#names[@]} -gt 0 ] || names=(no-threads musl armhf s390x mingw wasm wasm-asan web)
for i in "${!names[@]}"; do [ "${names[i]}" != web ] || { web=yes && unset "names[i]"; }; done
rm -f "$results"/platforms-*
for name in "${names[@]}"; do platform "$name"; done
get_sources || { echo "The sources of the libraries could not be had: nothing was built."; exit 1; }
for name in "${names[@]}"; do run_platform "$name"; done
[ -z "$web" ] || run_web
[ ${#names[@]} -eq 0 ] || exchange "${names[@]}"
scripts/total.sh "$results" platforms
