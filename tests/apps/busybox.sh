#!/usr/bin/env bash
# busybox-static: executes /proc/self/exe, has its own libc code paths.
. "$(dirname "$0")/lib.sh"
need busybox

same applets 'busybox echo a; busybox seq 3; busybox ls /proc/self/fd >/dev/null; echo $?; busybox true; busybox false; echo $?; busybox nothing 2>/dev/null; echo $?'
same_cmd shell busybox sh -c 'x=1; for i in 1 2 3; do x=$((x * 2)); done; echo $x; (exit 4); echo $?; echo a | cat | sed s/a/b/; ls /etc/passwd; trap "echo bye" EXIT; f() { echo f; }; f; sleep 0 & wait; echo $?'
same_cmd own_applets busybox sh -c 'mkdir -p d/e; touch d/f; find d | sort; cp -r d g; rm -rf d; ls; echo abc >h; cat h | tr a-z A-Z | wc -c; grep b h; awk "{print length}" h; sort -r h; tar cf t.tar g; tar tf t.tar; rm t.tar; gzip h; zcat h.gz; md5sum h.gz | wc -c; rm h.gz; vi --help >/dev/null 2>&1; date -u -d @0 +%Y; printf "%d\n" 7; stat -c %a g; dd if=/dev/zero bs=10 count=1 2>/dev/null | wc -c; xargs echo <<E
1 2
E'
same_cmd loop busybox sh -c 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); /bin/true; busybox true; done; echo $i'
same_cmd ash_jobs busybox ash -c 'sleep 0.1 & p=$!; kill $p; wait $p; echo $?; (kill -9 $$) ; echo not reached'
same_cmd find_exec busybox find /etc/passwd -exec busybox wc -c '{}' ';'
same_cmd pipes busybox sh -c 'yes | head -2; seq 10000 | tail -1; cat /etc/passwd | head -1 | cut -d: -f1'
finish
