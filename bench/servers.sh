#!/bin/bash
# Measures moonpad on servers against limit programs, in one table as bench/run.sh: on sockets, of
# servers that it starts in a temporary folder of the disk and stops again.
#   bench/servers.sh [-b BUILD] [-d FOLDER]
set -eu
cd "$(dirname "$0")/.."
build=build place=""
while getopts b:d: option; do
  case $option in b) build=$OPTARG ;; d) place=$OPTARG ;; *) exit 2 ;; esac
done
make -s -j"$(nproc)" BUILD="$build" all >&2
mkdir -p "$build/bench"
folder=$(mktemp -d "${place:-/tmp}/servers.XXXXXX")
chmod 755 "$folder"
trap 'spec/servers/postgresql.sh stop "$folder/postgresql"; rm -rf "$folder"' EXIT

# shellcheck disable=SC2046 # pkg-config prints a list of words
cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -g -Wall -Wextra -Iinclude -pthread $(pkg-config --cflags libpq) \
  -o "$build/bench/postgres" bench/postgres.c "$build/whole/libmoonpad_postgres.a" $(pkg-config --libs libpq) \
  -lsqlite3 -lpthread -lm

spec/servers/postgresql.sh start "$folder/postgresql" shared_buffers=512MB max_wal_size=4GB
url="postgresql://postgres@/moonpad?host=$folder/postgresql&port=$(cat "$folder/postgresql/port")"
{
  printf '#\twork\tlimit\tours\tratio\tpromised\tkept\n'
  "$build/bench/postgres" "$url"
} | sed -e 's/\t\t/\t \t/g' -e 's/\t\t/\t \t/g' | column -t -s "$(printf '\t')"
echo "bench: $(date -u +%F), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg), $(pg_config --version)"
