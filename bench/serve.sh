#!/bin/bash
# What serving costs: streams of 20 tokens a second each, read by curl, and plain requests, made by
# wrk (Debian's package of that name). The server has one processor, its clients another one.
#   bench/serve.sh [-b BUILD] [-s STREAMS] [-t SECONDS] [-n REQUESTS IN ALL]
set -eu
cd "$(dirname "$0")/.."
build=build streams=200 seconds=10 requests=200000
while getopts b:s:t:n: option; do
  case $option in
    b) build=$OPTARG ;; s) streams=$OPTARG ;; t) seconds=$OPTARG ;; n) requests=$OPTARG ;; *) exit 2 ;;
  esac
done
case $build in /*) ;; *) build=$PWD/$build ;; esac
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;" LUA_CPATH="$build/?.so;;" MOONPAD_BUILD=$build
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

taskset -c 0 bin/moonpad serve bench/serve_agent.lua --port 0 --db memory: >"$folder/line" &
server=$!
until grep -q Serving "$folder/line"; do sleep 0.1; done
url=$(grep -o 'http://[0-9.]*:[0-9]*' "$folder/line" | head -n 1)
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
resident() { awk '/VmRSS/ { print $2 }' "/proc/$server/status"; }

echo "$streams streams, $seconds s:"
tokens=$((20 * seconds))
message='{"appName":"talker","userId":"u","sessionId":"%s","streaming":true,"newMessage":{"parts":[{"text":"%d"}]}}'
for ((i = 1; i <= streams; i++)); do
  curl -s -o /dev/null -X POST "$url/apps/talker/users/u/sessions/s$i"
  # shellcheck disable=SC2059 # it is a format
  printf "$message" "s$i" "$tokens" >"$folder/body$i"
  printf 'next\nurl = "%s/run_sse"\noutput = "/dev/null"\nno-buffer\nsilent\ndata = "@%s"\n' "$url" "$folder/body$i"
done | tail -n +2 >"$folder/curl"
before=$(ticks)
taskset -c 1 curl --parallel --parallel-immediate --parallel-max "$streams" --trace-time --trace-ascii "$folder/trace" \
  -K "$folder/curl"
echo "  processor of the server: $(($(ticks) - before)) % of a second in $seconds s"
lua5.4 bench/serve_delays.lua "$folder/trace" $((streams * tokens)) | sed 's/^/  /'

command -v wrk >/dev/null || { echo "wrk is not installed: no plain requests."; exit 0; }
echo "$requests requests for a session, 50 connections:"
before=$(resident) done=0
while [ "$done" -lt "$requests" ]; do
  taskset -c 1 wrk -t 1 -c 50 -d 5 "$url/apps/talker/users/u/sessions/s1?num_recent_events=1" >"$folder/wrk"
  done=$((done + $(awk '/requests in/ { print $1 }' "$folder/wrk")))
done
grep -E 'Requests/sec|Latency' "$folder/wrk" | sed 's/^ */  /'
echo "  $done requests; memory of the server before $before KiB, after $(resident) KiB"
