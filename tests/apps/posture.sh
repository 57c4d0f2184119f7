#!/usr/bin/env bash
# What a running sandbox looks like from outside: filters, capabilities, ids, descriptors of each role; and
# that all of it goes when any of the trusted processes is killed.
. "$(dirname "$0")/lib.sh"
need pgrep

# start: `uks exec -- sleep 60` in the background; sets keeper, sentry, gofer, stubs, all.
start() {
  local i child
  cd "$base" || exit 1
  "${clean_env[@]}" "$UKS" exec --quiet -- sh -c 'echo up; exec sleep 60' >"$base/up" 2>&1 </dev/null &
  keeper=$!
  for ((i = 0; i < 100; i++)); do
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
check gofer_streams stdio_only_where_it_belongs
check stubs_dump_no_core bash -c "for p in $stubs; do grep -q 'Max core file size *0 *0' /proc/\$p/limits || exit 1; done"
check not_traced each "$sentry $gofer $stubs" TracerPid 0
stop

# all_gone WITHIN_MS: the processes of the sandbox are gone (a zombie is, too).
all_gone() {
  local pid i left
  for ((i = 0; i < $1 / 50; i++)); do
    left=
    for pid in $all; do
      [[ -e /proc/$pid/status && $(field "$pid" State 2>/dev/null) != Z* && -n $(field "$pid" State 2>/dev/null) ]] && left+=" $pid"
    done
    [[ -z $left ]] && return 0
    sleep 0.05
  done
  echo "left:$left"
  ps -o pid,ppid,stat,args -p ${left// /,} 2>/dev/null
  return 1
}
for role in keeper sentry gofer; do
  start
  kill -9 "${!role}"
  # A second, with room for a busy machine.
  check "all_end_with_the_$role" all_gone "${UKS_END_MS:-3000}"
  stop
done
# One zygote: the sandbox ends, in order.
start
kill -9 "${stubs%% *}"
check all_end_with_a_zygote all_gone "${UKS_END_MS:-3000}"
stop

# Stubs of guests and of the pool are killed at random while a shell starts programs: it sees children that
# died, goes on to its end, and nothing hangs. The first ones are spared: zygotes, and the shell itself.
"${clean_env[@]}" timeout --kill-after=5 100 "$UKS" exec --quiet -- bash -c \
  'for i in $(seq 150); do /bin/true & (exit 3) & sleep 0.01 | cat; wait; done; echo done' \
  >"$base/deaths" 2>/dev/null </dev/null &
keeper=$!
sentry=
for ((i = 0; i < 200; i++)); do
  uks=$(pgrep -P "$keeper" | head -1)
  sentry=$(pgrep -P "${uks:-0}" -f role=sentry | head -1)
  [[ -n $sentry ]] && break
  sleep 0.02
done
sleep 0.2
killed=0
while kill -0 "$keeper" 2>/dev/null && ((killed < 60)); do
  victim=$(pgrep -P "${sentry:-0}" | tail -n +8 | shuf -n 1)
  [[ -n $victim ]] && kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
  sleep 0.02
done
wait "$keeper"
status=$?
check "stubs_die_at_random" test "$status $(cat "$base/deaths") $((killed > 10))" = '0 done 1'
finish
