#!/usr/bin/env bash
# UKS_FEATURES: programs run without each kernel feature that uks can do without, and without all of them;
# doctor says what is masked; ps lists what runs.
. "$(dirname "$0")/lib.sh"

# with LIST: what comes after runs with these features masked.
with() { clean_env+=("UKS_FEATURES=$1"); }
plain_env=("${clean_env[@]}")

programs() {
  local mask=$1
  clean_env=("${plain_env[@]}")
  with "$mask"
  local tag=${mask//[,]/_}
  tag=${tag//-/no_}
  same "$tag.shell" 'for i in 1 2 3; do (echo $i | cat); done; x=$(echo sub); echo $x; trap "echo trapped" USR1; kill -USR1 $$; exit 4'
  same "$tag.files" 'mkdir d; seq 1000 | sort -r | head -3 >d/f; cat d/f; cp -r d e; find . | sort'
  same "$tag.signals" 'sleep 100 & kill %1; wait %1 2>/dev/null; echo $?; timeout 0.2 sleep 5; echo $?'
  same "$tag.python" 'command -v python3 >/dev/null || exit 77; /usr/bin/python3 -c "
import threading, subprocess
t = [threading.Thread(target=lambda: out.append(sum(range(10000)))) for out in [[]] for _ in range(20)]
[x.start() for x in t]; [x.join() for x in t]
print(subprocess.run([\"echo\", \"child\"], capture_output=True).stdout)"'
  same "$tag.perl" 'command -v perl >/dev/null || exit 77; perl -e "\$p = fork // die; if (!\$p) { exit 7 } waitpid \$p, 0; print \$? >> 8, qq(\n)"'
}
for mask in -sync_wake -mseal -pidfd_thread -landlock -fsgsbase -userns -proc_mem \
            -sync_wake,-mseal,-pidfd_thread,-landlock,-fsgsbase,-userns,-proc_mem; do
  programs "$mask"
done
clean_env=("${plain_env[@]}")

hwcap2() { timeout 60 "${plain_env[@]}" "UKS_FEATURES=$1" "$UKS" exec --quiet --env LD_SHOW_AUXV=1 -- /bin/true | sed -n 's/^AT_HWCAP2: *//p'; }
fsgsbase_is_hidden() { (($(hwcap2 -fsgsbase) == ($(hwcap2 '') & ~2))); }
check fsgsbase_is_hidden_from_programs fsgsbase_is_hidden

# Without the listener the other platform takes over; it says so, unless told to be quiet.
for mask in -notify -wait_killable -wait_killable,-sync_wake,-mseal,-pidfd_thread,-landlock,-notify,-fsgsbase,-userns; do
  programs "$mask"
done
clean_env=("${plain_env[@]}")
falls_back() { # LIST PATTERN
  local out
  out=$(timeout -k 1 30 "${plain_env[@]}" "UKS_FEATURES=$1" "$UKS" exec -- true 2>&1 </dev/null) || return
  [[ $out == *$2*ptrace* && $out != *$'\n'* ]] || { echo "$out"; return 1; }
}
check notify_falls_back falls_back -notify 'needs seccomp user notifications'
check wait_killable_falls_back falls_back -wait_killable 'needs Linux 5.19'

# What cannot be missing says so in one line.
refused() { # NAME LIST PATTERN
  local out rc
  out=$(timeout -k 1 30 "${plain_env[@]}" "UKS_FEATURES=$2" "$UKS" exec --quiet --platform trap -- true 2>&1 </dev/null)
  rc=$?
  if ((rc == 125)) && [[ $out == uks:\ *$3* && $out != *$'\n'* ]]; then pass "$1"; else fail "$1" "status $rc: $out"; fi
}
refused needs_notify -notify 'trap needs seccomp user notifications'
refused needs_wait_killable -wait_killable 'trap needs Linux 5.19'
refused all_masked -wait_killable,-sync_wake,-mseal,-pidfd_thread,-landlock,-notify,-fsgsbase,-userns 'trap needs'
refused unknown_feature -mseal,-warp '-warp is no feature'
refused no_minus mseal 'mseal is no feature'

# ---- doctor
doctor() { "${plain_env[@]}" "$@"; }
check doctor_says_yes bash -c '"$1" doctor | grep -q "Sandboxes can run here"' _ "$UKS"
check doctor_names_every_feature bash -c 'for f in wait_killable sync_wake mseal pidfd_thread landlock notify fsgsbase userns cgroup process_vm_readv proc; do "$1" doctor | grep -qE "^  $f +(yes|no) " || { echo $f; exit 1; }; done' _ "$UKS"
check doctor_shows_masks bash -c 'UKS_FEATURES=-landlock,-mseal "$1" doctor | grep -cE "^  (landlock|mseal) +masked" | grep -qx 2' _ "$UKS"
check doctor_says_what_it_would_add bash -c 'UKS_FEATURES=-landlock "$1" doctor | grep -q "landlock: would add"' _ "$UKS"
check doctor_names_the_fallback bash -c 'UKS_FEATURES=-notify "$1" doctor | grep -q "can run here (platform ptrace)"' _ "$UKS"
if command -v python3 >/dev/null; then
  check doctor_json bash -c 'UKS_FEATURES=-mseal "$1" doctor --json | /usr/bin/python3 -c "
import json, sys
d = json.load(sys.stdin)
f = {x[\"name\"]: x for x in d[\"features\"]}
assert d[\"can_run\"] and f[\"mseal\"][\"masked\"] and not f[\"mseal\"][\"present\"] and f[\"seccomp\"][\"required\"] and d[\"platform\"] == \"trap\"
assert all(x[\"adds\"] for x in d[\"features\"])"' _ "$UKS"
fi
check doctor_inside_says_no bash -c '"$@" | grep -q "cannot run here"' _ timeout 60 "${plain_env[@]}" "$UKS" exec --quiet --ro "$UKS" -- "$UKS" doctor

# ---- ps
cd "$base" || exit 1
"${plain_env[@]}" "$UKS" exec --quiet -- sh -c 'echo up; sleep 61; :' >"$base/up" 2>&1 </dev/null &
keeper=$!
for ((i = 0; i < 200; i++)); do
  grep -q up "$base/up" && break
  sleep 0.05
done
"$UKS" ps >"$base/ps"
"$UKS" ps --processes >"$base/ps_processes"
"$UKS" ps --json --processes >"$base/ps.json"
check ps_lists_it grep -qE "^ *$keeper +$EUID +[0-9:]+ +[0-9]+  sh -c echo up; sleep 61; :$" "$base/ps"
check ps_keeper grep -qE "^ +$keeper  keeper " "$base/ps_processes"
# Every process in the family of the keeper is there.
family() {
  local pid bad=0
  for pid in $(pgrep -P "$keeper") $(pgrep -P "$(pgrep -P "$keeper" -f role=sentry)"); do
    grep -qE "^ +$pid  (sentry|gofer|guard|zygote|stub) " "$base/ps_processes" || { echo "process $pid is missing"; bad=1; }
  done
  return $bad
}
check ps_all_processes family
check ps_roles bash -c 'for r in keeper:1 sentry:1 gofer:1 guard:1 zygote:2; do awk -v k="$2" "\$1 == k && NF > 4 && \$2 ~ /^[0-9]+\$/ {on=1; next} \$2 ~ /^[0-9]+\$/ {on=0} on" "$1" | grep -c " ${r%:*} " | grep -qx "${r#*:}" || { echo $r; exit 1; }; done' _ "$base/ps_processes" "$keeper"
if command -v python3 >/dev/null; then
  check ps_json /usr/bin/python3 -c "
import json, sys
boxes = [b for b in json.load(open('$base/ps.json'))['sandboxes'] if b['pid'] == $keeper]
assert len(boxes) == 1 and boxes[0]['command'][:2] == ['sh', '-c'], boxes
roles = [p['role'] for p in boxes[0]['processes']]
assert roles.count('sentry') == 1 and roles.count('keeper') == 1 and 'stub' in roles, roles"
fi
"${plain_env[@]}" "$UKS" exec --quiet --platform ptrace -- sleep 62 </dev/null &
traced=$!
for ((i = 0; i < 100; i++)); do
  (($("$UKS" ps --processes | awk -v k=$traced '$1 == k && NF > 4 {on=1; next} NF > 4 && $2 ~ /^[0-9]+$/ {on=0} on && $2 == "stub"' | wc -l) > 2)) && break
  sleep 0.1
done
check ps_one_traced_zygote bash -c '"$1" ps --processes | awk -v k="$2" "\$1 == k && \$2 ~ /^[0-9]+\$/ {on=1; next} \$2 ~ /^[0-9]+\$/ {on=0} on" | grep -c " zygote " | grep -qx 1' _ "$UKS" "$traced"
kill "$traced"
wait "$traced" 2>/dev/null
if ((EUID == 0)) && command -v setpriv >/dev/null; then
  install -m 755 "$UKS" "$base/uks-copy"
  check ps_shows_nobody_elses bash -c '! setpriv --reuid=23457 --regid=23457 --clear-groups "$1" ps | grep -q "sleep 61"' _ "$base/uks-copy"
fi
kill "$keeper"
wait "$keeper" 2>/dev/null
check ps_forgets bash -c '! "$1" ps | grep -qE "^ *$2 "' _ "$UKS" "$keeper"

# Users that a package's script adds are there as long as the sandbox.
useradd_works() {
  fresh
  inside -- sh -c 'PATH=$PATH:/usr/sbin; useradd -M somebody && id -un somebody && passwd -S somebody' >"$base/out" 2>&1
  grep -qx somebody "$base/out" && ! grep -q somebody /etc/passwd || { cat "$base/out"; return 1; }
}
if ((EUID == 0)) && command -v useradd >/dev/null; then check useradd useradd_works; fi
finish
