#!/bin/bash
# The demonstration: one agent, the same guest twice, in two processes that share nothing but one
# SQLite file; then what the file remembers.
#   scripts/demo.sh [-b BUILD]
set -eu
cd "$(dirname "$0")/.."
build=build
while getopts b: option; do
  case $option in b) build=$OPTARG ;; *) exit 2 ;; esac
done
case $build in /*) folder=$build ;; *) folder=$PWD/$build ;; esac
export MOONPAD_BUILD=$folder

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
database=$temporary/concierge.db
name=(--db "$database" --app concierge --user ann)

show() { # What is run, and what it prints.
  echo "\$ $*" | sed -e "s|$database|concierge.db|"
  "$@"
  echo
}

echo
echo "The guest says, a line at a time (examples/concierge.txt):"
sed 's/^/  | /' examples/concierge.txt
echo
for visit in first second; do
  echo "The $visit process: the agent of examples/concierge.lua answers, its state goes to the SQLite file."
  show bin/moonpad run "${name[@]}" examples/concierge.lua <examples/concierge.txt
done

echo "A third process, which runs no agent, shows what was remembered: the sessions,"
show bin/moonpad sessions "${name[@]}"
echo "and the state: what begins with user: holds for every session of this guest, app: for every guest."
show bin/moonpad state "${name[@]}"
echo "The demonstration is over; its file is removed. The same by hand:"
echo "  bin/moonpad run --db concierge.db examples/concierge.lua"
echo "And in a browser, at http://127.0.0.1:8000/:"
echo "  bin/moonpad serve --db concierge.db examples/concierge.lua"
