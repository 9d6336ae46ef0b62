#!/bin/bash
# A Redis server for tests, on this machine alone: all of it is in FOLDER, and it is gone with it.
#   spec/servers/redis.sh start FOLDER [SETTING VALUE...]   makes and starts it, with settings
#   spec/servers/redis.sh again FOLDER [SETTING VALUE...]   starts it after `stop` or `kill`
#   spec/servers/redis.sh replica FOLDER PRIMARY            one that follows the server in PRIMARY
#   spec/servers/redis.sh run FOLDER WORD...                runs a command of Redis
#   spec/servers/redis.sh kill FOLDER                       as the system does: kill -9
#   spec/servers/redis.sh stop FOLDER
#   spec/servers/redis.sh url FOLDER                        prints its URL, password included
# It listens on a free port of 127.0.0.1 (FOLDER/port) and on a socket, FOLDER/socket. Its password
# is secret. It writes down each change before it answers for it, unless a setting says otherwise.
set -u
. "$(dirname "$0")/ports.sh"

verb=$1 folder=$2
shift 2

run() { env -u LD_PRELOAD REDISCLI_AUTH=secret redis-cli -s "$folder/socket" "$@"; }

has_ended() { ! kill -0 "$1" 2>/dev/null; } # PROCESS

is_up_or_over() { [ "$(run ping 2>/dev/null)" = PONG ] || has_ended "$1"; } # PROCESS

# Until it has read its data, or has ended.
run_server() { # SETTING VALUE...
  local server settings=()
  while [ $# -gt 1 ]; do
    settings+=("--$1" "$2")
    shift 2
  done
  # Debian's redis-tools have the server under another name; its package redis-server has little more
  # than a unit that starts one with the machine.
  (
    unset LD_PRELOAD
    exec -a redis-server "$(command -v redis-server || command -v redis-check-rdb)" --port "$(cat "$folder/port")" \
      --bind 127.0.0.1 --unixsocket "$folder/socket" --dir "$folder" --logfile "$folder/log" --pidfile "$folder/pid" \
      --requirepass secret --masterauth secret --appendonly yes --appendfsync always --save "" \
      --repl-diskless-sync-delay 0 --daemonize no "${settings[@]}"
  ) >/dev/null 2>&1 </dev/null &
  server=$!
  wait_for is_up_or_over $server && ! has_ended $server && return 0
  kill -9 $server 2>/dev/null
  return 1
}

# Ports that others may take between the look and the start are tried again.
start_on_free_port() { # SETTING VALUE...
  local tries
  for tries in 1 2 3; do
    free_port >"$folder/port"
    run_server "$@" && return 0
  done
  cat "$folder/log" >&2
  echo "Redis does not start ($tries times)" >&2
  return 1
}

is_following() { run info replication | grep -q master_link_status:up; }

is_here() { [ "/proc/$1/cwd" -ef "$folder" ]; } # PROCESS: is it a server of this folder?

case $verb in
  start)
    for program in redis-check-rdb redis-cli; do
      command -v $program >/dev/null || { echo "no Redis server is installed: make deps" >&2; exit 1; }
    done
    mkdir -p "$folder" && chmod 755 "$folder" || exit 1
    start_on_free_port "$@"
    ;;
  replica)
    mkdir -p "$folder" && start_on_free_port replicaof "127.0.0.1 $(cat "$1/port")" || exit 1
    wait_for is_following
    ;;
  again) run_server "$@" ;;
  run) run "$@" ;;
  kill | stop)
    [ -e "$folder/pid" ] || exit 0
    server=$(cat "$folder/pid")
    # What is in it is not wanted any more, or must not be saved. One that has ended by itself left
    # its number behind, which somebody else may have by now.
    ! is_here "$server" || kill -9 "$server"
    while is_here "$server"; do sleep 0.02; done
    rm -f "$folder/pid" "$folder/socket"
    ;;
  url) echo "redis://:secret@127.0.0.1:$(cat "$folder/port")/0" ;;
  *) echo "$verb: no such verb" >&2; exit 2 ;;
esac
