# For the scripts beside this one.

# What has to happen is waited for so many seconds: far beyond what it takes on a busy machine.
patience=300

# Until the command succeeds. False when it never does.
wait_for() { # COMMAND...
  local until=$((SECONDS + patience))
  until "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.05
  done
}

# A port of 127.0.0.1 that is free now.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}
