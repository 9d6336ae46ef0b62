#!/bin/bash
# A PostgreSQL server for tests, on this machine alone: all of it is in FOLDER, and it is gone with
# it.
#   spec/servers/postgresql.sh start FOLDER [NAME=VALUE...]   makes and starts it, with settings
#   spec/servers/postgresql.sh again FOLDER                   starts it after `stop` or `kill`
#   spec/servers/postgresql.sh standby FOLDER PRIMARY         one that follows the server in PRIMARY
#   spec/servers/postgresql.sh promote FOLDER                 makes a standby a primary
#   spec/servers/postgresql.sh synchronous FOLDER             a commit waits for its standby from now on
#   spec/servers/postgresql.sh account FOLDER NAME            makes an account without any rights
#   spec/servers/postgresql.sh kill FOLDER                    as the system does: kill -9
#   spec/servers/postgresql.sh stop FOLDER
#   spec/servers/postgresql.sh url FOLDER                     prints its URL, password included
# It listens on a free port of 127.0.0.1 (FOLDER/port) and on a socket in FOLDER. Its superuser is
# postgres, without a password on the socket; the URL's account owns a database.
set -u
. "$(dirname "$0")/ports.sh"

verb=$1 folder=$2
shift 2
data=$folder/data
programs=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || programs=$(pg_config --bindir 2>/dev/null)

# PostgreSQL refuses to run as root.
# -C: where the account may be, or the programs complain.
as_server() {
  if [ "$(id -u)" = 0 ]; then runuser -u postgres -- env -C / -u LD_PRELOAD "$@"; else env -u LD_PRELOAD "$@"; fi
}

sql() { as_server "$programs/psql" -w -q -h "$folder" -p "$(cat "$folder/port")" -d postgres -c "$1"; }

# Each connection is a process of its own, and its memory is new: huge pages save a fifth of its
# processor time.
run_server() {
  as_server env GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=4194304 \
    "$programs/pg_ctl" -D "$data" -l "$folder/log" -w -t "$patience" -s start >/dev/null 2>&1
}

# A port that somebody else takes between the look and the start is tried again.
start_on_free_port() {
  local tries
  for tries in 1 2 3 4 5; do
    free_port >"$folder/port"
    sed -i "s/^port = .*/port = $(cat "$folder/port")/" "$data/postgresql.conf"
    run_server && return 0
  done
  cat "$folder/log" >&2
  echo "PostgreSQL does not start ($tries times)" >&2
  return 1
}

own_folder() {
  [ -x "$programs/initdb" ] || { echo "no PostgreSQL server is installed: make deps" >&2; exit 1; }
  mkdir -p "$folder" && chmod 755 "$folder" || exit 1
  [ "$(id -u)" != 0 ] || chown postgres "$folder"
}

case $verb in
  start)
    own_folder
    as_server "$programs/initdb" -D "$data" -U postgres -A trust --auth-host=scram-sha-256 -E UTF8 --locale=C \
      >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; exit 1; }
    {
      printf '%s\n' "port = 0" "listen_addresses = '127.0.0.1'" "unix_socket_directories = '$folder'" \
        "max_connections = 100" "wal_level = replica" "hot_standby = on"
      for setting in "$@"; do echo "$setting"; done
    } >>"$data/postgresql.conf"
    # The second: hosts of tests (spec/c/cluster_hosts.c), where it listens to them.
    printf '%s\n' "host replication all 127.0.0.1/32 trust" "host all all 198.18.0.0/15 scram-sha-256" \
      >>"$data/pg_hba.conf"
    start_on_free_port || exit 1
    sql "CREATE ROLE moonpad LOGIN PASSWORD 'secret'" && sql "CREATE DATABASE moonpad OWNER moonpad"
    ;;
  standby)
    own_folder
    as_server "$programs/pg_basebackup" -w -h "$1" -p "$(cat "$1/port")" -U postgres -D "$data" -R -X stream -c fast \
      >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; exit 1; }
    sed -i "s|^unix_socket_directories = .*|unix_socket_directories = '$folder'|" "$data/postgresql.conf"
    start_on_free_port
    ;;
  again)
    # Of a server that was killed the last processes may still end.
    wait_for run_server
    ;;
  synchronous)
    sql "ALTER SYSTEM SET synchronous_standby_names = '*'" && sql "SELECT pg_reload_conf()" >/dev/null
    ;;
  account) sql "CREATE ROLE $1 LOGIN PASSWORD 'secret'" ;;
  promote) as_server "$programs/pg_ctl" -D "$data" -w -t "$patience" -s promote ;;
  kill) kill -9 "$(head -n 1 "$data/postmaster.pid")" ;;
  stop) [ ! -e "$data/postmaster.pid" ] || as_server "$programs/pg_ctl" -D "$data" -m immediate -w -t "$patience" -s stop ;;
  url) echo "postgresql://moonpad:secret@127.0.0.1:$(cat "$folder/port")/moonpad" ;;
  *) echo "$verb: no such verb" >&2; exit 2 ;;
esac
