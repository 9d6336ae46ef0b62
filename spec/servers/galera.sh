#!/bin/bash
# A Galera cluster of three MariaDB servers (mariadb.sh) for tests, on this machine alone: all of it
# is in FOLDER, and it is gone with it.
#   spec/servers/galera.sh start FOLDER        makes and starts it
#   spec/servers/galera.sh kill FOLDER N       kills node N (1 to 3) as the system does: kill -9
#   spec/servers/galera.sh isolate FOLDER N    cuts its network: it leaves the cluster
#   spec/servers/galera.sh rejoin FOLDER N     mends that: it fetches what it has missed
#   spec/servers/galera.sh sql FOLDER N SQL    runs SQL as root
#   spec/servers/galera.sh stop FOLDER
#   spec/servers/galera.sh url FOLDER          prints its URL, with all nodes, 1 first
# Galera's own ways to copy a whole node are programs of Debian's package mariadb-server, which
# would start a server of the system. So all nodes begin as copies of the first, and
# wsrep_sst_missed sends them what came later.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/ports.sh"
PATH=$here:$PATH # for wsrep_sst_missed

verb=$1 folder=$2
shift 2
library=/usr/lib/galera/libgalera_smm.so

file() { cat "$folder/$1/$2"; }

# The options of a node, one a line. A node that says nothing for five seconds is given up, as it is
# by default. Who reads on another one meanwhile waits as long as it takes: the default is ten s,
# after which the server tells of a lock that nobody holds (error 1205).
options() { # N ADDRESSES
  local group
  group=127.0.0.1:$(file "$1" group)
  printf '%s\n' --wsrep-on=ON "--wsrep-provider=$library" --wsrep-cluster-name=moonpad \
    "--wsrep-cluster-address=gcomm://$2" "--wsrep-node-name=node$1" "--wsrep-node-address=$group" \
    --wsrep-sst-method=missed --binlog-format=ROW --innodb-autoinc-lock-mode=2
  printf '%s' "--wsrep-provider-options=base_host=127.0.0.1;base_port=$(file "$1" group);" \
    "gmcast.listen_addr=tcp://$group;ist.recv_addr=127.0.0.1:$(file "$1" ist);" \
    "evs.suspect_timeout=PT5S;evs.inactive_timeout=PT15S;evs.keepalive_period=PT0.5S;gcache.size=32M;" \
    "repl.causal_read_timeout=PT5M"
}

# The first node begins the cluster, with no address; later ones join it.
run_node() { # N VERB ADDRESSES [OPTION...]
  local number=$1 how=$2 all
  mapfile -t all < <(options "$number" "$3")
  shift 3
  "$here/mariadb.sh" "$how" "$folder/$number" "${all[@]}" "$@"
}

join_cluster() { # N
  run_node "$1" again "127.0.0.1:$(file 1 group),127.0.0.1:$(file 2 group),127.0.0.1:$(file 3 group)" &&
    wait_until "$1" wsrep_ready ON
}

sql() { "$here/mariadb.sh" sql "$folder/$1" "$2"; }

has_status() { [ "$(sql "$1" "SHOW STATUS LIKE '$2'" 2>/dev/null | cut -f 2)" = "$3" ]; } # N STATUS VALUE

wait_until() { # N STATUS VALUE
  wait_for has_status "$@" && return 0
  cat "$folder/$1/error.log" >&2
  echo "node $1: $2 does not become $3" >&2
  return 1
}

# Makes the first node, and the others as copies of it.
make_nodes() {
  local number
  [ -e $library ] || { echo "Galera is not installed: scripts/deps.sh checks" >&2; return 1; }
  for number in 1 2 3; do
    mkdir -p "$folder/$number" && chmod 755 "$folder" "$folder/$number" || return 1
    for port in port group ist; do free_port >"$folder/$number/$port"; done
  done
  run_node 1 start "" --wsrep-new-cluster && sql 1 SHUTDOWN || return 1
  while [ -e "$folder/1/pid" ]; do sleep 0.1; done
  for number in 2 3; do
    cp -a "$folder/1/data" "$folder/$number/data" && rm "$folder/$number/data/galera.cache" || return 1
  done
}

case $verb in
  start)
    make_nodes && run_node 1 again "" --wsrep-new-cluster && wait_until 1 wsrep_ready ON || exit 1
    join_cluster 2 && join_cluster 3 && wait_until 1 wsrep_cluster_size 3
    ;;
  kill) "$here/mariadb.sh" kill "$folder/$1" ;;
  isolate) sql "$1" "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'" && wait_until "$1" wsrep_ready OFF ;;
  rejoin) sql "$1" "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'" && wait_until "$1" wsrep_ready ON ;;
  sql) sql "$1" "$2" ;;
  stop) for number in 1 2 3; do "$here/mariadb.sh" stop "$folder/$number"; done ;;
  url)
    echo "mysql://moonpad:secret@127.0.0.1:$(file 1 port),127.0.0.1:$(file 2 port),127.0.0.1:$(file 3 port)/moonpad"
    ;;
  *) echo "$verb: no such verb" >&2; exit 2 ;;
esac
