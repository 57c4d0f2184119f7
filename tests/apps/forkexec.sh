#!/usr/bin/env bash
# fork and exec in loops; nothing is left over.
. "$(dirname "$0")/lib.sh"

same bash_three_hundred 'for i in $(seq 300); do /bin/true || echo failed; done; echo done'
same subshell_five_hundred 'for i in $(seq 500); do (exit 3); done; echo $?'
same_cmd python_three_hundred python3 -c '
import os
for i in range(300):
    p = os.fork()
    if p == 0: os.execv("/bin/true", ["true"])
    assert os.waitpid(p, 0)[1] == 0
print("done")'
same_cmd posix_spawn python3 -c '
import os
for i in range(300):
    assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
print("done")'
same_cmd vfork_subprocess python3 -c '
import subprocess
print(sum(int(subprocess.check_output(["echo", "1"])) for _ in range(200)))'
same pipelines_hundred 'for i in $(seq 100); do echo $i | cat | cat >/dev/null; done; echo done'
same many_children 'for i in $(seq 100); do sleep 0.2 & done; wait; echo $?'
same_cmd deep_chain bash -c 'f() { if (($1)); then bash -c "$(declare -f f); f $(($1 - 1))"; else echo bottom; fi; }; f 30'
same_cmd exec_chain sh -c 'n=${1:-50}; [ $n -gt 0 ] || { echo end; exit 6; }; exec sh -c "$0" "$0" $((n - 1))' 'n=${1:-50}; [ $n -gt 0 ] || { echo end; exit 6; }; exec sh -c "$0" "$0" $((n - 1))' 50
same orphans '(sleep 0.3; echo orphan >o) & disown; sleep 0.6; cat o'

fresh
count() { pgrep -c -f "$1 exec" || true; }
before=$(count "$UKS")
inside -- sh -c 'sleep 1000 & sleep 1000 & (trap "" TERM; sleep 1000) & exit 4'
[[ $? == 4 ]] && pass background_does_not_hold_up_the_end || fail background_does_not_hold_up_the_end
sleep 1
check nothing_left_over test "$(count "$UKS")" -le "$before"
finish
