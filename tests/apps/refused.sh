#!/usr/bin/env bash
# Programs that try what is refused fall back: io_uring, perf events, bpf, userfaultfd, ptrace, int 0x80.
. "$(dirname "$0")/lib.sh"

same node_without_io_uring 'command -v node >/dev/null || exit 77; echo text >f; UV_USE_IO_URING=1 node -e "
const fs = require(\"fs\").promises;
Promise.all([1, 2, 3].map(() => fs.readFile(\"f\", \"utf8\"))).then(x => console.log(x.join(\"\")))"'
same python_multiprocessing 'command -v python3 >/dev/null || exit 77; /usr/bin/python3 -c "
import asyncio, multiprocessing as m
print(m.Pool(2).map(abs, [-1, -2])); print(asyncio.run(asyncio.sleep(0, 5)))"'
same git_status 'command -v git >/dev/null || exit 77; git init -q . && echo x >f && git add f && git status --short'

python() { inside -- /usr/bin/python3 -c "$1"; }
if [[ -x /usr/bin/python3 ]]; then
  fresh
  check errnos python '
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return errno.errorcode.get(ctypes.get_errno(), str(r)) if r == -1 else str(r)
wanted = {  # as a kernel built without them (COND_SYSCALL in kernel/sys_ni.c)
    "bpf": (call(321, 0, 0, 0), "ENOSYS"), "userfaultfd": (call(323, 0), "ENOSYS"),
    "io_uring_setup": (call(425, 4, 0), "ENOSYS"), "io_uring_enter": (call(426, 0, 0, 0, 0, 0, 0), "ENOSYS"),
    "io_uring_register": (call(427, 0, 0, 0, 0), "ENOSYS"), "perf_event_open": (call(298, 0, 0, -1, -1, 0), "ENOSYS"),
    # without CONFIG_X86_X32_ABI
    "x32": (call(0x40000000 | 39), "ENOSYS"),
    # as with kernel.yama.ptrace_scope = 3
    "ptrace TRACEME": (call(101, 0, 0, 0, 0), "EPERM"), "ptrace ATTACH init": (call(101, 16, 1, 0, 0), "EPERM"),
    "ptrace ATTACH nobody": (call(101, 16, 99999, 0, 0), "ESRCH"), "ptrace PEEK parent": (call(101, 2, os.getppid(), 0, 0), "ESRCH")}
bad = {k: v for k, v in wanted.items() if v[0] != v[1]}
assert not bad, bad'
  # int 0x80 is a fault, which a handler sees. A filter around us may kill first, as it does outside.
  int80='
import ctypes, mmap, os, signal
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\xcd\x80\xc3")
code = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
child = os.fork()
if child == 0:
    code()
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)'
  outside=$(native /usr/bin/python3 -c "$int80")
  within=$(python "$int80")
  # (The guest is told SIGKILL, whatever the host killed its process with.)
  check int80 test "$within" = 11 -o \( "$outside" != 0 -a "$within" = 9 \)
fi
if command -v strace >/dev/null; then
  fresh
  check strace_says_why bash -c '"$@" 2>&1 | grep -q "Operation not permitted"' _ timeout 60 "${clean_env[@]}" "$UKS" exec --quiet -- strace true
fi
if command -v gdb >/dev/null; then
  fresh
  check gdb_says_why bash -c '"$@" 2>&1 | grep -q "Operation not permitted"' _ timeout 60 "${clean_env[@]}" "$UKS" exec --quiet -- gdb -batch -ex run /bin/true
fi
finish
