#!/bin/sh
# Runs the file $1 and leaves its exit code in $1.code. $2: what it writes (r), or reads (w), goes
# through the pipe $1.pipe, which is held open until both sides are there: spec/platforms/shell.c.

# At most two minutes: whoever is to make it may have been killed.
await() { # FILE
  tries=12000
  while [ ! -e "$1" ] && [ $tries -gt 0 ]; do
    sleep 0.01
    tries=$((tries - 1))
  done
}

if [ -n "${2:-}" ]; then
  mkfifo "$1.new"
  exec 3<>"$1.new"
  mv "$1.new" "$1.pipe"
  await "$1.open"
fi
case ${2:-} in
  r*)
    exec 4>"$1.pipe" 3>&-
    sh "$1" >&4 4>&-
    code=$?
    exec 4>&-
    ;;
  w*)
    exec 4<"$1.pipe" 3>&-
    sh "$1" <&4 4<&-
    code=$?
    ;;
  *)
    sh "$1"
    code=$?
    ;;
esac
echo $code >"$1.new" && mv "$1.new" "$1.code"
await "$1.read"
rm -f "$1" "$1".*
