#!/bin/sh
# Names what failed in the suites that have run, adds up their counts, says how many tests are left
# to other turns (scripts/check.sh) and prints the total in one line. Exit code: 0 when tests have
# run and none failed.
#   scripts/total.sh RESULTS [LABEL]      with a label: only the suites of that label
set -eu
for failures in "$1/${2:-}"*.failed; do
  [ ! -s "$failures" ] || sed "s|^|FAILED in $(basename "$failures" .failed): |" "$failures"
done
cat "$1/${2:-}"*.count 2>/dev/null | awk '
  { passed += $1; failed += $2; left += $4 }
  END { if (NR == 0) failed = 1; if (left) printf "%d more in other turns\n", left
    printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }'
