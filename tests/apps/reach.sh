#!/usr/bin/env bash
# What must not be within reach: hidden files, host processes, secrets, descriptors.
. "$(dirname "$0")/lib.sh"

secret="marker-$RANDOM$RANDOM-secret"
setup() {
  mkdir -p "$base/project/private/deep" "$base/home/.ssh" "$base/project/pub"
  echo "$secret" >"$base/project/private/key"
  echo "$secret" >"$base/project/private/deep/key"
  echo "$secret" >"$base/project/.env"
  echo "$secret" >"$base/home/.ssh/id_rsa"
  echo "$secret" >"$base/home/notes"
  ln "$base/project/private/key" "$base/project/pub/hardlink"
  ln -s ../private/key "$base/project/pub/symlink"
  printf '[user]\n\tname = N\n' >"$base/home/.gitconfig"
}

# hidden NAME FLAGS... -- SCRIPT: the script runs inside with hidden files; the secret never shows.
hidden() {
  local name=$1 out
  shift
  fresh
  out=$(inside "$@" 2>&1 </dev/null)
  if grep -q "$secret" <<<"$out"; then
    fail "$name" 'the secret was read'
    head -5 <<<"$out"
  elif [[ -n ${expect:-} ]] && ! grep -q -e "$expect" <<<"$out"; then
    fail "$name" "no \"$expect\""
    head -5 <<<"$out"
  else
    pass "$name"
  fi
}
hide=(--hide "$base/project/private" --hide "$base/project/.env")

expect='Permission denied'
hidden direct "${hide[@]}" -- cat private/key
hidden file_itself "${hide[@]}" -- cat .env
hidden directory_listing "${hide[@]}" -- ls private
hidden through_symlink "${hide[@]}" -- cat pub/symlink
hidden through_new_symlink "${hide[@]}" -- sh -c 'ln -s private x; cat x/key; ln -s "$PWD/private/key" y; cat y'
hidden through_dotdot "${hide[@]}" -- sh -c 'cat pub/../private/key; cd pub; cat ../private/deep/../key'
hidden through_proc_root "${hide[@]}" -- sh -c 'cat /proc/self/root"$PWD"/private/key; cat /proc/self/cwd/private/key; cat /proc/$$/root"$PWD"/.env'
hidden existing_hard_link "${hide[@]}" -- cat pub/hardlink
hidden new_hard_link "${hide[@]}" -- sh -c 'ln private/key z; cat z; ln .env w; cat w'
hidden renamed "${hide[@]}" -- sh -c 'mv private p; cat p/key; mv .env e; cat e'
hidden by_openat2 "${hide[@]}" -- python3 -c '
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
d = os.open(".", os.O_PATH)
for path in (b"private/key", b"./private/../private/key", b"pub/../.env", b"pub/hardlink"):
    for resolve in (0, 8, 16, 4):
        how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_RDONLY, 0, resolve))
        fd = libc.syscall(437, d, path, how, 24)
        print(os.read(fd, 100) if fd >= 0 else os.strerror(ctypes.get_errno()))'
hidden by_descriptor "${hide[@]}" -- python3 -c '
import os
for p in ("private/key", ".env"):
    try:
        fd = os.open(p, os.O_PATH); print("opened"); print(open(f"/proc/self/fd/{fd}").read())
    except OSError as e: print(e.strerror)'
hidden copied_parent "${hide[@]}" -- sh -c 'cp -r . /tmp/copy; cat /tmp/copy/private/key /tmp/copy/.env; tar cf - . | tar xOf -'
hidden exec_of_hidden "${hide[@]}" -- sh -c 'sh private/key; . ./.env'
expect='busy'
hidden rename_of_parent --hide "$base/project/private/deep" -- sh -c 'mv private other; cat other/deep/key'
expect=
hidden written_over "${hide[@]}" -- sh -c 'echo x >.env; echo x >private/key; rm -rf private; truncate -s 0 .env'
check still_there grep -q "$secret" "$base/project/.env" "$base/project/private/key"
expect='No such file'
hidden home_is_empty -- cat "$base/home/notes"
hidden ssh_key -- cat "$base/home/.ssh/id_rsa"
expect='Permission denied'
hidden ssh_key_with_ro_home --ro "$base/home" -- cat "$base/home/.ssh/id_rsa"
expect=
fresh
check gitconfig_shows bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); inside -- cat '$base/home/.gitconfig' | grep -q 'name = N'"
out=$(inside -- cat /etc/shadow 2>&1)
check shadow_is_locked bash -c '! cut -d: -f2 <<<"$1" | grep -q "^\\$"' _ "$out"

# ---- Host processes.
sleep 1234 &
host=$!
check no_host_process bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); ! inside -- sh -c 'cat /proc/[0-9]*/cmdline | tr \"\\0\" \" \"' | grep -q 'sleep 1234'"
inside -- bash -c "kill -9 $host $PPID $$; kill -9 -1" >/dev/null 2>&1
check host_process_unkillable kill -0 $host
out=$(inside -- python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for call in ((101, 16, $host, 0, 0), (434, $host, 0), (62, $host, 0), (310, $host, 0, 0, 0, 0, 0)):
    print(libc.syscall(*call) < 0)
print(os.path.exists('/proc/$host/mem') and open('/proc/$host/cmdline').read())" 2>&1)
check host_process_untouchable bash -c '! grep -q -e "sleep" -e "^False$" <(head -3 <<<"$1")' _ "$out"
kill $host

# ---- Environment.
out=$("${clean_env[@]}" AWS_SECRET_ACCESS_KEY="$secret" GITHUB_TOKEN="$secret" DB_PASSWORD="$secret" \
  API_KEY="$secret" MY_CREDENTIALS="$secret" HTTP_AUTH="$secret" UNKNOWN_VARIABLE="$secret" \
  npm_config__authToken="$secret" GOPROXY="https://user:$secret@host.example" EDITOR=vi CC=gcc \
  "$UKS" exec --quiet -- sh -c 'env; cat /proc/self/environ /proc/1/environ /proc/*/environ' 2>&1)
check no_secret_in_environment bash -c "! grep -q '$secret' <<<\"\$1\"" _ "$out"
check harmless_variables_pass bash -c 'grep -q EDITOR=vi <<<"$1" && grep -q CC=gcc <<<"$1"' _ "$out"
out=$("${clean_env[@]}" GITHUB_TOKEN="$secret" "$UKS" exec --quiet --pass-env GITHUB_TOKEN -- env)
check pass_env grep -q "$secret" <<<"$out"
out=$(inside --env A=b --clean-env -- env)
check clean_env bash -c 'grep -q "^A=b" <<<"$1" && ! grep -q "^LOGNAME" <<<"$1"' _ "$out"

# ---- Descriptors.
fresh
exec 7<"$base/home/notes" 8>"$base/leak"
out=$(inside -- sh -c 'ls /proc/self/fd; cat <&7; echo x >&8; ls -l /proc/self/fd /proc/1/fd' 2>&1)
exec 7<&- 8>&-
check no_inherited_descriptor bash -c "! grep -q '$secret' <<<\"\$1\"" _ "$out"
check nothing_written_through test ! -s "$base/leak"

# ---- Writes beside the workspace work and vanish, below /tmp too, where the directories above are the sandbox's own.
beside=$(mktemp -d -p /tmp)
mkdir -p "$beside/above/project"
chmod 755 "$beside" "$beside/above"
as=()
((EUID != 0)) || as=(--user 1234:1234)
out=$(cd "$beside/above/project" && inside "${as[@]}" -- sh -c 'echo x >../new && mkdir ../more && cat ../new' 2>&1)
check writes_beside_work test "$out" = x
check writes_beside_vanish test "$(ls "$beside/above")" = project
rm -rf "$beside"

# ---- The network is the sandbox's own.
out=$(inside -- python3 -c '
import socket
s = socket.socket()
s.settimeout(3)
try: s.connect(("192.0.2.1", 80)); print("connected")
except OSError as e: print(e.errno)')
check unreachable test "$out" = 101
finish
