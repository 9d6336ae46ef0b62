#!/bin/sh
# The one place that knows package names: installs the Debian packages that are missing, and does
# nothing when none is.
#   scripts/deps.sh          what it takes to build and to run the tests
#   scripts/deps.sh check    also the tools of `make check`
set -eu

packages="make gcc libc6-dev pkg-config lua5.4 liblua5.4-dev libsqlite3-dev lua-argparse \
  lua-busted lua-cjson libcmocka-dev libcurl4-openssl-dev libedit-dev lua-socket openssl sqlite3 util-linux bsdutils"
if [ "${1:-}" = check ]; then
  # libc6-dbg: valgrind needs the symbols of the dynamic linker. libclang-rt-dev: what clang's
  # fuzzer and sanitizers link.
  packages="$packages g++ clang libclang-rt-dev clang-format valgrind libc6-dbg lua-check luarocks"
fi

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
# shellcheck disable=SC2086 # both are lists of words
$apt install -y --no-install-recommends $missing
