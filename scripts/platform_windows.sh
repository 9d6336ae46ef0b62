#!/bin/bash
# What scripts/platforms.sh, which reads this, does otherwise for Windows: Lua, SQLite and libcurl
# are DLLs, which programs and modules share; Lua specs run in lua.exe.

# The variables are those of scripts/platforms.sh.
# shellcheck disable=SC2154

# A path as Windows has it: wine's drive Z: is the whole file system.
windows_path() { echo "Z:${1//\//\\}"; } # PATH

# bin/NAME.dll, and lib/libNAME.a to link with it.
dll() { # NAME FLAGS-AND-SOURCES...
  local name=$1
  shift
  $cc -O1 -w -shared -static -Iinclude -o "bin/$name.dll" "-Wl,--out-implib,lib/lib$name.a" "$@"
}

windows_lua() {
  local lua=$sources/lua/src search
  # What stands in for modules that busted loads; Debian's folder of Lua files, for busted; and this
  # one, for specs.
  search="$project/spec/platforms/lua/?.lua;/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;./?.lua;./?/init.lua"
  dll lua54 -DLUA_BUILD_AS_DLL "-DLUA_PATH_DEFAULT=\"$search\"" \
    $(find "$lua" -name 'l*.c' ! -name lua.c ! -name luac.c) &&
    $cc -O1 -static -DLUA_BUILD_AS_DLL -o bin/lua.exe "$lua/lua.c" -Llib -llua54 &&
    cp bin/lua.exe bin/lua5.4.exe
}

windows_sqlite() {
  dll sqlite3 -DSQLITE_ENABLE_FTS5 -DSQLITE_OMIT_LOAD_EXTENSION "$sources/sqlite/sqlite3.c" &&
    $cc -O1 -w -static -DSQLITE_OMIT_LOAD_EXTENSION -Iinclude -o bin/sqlite3.exe "$sources/sqlite/shell.c" \
      -Llib -lsqlite3
}

# For HTTP and HTTPS alone, by the TLS of Windows.
windows_curl() {
  mkdir -p curl && cd curl &&
    "$sources/curl/configure" --quiet --host=x86_64-w64-mingw32 CC="$cc" LDFLAGS=-static-libgcc --prefix="$root" \
      --with-schannel --disable-pthreads --disable-static --disable-manual --without-{zlib,brotli,zstd,libidn2,libpsl} \
      --without-nghttp2 --disable-{ldap,ftp,file,dict,telnet,tftp,pop3,imap,smb,smtp,gopher,mqtt,rtsp} &&
    make -s -j"$JOBS" -C lib install && make -s -C include install && cd ..
}

# Those that specs load.
windows_modules() {
  local socket=$sources/socket/src
  mkdir -p bin/socket &&
    dll lfs "$sources/filesystem/src/lfs.c" -Llib -llua54 &&
    dll cjson "$sources"/cjson/{lua_cjson,strbuf,fpconv}.c -Llib -llua54 &&
    dll socket -DLUASOCKET_NODEBUG "-DLUASOCKET_API=__declspec(dllexport)" \
      "$socket"/{luasocket,timeout,buffer,io,auxiliar,compat,options,inet,except,select,tcp,udp,wsocket}.c \
      -Llib -llua54 -lws2_32 &&
    mv bin/socket.dll bin/socket/core.dll
}

windows_libraries() {
  mkdir -p "$root"/{bin,include,lib} && cd "$root" &&
    cp "$sources"/sqlite/sqlite3.h "$sources"/cmocka/include/*.h "$sources"/lua/src/{lua,luaconf,lualib,lauxlib}.h \
      include &&
    $cc -O1 -w -DHAVE_SIGNAL_H -DHAVE_MALLOC_H -DHAVE_INTTYPES_H -D_GNU_SOURCE -DHAVE_STRUCT_TIMESPEC \
      -DHAVE_CLOCK_REALTIME -DHAVE_GCC_THREAD_LOCAL_STORAGE -Iinclude -c "$sources/cmocka/src/cmocka.c" &&
    $ar rcs lib/libcmocka.a cmocka.o && windows_lua && windows_sqlite && windows_modules && windows_curl
}

# The library and the modules without a warning; tests print sizes with %zu, which mingw warns of.
windows_build() {
  local words=(-j"$JOBS" BUILD="$out" CC="$cc" AR="$ar" WITHOUT_SERVERS=1 CFLAGS="-O1 -g" PKG_CONFIG=false
    CPPFLAGS="-I$root/include" LDFLAGS="-L$root/lib $ldflags" LUA_CFLAGS="-I$root/include" LUA_LIBS=-llua54
    CURL_LIBS="$root/lib/libcurl.dll.a" SKIPPED_TESTS="$left_out" TEST_PORT=spec/support/windows/posix.c
    TEST_CFLAGS="-Ispec/support/windows -include spec/support/windows/posix.h")
  make -k "${words[@]}" WERROR=1 all "$out/spec/shell.dll" &&
    make -k "${words[@]}" test-programs "$out/spec/slow_store.dll" "$out/spec/folders.dll"
}

# What specs start is called so.
windows_program() { # NAME
  mkdir -p "$out/bin" && printf '#!/bin/sh\nexec wine "%s" "$@"\n' "$root/bin/$1.exe" >"$out/bin/$1" &&
    chmod +x "$out/bin/$1"
}

windows_specs() { # LABEL
  windows_program lua5.4 && windows_program sqlite3 && run_all_but_left_out "$1" LC_ALL=C.UTF-8 SO=dll
}
