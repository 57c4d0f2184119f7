#!/usr/bin/env bash
# coreutils, findutils, grep, sed, awk, tar, gzip, xz.
. "$(dirname "$0")/lib.sh"

setup() {
  mkdir -p tree/a/b tree/c
  seq 1 200 >tree/numbers
  printf 'apple 3\nbanana 1\ncherry 2\n' >tree/a/fruit
  printf 'alpha\nbeta\n\ngamma' >tree/a/b/greek
  head -c 100000 /dev/zero >tree/c/zeros
  ln -s a/fruit tree/link
  ln -s missing tree/dangling
  ln tree/numbers tree/c/hard
  chmod 640 tree/numbers
  touch -d '2020-01-02 03:04:05.123456789 UTC' tree/a/fruit
}

same ls 'ls; ls -a tree; ls -R tree; ls -l tree | awk "{print \$1,\$2,\$5,\$9,\$10,\$11}" | grep -v ^total; ls -i tree/numbers tree/c/hard | awk "{print \$1}" | uniq | wc -l; ls -d tree/*/'
same ls_missing 'ls nothing tree/numbers'
same cp 'cp tree/numbers n; cp -r tree copy; cp -a tree archive; stat -c "%a %Y" archive/a/fruit; cp -l tree/numbers hard; cp -s "$PWD/tree/numbers" soft; cp -u n tree/numbers; cp --sparse=always tree/c/zeros s; cp nothing x; cp tree x; diff -r tree copy; cmp tree/c/zeros s'
same mv 'mv tree/numbers n; mv tree t2; mv -n n t2/a/fruit; mv t2/a /tmp/moved && ls /tmp/moved && mv /tmp/moved back; ls -R; mv nothing x'
same rm 'rm tree/link; rm -f nothing; rm tree; rm -r tree/a; rm -rf tree; ls; rm nothing'
same mkdir 'mkdir -p x/y/z; mkdir -m 700 p; stat -c %a p; mkdir x; rmdir -p x/y/z; rmdir tree; install -d -m 750 q; install -m 600 tree/numbers q/n; stat -c %a q q/n'
same ln 'ln -sf new tree/link; readlink tree/link; ln tree/numbers x; stat -c %h x; readlink -f tree/link; realpath --relative-to=. tree/a/../c; ln -s tree/a d; ls d/; unlink d'
same chmod 'chmod 600 tree/numbers; chmod u+x,g=r tree/numbers; stat -c %A tree/numbers; chmod -R a-w tree; find tree -printf "%m %p\n" | sort; chmod -R u+w tree; chmod +t tree; stat -c %a tree'
same touch 'touch new; touch -d "2001-02-03 04:05:06 UTC" new; stat -c %Y new; touch -r new other; stat -c %Y other; touch -c nothing; test -e nothing; echo $?; touch -d @1.5 new; stat -c %.9Y new; touch -h -d @9 tree/dangling; stat -c %Y tree/dangling'
same stat_ 'stat -c "%n %s %f %h %F %a %A %u %g" tree tree/numbers tree/link tree/dangling; stat -L -c %F tree/link; stat -c "%y" tree/a/fruit | cut -c1-29; stat -f -c %T /proc /dev/shm'
same head_tail 'head -3 tree/numbers; head -c 5 tree/numbers; tail -2 tree/numbers; tail -c +700 tree/numbers | head -1; tail -n +199 tree/numbers; tac tree/a/fruit'
same tail_follow 'touch log; (for i in 1 2 3; do echo $i >>log; sleep 0.1; done; sleep 0.3) & timeout 5 tail -f --pid=$! -s 0.1 log 2>/dev/null; echo $?'
same sorting 'sort -k2n tree/a/fruit; sort -rn tree/numbers | head -2; sort -R tree/numbers | sort -n | cmp - tree/numbers; shuf -i 1-5 | sort; sort -u tree/a/fruit tree/a/fruit; seq 200000 | sort -S 1M | tail -1; comm -12 <(sort tree/numbers) <(seq 5 | sort); join <(sort tree/a/fruit) <(echo apple red)'
same text 'cut -d" " -f2 tree/a/fruit; tr a-z A-Z <tree/a/fruit; paste tree/a/fruit tree/a/b/greek; nl tree/a/b/greek; fold -w 3 tree/a/b/greek; expand <<<"a	b"; fmt -w 20 <<<"one two three four five six seven"; rev <<<abc; uniq -c <<<"a"; wc tree/numbers; wc -c <tree/c/zeros; od -An -tx1 <<<hi; split -l 50 tree/numbers part.; ls part.*; csplit -s tree/a/fruit 2; cat xx00; pr -t -2 tree/a/fruit; tsort <<<"a b b c"'
same sums 'sha256sum tree/numbers; md5sum tree/numbers >m; md5sum -c m; cksum tree/c/zeros; sum tree/numbers; base64 tree/a/fruit | base64 -d; b2sum <tree/numbers; sha1sum nothing'
same dd 'dd if=tree/numbers of=d bs=10 count=3 skip=1 2>/dev/null; cat d; dd if=/dev/zero of=z bs=1M count=3 2>/dev/null; stat -c %s z; dd if=/dev/urandom bs=1k count=1 2>/dev/null | wc -c; printf XX | dd of=d conv=notrunc bs=1 seek=2 2>/dev/null; cat d; truncate -s 5M sparse; du -k --apparent-size sparse | cut -f1; fallocate -l 10000 f 2>/dev/null; stat -c %s f'
same tee_ 'seq 5 | tee a b >c; cmp a b; cmp b c; echo more | tee -a a | cat; cat a'
same date_ 'date -u -d @86400; date -u -d "2024-02-29 +1 day" +%F; date -u -d @0 +%FT%T%z; TZ=Europe/Berlin date -d @1700000000; TZ=America/New_York date -d @1700000000 +%Z'
same misc 'seq -s, 1 5; basename /a/b.c .c; dirname /a/b; expr 3 + 4; factor 360; numfmt --to=iec 1048576; printenv HOME | wc -l; true && ! false; test 3 -gt 2; echo $?; [ -L tree/link -a -d tree/a ]; echo $?; echo -e "a\tb"; printf "%s\n" x y; yes | head -2; sleep 0.01; nice -n 5 nice; nohup true 2>/dev/null; echo $?; env -u HOME sh -c "echo \${HOME-unset}"; tty; echo $?; pathchk ok; mktemp -u XXXXXX | wc -c; id -u; groups | wc -l; nproc >/dev/null; arch; getconf PAGE_SIZE; sync; stty -a 2>&1 | head -1'
same du_df 'du -s --apparent-size tree/c | cut -f1; df . | wc -l; df -h / >/dev/null; echo $?'
same mktemp_ 't=$(mktemp); echo x >$t; cat $t; rm $t; d=$(mktemp -d); touch $d/f; ls $d; rm -r $d; n=$(mktemp -p . XXXX.tmp); stat -c %a $n; rm $n'
same find 'find tree | sort; find tree -type f -size +1k; find tree -name "*r*" | sort; find tree -newer tree/a/fruit -type d | sort; find tree -type l -printf "%p -> %l\n" | sort; find tree -links 2 | sort; find tree -perm 640; find tree -empty; find tree -maxdepth 1 -mindepth 1 | sort; find tree -samefile tree/numbers | sort; find . -path "*/b/*"; find nothing'
same find_actions 'find tree -type f -exec wc -c {} + | tail -1; find tree -name fruit -exec cat {} \;; find tree -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; find tree -name greek -delete; ls tree/a/b; find tree -type f | sort | xargs -n1 -P4 basename | sort; seq 3000 | xargs -n 100 echo | wc -l; echo a b | xargs -I{} echo "<{}>"; xargs false <<<x; echo $?'
same grep_ 'grep 7 tree/numbers | wc -l; grep -r apple tree; grep -rn a tree --include=fruit; grep -c . tree/a/b/greek; grep -v a tree/a/fruit; grep -E "(an){2}" tree/a/fruit; grep -P "\d$" tree/a/fruit; grep -l alpha -r tree; grep -o "[0-9]$" tree/a/fruit; grep nothing tree/numbers; echo $?; grep -q 1 tree/numbers; echo $?; grep x missing; echo $?; grep -rL zzz tree | sort; zgrep a <(gzip -c tree/a/fruit)'
same sed_ 'sed -n 2,3p tree/numbers; sed -i.bak s/apple/APPLE/ tree/a/fruit; cat tree/a/fruit tree/a/fruit.bak; sed -e "/^$/d" -e "s/\(.\)a/\1A/g" tree/a/b/greek; sed "y/abc/xyz/;2q" tree/a/fruit; sed -E "s/([a-z]+) ([0-9])/\2 \1/" tree/a/fruit; sed -n "\$=" tree/numbers; sed s/x/y nothing; sed bad'
same awk_ 'awk "{s+=\$1} END {print s}" tree/numbers; awk "{print \$2, \$1 | \"sort\"}" tree/a/fruit; awk "BEGIN {while ((getline line < \"tree/a/fruit\") > 0) n++; print n; print length(\"abc\"), substr(\"hello\",2,3), sprintf(\"%.3f\", atan2(0,-1))}"; awk -F: "\$3==0 {print \$1}" /etc/passwd; awk "BEGIN {system(\"exit 3\")}"; awk "BEGIN {\"echo x\" | getline y; print y; exit 4}"; echo $?'
same tar_ 'tar cf t.tar tree; tar tf t.tar | sort; mkdir x; tar xf t.tar -C x; diff -r tree x/tree; stat -c "%a %Y %h" x/tree/numbers x/tree/a/fruit | head -c 4; rm -rf x; mkdir x; tar cz tree | tar xz -C x; tar cJf t.tar.xz tree; tar xJf t.tar.xz -C x; readlink x/tree/link; tar rf t.tar /etc/passwd 2>/dev/null; tar --delete -f t.tar tree/numbers; tar tf t.tar | wc -l; rm t.tar t.tar.xz; tar xf nothing; echo $?'
same gzip_ 'gzip -k tree/numbers; zcat tree/numbers.gz | cmp - tree/numbers; gzip -d <tree/numbers.gz | tail -1; gunzip -f tree/numbers.gz; seq 100000 | gzip -9 | gzip -dc | sha256sum; gzip -t nothing; echo garbage | gzip -d; echo $?'
same xz_ 'xz -k tree/numbers; xzcat tree/numbers.xz | cmp - tree/numbers; seq 100000 | xz -T2 | xz -dc | sha256sum; rm tree/numbers.xz; xz -d <<<garbage; echo $?'
same bzip2_ 'command -v bzip2 >/dev/null || exit 77; seq 100000 | bzip2 | bzip2 -dc | sha256sum'
same diff_ 'diff tree/a/fruit tree/a/b/greek; echo $?; diff -u --label a --label b tree/a/fruit <(sed s/apple/pear/ tree/a/fruit) >p; patch -s tree/a/fruit p 2>/dev/null || command -v patch >/dev/null || echo; cat tree/a/fruit; cmp tree/a/fruit tree/a/b/greek; diff3 tree/a/fruit tree/a/fruit tree/a/b/greek | head -3'
same big_files 'seq 1 2000000 >big; wc -c big; md5sum big; sort -rn big | head -1; grep -c 99 big; cp big b2; cmp big b2; rm big b2'
same many_files 'mkdir m; for i in $(seq 800); do echo $i >m/$i; done; ls m | wc -l; cat m/* | sha256sum; find m -type f | wc -l; rm -r m; ls'
finish
