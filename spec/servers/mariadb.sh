#!/bin/bash
# A MariaDB server for tests, on this machine alone: all of it is in FOLDER, and it is gone with it.
#   spec/servers/mariadb.sh start FOLDER [OPTION...]   makes and starts it, with options of mariadbd
#   spec/servers/mariadb.sh again FOLDER [OPTION...]   starts it after `stop` or `kill`
#   spec/servers/mariadb.sh primary FOLDER             starts one that replicas may follow
#   spec/servers/mariadb.sh replica FOLDER PRIMARY     one that follows the new server in PRIMARY, where a
#                                                      commit waits for it as long as it follows
#   spec/servers/mariadb.sh promote FOLDER             makes a replica a primary, with all that it has
#   spec/servers/mariadb.sh account FOLDER NAME        makes an account without any rights
#   spec/servers/mariadb.sh sql FOLDER SQL             runs SQL as root, in the URL's database
#   spec/servers/mariadb.sh kill FOLDER                as the system does: kill -9
#   spec/servers/mariadb.sh stop FOLDER
#   spec/servers/mariadb.sh url FOLDER                 prints its URL, password included
# It listens on a free port of 127.0.0.1 (FOLDER/port) and on a socket, FOLDER/socket. Its account
# root has no password on the socket; the URL's account has all rights on a database.
set -u
. "$(dirname "$0")/ports.sh"

verb=$1 folder=$2
shift 2
data=$folder/data
PATH=$PATH:/usr/sbin

# As root only where it is told so.
as_server() { env -u LD_PRELOAD TMPDIR="$folder" "$@" --user="$(id -un)"; }

sql() { env -u LD_PRELOAD mariadb --no-defaults -N -u root -S "$folder/socket" moonpad -e "$1"; }

is_up() { env -u LD_PRELOAD mariadb --no-defaults -u root -S "$folder/socket" -e "SELECT 1" >/dev/null 2>&1; }

has_ended() { ! kill -0 "$1" 2>/dev/null; } # PROCESS

is_up_or_over() { is_up || has_ended "$1"; } # PROCESS

# Until it answers, or has ended.
run_server() { # OPTION...
  local server
  as_server mariadbd --no-defaults --datadir="$data" --socket="$folder/socket" --port="$(cat "$folder/port")" \
    --bind-address=127.0.0.1 --pid-file="$folder/pid" --log-error="$folder/error.log" --skip-name-resolve \
    --character-set-server=utf8mb4 --innodb-buffer-pool-size=128M --innodb-log-file-size=96M \
    --max-allowed-packet=256M --performance-schema=off "$@" >/dev/null 2>&1 </dev/null &
  server=$!
  wait_for is_up_or_over $server && ! has_ended $server && return 0
  kill -9 $server 2>/dev/null
  return 1
}

# A port that somebody else takes between the look and the start is tried again.
start_on_free_port() { # OPTION...
  local tries
  for tries in 1 2 3; do
    free_port >"$folder/port"
    run_server "$@" && return 0
  done
  cat "$folder/error.log" >&2
  echo "MariaDB does not start ($tries times)" >&2
  return 1
}

make_server() { # OPTION...
  command -v mariadb-install-db >/dev/null && command -v mariadbd >/dev/null ||
    { echo "no MariaDB server is installed: make deps" >&2; exit 1; }
  mkdir -p "$folder" && chmod 755 "$folder" || exit 1
  # --force: also where no name of this machine is known, as in a chroot.
  as_server mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal \
    --skip-test-db --force >"$folder/install.log" 2>&1 || { cat "$folder/install.log" >&2; exit 1; }
  start_on_free_port "$@" || exit 1
  env -u LD_PRELOAD mariadb --no-defaults -u root -S "$folder/socket" -e "CREATE DATABASE moonpad;
    CREATE USER moonpad@'%' IDENTIFIED BY 'secret'; GRANT ALL ON moonpad.* TO moonpad@'%';
    GRANT PROCESS ON *.* TO moonpad@'%';
    GRANT ALL ON \`test\\_%\`.* TO moonpad@'%'"
}

# Of SHOW SLAVE STATUS.
replica_status() { # NAME
  env -u LD_PRELOAD mariadb --no-defaults -u root -S "$folder/socket" -E -e "SHOW SLAVE STATUS" |
    sed -n "s/^ *$1: *//p"
}

is_following() { [ "$(replica_status Slave_IO_Running)" = Yes ]; }

# Both begin with the same in them, so all that the primary does from now on is to come.
follow() { # PRIMARY
  "$0" sql "$1" "CREATE USER replica@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO replica@'%'" &&
    sql "RESET MASTER; SET GLOBAL gtid_slave_pos = '$("$0" sql "$1" "SELECT @@global.gtid_binlog_pos")';
      CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = $(cat "$1/port"), MASTER_USER = 'replica',
        MASTER_PASSWORD = 'secret', MASTER_USE_GTID = slave_pos;
      START SLAVE; SET GLOBAL read_only = ON" || return 1
  wait_for is_following && return 0
  echo "$folder does not follow $1: $(replica_status Last_IO_Error)" >&2
  return 1
}

case $verb in
  start) make_server "$@" ;;
  primary)
    make_server --log-bin=binlog --server-id=1 --rpl-semi-sync-master-enabled=1 \
      --rpl-semi-sync-master-timeout=$((patience * 1000)) --rpl-semi-sync-master-wait-no-slave=OFF
    ;;
  replica) make_server --log-bin=binlog --server-id=2 --rpl-semi-sync-slave-enabled=1 && follow "$1" ;;
  promote)
    sql "STOP SLAVE IO_THREAD" &&
      [ "$(sql "SELECT MASTER_GTID_WAIT('$(replica_status Gtid_IO_Pos)', $patience)" | tail -n 1)" = 0 ] &&
      sql "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF"
    ;;
  again)
    # Of a server that was killed the last threads may still end.
    wait_for run_server "$@"
    ;;
  account) sql "CREATE USER $1@'%' IDENTIFIED BY 'secret'" ;;
  sql) sql "$1" ;;
  kill) kill -9 "$(cat "$folder/pid")" ;;
  stop)
    [ -e "$folder/pid" ] || exit 0
    server=$(cat "$folder/pid")
    # What is in it is not wanted any more.
    kill -9 "$server" 2>/dev/null
    while kill -0 "$server" 2>/dev/null; do sleep 0.05; done
    rm -f "$folder/pid"
    ;;
  url) echo "mysql://moonpad:secret@127.0.0.1:$(cat "$folder/port")/moonpad" ;;
  *) echo "$verb: no such verb" >&2; exit 2 ;;
esac
