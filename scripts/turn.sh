#!/bin/bash
# Prints which turn this run has of those that tests take (spec/support/scope.lua): MOONPAD_TURN, or
# a number that begins with the commit's own and goes on with each run of a build folder.
#   scripts/turn.sh BUILD
set -eu -o pipefail
cd "$(dirname "$0")/.."
turn=${MOONPAD_TURN:-}
if [ -n "$turn" ]; then
  [[ $turn =~ ^([0-9]{1,9}|all)$ ]] || { echo "MOONPAD_TURN=$turn: neither a number nor all" >&2; exit 2; }
  [ "$turn" = all ] || turn=$((10#$turn))
  echo "$turn"
  exit 0
fi
# Not the number of commits: a clone may have but the last one.
hash=$(git rev-parse --short=4 HEAD 2>/dev/null | cut -c 1-4) || hash=""
runs=$(cat "$1/runs" 2>/dev/null || echo 0)
mkdir -p "$1"
echo $((runs + 1)) >"$1/runs"
echo $((0x${hash:-0} + runs))
