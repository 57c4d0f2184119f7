#!/usr/bin/env bash
# Bad input: one clear line, the right exit code, no hang.
. "$(dirname "$0")/lib.sh"

# refused NAME STATUS PATTERN ARGS...: uks with ARGS ends with STATUS and one line on stderr that
# matches PATTERN, within ten seconds.
refused() {
  local name=$1 want=$2 pattern=$3 rc lines
  shift 3
  fresh
  timeout 10 "${clean_env[@]}" "$UKS" "$@" >"$base/out" 2>"$base/err" </dev/null
  rc=$?
  lines=$(wc -l <"$base/err")
  if ((rc == want)) && ((lines == 1)) && grep -q -i -e "$pattern" "$base/err"; then
    pass "$name"
  else
    fail "$name" "status $rc (wanted $want), $lines lines on stderr"
    head -5 "$base/err"
  fi
}

setup() {
  printf '\001\002\000garbage' >garbage
  printf '\177ELF\002\001\001' >short
  head -c 4096 /bin/true >cut
  cp cut many
  printf '\377\377' | dd of=many bs=1 seek=56 conv=notrunc 2>/dev/null  # e_phnum
  cp cut far
  printf '\177' | dd of=far bs=1 seek=36 conv=notrunc 2>/dev/null  # e_phoff
  cp cut i386
  printf '\001' | dd of=i386 bs=1 seek=4 conv=notrunc 2>/dev/null  # ELFCLASS32
  printf '\003' | dd of=i386 bs=1 seek=18 conv=notrunc 2>/dev/null  # EM_386
  printf '#!/nonexistent\n' >script
  chmod +x garbage short cut many far i386 script
  touch plain
  mkdir closed directory
}

refused unknown_flag 125 'uks: .*nonsense' exec --nonsense -- true
refused unknown_command 125 'uks: ' nonsense
refused no_arguments 125 'uks: ' exec
refused no_command 125 'uks: ' exec --
refused neither_command_nor_name 125 'uks: ' exec --quiet
refused stray_word 125 'unexpected some-name' exec some-name -- true
refused bad_timeout 125 'uks: ' exec --timeout never -- true
refused bad_user 125 'uks: ' exec --user 1:2:3 -- true
refused bad_platform 125 'uks: ' exec --platform warp -- true
refused bad_env 125 'uks: ' exec --env =x -- true
refused missing_ro 125 'uks: .*nonexistent' exec --ro /nonexistent/path -- true
refused missing_workdir 125 'uks: .*nonexistent' exec --workdir /nonexistent -- true
refused not_found 127 'nonexistent-program' exec -- nonexistent-program
refused not_found_path 127 'nonexistent' exec -- /nonexistent/program
refused not_executable 126 'plain' exec -- ./plain
refused a_directory 126 'directory' exec -- ./directory
refused missing_interpreter 127 'script' exec -- ./script
refused garbage 126 'garbage' exec -- ./garbage
refused short_elf 126 'short' exec -- ./short
refused many_headers 126 'many' exec -- ./many
refused far_headers 126 'far' exec -- ./far
refused i386 126 'i386' exec -- ./i386

# status NAME STATUS ARGS...: no word on stderr.
status() {
  local name=$1 want=$2 rc
  shift 2
  fresh
  timeout 20 "${clean_env[@]}" "$UKS" exec --quiet "$@" >"$base/out" 2>"$base/err" </dev/null
  rc=$?
  if ((rc == want)) && [[ ! -s $base/err ]]; then
    pass "$name"
  else
    fail "$name" "status $rc (wanted $want)"
    head -5 "$base/err"
  fi
}
status exit_0 0 -- true
status exit_1 1 -- false
status exit_255 255 -- sh -c 'exit 255'
status signal_9 137 -- sh -c 'kill -9 $$'
status signal_11 139 -- sh -c 'kill -11 $$'
status signal_15 143 -- sh -c 'kill $$'
status timeout_ 124 --timeout 0.5 -- sleep 100
status timeout_ignoring_term 124 --timeout 0.5 -- sh -c 'trap "" TERM; while :; do sleep 1; done'
status timeout_busy 124 --timeout 0.5 -- sh -c 'while :; do :; done'
status version_of_a_program 0 -- bash --version

fresh
check argument_of_100_kB bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); x=\$(head -c 100000 /dev/zero | tr '\\0' x); test \"\$(inside -- sh -c 'echo \${#1}' _ \"\$x\")\" = 100000"
check one_mebibyte_of_arguments bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); x=\$(head -c 1000 /dev/zero | tr '\\0' x); a=(); for i in \$(seq 1100); do a+=(\"\$x\"); done; test \"\$(inside -- sh -c 'echo \$#' _ \"\${a[@]}\")\" = 1100"
check closed_stdin bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); inside -- sh -c 'echo ok' <&- | grep -q ok"
check closed_stdout bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); inside -- true >&-"
check all_closed bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); inside -- true <&- >&- 2>&-"
check empty_stdin bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); inside -- cat </dev/null"
check help_says_usage bash -c '"$1" --help | grep -q -i usage' _ "$UKS"
check version_ bash -c '"$1" --version | grep -q uks' _ "$UKS"
# stdin is read only when the guest reads: what is left over is the next command's.
check stdin_left_alone bash -c "$(declare -f inside); $(declare -p clean_env UKS inside_timeout); test \"\$(printf 'a\nb\n' | { inside -- true; cat; })\" = \$'a\nb'"
if ((EUID != 0)); then
  chmod 000 closed
  check unreadable_workdir bash -c 'cd closed 2>/dev/null || true; "$1" exec --workdir "$PWD/closed" -- true; test $? = 125' _ "$UKS"
  chmod 755 closed
fi
# The command's death is ours within a second, and so is the other way round.
fresh
"${clean_env[@]}" "$UKS" exec --quiet -- sleep 1000 &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
rc=$?
check term_reaches_the_guest test $rc = 143
finish
