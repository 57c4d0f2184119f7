#!/usr/bin/env bash
# inotify over changes that the host makes to a shared tree while somebody inside watches it.
. "$(dirname "$0")/lib.sh"
need python3

# watch.py MASK PATH...: prints events with, of names, whether they exist; ends after a file `end` came.
cat >"$base/watch.py" <<'X'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0o2000000)
names = {0x2: "MODIFY", 0x4: "ATTRIB", 0x8: "CLOSE_WRITE", 0x40: "FROM", 0x80: "TO", 0x100: "CREATE", 0x200: "DELETE",
         0x400: "DELETE_SELF", 0x800: "MOVE_SELF", 0x4000: "LOST", 0x8000: "IGNORED", 0x40000000: "ISDIR"}
for path in sys.argv[2:]:
    print(libc.inotify_add_watch(fd, path.encode(), int(sys.argv[1], 16)), flush=True)
print("ready", flush=True)
cookies = {}
while True:
    data = os.read(fd, 65536)
    while data:
        wd, mask, cookie, length = struct.unpack("iIII", data[:16])
        name, data = data[16:16 + length].rstrip(b"\0").decode(), data[16 + length:]
        number = cookies.setdefault(cookie, len(cookies)) if cookie else ""
        print(wd, "|".join(n for bit, n in names.items() if mask & bit), name, number, flush=True)
        if name == "end":
            sys.exit()
X

# watched NAME MASK CHANGES [FLAGS...]: watching the project and its file f, inside as outside, while the host runs CHANGES.
watched() {
  local name=$1 mask=$2 changes=$3 where out=$base/watched
  shift 3
  for where in native inside; do
    fresh
    echo 0 >f
    mkdir sub
    if [[ $where == native ]]; then
      native python3 "$base/watch.py" "$mask" . f >"$out.$where" 2>&1 &
    else
      timeout --kill-after=5 60 "${clean_env[@]}" "$UKS" exec --quiet --ro "$base/watch.py" "$@" -- python3 "$base/watch.py" "$mask" . f >"$out.$where" 2>&1 &
    fi
    for _ in $(seq 3000); do
      grep -q ready "$out.$where" && break
      sleep 0.02
    done
    (eval "$changes"; : >end)
    wait
  done
  # Equal events in a row are one, unless the first was read before the second came.
  uniq "$out.native" >"$out.n"
  uniq "$out.inside" >"$out.i"
  if diff -u "$out.n" "$out.i" >"$out.diff"; then pass "$name"; else fail "$name"; cat "$out.diff"; fi
}

watched files fce 'echo 1 >a; echo 2 >>f; echo 3 >>f; chmod 600 a; touch -d @5 a; ln a b; rm b; : >a; rm a'
watched moves fce 'echo 1 >a; mv a b; mv b sub/c; mv sub/c d; mv d f'
watched directories fce 'mkdir d; echo 1 >d/x; rm -r d; ln -s x l; rm l; mkfifo p; rm p; mkdir -p q/r; mv q sub/; mv sub s'
watched replaced fce 'echo 1 >f.new; mv f.new f; echo 2 >>f; rm f; echo 3 >f'
watched some_events 302 'for i in $(seq 50); do echo $i >n$i; done; rm n*; echo 1 >>f'

# What is told is there at once, however short a time names are believed.
seen_at_once() {
  fresh
  inside -- python3 -c '
import ctypes, os, struct
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
assert libc.inotify_add_watch(fd, b".", 0x380) == 1
print("ready", flush=True)
bad = 0
while True:
    data = os.read(fd, 65536)
    while data:
        wd, mask, cookie, length = struct.unpack("iIII", data[:16])
        name, data = data[16:16 + length].rstrip(b"\0").decode(), data[16 + length:]
        if name == "end": print("bad", bad, flush=True); os._exit(0)
        if mask & 0x180 and not os.path.exists(name) and not os.path.exists(name + ".moved"): bad += 1
        os.path.exists("m" + name)' >"$base/out" 2>&1 &
  for _ in $(seq 3000); do grep -q ready "$base/out" && break; sleep 0.02; done
  for i in $(seq 100); do : >"n$i"; : >"mn$i"; done
  : >end
  wait
  grep -qx 'bad 0' "$base/out" || { cat "$base/out"; return 1; }
}
seen_at_once && pass seen_at_once || fail seen_at_once

# Both sides at once: own changes are told once, the others' as well.
both_sides() {
  fresh
  inside -- python3 -c '
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0o4000)
assert libc.inotify_add_watch(fd, b".", 0x300) == 1
print("ready", flush=True)
seen, end = {}, False
for i in range(300):
    open(f"in{i}", "w").close(); os.unlink(f"in{i}")
deadline = time.time() + 30
while not end and time.time() < deadline:
    try: data = os.read(fd, 65536)
    except BlockingIOError: time.sleep(0.005); continue
    while data:
        wd, mask, cookie, length = struct.unpack("iIII", data[:16])
        name, data = data[16:16 + length].rstrip(b"\0").decode(), data[16 + length:]
        end = end or name == "end"
        seen[(mask, name)] = seen.get((mask, name), 0) + 1
wrong = [k for i in range(300) for k in ((0x100, f"in{i}"), (0x200, f"in{i}"), (0x100, f"out{i}"), (0x200, f"out{i}")) if seen.get(k) != 1]
print("wrong", len(wrong), [(k, seen.get(k)) for k in wrong[:5]], end)' >"$base/out" 2>&1 &
  for _ in $(seq 3000); do grep -q ready "$base/out" && break; sleep 0.02; done
  for i in $(seq 0 299); do : >"out$i"; rm "out$i"; done
  sleep 1
  : >end
  wait
  grep -q '^wrong 0' "$base/out" || { cat "$base/out"; return 1; }
}
both_sides && pass both_sides || fail both_sides

# Names that a rule makes absent are not told: the home directory around a project.
hidden_names() {
  fresh
  mkdir -p "$base/home/p"
  cd "$base/home" || return 1
  timeout 10 "${clean_env[@]}" "$UKS" exec --quiet -- python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0o4000)
libc.inotify_add_watch(fd, os.environ["HOME"].encode(), 0xfff)
print("ready", flush=True)
time.sleep(1)
try: print(os.read(fd, 4096))
except BlockingIOError: print("nothing")' >"$base/out" 2>&1 &
  for _ in $(seq 3000); do grep -q ready "$base/out" && break; sleep 0.02; done
  echo s >"$base/home/.netrc"
  rm "$base/home/.netrc"
  wait
  ! grep -q netrc "$base/out" || { cat "$base/out"; return 1; }
}
hidden_names && pass hidden_names || fail hidden_names

# Nobody watches, but what is known of a directory is believed until the host changes something: whatever the host had
# done before the guest heard of it by another way (here its standard input) has to be seen.
told_by_pipe() {
  fresh
  mkdir d d/s
  for i in $(seq 60); do echo 0 >"d/f$i"; done
  # Orders on stdin: NAME CHECK...; the answer says what is wrong.
  cat >"$base/check.py" <<'X'
import os, sys
wrong = 0
def look():  # so that everything is known, and asked for often enough to be believed
    for name in os.listdir("d"):
        try: os.stat("d/" + name)
        except FileNotFoundError: pass
    for i in range(60): os.path.exists(f"d/none{i}")
for _ in range(3): look()
print("ready", flush=True)
for line in sys.stdin:
    op, name, value = line.split()
    path = "d/" + name
    if op == "size": ok = os.stat(path).st_size == int(value)
    elif op == "mode": ok = os.stat(path).st_mode & 0o777 == int(value, 8)
    elif op == "gone": ok = not os.path.exists(path) and name not in os.listdir("d")
    elif op == "there": ok = os.path.exists(path) and name in os.listdir("d")
    elif op == "text": ok = open(path).read() == value
    elif op == "inner": ok = os.path.exists(path + "/" + value)
    if not ok: wrong += 1; print("wrong", line, flush=True)
    look()
    print("next", flush=True)
print("done", wrong, flush=True)
X
  coproc inside --rw . --ro "$base/check.py" -- python3 "$base/check.py" 2>"$base/err"
  local answer rounds=0
  read -r answer <&"${COPROC[0]}" && [[ $answer == ready ]] || { cat "$base/err"; return 1; }
  ask() {
    echo "$*" >&"${COPROC[1]}"
    read -r answer <&"${COPROC[0]}"
    rounds=$((rounds + 1))
    [[ $answer == next ]] || { echo "$answer"; return 1; }
  }
  local i
  for i in $(seq 25); do
    printf '%0*d' "$i" 0 >"d/f$i"; ask size "f$i" "$i" || break
    chmod 6"$((i % 8))"4 "d/f$i"; ask mode "f$i" "6$((i % 8))4" || break
    rm "d/f$i"; ask gone "f$i" - || break
    : >"d/none$i"; ask there "none$i" - || break
    mv "d/none$i" "d/f$i"; ask gone "none$i" - || break
    ask there "f$i" - || break
    printf 'text%d' "$i" >"d/new"; mv d/new "d/f$i"; ask text "f$i" "text$i" || break
    mkdir "d/s/in$i"; ask inner s "in$i" || break
    mv d/s d/t; ask gone s - || break
    ask inner t "in$i" || break
    mv d/t d/s; ask inner s "in$i" || break
  done
  eval "exec ${COPROC[1]}>&-"
  read -r answer <&"${COPROC[0]}"
  wait
  [[ $answer == 'done 0' && $rounds == 275 ]] || { echo "$answer after $rounds"; return 1; }
}
told_by_pipe 2>"$base/told.err" && pass told_by_pipe || { fail told_by_pipe; head -5 "$base/told.err"; }

same tail_follow_by_name 'echo 1 >log; (sleep 0.3; mv log log.1; echo 2 >log; sleep 1.2) & timeout 8 tail -F --pid=$! -n +1 log 2>/dev/null; echo $?'
finish
