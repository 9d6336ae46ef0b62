#!/bin/sh
# What this system has of what moonpad is built with, in words for make/system.mk: NAME.cflags:FLAG,
# NAME.libs:FLAG, and "windows" where the compiler is mingw-w64. What is not there has no words.
#   scripts/system.sh "PKG_CONFIG" "CC"
set -f
pkg_config=$1 cc=$2

# One call of pkg-config for both: the flags of the compiler come first.
words() { # NAME PACKAGES...
  name=$1 kind=cflags
  shift
  for flag in $($pkg_config --cflags --libs "$@" 2>/dev/null); do
    case $flag in -[lL]* | -Wl,* | -framework | *.a | *.so | *.dylib) kind=libs ;; esac
    printf '%s ' "$name.$kind:$flag"
  done
}

for name in lua5.4 libcurl libevent_core libedit libpq libmariadb; do words $name $name; done

# hiredis has TLS since 1.0, in a library of its own.
if tls=$(words hiredis hiredis hiredis_ssl openssl) && [ -n "$tls" ]; then
  printf '%s hiredis.tls:hiredis_ssl hiredis.tls:openssl ' "$tls"
else
  words hiredis hiredis
fi

# http_parser has no file for pkg-config.
$cc -E -P - 2>/dev/null <<'C'
#if defined(__MINGW32__)
windows
#endif
#if __has_include(<http_parser.h>)
http_parser.libs:-lhttp_parser
#endif
C
