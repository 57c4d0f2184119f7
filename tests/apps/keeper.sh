#!/usr/bin/env bash
# The keeper: exit codes, signals, time limits, the death of each process, the caller's terminal.
posture=$(cd "$(dirname "$0")/../posture" && pwd)
. "$(dirname "$0")/lib.sh"
need python3

# status NAME WANT ARGS...: uks exec with ARGS ends with WANT.
status() {
  local name=$1 want=$2 rc
  shift 2
  fresh
  inside "$@" >"$base/out" 2>&1 </dev/null
  rc=$?
  if ((rc == want)); then
    pass "$name"
  else
    fail "$name" "status $rc (wanted $want)"
    head -5 "$base/out"
  fi
}

status own_code 7 -- sh -c 'exit 7'
status code_255 255 -- sh -c 'exit 255'
status killed 137 -- sh -c 'kill -9 $$'
status terminated 143 -- sh -c 'kill -TERM $$'
status timeout 124 --timeout 300ms -- sleep 60
status timeout_of_the_deaf 124 --timeout 300ms -- sh -c 'trap "" TERM; while :; do sleep 1; done'
status in_time 3 --timeout 1m -- sh -c 'exit 3'

# Starts `uks exec -- sh -c SCRIPT` in the background and waits until it has written "ready".
start() {
  fresh
  rm -f "$base/out"  # the background opens it later than we look: it would say what the last one said
  "${clean_env[@]}" "$UKS" exec --quiet --log-level debug --log-file "$base/log" -- sh -c "$1" \
    >"$base/out" 2>"$base/err" </dev/null &
  keeper=$!
  local i
  for ((i = 0; i < 100; i++)); do
    grep -qs ready "$base/out" && return
    sleep 0.1
  done
}
# The processes of the sandbox whose keeper is $keeper, itself aside.
processes() {
  local sentry
  sentry=$(pgrep -P "$keeper" -f -- --role=sentry)
  echo $(pgrep -P "$keeper") ${sentry:+$(pgrep -P "$sentry")}
}
alive() {
  local pid
  for pid in "$@"; do
    [[ $(ps -o stat= -p "$pid") == [^Z]* ]] && return 0
  done
  return 1
}

signal_reaches_the_guest() {
  start 'trap "echo got; exit 5" '"$1"'; echo ready; while :; do sleep 0.1; done'
  kill -"$1" "$keeper"
  wait "$keeper"
  local rc=$?
  grep -q got "$base/out" && ((rc == 5)) && return
  echo "status $rc"
  cat "$base/out" "$base/err"
  tail -20 "$base/log"
  return 1
}
check sigterm signal_reaches_the_guest TERM
check sighup signal_reaches_the_guest HUP
check sigusr1 signal_reaches_the_guest USR1

# death_of NAME STATUS: killing that process takes the whole sandbox with it within a second.
death_of() {
  local victim all rc
  start 'sleep 60 & sleep 61 & echo ready; sleep 62'
  all=$(processes)
  case $1 in
    keeper) victim=$keeper ;;
    *) victim=$(pgrep -P "$keeper" -f -- "--role=$1") ;;
  esac
  [[ -n $victim && -n $all ]] || {
    echo "no processes found (keeper $keeper: $(ps -o stat,args -p "$keeper"))"
    cat "$base/out" "$base/err"
    tail -5 "$base/log"
    return 1
  }
  kill -9 "$victim"
  sleep 1
  if alive $all; then
    echo "still alive: $(ps -o pid,stat,args -p "$(tr ' ' , <<<"$all")")"
    return 1
  fi
  wait "$keeper"
  rc=$?
  ((rc == $2)) || { echo "status $rc"; return 1; }
}
check death_of_the_keeper death_of keeper 137
check death_of_the_sentry death_of sentry 125
check death_of_the_gofer death_of gofer 125

# Without close_range(2): Linux before 5.9, filters of containers that are older than it.
cat >"$base/old_filter" <<PY
#!/usr/bin/env python3
import os, sys
sys.path.insert(0, "$posture")
import launcher
launcher.load_filter({"last_known": 1000, "refused": {"ENOSYS": {"close_range": 436}}, "clone_flags_refused": 0,
                      "personality_allowed": [0, 8, 0xffffffff], "socket_families_refused": []})
os.execvp(sys.argv[1], sys.argv[1:])
PY
chmod 755 "$base/old_filter"
nothing_leaks_into_roles() {
  local pid fd bad=0
  exec {fd}</etc/hostname
  start 'echo ready; sleep 60'
  for pid in $(processes); do
    if ls -l "/proc/$pid/fd" | grep -q /etc/hostname; then
      echo "process $pid: $(ls -l "/proc/$pid/fd")"
      bad=1
    fi
  done
  exec {fd}<&-
  kill -9 "$keeper"
  wait "$keeper"
  return $bad
}
check nothing_leaks_into_roles nothing_leaks_into_roles
plain_env=("${clean_env[@]}")
clean_env=("$base/old_filter" "${clean_env[@]}")
check without_close_range.nothing_leaks_into_roles nothing_leaks_into_roles
for role in keeper sentry gofer; do
  check "without_close_range.death_of_the_$role" death_of $role "$([[ $role == keeper ]] && echo 137 || echo 125)"
done
clean_env=("${plain_env[@]}")

# Descriptors of low number are all that may be had: hundreds of threads map files.
few_descriptors() {
  fresh
  echo content >file
  (ulimit -n 256; inside -- /usr/bin/python3 -c '
import mmap, threading
gate = threading.Event()
def f():
    with open("file") as file: text = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:7]
    assert text == b"content"
    good.append(1); ready.release(); gate.wait()
good = []; ready = threading.Semaphore(0)
threads = [threading.Thread(target=f) for _ in range(300)]
for t in threads: t.start(); ready.acquire()
gate.set(); [t.join() for t in threads]
print(len(good))') >"$base/out" 2>&1
  grep -qx 300 "$base/out" || { cat "$base/out"; return 1; }
}
check few_descriptors few_descriptors

# Who allows too little is told so, in one line, at once.
low_limit() {  # OPTION VALUE
  fresh
  (ulimit "-$1" "$2"; inside -- /bin/true) >"$base/out" 2>&1
  [[ $? == 125 && $(wc -l <"$base/out") == 1 ]] && grep -q "^uks: the limit of .* is $2 here (ulimit -H$1); a sandbox needs" "$base/out" || { cat "$base/out"; return 1; }
}
check low_limit.files low_limit n 64
check low_limit.address_space low_limit v 500000
check low_limit.data low_limit d 8000
check low_limit.file_size low_limit f 8

# What the caller may raise is the command's own limit, and nothing else's.
low_soft_limit_of_file_size() {
  fresh
  (ulimit -Sf 1
    inside --env "LONG=$(head -c 50000 /dev/zero | tr '\0' x)" -- bash -c 'echo ${#LONG} $(ulimit -f); head -c 5000 /dev/zero >/tmp/x; stat -c %s /tmp/x') >"$base/out" 2>&1
  [[ $(sed -n 1p "$base/out") == "50000 1" && $(tail -n 1 "$base/out") == 1024 ]] || { cat "$base/out"; return 1; }
}
check low_soft_limit_of_file_size low_soft_limit_of_file_size

nothing_is_left() {
  start 'sleep 60 & setsid sleep 61 & echo ready; exit 4'
  local all
  all=$(processes)
  wait "$keeper"
  [[ $? == 4 ]] && ! alive $all
}
check nothing_is_left nothing_is_left

# A shell with job control on a terminal of its own; the script gets keys and looks at modes.
terminal() {
  fresh
  "${clean_env[@]}" UKS="$UKS" python3 - "$1" <<'PY'
import os, pty, random, re, select, signal, subprocess, sys, termios, time
uks = os.environ["UKS"] + " exec --quiet -- "
pid, fd = pty.fork()
if pid == 0:
    # In the background of a script they are ignored, and stay so.
    for signo in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(signo, signal.SIG_DFL)
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
text = ""
def expect(pattern, seconds=15):
    global text
    end = time.time() + seconds
    while True:
        found = re.search(pattern, text)
        if found:
            text = text[found.end():]
            return
        if time.time() > end:
            sys.exit(f"no {pattern!r} in {text!r}")
        if select.select([fd], [], [], 0.1)[0]:
            text += os.read(fd, 65536).decode(errors="replace")
def keys(line):
    os.write(fd, line.encode())
def local_modes():
    return termios.tcgetattr(fd)[3] & (termios.ECHO | termios.ICANON)
def wait_modes(wanted):
    for _ in range(100):
        if local_modes() == wanted:
            return
        time.sleep(0.05)
    sys.exit(f"modes are {local_modes()}, not {wanted}")
def parent_of(process):
    try:
        return int(open(f"/proc/{process}/stat").read().rsplit(")")[1].split()[1])
    except OSError:  # another sandbox's, which has ended meanwhile
        return 0
def children(parent, role):
    out = subprocess.run(["pgrep", "-f", "--", "--role=" + role], capture_output=True, text=True).stdout
    return [int(p) for p in out.split() if parent_of(parent_of(int(p))) == parent]
keys("PS1='ready''$ '\n")
expect(r"ready\$ ")
normal = local_modes()
case = sys.argv[1]
if case == "restored":
    keys(uks + "sh -c 'stty raw -echo; exit 3'; echo code=$?\n")
    expect(r"code=3")
    expect(r"ready\$ ")
    wait_modes(normal)
elif case == "restored_after_kill":
    keys(uks + "sh -c 'stty -icanon -echo; echo up; sleep 60'; echo code=$?\n")
    expect(r"up\r?\n")
    wait_modes(0)
    victims = children(pid, "sentry")
    assert len(victims) == 1, victims
    os.kill(victims[0], signal.SIGKILL)
    expect(r"code=125")
    expect(r"ready\$ ")
    wait_modes(normal)
elif case == "interrupt":
    keys(uks + "sleep 60; echo code=$?\n")
    time.sleep(1)
    keys("\x03")
    expect(r"code=130")
elif case == "interrupt_early":
    for i in range(25):
        keys(uks + "sleep 60; echo code=$?\n")
        time.sleep(random.uniform(0, 0.03))
        # The shell may be first, and give the line up, or not listen: again until somebody does.
        found = None
        while not found:
            keys("\x03")
            for _ in range(20):
                if select.select([fd], [], [], 0.1)[0]:
                    text += os.read(fd, 65536).decode(errors="replace")
                found = re.search(r"code=(\d+)\r?\n|\^C\r?\nready\$ ", text)
                if found:
                    break
        text = text[found.end():]
        if found[1] not in (None, "130"):
            sys.exit(f"round {i}: code {found[1]}, then {text!r}")
        if found[1]:
            expect(r"ready\$ ")
elif case == "quit":
    keys(uks + "sh -c 'trap \"echo caught; exit 9\" QUIT; echo up; while :; do sleep 0.1; done'; echo code=$?\n")
    expect(r"up\r?\n")
    keys("\x1c")
    expect(r"caught")
    expect(r"code=9")
elif case == "stop":
    # exec: a shell that waits in vfork(2) for a child that has stopped already is not stopped itself,
    # here as outside.
    keys(uks + "sh -c 'stty -echo; echo up; exec sleep 60'\n")
    expect(r"up\r?\n")
    keys("\x1a")
    expect(r"Stopped")
    expect(r"ready\$ ")
    wait_modes(normal)
    keys("fg\n")
    expect(r"uks")
    wait_modes(normal & ~termios.ECHO)
    keys("\x03")
    expect(r"ready\$ ")
    wait_modes(normal)
elif case == "background":
    keys(uks + "sh -c 'sleep 0.5; echo done-it' & wait; echo code=$?\n")
    expect(r"done-it")
    expect(r"code=0")
keys("exit\n")
PY
}
for case in restored restored_after_kill interrupt interrupt_early quit stop background; do
  check "terminal_$case" terminal "$case"
done

# Signals at random moments of the start. Nothing may be left of what is killed, nothing be lost of what is asked.
at_random_moments() {
  fresh
  "${clean_env[@]}" UKS="$UKS" python3 - "$1" <<'PY'
import ctypes, os, random, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
signo = getattr(signal, "SIG" + sys.argv[1])
def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read().split()
for i in range(60):
    uks = subprocess.Popen([os.environ["UKS"], "exec", "--quiet", "--", "sleep", "30"])
    time.sleep(random.uniform(0, 0.02))
    uks.send_signal(signo)
    status = uks.wait(20)
    if status not in (-signo, 128 + signo):
        sys.exit(f"round {i}: status {status}")
    end = time.time() + 8
    while children():
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        if time.time() > end:
            sys.exit(f"round {i}: left over: " + subprocess.run(["ps", "-o", "pid,stat,comm,args", "--ppid", str(os.getpid())],
                                                              capture_output=True, text=True).stdout)
        time.sleep(0.01)
PY
}
for signo in KILL TERM HUP; do
  check "start.$signo" at_random_moments $signo
done

# The host has no room for all threads and processes: it says so, or works. Root has no such limit.
few_processes() {
  local limit rc as_user=()
  fresh
  ((EUID != 0)) || as_user=(setpriv --reuid=64000 --regid=64000 --clear-groups)
  [[ -x $UKS ]] && chmod 755 "$base"
  cp "$UKS" "$base/uks"
  for limit in {1..22} 24 30 40; do
    (cd / && timeout -k 1 30 prlimit --nproc="$limit" "${as_user[@]}" "${clean_env[@]}" "$base/uks" exec --quiet -- true) >"$base/out" 2>&1
    rc=$?
    ((rc == 0)) && continue
    # Gofer and sentry may both say it, with what they warned of before, and in any order.
    if ((rc != 125)) || ! grep -q -E '^uks: .*(refuse|unavailable)' "$base/out" || grep -E 'terminate|killed|internal|\.cc:' "$base/out"; then
      echo "limit $limit: status $rc"
      cat "$base/out"
      return 1
    fi
  done
  ((rc == 0))
}
check few_processes few_processes

nohup_is_kept() {
  fresh
  (trap '' HUP; "${clean_env[@]}" "$UKS" exec --quiet -- sh -c 'kill -HUP $$; echo survived')
}
check nohup_is_kept nohup_is_kept

closed_input() {
  fresh
  inside -- sh -c 'cat; echo status $?' <&- 2>&1 | grep -q 'Bad file descriptor'
}
check closed_input closed_input

quiet_notice() {
  cd / && "${clean_env[@]}" "$UKS" exec -- true 2>"$base/err" && grep -q -e '--rw \.' "$base/err" && (($(wc -l <"$base/err") == 1)) \
    && "${clean_env[@]}" "$UKS" exec --quiet -- true 2>"$base/err" && [[ ! -s $base/err ]]
}
check quiet_notice quiet_notice

finish
