#!/usr/bin/env bash
# python3: subprocess, threading, tempfile, sqlite3 and what agents' scripts use besides.
. "$(dirname "$0")/lib.sh"
need python3

# py NAME PROGRAM
py() { same_cmd "$1" python3 -c "$2"; }

py hello 'import sys; print("hello"); print("err", file=sys.stderr); sys.exit(3)'
py imports 'import json, re, os, sys, subprocess, threading, asyncio, collections, hashlib, ssl, http.client, email, csv, sqlite3, zlib, lzma, bz2, decimal, ctypes, unittest; print("ok")'
py subprocess_run '
import subprocess, sys
r = subprocess.run(["sh", "-c", "cat; echo err >&2; exit 5"], input=b"in", capture_output=True)
print(r.returncode, r.stdout, r.stderr)
print(subprocess.check_output("echo $((6*7)); seq 3 | tail -1", shell=True))
try: subprocess.run(["/nonexistent"])
except FileNotFoundError as e: print(e.errno)
try: subprocess.run(["sleep", "10"], timeout=0.2)
except subprocess.TimeoutExpired: print("timeout")
p = subprocess.Popen(["sleep", "100"]); p.terminate(); print(p.wait())
p = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]); print(p.wait())
for i in range(30): assert subprocess.call(["true"]) == 0
print(subprocess.run(["env"], env={"A": "1"}, capture_output=True).stdout)
print(subprocess.run(["pwd"], cwd="/", capture_output=True).stdout)
p1 = subprocess.Popen(["seq", "1000"], stdout=subprocess.PIPE)
p2 = subprocess.Popen(["wc", "-l"], stdin=p1.stdout, stdout=subprocess.PIPE); p1.stdout.close()
print(p2.communicate()[0].split())
r, w = __import__("os").pipe()
print(subprocess.run(["sh", "-c", f"echo passed >&{w}"], pass_fds=[w]).returncode); print(__import__("os").read(r, 100))
print(subprocess.run(["sh", "-c", "ps -o pgid= $$ >/dev/null; kill -0 $$"], start_new_session=True).returncode)'
py threading '
import threading, queue, time
q = queue.Queue(); out = []
def work():
    while (x := q.get()) is not None: out.append(x * x)
ts = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in ts]; [q.put(i) for i in range(1000)]; [q.put(None) for _ in ts]; [t.join() for t in ts]
print(sum(out))
e = threading.Event(); t = threading.Timer(0.05, e.set); t.start(); print(e.wait(5))
print(threading.Semaphore(1).acquire(timeout=0.1)); l = threading.Lock(); l.acquire(); print(l.acquire(timeout=0.05))
b = threading.Barrier(10); r = []
ts = [threading.Thread(target=lambda: r.append(b.wait())) for _ in range(10)]
[t.start() for t in ts]; [t.join() for t in ts]; print(sorted(r))
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(16) as ex: print(sum(ex.map(lambda x: x + 1, range(500))))'
py tempfile_ '
import tempfile, os
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, "f"), "w").write("x"); print(os.listdir(d))
print(os.path.exists(d))
with tempfile.NamedTemporaryFile("w+") as f: f.write("hi"); f.flush(); print(open(f.name).read())
with tempfile.TemporaryFile() as f: f.write(b"abc"); f.seek(1); print(f.read())
print(tempfile.gettempdir()); fd, n = tempfile.mkstemp(dir="."); os.close(fd); print(oct(os.stat(n).st_mode)); os.unlink(n)
s = tempfile.SpooledTemporaryFile(10); s.write(b"x" * 100); s.seek(0); print(len(s.read()))'
py sqlite '
import sqlite3, threading, os, multiprocessing
c = sqlite3.connect("t.db"); c.execute("create table t (a integer primary key, b text)")
c.executemany("insert into t (b) values (?)", [(str(i),) for i in range(2000)]); c.commit()
print(c.execute("select count(*), sum(a) from t").fetchone()); c.close()
c = sqlite3.connect("t.db"); print(c.execute("pragma journal_mode=wal").fetchone())
def add(n):
    d = sqlite3.connect("t.db", timeout=30)
    for i in range(50):
        with d: d.execute("insert into t (b) values (?)", (f"{n}-{i}",))
    d.close()
pids = []
for n in range(4):
    pid = os.fork()
    if pid == 0:
        add(n); os._exit(0)
    pids.append(pid)
print([os.waitpid(p, 0)[1] for p in pids])
print(c.execute("select count(*) from t").fetchone(), c.execute("pragma integrity_check").fetchone())
c.execute("pragma journal_mode=delete"); c.close(); print(sorted(os.listdir("."))); os.unlink("t.db")'
py os_calls '
import os, stat, shutil
os.makedirs("a/b/c"); open("a/f", "w").write("x" * 10); os.symlink("f", "a/l"); os.link("a/f", "a/h")
print(sorted((os.path.relpath(r), sorted(d), sorted(f)) for r, d, f in os.walk(".")))
print(os.stat("a/f").st_nlink, os.readlink("a/l"), os.lstat("a/l").st_size)
print(sorted(e.name for e in os.scandir("a") if e.is_file(follow_symlinks=False)))
shutil.copytree("a", "z", symlinks=True); shutil.rmtree("a"); print(sorted(os.listdir("z")))
os.rename("z/f", "y"); os.truncate("y", 4); print(os.path.getsize("y")); os.chmod("y", 0o600); print(stat.filemode(os.stat("y").st_mode))
os.utime("y", (1, 2)); print(os.stat("y").st_mtime); print(os.path.realpath("z/l").endswith("z/f"))
r, w = os.pipe(); os.write(w, b"abc"); print(os.read(r, 10)); os.set_blocking(r, False)
try: os.read(r, 1)
except BlockingIOError as e: print(e.errno)
fd = os.open("y", os.O_RDWR); print(os.pread(fd, 2, 1)); os.pwrite(fd, b"Q", 0); print(os.lseek(fd, 0, 2)); os.fsync(fd); os.close(fd)
print(os.sysconf("SC_PAGE_SIZE"), os.getuid() == os.geteuid(), len(os.urandom(16)), os.get_terminal_size if 0 else 0)
print(os.access("y", os.X_OK), os.access("y", os.R_OK), os.path.exists("/proc/self/exe"))
print(shutil.which("sh") is not None, os.strerror(2)); e = os.eventfd(3); print(os.eventfd_read(e)); m = os.memfd_create("m"); os.write(m, b"x"); print(os.fstat(m).st_size)
print(os.sendfile(os.open("out", os.O_CREAT | os.O_WRONLY), os.open("y", os.O_RDONLY), 0, 100))
print(os.copy_file_range(os.open("y", os.O_RDONLY), os.open("out2", os.O_CREAT | os.O_WRONLY), 100))
try: os.listxattr("y"); print("xattr")
except OSError as e: print(e.errno)'
py fork_and_signals '
import os, signal, time
def h(s, f): print("signal", s, flush=True)
signal.signal(signal.SIGUSR1, h); os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGALRM, h); signal.setitimer(signal.ITIMER_REAL, 0.05); signal.pause()
pid = os.fork()
if pid == 0: signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(60)
time.sleep(0.05); os.kill(pid, signal.SIGTERM); print(os.waitpid(pid, 0)[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2)
print(signal.sigpending(), signal.sigwait([signal.SIGUSR2]))
print(signal.sigtimedwait([signal.SIGUSR2], 0.05))
try:
    signal.signal(signal.SIGALRM, lambda s, f: (_ for _ in ()).throw(TimeoutError)); signal.alarm(1); time.sleep(10)
except TimeoutError: print("interrupted")
os.kill(os.getpid(), signal.SIGINT) if 0 else None'
py keyboard_interrupt 'import os, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), 2); time.sleep(1)'
py multiprocessing_ '
import multiprocessing as mp
def sq(x): return x * x
if __name__ == "__main__":
    with mp.Pool(4) as p: print(sum(p.map(sq, range(100))))
    q = mp.Queue(); p = mp.Process(target=q.put, args=("from child",)); p.start(); print(q.get()); p.join(); print(p.exitcode)
    a, b = mp.Pipe(); p = mp.Process(target=b.send, args=([1, 2],)); p.start(); print(a.recv()); p.join()
    v = mp.Value("i", 0)
    def inc(v):
        for _ in range(100):
            with v.get_lock(): v.value += 1
    ps = [mp.Process(target=inc, args=(v,)) for _ in range(4)]; [p.start() for p in ps]; [p.join() for p in ps]; print(v.value)
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7; t = shared_memory.SharedMemory(s.name); print(t.buf[0]); t.close(); s.close(); s.unlink()'
py asyncio_ '
import asyncio
async def main():
    async def f(n): await asyncio.sleep(0.01 * n); return n
    print(await asyncio.gather(*(f(i) for i in range(5))))
    p = await asyncio.create_subprocess_exec("sh", "-c", "cat; exit 3", stdin=-1, stdout=-1)
    print(await p.communicate(b"x"), p.returncode)
    try: await asyncio.wait_for(asyncio.sleep(10), 0.05)
    except asyncio.TimeoutError: print("timeout")
    async def serve(r, w): w.write((await r.readline()).upper()); await w.drain(); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0); port = s.sockets[0].getsockname()[1]
    r, w = await asyncio.open_connection("127.0.0.1", port); w.write(b"hello\n"); print(await r.read()); w.close(); s.close()
    u = await asyncio.start_unix_server(serve, "sock"); r, w = await asyncio.open_unix_connection("sock"); w.write(b"unix\n"); print(await r.read()); w.close(); u.close()
    print(await asyncio.get_running_loop().run_in_executor(None, sum, range(10)))
asyncio.run(main()); import os; os.path.exists("sock") and os.unlink("sock")'
py sockets '
import socket, threading, select
s = socket.create_server(("127.0.0.1", 0)); port = s.getsockname()[1]
def server():
    c, a = s.accept(); data = b""
    while (d := c.recv(65536)): data += d
    c.sendall(str(len(data)).encode()); c.close()
t = threading.Thread(target=server); t.start()
c = socket.create_connection(("127.0.0.1", port)); c.sendall(b"x" * 1000000); c.shutdown(1); print(c.recv(100)); t.join()
a, b = socket.socketpair(); a.send(b"q"); print(select.select([b], [], [], 1)[0] == [b], b.recv(5)); a.close(); print(b.recv(1))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b"udp", u.getsockname()); print(u.recv(10))
try: socket.create_connection(("127.0.0.1", 1), 2)
except ConnectionRefusedError: print("refused")
e = select.epoll(); e.register(a2 := socket.socketpair()[0]) if 0 else None; print(socket.gethostbyname("localhost"))'
py mmap_ '
import mmap, os
open("m", "wb").write(b"\0" * 8192); f = open("m", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:5] = b"hello"; m.flush(); print(open("m", "rb").read(5))
f2 = open("m", "r+b"); f2.seek(100); f2.write(b"xyz"); f2.flush(); print(m[100:103]); m.close()
a = mmap.mmap(-1, 4096); pid = os.fork()
if pid == 0: a[0] = 65; os._exit(0)
os.waitpid(pid, 0); print(a[0]); p = mmap.mmap(f.fileno(), 4096, access=mmap.ACCESS_COPY); p[0] = 0; print(open("m", "rb").read(1)); os.unlink("m")'
py pty_ '
import pty, os
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "tty >/dev/null && echo is a tty; stty -a | head -1 | cut -d\";\" -f1"])
out = b""
while True:
    try: d = os.read(fd, 1000)
    except OSError: break
    if not d: break
    out += d
print(out, os.waitpid(pid, 0)[1])'
py locks '
import fcntl, os
f = open("l", "w"); fcntl.lockf(f, fcntl.LOCK_EX)
pid = os.fork()
if pid == 0:
    g = open("l", "r+")
    try: fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(1)
    except OSError: os._exit(0)
print(os.waitpid(pid, 0)[1])'
py unittest_ '
import unittest, sys
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
    def test_b(self):
        with self.subTest(x=1): self.assertTrue(True)
r = unittest.TextTestRunner(stream=open("/dev/null", "w")).run(unittest.defaultTestLoader.loadTestsFromTestCase(T)); print(r.testsRun, len(r.failures))'
py resource_ 'import resource, os; print(resource.getrlimit(resource.RLIMIT_CORE)[0] >= -1); resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)); print(resource.getrlimit(resource.RLIMIT_NOFILE)); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 1000, os.cpu_count() == len(os.sched_getaffinity(0)), os.times().user >= 0)'
py memory 'x = bytearray(200 << 20); x[::4096] = b"\1" * len(x[::4096]); print(sum(x)); del x; y = [list(range(1000)) for _ in range(1000)]; print(len(y))'
py deep_recursion 'import sys; sys.setrecursionlimit(20000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(10000))'
py time_ 'import time; a = time.monotonic(); time.sleep(0.05); b = time.monotonic(); print(0.05 <= b - a < 2, abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 1, time.process_time() >= 0, time.thread_time() >= 0, time.strftime("%Y", time.gmtime(0)))'
py compileall_ 'import compileall, os; os.mkdir("p"); open("p/m.py", "w").write("x = 1\n"); compileall.compile_dir("p", quiet=1); print(sorted(os.listdir("p"))); import sys; sys.path.insert(0, "."); import p.m; print(p.m.x); import shutil; shutil.rmtree("p")'
same script_and_venv 'printf "import sys\nprint(sys.argv, len(sys.stdin.read()))\n" >s.py; echo input | python3 s.py a b; python3 -m json.tool <<<"{\"a\": [1, 2]}"; python3 -c "import venv" && python3 -m venv --without-pip v && v/bin/python -c "import sys; print(sys.prefix != sys.base_prefix)"; rm -rf v; python3 - <<<"print(1)"; python3 nothing.py; echo $?'
same http_server 'python3 -c "
import http.server, threading, urllib.request, os
os.mkdir(\"w\"); open(\"w/f\", \"w\").write(\"served\"); os.chdir(\"w\")
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer((\"127.0.0.1\", 0), H); threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f\"http://127.0.0.1:{s.server_port}/f\").read()); s.shutdown()"; rm -r w'
finish
