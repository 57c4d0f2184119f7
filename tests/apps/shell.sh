#!/usr/bin/env bash
# bash and dash: pipelines, here-docs, traps, subshells, process substitution, jobs, wait.
. "$(dirname "$0")/lib.sh"

same pipeline 'seq 1 1000 | grep 7 | sed s/7/x/g | sort -r | uniq | wc -l; echo "${PIPESTATUS[@]}"'
same pipefail 'set -o pipefail; false | true; echo $?; true | false | true; echo $?; exit 5 | cat; echo $?'
same sigpipe 'yes | head -3; echo "${PIPESTATUS[0]}"'
same heredoc 'x=value; cat <<A; cat <<"B"; cat <<-C
one $x
A
two $x
B
	three $x
C
cat <<<"here $x"'
same big_heredoc 'cat <<EOT | sha256sum
$(seq 1 30000)
EOT'
same traps 'trap "echo exit \$?" EXIT; trap "echo usr1" USR1; kill -USR1 $$; trap - USR1; (exit 4); trap "echo term; exit 9" TERM; kill -TERM $$; echo not reached'
same trap_err 'trap "echo err \$?" ERR; false; (exit 3); true'
same trap_chld 'trap "echo chld" CHLD; set -m; sleep 0.05 & wait; echo done' 
same trap_int_ignored 'trap "" INT; kill -INT $$; echo alive; bash -c "kill -INT \$\$; echo child alive"'
same subshells 'x=1; (x=2; echo $x; (x=3; echo $x)); echo $x; y=$( (echo inner; exit 6) ); echo "$y $?"'
same process_substitution 'diff <(seq 1 5) <(seq 2 6); cat <(echo a) <(echo b); seq 1 100 | tee >(wc -l > n) >(tail -1 > t) > /dev/null; sleep 0.3; cat n t'
same background 'for i in 1 2 3; do (sleep 0.0$i; echo $i > f$i) & done; wait; cat f1 f2 f3; jobs; echo $?'
same wait_status '(exit 3) & a=$!; (exit 4) & b=$!; wait $a; echo $?; wait $b; echo $?; wait 999999 2>/dev/null; echo $?'
same wait_n '(sleep 0.6; exit 1) & (sleep 0.2; exit 2) & wait -n; echo $?; wait -n; echo $?; wait -n 2>/dev/null; echo $?'
same kill_job 'sleep 100 & kill %1 2>/dev/null || kill $!; wait $! 2>/dev/null; echo $?; sleep 100 & kill -9 $!; wait $! 2>/dev/null; echo $?'
same killed_by_signal 'bash -c "kill -SEGV \$\$" 2>/dev/null; echo $?; bash -c "kill -9 \$\$" 2>/dev/null; echo $?; bash -c "kill -HUP \$\$"; echo $?'
same coproc 'coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo "got $x"; eval "exec ${COPROC[1]}>&-"; wait; echo $?'
same redirections 'exec 3>f; echo three >&3; exec 3>&-; cat f; { echo out; echo err >&2; } >both 2>&1; cat both; echo a >>f; wc -l <f; exec 4<f; read x <&4; read y <&4; echo "$x/$y"; ls nonexistent 2>&1 >/dev/null; : >|f; test -s f; echo $?'
same noclobber 'set -C; echo a >f; echo b >f; echo $?; cat f'
same read_loops 'printf "a b\nc d\n" | while read -r x y; do echo "$y-$x"; done; while IFS=: read -r user _ uid _; do [ "$uid" = 0 ] && echo $user; done </etc/passwd'
same globs 'touch a1 a2 b1 .h; echo *; echo a*; echo [ab]1; shopt -s nullglob dotglob extglob; echo x*; echo *; echo !(a*); mkdir -p d/e; touch d/e/f; shopt -s globstar; echo **/f'
same expansions 'x=path/to/file.txt; echo ${x##*/} ${x%.*} ${x^^} ${x/to/TO} ${#x} ${x:2:3} ${y:-default}; a=(1 2 "3 4"); echo ${#a[@]} "${a[@]:1}"; declare -A m=([k]=v); echo ${m[k]} $((2**20 % 7)) {1..5} {a,b}{1,2}'
same functions 'f() { local x=$1; ((x <= 1)) && { echo 1; return; }; echo $((x * $(f $((x-1))))); }; f 8'
same exit_codes 'for c in 0 1 2 126 127 128 255 256; do bash -c "exit $c"; echo -n "$? "; done; /nonexistent 2>/dev/null; echo $?; touch plain; ./plain 2>/dev/null; echo $?; echo "echo hi" >s; chmod +x s; ./s'
same set_e 'set -e; false; echo not reached'
same set_u 'set -u; echo $undefined_variable; echo not reached'
same exec_replaces 'exec echo replaced; echo not reached'
same exec_fails 'exec /nonexistent/program'
same printf_ 'printf "%05d|%-5s|%x|%q|%b\n" 42 ab 255 "a b" "x\ty"; printf -v v %s hello; echo $v'
same time_limits 'ulimit -n 64; ulimit -n; ulimit -S -n 32; ulimit -n; bash -c "ulimit -n"; ulimit -c 0; ulimit -c'
same umask_ 'umask 077; touch f; mkdir d; stat -c "%a" f d; umask; umask 022; touch g; stat -c %a g'
same cd_ 'mkdir -p a/b; cd a/b; pwd | sed "s,.*/a/b,a/b,"; cd ..; cd -; ln -s a/b ../l 2>/dev/null; cd /; pwd; cd /tmp && pwd; cd nonexistent 2>/dev/null; echo $?' 
same getopts_ 'set -- -a -b val rest; while getopts ab: o; do echo $o $OPTARG; done; shift $((OPTIND-1)); echo $1'
same select_case 'for x in apple banana 12; do case $x in a*) echo A;; [0-9]*) echo N;; *) echo other;; esac; done'
same arithmetic_loop 'for ((i=0,s=0; i<20000; i++)); do ((s+=i)); done; echo $s'
same big_variable 'x=$(head -c 300000 /dev/zero | tr "\0" x); echo ${#x}'
same nested_command_substitution 'echo $(echo $(echo $(echo deep)))'
same many_pipes 'x=cat; for i in $(seq 30); do x="$x | cat"; done; seq 1000 | eval "$x" | sha256sum'
same concurrent_pipelines 'for i in $(seq 20); do (seq $i 2000 | sort -n | tail -1 >o$i) & done; wait; cat o* | sort -u'
same fifo 'mkfifo p; (echo through >p) & cat p; wait'
same mapfile_ 'mapfile -t a < <(seq 5); echo ${#a[@]} ${a[4]}'
same stdin_closed 'cat <&-; echo $?; read x <&-; echo $?'
same stdout_closed 'echo x >&-; echo $?'
same dev_fd '{ echo x | cat /dev/stdin; echo y >/dev/stdout; echo z 2>&1 >/dev/stderr; cat /dev/fd/3 3<<<w; } 2>&1 | cat'
same dash_script 'dash -c "x=1; f() { echo f\$1; }; f 2; (exit 3); echo \$?; echo a | { read y; echo \$y; }; trap \"echo bye\" EXIT; for i in 1 2 3; do :; done; sleep 0 & wait \$!; echo \$?"'
same login_shell 'bash -lc "echo ok; echo \$0"'
same env_passes 'export A_B=1; bash -c "echo \$A_B"; env -i X=1 bash -c "echo \$X"; A_B=2 sh -c "echo \$A_B"'
same script_file 'printf "#!/bin/bash\necho \"\$0 \$# \$*\"\n" >s; chmod +x s; ./s a "b c"; PATH=.:$PATH s d; bash s e'
same times_out 'timeout 0.2 sleep 10; echo $?; timeout -s KILL 0.2 sleep 10; echo $?; timeout 5 true; echo $?'
same job_control 'set -m; sleep 0.1 & fg >/dev/null; echo $?; sleep 30 & kill -STOP $!; sleep 0.1; jobs | sed "s/[0-9]*] *//"; kill -KILL $!; wait 2>/dev/null; echo done'
same stop_and_continue 'bash -c "kill -STOP \$\$; echo continued" & p=$!; sleep 0.2; kill -CONT $p; wait $p; echo $?'
finish
