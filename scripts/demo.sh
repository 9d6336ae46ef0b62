#!/bin/bash
# The demonstration: one agent, the same guest twice, in two processes that share nothing but one
# store; then what the store remembers.
#   scripts/demo.sh [-b BUILD] [-s STORE]
#   scripts/demo.sh -n [-s STORE]    shows nothing; the exit code says whether there is such a STORE
# STORE is sqlite, or a server, which is started for it on this machine and stopped again:
# postgresql, mysql (a MariaDB), redis.
set -eu
cd "$(dirname "$0")/.."
build=build store=sqlite only_asks=
while getopts b:ns: option; do
  case $option in b) build=$OPTARG ;; n) only_asks=yes ;; s) store=$OPTARG ;; *) exit 2 ;; esac
done
case $store in
  sqlite) script="" ;;
  postgresql) script=spec/servers/postgresql.sh ;;
  mysql) script=spec/servers/mariadb.sh ;;
  redis) script=spec/servers/redis.sh ;;
  *) echo "STORE=$store: there is sqlite, postgresql, mysql and redis" >&2; exit 2 ;;
esac
[ -z "$only_asks" ] || exit 0
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
export MOONPAD_BUILD=$folder

temporary=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || "$script" stop "$server"
  rm -rf "$temporary"
}
trap finish EXIT

if [ "$store" = sqlite ]; then
  database=$temporary/concierge.db shown=concierge.db what="the SQLite file" own=concierge.db
else
  echo
  echo "Starting a server of its own for the demonstration ($store), on a free port of this machine."
  chmod 755 "$temporary"
  server=$temporary/server
  "$script" start "$server"
  database=$("$script" url "$server") shown=$store://USER:PASSWORD@HOST/DATABASE what="the database"
  [ "$store" != redis ] || shown=redis://:PASSWORD@HOST:PORT/0 what="the keys of Redis"
  own="'$shown'"
fi
name=(--db "$database" --app concierge --user ann)

show() { # What is run, and what it prints.
  local line="$ $*"
  echo "${line//"$database"/$shown}"
  "$@"
  echo
}

echo
echo "The guest says, a line at a time (examples/concierge.txt):"
sed 's/^/  | /' examples/concierge.txt
echo
for visit in first second; do
  echo "The $visit process: the agent of examples/concierge.lua answers, its state goes to $what."
  show bin/moonpad run "${name[@]}" examples/concierge.lua <examples/concierge.txt
done

echo "A third process, which runs no agent, shows what was remembered: the sessions,"
show bin/moonpad sessions "${name[@]}"
echo "and the state: what begins with user: holds for every session of this guest, app: for every guest."
show bin/moonpad state "${name[@]}"
if [ "$store" = sqlite ]; then
  echo "The demonstration is over; its file is removed. The same by hand:"
else
  echo "The demonstration is over; its server is stopped and removed. The same by hand:"
fi
# The command finds what `make` builds by itself.
here=
[ "$build" = build ] || here="MOONPAD_BUILD=$build "
echo "  ${here}bin/moonpad run --db $own examples/concierge.lua"
if [ -e "$folder/moonpad/server_core.so" ]; then
  echo "And in a browser, at http://127.0.0.1:8000/:"
  echo "  ${here}bin/moonpad serve --db $own examples/concierge.lua"
else
  echo "And in a browser, at http://127.0.0.1:8000/, after \`make deps all\`:"
  echo "  bin/moonpad serve --db $own examples/concierge.lua"
fi
