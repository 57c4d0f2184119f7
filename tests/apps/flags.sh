#!/usr/bin/env bash
# Each flag of `uks exec`: what it does, and the one line that wrong use gives. As root also as an ordinary user.
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
as=${UKS_FLAGS_AS:-$( ((EUID == 0)) && echo root || echo user)}

# gives NAME WANT FLAGS... -- CMD...: stdout is WANT, status 0, nothing on stderr.
gives() {
  local name=$as.$1 want=$2 rc out err
  shift 2
  out=$(timeout -k 1 60 "${clean_env[@]}" "${extra_env[@]}" "$UKS" exec "$@" 2>"$base/err" </dev/null)
  rc=$?
  err=$(<"$base/err")
  if ((rc == 0)) && [[ $out == $want && -z $err ]]; then
    pass "$name"
  else
    fail "$name" "status $rc, stdout: $out, stderr: $err"
  fi
}
# refused NAME PATTERN FLAGS...: 125 and one line.
refused() {
  local name=$as.$1 pattern=$2 rc out
  shift 2
  out=$(timeout -k 1 60 "${clean_env[@]}" "$UKS" exec "$@" 2>&1 </dev/null)
  rc=$?
  if ((rc == 125)) && [[ $out == uks:\ *$pattern* && $out != *$'\n'* ]]; then
    pass "$name"
  else
    fail "$name" "status $rc: $out"
  fi
}
extra_env=()
# A directory outside of the workspace.
side=$base/side
setup() {
  rm -rf "$side"
  mkdir -p "$side/dir" hidden/sub
  echo old >"$side/file"
  echo old >"$side/dir/inner"
  echo secret >hidden/sub/s
  echo one >a.pem
}

# ---- files
fresh
gives rw_file 'new' --rw "$side/file" -- sh -c "echo new >$side/file; cat $side/file"
check $as.niceness_is_the_callers test "$(nice -n 3 "$UKS" exec --quiet -- nice)" = "$(nice -n 3 nice)"
check $as.rw_file_reaches_the_host grep -qx new "$side/file"
fresh
gives rw_file_not_its_neighbours '' --rw "$side/file" -- sh -c "echo x >$side/new; echo x >$side/dir/inner"
check $as.rw_file_only test ! -e "$side/new"
check $as.rw_file_only_2 grep -qx old "$side/dir/inner"
fresh
gives rw_file_appends 'old more' --rw "$side/file" -- sh -c "echo more >>$side/file; echo \$(cat $side/file)"
refused rw_missing 'no such file or directory' --rw "$side/missing" -- true
refused rw_without_value 'needs a value' --rw
refused rw_empty 'needs a value' --rw '' -- true
refused rw_proc 'never shown' --rw /proc -- true
gives rw_directory 'x' --rw "$side/dir" -- sh -c "echo x >$side/dir/new; cat $side/dir/new"
check $as.rw_directory_reaches_the_host grep -qx x "$side/dir/new"
fresh
gives ro_file 'old' --ro "$side/file" -- cat "$side/file"
gives ro_file_is_read_only 'refused old' --ro "$side/file" -- sh -c "(echo new >$side/file) 2>/dev/null || echo refused \$(cat $side/file)"
refused ro_missing 'no such file or directory' --ro "$side/missing" -- true
refused ro_device 'neither a file nor a directory' --ro /dev/null -- true
refused rw_and_ro 'ro and --rw name the same place' --rw "$side/file" --ro "$side/../side/file" -- true
refused tmpfs_and_rw 'name the same place' --tmpfs "$side/dir" --rw "$side/dir" -- true
gives ro_twice 'old' --ro "$side/file" --ro "$side/file" -- cat "$side/file"
fresh
gives hide_file 'refused' --hide "$side/file" -- sh -c "cat $side/file 2>/dev/null || echo refused"
gives hide_file_says_eacces '*Permission denied*' --hide "$side/file" -- sh -c "cat $side/file 2>&1; true"
gives hide_directory 'refused' --hide hidden -- sh -c 'cat hidden/sub/s 2>/dev/null || ls hidden 2>/dev/null || echo refused'
gives hide_glob 'refused' --hide '**/*.pem' -- sh -c 'cat a.pem 2>/dev/null || echo refused'
gives hide_not_yet_there 'refused' --hide later -- sh -c '(echo x >later) 2>/dev/null || echo refused'
gives hide_hard_link 'refused' --rw "$side" --hide "$side/file" -- sh -c "ln $side/file $side/link 2>/dev/null; cat $side/link 2>/dev/null || echo refused"
gives hide_beats_rw 'refused' --rw "$side/file" --hide "$side/file" -- sh -c "(echo x >$side/file) 2>/dev/null || echo refused"
check $as.hidden_file_is_unchanged grep -qx old "$side/file"
refused hide_everything 'nothing would be left' --hide / -- true
refused hide_empty 'needs a value' --hide= -- true
gives tmpfs '. .. x' --tmpfs "$side/dir" -- sh -c "cd $side/dir && echo x >x && echo \$(ls -a) "
check $as.tmpfs_covers_only grep -qx old "$side/dir/inner"
check $as.tmpfs_vanishes test ! -e "$side/dir/x"
gives tmpfs_in_place_of_the_workspace "$base/project made" --tmpfs . -- sh -c 'echo x >made; echo "$PWD" $(ls -A)'
check $as.tmpfs_workspace_vanishes test ! -e made
gives tmpfs_new_directory 'x' --tmpfs "$side/new/deep" -- sh -c "echo x >$side/new/deep/f; cat $side/new/deep/f"
refused tmpfs_on_a_file 'not a directory' --tmpfs "$side/file" -- true
refused tmpfs_root 'nothing would be left' --tmpfs / -- true
gives workdir "$side/dir" --workdir "$side/dir" -- sh -c 'pwd; test "$PWD" = "$(pwd -P)"'
gives workdir_relative "$base/project/hidden" --workdir hidden -- pwd
gives workdir_inside_only '/tmp' --workdir /tmp -- pwd
refused workdir_missing 'No such file or directory' --workdir "$side/missing" -- true
refused workdir_file 'Not a directory' --workdir "$side/file" -- true

# ---- environment and identity
gives env 'a b|' --env 'X=a b' --env Y= -- sh -c 'echo "$X|$Y"; test "${Y+set}"'
gives env_last_wins '2' --env X=1 --env X=2 -- sh -c 'echo $X'
refused env_without_value 'is not NAME=VALUE' --env X -- true
refused env_without_name 'is not NAME=VALUE' --env =x -- true
extra_env=(MY_TOKEN=t OTHER=o)
gives env_is_withheld '|' -- sh -c 'echo "$MY_TOKEN|$OTHER"'
gives pass_env 't|' --pass-env MY_TOKEN -- sh -c 'echo "$MY_TOKEN|$OTHER"'
gives pass_env_unset 'unset' --pass-env NOT_SET -- sh -c 'echo ${NOT_SET-unset}'
gives clean_env $'HOME\nLANG2\nMY_TOKEN\nPATH\nTERM\nTMPDIR' --clean-env --env LANG2=C --pass-env MY_TOKEN -- sh -c 'env | sed "s/=.*//" | grep -vx -e PWD -e _ | sort'
extra_env=()
refused pass_env_value 'is not a name' --pass-env A=B -- true
refused clean_env_value '--clean-env' --clean-env=maybe -- true
gives user '1234 1234 1234' --user 1234 -- sh -c 'echo $(id -u) $(id -g) $(id -G)'
gives user_and_group '1234 77' --user 1234:77 -- sh -c 'echo $(id -u) $(id -g)'
gives user_root '0' --user 0 -- id -u
gives user_default "$(id -u) $(id -g)" -- sh -c 'echo $(id -u) $(id -g)'
refused user_name 'in numbers' --user root -- true
refused user_none 'in numbers' --user 4294967295 -- true
gives hostname 'box box' --hostname box -- sh -c 'echo $(uname -n) $(cat /proc/sys/kernel/hostname)'
gives hostname_default 'uks' -- uname -n
refused hostname_blank 'not a host name' --hostname 'a b' -- true
refused hostname_long 'not a host name' --hostname "$(printf 'a%.0s' {1..65})" -- true

# ---- running
rc_of() { # NAME STATUS FLAGS...
  local name=$as.$1 want=$2 rc
  shift 2
  timeout -k 1 60 "${clean_env[@]}" "$UKS" exec "$@" >"$base/out" 2>"$base/err" </dev/null
  rc=$?
  if ((rc == want)); then pass "$name"; else fail "$name" "status $rc: $(<"$base/err")"; fi
}
rc_of timeout 124 --timeout 300ms -- sleep 100
rc_of timeout_not_reached 3 --timeout 1m -- sh -c 'exit 3'
rc_of timeout_zero_is_none 0 --timeout 0 -- true
refused timeout_negative 'is no duration' --timeout -1 -- true
refused timeout_unit 'is no duration' --timeout 5y -- true
fresh
gives strace_file '' --strace=trace -- true
check $as.strace_file_has_calls grep -qE '(execve|openat|mmap|exit_group)\(' trace
rc_of strace_stderr 0 --strace -- true
check $as.strace_on_stderr grep -qE 'openat\(|exit_group\(' "$base/err"
refused strace_nowhere 'No such file or directory' --strace="$side/no/where" -- true
refused strace_empty 'needs a value' --strace= -- true
rc_of platform_trap 0 --platform trap -- true
refused platform_unknown 'is none of auto, trap, ptrace' --platform kvm -- true

# ---- messages
fresh
gives log_file '' --log-file log --log-level debug -- true
check $as.log_file_has_lines grep -q 'debug:' log
rc_of log_on_stderr 0 --log-level debug -- true
check $as.log_lines_on_stderr grep -q 'debug:' "$base/err"
gives log_level_off '' --log-level off -- true
refused log_file_nowhere 'No such file or directory' --log-file "$side/no/where" -- true
refused log_file_is_a_directory 'Is a directory' --log-file "$side/dir" -- true
refused log_level_unknown 'is none of trace' --log-level loud -- true
rc_of summary 0 --summary -- sh -c "echo x >$side/discarded"
check $as.summary_counts grep -qx 'uks: 1 file changed outside the workspace was discarded' "$base/err"
gives no_summary_without_terminal '' -- sh -c "echo x >$side/discarded"
gives quiet_beats_summary '' --summary --quiet -- sh -c "echo x >$side/discarded"
cd "$base/home" || exit 1
rc_of home_notice 0 -- true
check $as.home_notice_names_rw grep -q -e '--rw \.' "$base/err"
gives quiet_no_notice '' --quiet -- true
gives quiet_short '' -q -- true
cd "$base/project" || exit 1

# ---- explain: nothing runs; the view, and the reason for each part
extra_env=(MY_TOKEN=t OTHER=o)
"${clean_env[@]}" "${extra_env[@]}" "$UKS" exec --explain --hide hidden --ro "$side/file" --rw "$side/dir" \
  --tmpfs "$side/t" --env NEW=1 --hostname box --user 1234 -- touch ran >"$base/out" 2>"$base/err"
rc=$?
check $as.explain_status test $rc = 0 -a ! -s "$base/err" -a ! -e ran
# explains NAME PATTERN: a line of it.
explains() { if grep -qE -- "$2" "$base/out"; then pass "$as.explain_$1"; else fail "$as.explain_$1" "no line like $2"; fi; }
explains identity '^Identity: uid 1234, gid 1234'
explains host_name '^Host name: box'
explains start "^Starts in: $base/project$"
explains data_file '^Lists: tools/data/policy.json'
explains root '^  overlay +/  \(the host'
explains own_tmp '^  tmpfs +/tmp  \(the sandbox'
explains ro "^  ro +$side/file  \(--ro"
explains rw "^  rw +$side/dir  \(--rw"
explains tmpfs "^  tmpfs +$side/t  \(--tmpfs"
explains workspace "^  rw +$base/project  \(workspace\)"
explains hide "^  deny +$base/project/hidden  \(--hide\)"
explains home "^  absent +$base/home  \("
explains home_list '\.gitconfig \.config/git \.local/bin'
explains secrets_list '\.ssh \.gnupg \.aws'
explains generated '^  /etc/resolv.conf'
explains env_kept '^  kept +PATH  \(allow-list: PATH\)'
explains env_withheld '^  withheld MY_TOKEN  \('
explains env_set '^  set +NEW  \(--env\)'
explains env_tmpdir '^  set +TMPDIR'
extra_env=()
refused_out=$("${clean_env[@]}" "$UKS" exec --explain --ro "$side/missing" 2>&1 >/dev/null)
rc=$?
check $as.explain_wrong test "$rc:$refused_out" = "125:uks: --ro $side/missing: no such file or directory"
rc_of explain_without_command 0 --explain

# A sandbox in a sandbox is not possible yet: one line, and the right code.
cp "$UKS" uks
nested=$(timeout -k 1 60 "${clean_env[@]}" "$UKS" exec --quiet -- ./uks exec -- true 2>&1)
rc=$?
check $as.nested_is_one_line test "$rc:$(wc -l <<<"$nested"):${nested:0:5}" = '125:1:uks: '

# The same as somebody who has no rights and no account.
if ((EUID == 0)) && command -v setpriv >/dev/null; then
  install -d -m 777 "$base/user"
  install -m 755 "$UKS" "$base/user/uks"
  cp -r "$here" "$base/user/apps" && chmod -R a+rX "$base/user/apps"
  cd "$base/user" || exit 1
  UKS=$base/user/uks UKS_TEST_BASE=$base/user UKS_FLAGS_AS=user \
    setpriv --reuid=23456 --regid=23456 --clear-groups bash "$base/user/apps/flags.sh" </dev/null
  (($? == 0)) || failures=$((failures + 1))
fi
finish
