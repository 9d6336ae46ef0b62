#!/bin/bash
# A Redis Cluster for tests, on this machine alone: three nodes with slots and a replica of each, all
# in FOLDER (n1 to n6), and gone with it.
#   spec/servers/redis_cluster.sh start FOLDER [SETTING VALUE...]   makes and starts it
#   spec/servers/redis_cluster.sh url FOLDER            prints its URL, with all nodes
#   spec/servers/redis_cluster.sh holder FOLDER APP     prints which node has an app: its number
#   spec/servers/redis_cluster.sh run FOLDER N WORD...  runs a command of Redis on node N
#   spec/servers/redis_cluster.sh kill FOLDER APP [all] kill -9 of the node that has an app, or of its
#                                                       replica, too
#   spec/servers/redis_cluster.sh failover FOLDER APP   the same of one, until its replica has the app
#   spec/servers/redis_cluster.sh again FOLDER          starts again what was killed
#   spec/servers/redis_cluster.sh wait FOLDER           until all nodes that live see all slots served
#   spec/servers/redis_cluster.sh move FOLDER APP       moves the slot of an app to another node
#   spec/servers/redis_cluster.sh move FOLDER APP begin leaves it on its way there, half of its keys
#   spec/servers/redis_cluster.sh move FOLDER APP end   ends that
#   spec/servers/redis_cluster.sh stop FOLDER
set -u

verb=$1 folder=$2
shift 2
here=$(dirname "$0")
. "$here/ports.sh"
nodes="1 2 3 4 5 6"
settings=(cluster-enabled yes cluster-config-file nodes.conf cluster-replica-validity-factor 0)

run() { # N WORD...
  local node=$1
  shift
  "$here/redis.sh" run "$folder/n$node" "$@"
}

port() { cat "$folder/n$1/port"; }

slot_of() { # APP
  local node
  for node in $nodes; do
    run "$node" cluster keyslot "{$1}" 2>/dev/null && return 0
  done
}

id_of() { run "$1" cluster myid; }

holder() { # SLOT
  local node
  for node in $nodes; do
    [ -e "$folder/n$node/pid" ] || continue
    run "$node" role 2>/dev/null | head -n 1 | grep -q master || continue
    run "$node" cluster nodes | grep myself | cut -d' ' -f9- | tr ' ' '\n' | awk -F- -v slot="$1" '
      $1 + 0 <= slot && slot <= ($2 == "" ? $1 : $2) + 0 && $0 ~ /^[0-9]/ { found = 1 } END { exit !found }' &&
      { echo "$node"; return 0; }
  done
  return 1
}

# All nodes that live see all slots served.
is_well() {
  local node
  for node in $nodes; do
    [ ! -e "$folder/n$node/pid" ] || run "$node" cluster info 2>/dev/null | grep -q cluster_state:ok || return 1
  done
}

wait_until_well() {
  wait_for is_well && return 0
  echo "the cluster is not well" >&2
  return 1
}

start() { # SETTING VALUE...
  local node addresses=""
  settings+=("$@")
  mkdir -p "$folder" && chmod 755 "$folder" && echo "$*" >"$folder/settings" || return 1
  for node in $nodes; do
    "$here/redis.sh" start "$folder/n$node" "${settings[@]}" || return 1
    addresses="$addresses 127.0.0.1:$(port "$node")"
  done
  # shellcheck disable=SC2086 # a list of words
  env -u LD_PRELOAD REDISCLI_AUTH=secret redis-cli --cluster create $addresses --cluster-replicas 1 --cluster-yes \
    >"$folder/create.log" 2>&1 || { cat "$folder/create.log" >&2; return 1; }
  wait_until_well
}

# Key by key, as redis-cli does it: `begin` leaves it on its way, `end` ends that.
move() { # APP [begin | end]
  local slot from to key
  slot=$(slot_of "$1") from=$(holder "$slot") || return 1
  if [ "${2:-}" = end ]; then to=$(cat "$folder/moving_to"); else
    for to in $nodes; do
      [ "$to" != "$from" ] && run "$to" role | head -n 1 | grep -q master && break
    done
    echo "$to" >"$folder/moving_to"
    run "$to" cluster setslot "$slot" importing "$(id_of "$from")" >/dev/null
    run "$from" cluster setslot "$slot" migrating "$(id_of "$to")" >/dev/null
  fi
  run "$from" cluster getkeysinslot "$slot" 100000 >"$folder/keys"
  [ "${2:-}" != begin ] || sed -i 'n;d' "$folder/keys" # every second one
  while read -r key; do
    run "$from" migrate 127.0.0.1 "$(port "$to")" "$key" 0 $((patience * 1000)) auth secret >/dev/null
  done <"$folder/keys"
  [ "${2:-}" != begin ] || return 0
  run "$to" cluster setslot "$slot" node "$(id_of "$to")" >/dev/null
  run "$from" cluster setslot "$slot" node "$(id_of "$to")" >/dev/null
}

replica_of() { # N
  local node id
  id=$(id_of "$1")
  for node in $nodes; do
    [ "$node" = "$1" ] || ! run "$node" cluster nodes | grep myself | grep -q "slave $id" || echo "$node"
  done
}

kill_nodes() { # APP [all]
  local node list
  list=$(holder "$(slot_of "$1")") || return 1
  [ "${2:-}" != all ] || list="$list $(replica_of "$list")"
  echo "$list" >"$folder/killed"
  for node in $list; do "$here/redis.sh" kill "$folder/n$node"; done
}

failover() { # APP
  local slot
  slot=$(slot_of "$1") && kill_nodes "$1" || return 1
  wait_for holder "$slot" >/dev/null && wait_until_well && return 0
  echo "no replica takes over" >&2
  return 1
}

again() {
  local node more
  read -ra more <"$folder/settings"
  settings+=("${more[@]}")
  for node in $(cat "$folder/killed"); do "$here/redis.sh" again "$folder/n$node" "${settings[@]}" || return 1; done
  rm "$folder/killed"
}

case $verb in
  start) start "$@" ;;
  url)
    hosts=""
    for node in $nodes; do hosts="$hosts,127.0.0.1:$(port "$node")"; done
    echo "redis+cluster://:secret@${hosts#,}"
    ;;
  holder) holder "$(slot_of "$1")" ;;
  run) run "$@" ;;
  kill) kill_nodes "$@" ;;
  failover) failover "$1" ;;
  again) again ;;
  wait) wait_until_well ;;
  move) move "$@" ;;
  stop) for node in $nodes; do "$here/redis.sh" stop "$folder/n$node"; done ;;
  *) echo "$verb: no such verb" >&2; exit 2 ;;
esac
