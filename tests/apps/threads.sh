#!/usr/bin/env bash
# Hundreds of threads.
. "$(dirname "$0")/lib.sh"

same_cmd python_two_hundred python3 -c '
import threading
n = 0; lock = threading.Lock(); gate = threading.Event(); ready = threading.Semaphore(0)
def f():
    global n
    ready.release(); gate.wait()
    for _ in range(50):
        with lock: n += 1
ts = [threading.Thread(target=f) for _ in range(200)]
[t.start() for t in ts]; [ready.acquire() for _ in ts]; gate.set(); [t.join() for t in ts]
print(n)'
c_program='cat >t.c <<E
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define N %N%
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_barrier_t b; static long n;
static void* f(void* a) { pthread_barrier_wait(&b); for (int i = 0; i < 100; i++) { pthread_mutex_lock(&m); n++; pthread_mutex_unlock(&m); } return a; }
int main() { pthread_t t[N]; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 65536); pthread_barrier_init(&b, 0, N);
for (long i = 0; i < N; i++) if (pthread_create(t + i, &a, f, (void*)i)) { puts("create failed"); return 1; }
for (long i = 0; i < N; i++) { void* r; pthread_join(t[i], &r); if (r != (void*)i) return 2; }
printf("%%ld\n", n); return 0; }
E
gcc -O1 -pthread -o t t.c && ./t; echo $?; rm t'
same c_two_hundred "${c_program/\%N\%/200}"
same c_thousand "${c_program/\%N\%/1000}"
same_cmd create_join_loop python3 -c '
import threading
for i in range(1000):
    t = threading.Thread(target=lambda: None); t.start(); t.join()
print("done")'
same_cmd fork_from_threads python3 -c '
import os, threading
r = []
def f(i):
    p = os.fork()
    if p == 0: os._exit(i)
    r.append(os.waitpid(p, 0)[1] >> 8)
ts = [threading.Thread(target=f, args=(i,)) for i in range(40)]
[t.start() for t in ts]; [t.join() for t in ts]; print(sorted(r))'
same_cmd subprocess_from_threads python3 -c '
import subprocess, concurrent.futures as c
with c.ThreadPoolExecutor(16) as e: print(sorted(e.map(lambda i: int(subprocess.check_output(["echo", str(i)])), range(100))) == list(range(100)))'
finish
