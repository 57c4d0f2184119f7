#!/usr/bin/env bash
# perl: processes, files, sockets, signals.
. "$(dirname "$0")/lib.sh"
need perl

same version 'perl -e "print \$^V, qq{\n}; print \$0, qq{\n}"'
same text 'seq 20 | perl -ne "print if /1/"; seq 5 | perl -pe "s/(\d)/<\$1>/"; perl -i.bak -pe "s/a/b/" nothing; echo abc >f; perl -i -pe "s/b/X/" f; cat f'
same fork_wait 'perl -e "for my \$i (1..20) { my \$p = fork; if (!\$p) { exit \$i } waitpid(\$p, 0); print \$? >> 8, qq{ } } print qq{\n}"'
same pipes 'perl -e "open(my \$f, q{-|}, q{seq}, 3) or die; print while <\$f>; close \$f; open(my \$g, q{|-}, q{cat}) or die; print \$g qq{out\n}; close \$g; print \$?, qq{\n}; print scalar(\`echo back\`)"'
same signals 'perl -e "\$SIG{USR1} = sub { print qq{usr1\n} }; kill USR1 => \$\$; \$SIG{ALRM} = sub { die qq{alarm\n} }; eval { alarm 1; sleep 10 }; print \$@; local \$SIG{CHLD} = q{IGNORE}; print qq{ok\n}"'
same files 'perl -MFile::Find -MFile::Temp=tempfile,tempdir -MFile::Path=make_path,remove_tree -MFile::Copy -MCwd -e "make_path(q{a/b/c}); open F, q{>a/b/c/f}; print F q{x} x 1000; close F; copy(q{a/b/c/f}, q{g}); print -s q{g}, qq{\n}; find(sub { print \$File::Find::name, qq{\n} }, q{a}); my (\$h, \$n) = tempfile(); print \$h q{t}; close \$h; print -e \$n ? 1 : 0, qq{\n}; unlink \$n; my \$d = tempdir(CLEANUP => 1); print -d \$d ? 1 : 0, qq{\n}; remove_tree(q{a}); print -e q{a} ? 1 : 0, qq{\n}; opendir D, q{.}; print join(q{,}, sort readdir D), qq{\n}"'
same locks 'perl -MFcntl=:flock -e "open F, q{>l}; flock(F, LOCK_EX) or die; my \$p = fork; if (!\$p) { open G, q{>>l}; exit(flock(G, LOCK_EX|LOCK_NB) ? 1 : 0) } waitpid \$p, 0; print \$?, qq{\n}"'
same socketpair 'perl -MSocket -e "socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; if (!fork) { syswrite B, qq{from child\n}; exit } close B; print <A>; wait"'
same loopback 'perl -MIO::Socket::INET -e "my \$s = IO::Socket::INET->new(Listen => 5, LocalAddr => q{127.0.0.1}) or die qq{\$@}; my \$port = \$s->sockport; if (!fork) { my \$c = IO::Socket::INET->new(PeerAddr => q{127.0.0.1}, PeerPort => \$port) or die; print \$c qq{hello\n}; exit } my \$c = \$s->accept; print <\$c>; wait"'
same errors 'perl -e "open(F, q{<nothing}) or print qq{\$!\n}; mkdir q{/proc/x} or print qq{no\n}; exec q{/nonexistent} or print qq{\$!\n}; exit 7"'
same sort_big 'perl -e "my @a = map { (\$_ * 7919) % 100003 } 1..100000; my @b = sort { \$a <=> \$b } @a; print \$b[0], q{ }, \$b[-1], qq{\n}"'
same digest 'perl -MDigest::SHA=sha256_hex -MMIME::Base64 -MPOSIX -MTime::HiRes=sleep -MList::Util=sum -e "print sha256_hex(q{x}), encode_base64(q{abc}), POSIX::floor(3.7), sum(1..10), qq{\n}; sleep 0.01; print POSIX::strftime(q{%Y}, gmtime(0)), qq{\n}; print((POSIX::uname())[0], qq{\n}); print POSIX::sysconf(POSIX::_SC_PAGESIZE()), qq{\n}"'
finish
