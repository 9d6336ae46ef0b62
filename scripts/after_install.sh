#!/bin/sh
# What `make install` does and says at its end, so that programs find moonpad.
#   scripts/after_install.sh DESTDIR PREFIX LIBDIR LUA_LMOD LUA_CMOD BINDIR
set -eu
destdir=$1 prefix=$2 libdir=$3 lua_files=$4 lua_modules=$5 bindir=$6

# Whoever stages files for a package does the rest with the package.
[ -z "$destdir" ] || exit 0

ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
if [ "$(id -u)" -eq 0 ] && [ -x "$ldconfig" ]; then "$ldconfig" || true; fi
echo "moonpad is installed below $prefix."

# Does the dynamic linker look there by itself?
if ! "$ldconfig" -p 2>/dev/null | grep -qF "$libdir/libmoonpad.so.0"; then
  echo "Programs in C do not find its library by themselves. Link them with its place,"
  echo "  cc -o shop shop.c \$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs moonpad) -Wl,-rpath,$libdir"
  echo "or run them with LD_LIBRARY_PATH=$libdir."
fi

# Debian's Lua looks below /usr/local and /usr by itself.
case $lua_files in
  /usr/local/share/lua/5.4 | /usr/share/lua/5.4) ;;
  *)
    echo "Lua does not find its module by itself:"
    echo "  export LUA_PATH=\"$lua_files/?.lua;$lua_files/?/init.lua;;\" LUA_CPATH=\"$lua_modules/?.so;;\""
    ;;
esac

case :$PATH: in
  *":$bindir:"*) ;;
  *) echo "The command is $bindir/moonpad, in a folder that PATH does not name." ;;
esac
