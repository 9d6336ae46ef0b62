#!/bin/sh
# The one place that knows package names: installs the Debian packages that are missing, and does
# nothing when none is.
#   scripts/deps.sh          what it takes to build and to run the tests
#   scripts/deps.sh platforms  also what `make platforms` builds for, and runs on
#   scripts/deps.sh check    also the tools of `make check`, and the programs of others that specs
#                            talk to (spec/peers/package.json), with what makes clusters of servers
set -eu
cd "$(dirname "$0")/.."

packages="make gcc libc6-dev pkg-config lua5.4 liblua5.4-dev libsqlite3-dev lua-argparse \
  lua-busted lua-cjson libcmocka-dev libcurl4-openssl-dev libevent-dev libhttp-parser-dev libedit-dev \
  libpq-dev postgresql libmariadb-dev mariadb-server-core mariadb-client-core libhiredis-dev redis-tools \
  lua-socket openssl sqlite3 util-linux bsdutils"
peers=""
if [ "${1:-}" = check ]; then
  peers=yes
  # chromium: the web pages are tried in it.
  # libc6-dbg: valgrind needs the symbols of the dynamic linker. libclang-rt-dev: what clang's
  # fuzzer and sanitizers link.
  packages="$packages g++ cmake clang libclang-rt-dev clang-format valgrind libc6-dbg lua-check luarocks \
    chromium galera-4 iproute2"
  # A newer Node.js than Debian's comes with npm, and in a package of another name.
  command -v node >/dev/null && command -v npm >/dev/null || packages="$packages nodejs npm"
fi
if [ "${1:-}" = platforms ]; then
  peers=yes # what drives chromium
  packages="$packages musl-tools gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-s390x-linux-gnu \
    libc6-dev-s390x-cross qemu-user gcc-mingw-w64-x86-64-posix wine64 wine emscripten chromium"
  command -v npm >/dev/null || packages="$packages npm"
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
  echo "This system has no apt: install the equivalents of these Debian 12 packages yourself, then run make again:"
  echo "  $packages"
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
