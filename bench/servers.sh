#!/bin/bash
# Measures moonpad on servers against limit programs, in one table as bench/run.sh: on sockets, of
# servers that it starts in a temporary folder of the disk and stops again.
#   bench/servers.sh [-b BUILD] [-d FOLDER] [postgresql|mysql|redis]...     without a name: all
set -eu
cd "$(dirname "$0")/.."
build=build place=""
while getopts b:d: option; do
  case $option in b) build=$OPTARG ;; d) place=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- postgresql mysql redis
make -s -j"$(nproc)" BUILD="$build" all >&2
mkdir -p "$build/bench"
folder=$(mktemp -d "${place:-/tmp}/servers.XXXXXX")
chmod 755 "$folder"

# Only one server at a time: they would take each other's processor.
stop() {
  [ ! -e "$folder/postgresql" ] || spec/servers/postgresql.sh stop "$folder/postgresql"
  [ ! -e "$folder/mariadb" ] || spec/servers/mariadb.sh stop "$folder/mariadb"
  [ ! -e "$folder/redis" ] || spec/servers/redis.sh stop "$folder/redis"
  rm -rf "${folder:?}"/*
}
trap 'stop; rm -rf "$folder"' EXIT

compile() { # PROGRAM PACKAGE
  # shellcheck disable=SC2046 # pkg-config prints lists of words
  cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -g -Wall -Wextra -Iinclude -pthread $(pkg-config --cflags "$2") \
    -o "$build/bench/$1" "bench/$1.c" "$build/whole/libmoonpad_$1.a" $(pkg-config --libs "$2") -lsqlite3 -lpthread -lm
}

measure() {
  printf '#\twork\tlimit\tours\tratio\tpromised\tkept\n'
  for server in "$@"; do
    case $server in
      postgresql)
        compile postgres libpq >&2
        spec/servers/postgresql.sh start "$folder/postgresql" shared_buffers=512MB max_wal_size=4GB
        "$build/bench/postgres" \
          "postgresql://postgres@/moonpad?host=$folder/postgresql&port=$(cat "$folder/postgresql/port")"
        ;;
      mysql)
        compile mysql libmariadb >&2
        spec/servers/mariadb.sh start "$folder/mariadb" --innodb-buffer-pool-size=512M --innodb-log-file-size=1G
        "$build/bench/mysql" "mysql://root@/moonpad?socket=$folder/mariadb/socket"
        ;;
      redis)
        compile redis "hiredis $(! pkg-config --exists hiredis_ssl openssl || echo hiredis_ssl openssl)" >&2
        spec/servers/redis.sh start "$folder/redis"
        "$build/bench/redis" "redis+unix://:secret@$folder/redis/socket"
        ;;
      *) echo "$server: there is postgresql, mysql, and redis" >&2; exit 2 ;;
    esac
    stop
  done
}
measure "$@" | sed -e 's/\t\t/\t \t/g' -e 's/\t\t/\t \t/g' | column -t -s "$(printf '\t')"
versions="$(pg_config --version), $(mariadb_config --version | sed 's/^/libmariadb /')"
versions="$versions, $(redis-cli --version)"
echo "bench: $(date -u +%F), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg), $versions"
