#!/usr/bin/env bash
# Terminals: `ls | less` with its keys under tmux, Ctrl-C, Ctrl-Z and resizing.
. "$(dirname "$0")/lib.sh"
need tmux less

round=0
socket=$base/tmux0
mux() { "${clean_env[@]}" TERM=xterm-256color tmux -f /dev/null -S "$socket" "$@"; }
stop_mux() {
  mux kill-server 2>/dev/null
  cleanup
}
trap stop_mux EXIT

# A session with a shell without prompt or history: start WIDTH HEIGHT
start() {
  mux kill-server 2>/dev/null
  # A server that is still ending would refuse a new session: another socket, another server.
  round=$((round + 1))
  socket=$base/tmux$round
  mux new-session -d -s t -x "$1" -y "$2" -c "$base/project" \
    "env PS1='% ' HISTFILE= bash --norc --noprofile"
  wait_for '^%'
}
screen() { mux capture-pane -p -t t; }
keys() { mux send-keys -t t "$@"; }
# Waits up to 10 s for a line of the screen.
wait_for() {
  local i
  for ((i = 0; i < 100; i++)); do
    screen | grep -q -- "$1" && return 0
    sleep 0.1
  done
  return 1
}
# Runs `keys` of a scenario for each way and prints the screens.
# scenario NAME COMMAND FUNCTION: FUNCTION drives the keys and prints what counts.
scenario() {
  local name=$1 command=$2 drive=$3 a b
  fresh
  for i in $(seq -w 60); do touch "file$i"; done
  start 60 20
  a=$($drive "$command" 2>&1)
  fresh
  for i in $(seq -w 60); do touch "file$i"; done
  start 60 20
  b=$($drive "$UKS exec --quiet -- $command" 2>&1)
  if [[ $a == "$b" ]]; then
    pass "$name"
  else
    fail "$name"
    diff -u --label outside --label inside <(echo "$a") <(echo "$b") | head -40
  fi
}
# Everything but the line with the command itself.
body() { screen | grep -v -e '^% .' | sed -e 's/ *$//'; }

drive_less() {
  keys "clear; $1" Enter
  wait_for 'file18' || echo 'no first page'
  sleep 0.3
  body | tail -18
  echo -- space; keys Space; sleep 0.5; body | tail -18
  echo -- search; keys /file55 Enter; sleep 0.5; body | grep -c file55
  echo -- end; keys G; sleep 0.5; body | tail -3
  echo -- back; keys g; sleep 0.5; body | head -2
  echo -- quit; keys q; sleep 0.5
  keys 'clear; stty -a | grep -o -e "-*icanon" -e "-*echo "; echo ready' Enter
  wait_for '^ready' || echo 'the terminal does not answer'
  body | head -4
}
scenario less "bash -c 'ls | less'" drive_less

drive_ctrl_c() {
  keys "clear; $1" Enter
  sleep 1
  keys C-c
  sleep 0.5
  keys 'echo status $?' Enter
  wait_for '^status' || echo 'no status'
  body | grep '^status'
}
scenario ctrl_c 'sleep 100' drive_ctrl_c
scenario ctrl_c_trap "bash -c 'trap \"echo caught; exit 5\" INT; sleep 100 & wait'" drive_ctrl_c

drive_ctrl_z() {
  keys "clear; $1" Enter
  sleep 1
  keys C-z
  wait_for 'Stopped' || echo 'not stopped'
  keys 'clear; jobs | grep -c Stopped; echo again' Enter
  wait_for '^again' || echo 'no shell'
  body | head -2
  keys 'clear; fg >/dev/null' Enter
  sleep 0.5
  keys C-c
  sleep 0.5
  keys 'echo status $?' Enter
  wait_for '^status' || echo 'no status'
  body | grep '^status'
}
scenario ctrl_z 'sleep 100' drive_ctrl_z

drive_size() {
  keys "clear; $1" Enter
  wait_for '^20 60' || echo 'wrong size'
  mux resize-window -t t -x 70 -y 25
  wait_for 'winch' || echo 'no SIGWINCH'
  wait_for '^25 70' || echo 'wrong new size'
  body | head -3
}
scenario resize "bash -c 'trap \"echo winch; stty size; exit\" WINCH; stty size; while :; do sleep 0.1; done'" drive_size

drive_type() {
  keys "clear; $1" Enter
  sleep 0.7
  keys 'hello' Enter
  sleep 0.3
  keys 'typed' BSpace BSpace 'xx' Enter C-d
  wait_for '^typxx' || echo 'no echo'
  sleep 0.3
  body | head -6
}
scenario cooked_input 'cat' drive_type
scenario shell "bash --norc --noprofile -c 'read -s -p secret: x; echo; echo got \$x; read y; echo \$y'" drive_type

drive_tty() {
  keys "clear; $1; echo status \$?" Enter
  wait_for '^status' || echo 'no status'
  body | head -4
}
scenario is_a_tty "bash -c 'test -t 0 -a -t 1 -a -t 2; echo \$?; echo x | { test -t 0; echo \$?; }; echo from tty >/dev/tty'" drive_tty

# The terminal is put back even if the sandbox is killed while it is raw.
fresh
start 60 20
keys "clear; $UKS exec --quiet -- bash -c 'stty raw -echo; sleep 100'" Enter
sleep 1.5
shell=$(mux list-panes -t t -F '#{pane_pid}')
keeper=$(pgrep -P "$shell" | head -1)
for p in $(pgrep -P "${keeper:-0}"); do
  if grep -qz -e '--role=sentry' "/proc/$p/cmdline" 2>/dev/null; then kill -KILL "$p"; fi
done
sleep 1
keys C-c Enter
keys 'stty -a | grep -o -e "-*icanon"; echo ready' Enter
if wait_for '^ready' && screen | grep -q '^icanon'; then
  pass restored_after_kill
else
  fail restored_after_kill
  screen | head -10
fi
finish
