#!/usr/bin/env bash
# Guests whose memory hangs: pages of a file on a FUSE file system that answers everything but reads. Others in the
# sandbox go on, the guests can be killed, the sandbox ends.
. "$(dirname "$0")/lib.sh"
need unshare
[[ -x /usr/bin/python3 ]] || { skip all "no /usr/bin/python3"; exit 0; }
if ((EUID != 0)) || [[ ! -c /dev/fuse ]] || ! unshare -m true 2>/dev/null; then
  skip all "needs root and /dev/fuse"
  exit 0
fi

cat >"$base/serve.py" <<'EOF'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"hung", sys.argv[1].encode(), b"fuse", 0, options) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
os.makedirs(sys.argv[1] + ".up")
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = \
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29
INTERRUPT, BATCH_FORGET, ENOSYS, ENOENT = 36, 42, 38, 2
SIZE = 1 << 24
def attr(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100666, SIZE)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
while True:
    try:
        request = os.read(device, 1 << 18)
    except InterruptedError:
        continue
    length, op, unique, node = struct.unpack_from("<IIQQ", request)
    error, reply = 0, b""
    if op in (FORGET, BATCH_FORGET, INTERRUPT, READ):
        continue
    if op == INIT:  # FUSE_ASYNC_READ: who waits for a page can be killed
        reply = struct.pack("<4I2H2I2HI28x", 7, 31, 131072, 1, 12, 9, 131072, 1, 0, 0, 0)
    elif op == LOOKUP:
        if request[40:].rstrip(b"\0") == b"file":
            reply = struct.pack("<4Q2I", 2, 1, 3600, 3600, 0, 0) + attr(2)
        else:
            error = ENOENT
    elif op == GETATTR:
        reply = struct.pack("<QII", 3600, 0, 0) + attr(node)
    elif op in (OPEN, OPENDIR):
        reply = struct.pack("<QII", 1, 0, 0)
    elif op == STATFS:
        reply = bytes(80)
    elif op not in (RELEASE, FLUSH, READDIR, RELEASEDIR):
        error = ENOSYS
    os.write(device, struct.pack("<IiQ", 16 + len(reply), -error, unique) + reply)
EOF

cat >"$base/guest.py" <<'EOF'
import ctypes, mmap, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
OPEN, FUTEX, SET_ROBUST_LIST, SET_TID_ADDRESS = 2, 202, 273, 218
PAGE = 4096

rounds = mmap.mmap(-1, PAGE)  # shared
def count():
    return int.from_bytes(rounds[:8], "little")
def rate(seconds):
    before = count()
    time.sleep(seconds)
    return (count() - before) / seconds

bystander = os.fork()
if bystander == 0:
    r, w = os.pipe()
    n = 0
    while True:
        # writev and readv: their data does not come along with the call.
        os.writev(w, [b"a", b"b"])
        if os.read(r, 2) != b"ab":
            os._exit(1)
        if n % 256 == 0:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        n += 1
        rounds[:8] = n.to_bytes(8, "little")

file = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(file, 1 << 24, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
base = ctypes.addressof(ctypes.c_char.from_buffer(pages))

def hang(work):
    """A process with threads, all of whose memory hangs."""
    child = os.fork()
    if child:
        return child
    view = memoryview(pages)
    r, w = os.pipe()
    os.write(w, b"x" * 8192)
    scratch = os.memfd_create("scratch")
    os.write(scratch, bytes(1 << 18))
    def page(i):
        return view[(i * 97 + work) % 4000 * PAGE:][:PAGE]
    def large(i):
        return view[(i * 97 + work) % 3900 * PAGE:][:1 << 17]
    calls = [lambda: os.writev(w, [page(1)]), lambda: os.write(scratch, large(2)),
             lambda: libc.syscall(FUTEX, ctypes.c_void_p(base + 3000 * PAGE), 0, 0, None, None, 0),
             lambda: os.preadv(scratch, [large(4)], 0), lambda: libc.syscall(OPEN, ctypes.c_void_p(base + 30 * PAGE), 0),
             lambda: libc.syscall(FUTEX, ctypes.c_void_p(base + 20 * PAGE), 1, 1, None, None, 0)]
    for call in calls[1:]:
        threading.Thread(target=call, daemon=True).start()
    calls[0]()
    os._exit(0)

def say_farewell():
    """A process that is killed and whose last words hang."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        shared = mmap.mmap(-1, PAGE)
        libc.syscall(SET_ROBUST_LIST, ctypes.c_void_p(base + 50 * PAGE), 24)
        libc.syscall(SET_TID_ADDRESS, ctypes.c_void_p(base + 60 * PAGE))
        os.write(w, b"x")
        signal.pause()
    os.read(r, 1)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]

alone = rate(0.5)
hung = [hang(i) for i in range(int(sys.argv[2]))]
time.sleep(0.3)
beside = rate(2)
assert beside * 20 >= alone, f"{beside} rounds a second, alone {alone}"
assert say_farewell() == signal.SIGKILL
beside = rate(1)
assert beside * 20 >= alone, f"{beside} rounds a second afterwards, alone {alone}"
if sys.argv[3] == "kill":
    for child in hung:
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it did not hang"
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    os.kill(bystander, signal.SIGKILL)
    os.waitpid(bystander, 0)
assert os.spawnv(os.P_WAIT, "/bin/true", ["true"]) == 0
EOF

# run PROCESSES MODE: the guest in a sandbox, beside its file system; 124 if it does not end.
run() {
  rm -rf "$base/fs" "$base/fs.up"
  mkdir -p "$base/fs"
  unshare -m bash -c '
    base=$1 uks=$2; shift 2
    /usr/bin/python3 "$base/serve.py" "$base/fs" &
    server=$!
    for ((i = 0; i < 100; i++)); do [[ -d $base/fs.up ]] && break; sleep 0.05; done
    timeout -k 1 40 "$uks" exec --quiet --rw "$base/fs" --ro "$base" -- /usr/bin/python3 "$base/guest.py" "$base/fs/file" "$@"
    status=$?
    kill -9 "$server"
    umount -l "$base/fs"
    exit $status' _ "$base" "$UKS" "$@" 2>&1
}
hangs_and_is_killed() { run "$1" kill; }
sandbox_ends_with_hung_guests() { run 2 leave; }
check two_processes hangs_and_is_killed 2
check five_processes hangs_and_is_killed 5
check end_of_the_sandbox sandbox_ends_with_hung_guests
finish
