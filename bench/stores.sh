#!/bin/bash
# The stores beside each other, all on this machine: a table for "What to choose" (docs/servers.md).
# Servers and clusters are started in a temporary folder of the disk, and stopped again.
#   bench/stores.sh [-b BUILD] [-d FOLDER] [STORE...]      without a name: all that are listed below
set -euo pipefail
cd "$(dirname "$0")/.."
build=build place=""
while getopts b:d: option; do
  case $option in b) build=$OPTARG ;; d) place=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- memory sqlite postgresql mysql galera redis redis-cluster
make -s -j"$(nproc)" BUILD="$build" all >&2
folder=$(mktemp -d "${place:-/tmp}/stores.XXXXXX")
chmod 755 "$folder"
running=""
stop() {
  [ -z "$running" ] || spec/servers/"$running".sh stop "$folder/server" >&2
  running=""
  rm -rf "${folder:?}"/*
}
trap 'stop; rm -rf "$folder" "$table"' EXIT
table=$(mktemp)

row() { # NAME URL
  LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="$build/?.so;;" lua5.4 bench/stores.lua "$@"
}
# Only one at a time: they would take each other's processor.
of_server() { # NAME SCRIPT OPTION...
  local name=$1 script=$2
  shift 2
  running=$script
  spec/servers/"$script".sh start "$folder/server" "$@" >&2
  row "$name" "$(spec/servers/"$script".sh url "$folder/server")"
  stop
}

{
  printf 'store\tappend, p50\tget, p50\tappends of 64 sessions\n'
  for store in "$@"; do
    case $store in
      memory) row memory: memory: ;;
      sqlite) row sqlite: "sqlite:$folder/stores.db"; stop ;;
      postgresql) of_server postgresql: postgresql ;;
      mysql) of_server mysql: mariadb ;;
      galera) of_server "mysql:, three nodes of Galera" galera ;;
      redis) of_server redis: redis ;;
      redis-cluster)
        of_server "redis+cluster:, three nodes with replicas" redis_cluster
        ;;
      *) echo "$store: no such store" >&2; exit 2 ;;
    esac
  done
} >"$table" # not into a pipe: what is there to be stopped would be known to a subshell alone
column -t -s "$(printf '\t')" "$table"
echo "bench: $(date -u +%F), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg)"
