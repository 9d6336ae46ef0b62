#!/bin/bash
# Runs what `make test` runs, again and again, on a machine that is busy: four programs for each
# processor that compute without end, at nice 19, and one that keeps the disk at work. No test may
# fail because of it.
#   scripts/busy.sh [-b BUILD] [-n TIMES] [-o NAMES]      default: build, 3, all
set -u
cd "$(dirname "$0")/.." || exit 1
build=build times=3 only=""
while getopts b:n:o: option; do
  case $option in b) build=$OPTARG ;; n) times=$OPTARG ;; o) only=$OPTARG ;; *) exit 2 ;; esac
done

# On the disk that tests have their folders on.
folder=$(mktemp -d) || exit 1
hogs=()
finish() {
  kill "${hogs[@]}" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$folder"
}
trap finish EXIT

compute() { while :; do :; done; }
write() { while :; do dd if=/dev/zero of="$folder/hog" bs=1M count=64 conv=fsync status=none; done; }
for ((i = 0; i < 4 * $(nproc); i++)); do
  compute &
  hogs+=($!)
done
write &
hogs+=($!)
renice -n 19 "${hogs[@]}" >/dev/null

results=$build/test-results
rm -f "$results"/busy-*
turn=$(scripts/turn.sh "$build") || exit 2
[ "$turn" != all ] || turn=0
for ((i = 1; i <= times; i++)); do
  scripts/run_tests.sh -b "$build" -l "busy-$i" -k test -t $((turn + i)) -o "$only" lua c
done
scripts/total.sh "$results" busy
