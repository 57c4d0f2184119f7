#!/usr/bin/env bash
# What a running sandbox looks like from outside: filters, capabilities, ids, descriptors of each role; and
# that all of it goes when any of the trusted processes is killed.
. "$(dirname "$0")/lib.sh"
need pgrep

# start [COMMAND]: a sandbox in the background that says "up" and goes on; sets keeper, sentry, gofer, stubs, all.
start() {
  local i child
  cd "$base" || exit 1
  : >"$base/up"
  "${clean_env[@]}" "$UKS" exec --quiet -- sh -c "${1:-echo up; exec sleep 60}" >"$base/up" 2>&1 </dev/null &
  keeper=$!
  for ((i = 0; i < 400; i++)); do
    grep -q up "$base/up" && break
    sleep 0.05
  done
  sleep 0.3
  sentry=
  gofer=
  for child in $(pgrep -P "$keeper"); do
    case $(tr '\0' ' ' <"/proc/$child/cmdline") in
      *--role=sentry*) sentry=$child ;;
      *--role=gofer*) gofer=$child ;;
    esac
  done
  stubs=$(pgrep -P "${sentry:-0}" | tr '\n' ' ')
  all="$keeper $sentry $gofer $stubs"
}
stop() {
  kill -9 $all 2>/dev/null
  wait "$keeper" 2>/dev/null
}
# field PID NAME: a line of its status, without the name.
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
# each "PIDS" NAME WANT: the field is the same in all of them.
each() {
  local pid
  for pid in $1; do
    [[ $(field "$pid" "$2") == "$3" ]] || { echo "process $pid: $2 is $(field "$pid" "$2")"; return 1; }
  done
}
no_root_id() {
  local pid
  for pid in $sentry $stubs; do
    if grep -qE '^(Uid|Gid):.*\b0\b' "/proc/$pid/status" || [[ -n $(field "$pid" Groups | tr -d ' ') ]]; then
      echo "process $pid"
      grep -E '^(Uid|Gid|Groups):' "/proc/$pid/status"
      return 1
    fi
  done
}
# Capabilities that the gofer keeps as root: CHOWN, DAC_OVERRIDE, FOWNER, FSETID at most.
gofer_capabilities() {
  local have=$((16#$(field "$gofer" CapEff)))
  ((EUID == 0 ? (have & ~0x1b) == 0 : have == 0)) || { echo "CapEff $(field "$gofer" CapEff)"; return 1; }
}
# At most the one number of handed-over files, and that a regular file open for reading: what it mapped last.
one_descriptor_at_most() {
  local pid fd
  for pid in $stubs; do
    for fd in /proc/"$pid"/fd/*; do
      [[ -L $fd ]] || continue
      [[ ${fd##*/} == 5 && -f $fd && $(sed -n 's/^flags:[[:space:]]*//p' "/proc/$pid/fdinfo/5") =~ 0$ ]] && continue
      echo "stub $pid:"
      ls -l "/proc/$pid/fd"
      return 1
    done
  done
}
# The sentry holds no directory and, but for its streams, no file of the host that it could write to; what
# the guest runs is open for reading.
sentry_descriptors() {
  local fd target flags bad=0
  for fd in /proc/"$sentry"/fd/*; do
    target=$(readlink "$fd") || continue
    if [[ -d $fd && $target == /* && $target != /memfd:* ]]; then
      echo "directory: ${fd##*/} -> $target"
      bad=1
    fi
    case $target in
      /memfd:* | socket:* | pipe:* | anon_inode:* | /dev/null | /dev/tty* | /dev/pts/* | "$base/up" | \
        "/proc/"*/mem | "/proc/"*/maps) continue ;;
    esac
    flags=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$sentry/fdinfo/${fd##*/}")
    if (((8#$flags & 3) != 0)); then
      echo "writable: ${fd##*/} -> $target"
      bad=1
    fi
  done
  return $bad
}
stdio_only_where_it_belongs() {
  local pid fd
  for pid in $gofer; do
    for fd in 0 1; do [[ $(readlink "/proc/$pid/fd/$fd") == /dev/null ]] || { echo "gofer $fd"; return 1; }; done
  done
}

start
if [[ -z $sentry || -z $gofer || -z $stubs ]]; then
  fail start "keeper $keeper, sentry '$sentry', gofer '$gofer', stubs '$stubs': $(cat "$base/up")"
  stop
  finish
fi
pass start
check filters each "$sentry $gofer $stubs" Seccomp 2
check no_new_privileges each "$sentry $gofer $stubs" NoNewPrivs 1
for set in CapEff CapPrm CapInh CapAmb; do
  check "no_capabilities_$set" each "$sentry $stubs" $set 0000000000000000
done
check gofer_capabilities gofer_capabilities
if ((EUID == 0)); then check no_root_id no_root_id; fi
check stubs_have_one_descriptor_at_most one_descriptor_at_most
check sentry_descriptors sentry_descriptors
# Of processes that are not dumpable only root sees the descriptors.
if ((EUID == 0)); then check gofer_streams stdio_only_where_it_belongs; fi
check stubs_dump_no_core bash -c "for p in $stubs; do grep -q 'Max core file size *0 *0' /proc/\$p/limits || exit 1; done"
check not_traced each "$sentry $gofer $stubs" TracerPid 0
stop

# alive PID: it is there and no zombie.
alive() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }
  [[ ${stat:0:1} != [ZX] ]]
}
# all_gone SINCE: the processes of the sandbox are gone within UKS_END_MS of that moment (microseconds).
all_gone() {
  local pid left=$all still ms
  while :; do
    still=
    for pid in $left; do alive "$pid" && still+=" $pid"; done
    ms=$(((${EPOCHREALTIME/[.,]/} - $1) / 1000))
    [[ -z $still ]] && { ((ms <= ${UKS_END_MS:-1000})) && return 0; echo "gone after $ms ms"; return 1; }
    ((ms > 3 * ${UKS_END_MS:-1000})) && break
    left=$still
    sleep 0.01
  done
  echo "after $ms ms left:$still"
  ps -o pid,ppid,stat,wchan,args -p "$(tr -s ' ' , <<<"${still# }")" 2>/dev/null
  return 1
}
# ends_with NAME PID: kill -9 of that process takes all others along.
ends_with() {
  local since=${EPOCHREALTIME/[.,]/}
  kill -9 "$2"
  check "$1" all_gone "$since"
  stop
}
for role in keeper sentry gofer; do
  start
  ends_with "all_end_with_the_$role" "${!role}"
done
# One zygote: the sandbox ends, in order.
start
ends_with all_end_with_a_zygote "${stubs%% *}"
# Fifty processes inside, one with much memory, on a machine that has other things to do.
load=
for i in 1 2 3 4; do
  while :; do :; done &
  load+=" $!"
done
for role in keeper sentry gofer; do
  start 'for i in $(seq 50); do sleep 60 & done; head -c 200M /dev/zero | tail & sleep 1; echo up; wait'
  ends_with "fifty_processes_end_with_the_$role" "${!role}"
done
kill $load
wait $load 2>/dev/null

# Stubs of guests and of the pool are killed at random while a shell starts programs: it sees children that
# died, goes on to its end, and nothing hangs. Those that are there when it starts are spared: zygotes, and the
# shell itself.
"${clean_env[@]}" timeout --kill-after=5 100 "$UKS" exec --quiet -- bash -c \
  'echo up; for i in $(seq 150); do /bin/true & (exit 3) & sleep 0.01 | cat; wait; done; echo done' \
  >"$base/deaths" 2>/dev/null </dev/null &
keeper=$!
for ((i = 0; i < 400; i++)); do
  grep -q up "$base/deaths" && break
  sleep 0.02
done
uks=$(pgrep -P "$keeper" | head -1)
sentry=$(pgrep -P "${uks:-0}" -f role=sentry | head -1)
spared=" $(pgrep -P "${sentry:-0}" | tr '\n' ' ')"
killed=0
while kill -0 "$keeper" 2>/dev/null && ((killed < 60)); do
  for victim in $(pgrep -P "${sentry:-0}" | shuf); do
    [[ $spared == *" $victim "* ]] && continue
    kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
    break
  done
  sleep 0.01
done
wait "$keeper"
status=$?
check "stubs_die_at_random" test "$status $(tail -1 "$base/deaths") $((killed > 10))" = '0 done 1'
finish
