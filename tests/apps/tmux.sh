#!/usr/bin/env bash
# tmux inside the sandbox: two panes driven by send-keys, job control in a pane; and script(1).
. "$(dirname "$0")/lib.sh"
need tmux script

setup() {
  cat >panes.sh <<'X'
sock=$(mktemp -u /tmp/panes-XXXXXX)
trap 'rm -f "$sock"' EXIT
tmux() { command tmux -S "$sock" -f /dev/null "$@"; }
seen() { for _ in $(seq 100); do tmux capture-pane -p -t "$1" | grep -q -- "$2" && return; sleep 0.1; done; echo "pane $1 does not show $2"; }
runs() { for _ in $(seq 100); do [[ $(tmux display -p -t "$1" '#{pane_current_command}') == "$2" ]] && return; sleep 0.1; done; echo "pane $1 does not run $2"; }
shell='exec env "PS1=% " HISTFILE= bash --norc --noprofile'
tmux new-session -d -s s -x 100 -y 30 "$shell" || exit 1
tmux split-window -t s "$shell"
seen s.0 '^%'; seen s.1 '^%'
tmux send-keys -t s.0 'echo left-$((40+2)) >a; tty | cut -c1-9' Enter
tmux send-keys -t s.1 'echo right-$((40+3)) >b; stty size' Enter
seen s.0 '^/dev/pts'; seen s.1 '^14 100'
cat a b
tmux list-panes -t s -F '#{pane_index} #{pane_width}x#{pane_height} #{pane_current_command}'
tmux send-keys -t s.1 'sleep 100' Enter; runs s.1 sleep; tmux send-keys -t s.1 C-c
tmux send-keys -t s.1 'echo rc=$?' Enter; seen s.1 '^rc=130'
tmux send-keys -t s.1 'sleep 100' Enter; runs s.1 sleep; tmux send-keys -t s.1 C-z; seen s.1 Stopped
tmux send-keys -t s.1 'kill %1; wait; jobs; echo none' Enter; seen s.1 '^none'
tmux send-keys -t s.0 'cat' Enter; runs s.0 cat; tmux send-keys -t s.0 'typed' BSpace BSpace 'xx' Enter; seen s.0 '^typxx'; tmux send-keys -t s.0 C-d
tmux send-keys -t s.0 'for i in $(seq 2000); do echo line $i; done' Enter; seen s.0 '^line 2000'
tmux resize-pane -t s.0 -y 20; sleep 0.3; tmux send-keys -t s.0 'clear; stty size' Enter; seen s.0 '^20 100'
tmux send-keys -t s.1 'exit' Enter; sleep 0.5; tmux list-panes -t s -F '#{pane_index}' | wc -l
tmux kill-server; sleep 0.2; tmux ls 2>&1 | cut -c1-9
X
}
# What is not seen outside either would prove nothing.
fresh
if missed=$(native bash panes.sh </dev/null 2>&1 | grep 'does not'); then fail panes_outside "$missed"; else pass panes_outside; fi
same panes 'bash panes.sh'
same script 'script -qec "tty | cut -c1-9; stty size; echo x >&2; exit 3" log </dev/null; echo $?; script -qc "cat; echo done" log2 <<<"piped"; grep -c done log2; rm log log2'
same expect_like 'python3 - <<"X"
import os, pty, select, time
pid, fd = pty.fork()
if pid == 0: os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
got = b""
def until(what):
    global got
    while what not in got:
        if not select.select([fd], [], [], 20)[0]: return got + b" TIMEOUT"
        try: got += os.read(fd, 4096)
        except OSError: return got + b" EOF"
    got = got[got.index(what) + len(what):]
    return b"ok"
os.write(fd, b"PS1=\"R\"\"EADY \"\n"); print(until(b"READY "))
os.write(fd, b"echo $((6*7))\n"); print(until(b"42\r\n"), until(b"READY "))
os.write(fd, b"cat\n"); time.sleep(0.3); os.write(fd, b"\x03"); print(until(b"READY ")); os.write(fd, b"echo rc=$?\n"); print(until(b"rc=130"))
os.write(fd, b"sleep 50 &\n"); print(until(b"[1]")); os.write(fd, b"kill %1; wait %1; echo gone\n"); print(until(b"gone\r\n"))
os.write(fd, b"exit 9\n"); print(until(b"EOF TIMEOUT")[-4:]); print(os.waitpid(pid, 0)[1] >> 8)
X'
finish
