#!/bin/sh
# The one place that knows package names: installs the Debian packages of groups that are missing,
# and does nothing when none is.
#   scripts/deps.sh [-n] [GROUP...]    -n: only names the packages, installed or not
# Without a group: what it takes to build all of moonpad and to run its tests. `servers` is all
# three of them; checks and platforms bring all that the tests need as well, and the npm packages of
# spec/peers.
set -eu
cd "$(dirname "$0")/.."

# A group, and packages in it. A group may have more than one line.
table() {
  cat <<'END'
build       make gcc libc6-dev pkg-config lua5.4 liblua5.4-dev libsqlite3-dev lua-argparse
modules     libcurl4-openssl-dev libevent-dev libhttp-parser-dev libedit-dev
postgresql  libpq-dev postgresql
mysql       libmariadb-dev mariadb-server-core mariadb-client-core
redis       libhiredis-dev redis-tools
tests       lua-busted lua-cjson libcmocka-dev lua-socket openssl sqlite3 util-linux bsdutils
checks      g++ cmake clang libclang-rt-dev clang-format valgrind libc6-dbg lua-check luarocks galera-4 iproute2
platforms   musl-tools gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-s390x-linux-gnu
platforms   libc6-dev-s390x-cross qemu-user gcc-mingw-w64-x86-64-posix wine64 wine emscripten
peers       nodejs npm chromium
END
}
# build: the C library, the Lua module and the command; all that `make demo` needs on SQLite.
# modules: HTTP, the server, editing of lines. postgresql, mysql, redis: the client's library and a
# server (that of Redis is in redis-tools). tests: what `make test` needs beside those.
# checks: `make check`. libc6-dbg: valgrind needs the symbols of the dynamic linker.
# libclang-rt-dev: what clang's fuzzer and sanitizers link. galera-4, iproute2: clusters of servers.
# platforms: what `make platforms` builds for, and runs on.
# peers: the programs of others that specs talk to. chromium: the web pages are tried in it.

known="$(table | cut -d ' ' -f 1 | uniq | tr '\n' ' ')servers"

# The groups that a word stands for.
groups_of() {
  case " $known " in *" $1 "*) ;; *)
    echo "scripts/deps.sh: there is no group '$1'. There are: $known" >&2
    return 2
    ;;
  esac
  case $1 in
    servers) echo postgresql mysql redis ;;
    checks | platforms) echo build modules postgresql mysql redis tests peers "$1" ;;
    *) echo "$1" ;;
  esac
}

only_names="" groups="" packages="" peers=""
if [ "${1:-}" = -n ]; then
  only_names=yes
  shift
fi
[ $# -gt 0 ] || set -- build modules servers tests
for word in "$@"; do
  found=$(groups_of "$word")
  groups="$groups $found"
done
for group in $groups; do
  found=$(table | sed -n "s/^$group  *//p" | tr '\n' ' ')
  # A newer Node.js than Debian's comes with npm, and in a package of another name.
  if [ "$group" = peers ]; then
    peers=yes
    ! command -v node >/dev/null || ! command -v npm >/dev/null || found=${found#nodejs npm }
  fi
  packages="$packages $found"
done
# shellcheck disable=SC2086,SC2116 # one space between them
packages=$(echo $packages)
if [ -n "$only_names" ]; then
  echo "$packages"
  exit 0
fi

# ADK's web UI and its client are in a package that needs 500 others to serve them itself: its files
# are taken without those, and are what they were when this was written.
adk_version=2.0.0
adk_sha512="9q88zzLjSE5DQg+42JWBVZjEi4byuhKFod9T4jcgYj3IysulqDaEh+cObFe/54LJUI9RvpjFfAWxrC46BggYqQ=="

install_adk() { (
  cd spec/peers/node_modules
  npm pack --silent "@google/adk-devtools@$adk_version"
  archive=google-adk-devtools-$adk_version.tgz
  if [ "$(openssl dgst -sha512 -binary $archive | base64 -w0)" != "$adk_sha512" ]; then
    echo "$archive is not the file that it was: nothing of it is used."
    return 1
  fi
  mkdir -p @google/adk-devtools
  tar -xzf $archive -C @google/adk-devtools --strip-components=1
  rm $archive
); }

# What npm installs is what the lock says, as long as that does not change.
install_peers() {
  installed=spec/peers/node_modules/installed
  wanted="$(cat spec/peers/package-lock.json && echo "$adk_version $adk_sha512")"
  if [ "$wanted" = "$(cat $installed 2>/dev/null)" ]; then
    echo "All needed npm packages are installed."
    return
  fi
  echo "Installing npm packages: spec/peers"
  rm -f $installed
  (cd spec/peers && npm ci --no-progress)
  install_adk
  echo "$wanted" >$installed
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This system has no apt. Install the equivalents of these Debian 12 packages yourself:"
  echo "  $packages"
  echo "These then do without this script: make, make test-lua, make test-c, scripts/demo.sh"
  exit 1
fi

missing=""
for package in $packages; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] ||
    missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "All needed packages are installed."
  [ -z "$peers" ] || install_peers
  exit 0
fi

echo "Installing missing packages:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "Only root can install packages and there is no sudo here. As root:"
    echo "  apt-get install --no-install-recommends$missing"
    exit 1
  }
  as_root="sudo"
fi
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0"
# Old package lists may still do, so a failed update does not decide: the installation does.
$apt update || echo "apt-get update failed; trying with the package lists that are there."
# Debian's package would make a server and start it: the tests start their own, and need no other.
case " $missing " in *" postgresql "*)
  settings=/etc/postgresql-common/createcluster.d
  $as_root mkdir -p $settings
  echo "create_main_cluster = false" | $as_root tee $settings/moonpad.conf >/dev/null
  # shellcheck disable=SC2064 # as it is now
  trap "$as_root rm -f $settings/moonpad.conf" EXIT
  ;;
esac
# shellcheck disable=SC2086 # both are lists of words
$apt install -y --no-install-recommends $missing
[ -z "$peers" ] || install_peers
