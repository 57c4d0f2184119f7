#!/usr/bin/env bash
# Destruction from inside: the host is unharmed.
# Safe by construction even if the sandbox failed: everything runs as an id that owns nothing but this
# test's own folder and processes. Only root can give it one; otherwise the test is skipped.
. "$(dirname "$0")/lib.sh"

harm_uid=64999
if ((EUID != 0)); then
  skip all "needs root, to run as an id that owns nothing"
  exit 0
fi
need setpriv
if pgrep -U $harm_uid >/dev/null; then
  skip all "id $harm_uid has processes"
  exit 0
fi

cp "$UKS" "$base/uks" && chmod 755 "$base/uks"
as_nobody() {
  timeout --kill-after=5 120 setpriv --reuid=$harm_uid --regid=$harm_uid --clear-groups -- \
    "${clean_env[@]}" USER=harm LOGNAME=harm "$@"
}
setup() {
  mkdir -p "$base/home/keep" "$base/project/sub" "$base/elsewhere"
  echo precious >"$base/home/keep/file"
  echo precious >"$base/elsewhere/file"
  echo precious >"$base/project/sub/file"
  chown -R $harm_uid:$harm_uid "$base/home" "$base/project" "$base/elsewhere"
}
# The host's side of the story: names and contents of what the id could have destroyed.
home_state() { (cd "$base" && find home elsewhere -type f -print0 | sort -z | xargs -0 sha256sum) 2>&1; }
# Others may be at work on this machine: only what must never change, and what the id left anywhere.
system_state() {
  stat -c '%n %F %a %u' /etc/passwd /etc/hosts /usr/bin/env /bin/sh /usr/lib /var /tmp 2>&1
  grep -c root /etc/passwd
  find /etc /tmp -maxdepth 2 -uid $harm_uid 2>/dev/null
}

fresh
want_home=$(home_state)
want_system=$(system_state)
# survives NAME FLAGS... -- CMD...: the home and the system are as before.
survives() {
  local name=$1
  shift
  as_nobody "$base/uks" exec --quiet "$@" >"$base/log" 2>&1 </dev/null
  if [[ $(home_state) == "$want_home" && $(system_state) == "$want_system" ]]; then
    pass "$name"
  else
    fail "$name" 'the host was changed'
    diff <(echo "$want_home") <(home_state)
    diff <(echo "$want_system") <(system_state)
  fi
}

cd "$base/home" || exit 1
survives rm_home_from_home -- sh -c 'rm -rf "$HOME" ~/* /etc /usr; rm -rf .'
# From $HOME nothing passes through, and one line names the flag that would.
as_nobody "$base/uks" exec -- true >/dev/null 2>"$base/log"
check home_is_not_a_workspace grep -q -e '--rw' "$base/log"
cd / || exit 1
survives rm_from_root --timeout 20 -- sh -c 'rm -rf ~ /etc /usr /var /home; rm -rf --no-preserve-root /'
cd "$base/project" || exit 1
survives rm_from_project -- sh -c 'rm -rf ~ /etc /usr'
check project_untouched_by_that test -f "$base/project/sub/file"
survives rm_project -- sh -c 'rm -rf "$PWD"/* ../home ../elsewhere'
check project_itself_is_writable test ! -e "$base/project/sub"
fresh
chown -R $harm_uid:$harm_uid "$base/project"
survives write_everywhere -- sh -c 'for f in ~/keep/file ../elsewhere/file /etc/passwd /usr/bin/env; do echo gone >$f; done; mv ~/keep ~/lost; chmod -R 000 ~ ../elsewhere; ln -sf /dev/null ~/keep/file; truncate -s 0 ../elsewhere/file'
survives devices -- sh -c 'for d in sda vda nvme0n1 mem kmem port; do dd if=/dev/zero of=/dev/$d bs=512 count=1 conv=notrunc; mknod d$d b 8 0; done; echo b >/proc/sysrq-trigger; echo 1 >/proc/sys/kernel/panic; ls /sys/firmware; reboot -f; mount -o remount,rw /'
survives no_devices_made -- sh -c 'mknod disk b 8 0; mknod mem c 1 1; true'
check no_device_in_project test -z "$(find "$base/project" -type b -o -type c)"

# A process of the same id outside is a bystander: no signal from inside may reach it.
setpriv --reuid=$harm_uid --regid=$harm_uid --clear-groups sleep 300 &
bystander=$!
sleep 0.3
survives kill_all -- sh -c 'kill -9 -1; true'
survives kill_all_from_child -- bash -c '(kill -TERM -1; kill -9 -1) & for s in 1 2 3 9 15; do kill -$s -1; done; kill -9 -$$'
survives kill_by_pid -- bash -c "for p in $bystander 1 2 \$(seq 3 3000); do [ \$p = \$\$ ] || kill -9 \$p; done 2>/dev/null; true"
check bystander_lives kill -0 $bystander
survives fork_bomb --timeout 5 -- bash -c 'f() { f | f & }; ulimit -u 400 2>/dev/null; for i in $(seq 200); do sleep 3 & done; wait'
check bystander_still_lives kill -0 $bystander
kill $bystander
wait $bystander 2>/dev/null
sleep 1
check no_process_left bash -c "! pgrep -U $harm_uid"
finish
