#!/usr/bin/env bash
# A sandbox as a job of a shell outside: in the background it reads nothing from the terminal and changes nothing there.
. "$(dirname "$0")/lib.sh"
need python3

# A small shell with job control, on a terminal of its own: `case COMMAND…` starts COMMAND as a job and says what becomes of it.
cat >"$base/jobs.py" <<'P'
import fcntl, os, pty, select, signal, sys, termios, time
case, command = sys.argv[1], sys.argv[2:]
master, slave = pty.openpty()
shell = os.fork()
if shell:
    os.close(slave)
    out = b''
    while True:  # what the terminal shows, until the last of them is gone
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        out += part
        if b'TYPE' in part:
            os.write(master, b'typed\n\x04')
    os.waitpid(shell, 0)
    print(out.decode().replace('\r\n', '\n').replace('TYPE', '').rstrip('\n'))
    sys.exit()
os.close(master)
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
for fd in range(3):
    os.dup2(slave, fd)
os.close(slave)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)

def say(what):
    os.write(1, (what + '\n').encode())

def start(foreground=False, prepare=lambda: None):
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        if foreground:
            os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        prepare()
        os.execvp(command[0], command)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass
    return pid

def wait(pid):
    status = os.waitpid(pid, os.WUNTRACED)[1]
    if os.WIFSTOPPED(status):
        say('stopped by ' + signal.Signals(os.WSTOPSIG(status)).name)
    else:
        say(f'ended with {os.waitstatus_to_exitcode(status)}')

def to_foreground(pid):
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)

if case == 'background':    # stops; continued there it stops again; in the foreground it goes on
    job = start()
    wait(job)
    os.killpg(job, signal.SIGCONT)
    wait(job)
    to_foreground(job)
    say('TYPE')
    wait(job)
elif case == 'orphaned':    # nobody could continue it: EIO
    between = os.fork()
    if between == 0:
        ready, go = os.pipe()
        def prepare():
            os.read(ready, 1)  # until its parent is gone
        def close_go():
            os.close(go)
            prepare()
        start(prepare=close_go)
        os._exit(0)
    os.waitpid(between, 0)
    time.sleep(3)
elif case == 'ignored':
    job = start(prepare=lambda: signal.signal(signal.SIGTTIN, signal.SIG_IGN))
    wait(job)
elif case == 'modes':       # of the terminal, before and after a job in the background that wants others
    before = termios.tcgetattr(0)
    job = start()
    wait(job)
    say('modes ' + ('kept' if termios.tcgetattr(0) == before else 'changed'))
    to_foreground(job)
    wait(job)
    os.tcsetpgrp(0, os.getpgrp())
    say('modes ' + ('kept' if termios.tcgetattr(0) == before else 'changed'))
elif case == 'tostop':
    modes = termios.tcgetattr(0)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, modes)
    job = start()
    wait(job)
    to_foreground(job)
    wait(job)
elif case == 'suspended':   # as by Ctrl-Z, then `bg`
    job = start(foreground=True)
    time.sleep(1.5)
    os.killpg(job, signal.SIGTSTP)
    wait(job)
    os.tcsetpgrp(0, os.getpgrp())
    os.killpg(job, signal.SIGCONT)
    wait(job)
    to_foreground(job)
    say('TYPE')
    wait(job)
P

# job NAME CASE COMMAND: COMMAND as a job natively and inside comes to the same.
job() {
  local outside within
  fresh
  outside=$(native python3 "$base/jobs.py" "$2" bash -c "$3" 2>&1)
  within=$(timeout -k 5 60 "${clean_env[@]}" python3 "$base/jobs.py" "$2" "$UKS" exec --quiet -- bash -c "$3" 2>&1)
  if [[ $outside == "$within" && -n $outside ]]; then
    pass "$1"
  else
    fail "$1"
    diff <(echo "$outside") <(echo "$within")
  fi
}
job reading_stops_the_job background 'exec cat'
job reading_stops_a_pipeline background 'cat | sort'
job reading_in_a_shell background 'read line; echo "got $line"'
job orphans_get_eio orphaned 'cat; echo "$?" >&2'
job who_ignores_it_gets_eio ignored 'cat; echo "$?"'
job changing_modes_stops_the_job modes 'stty -echo; stty echo; echo changed'
job printing_stops_it_if_asked_to tostop 'echo printed'
job suspended_and_resumed_in_the_background suspended 'exec cat'
finish
