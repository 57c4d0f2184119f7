#!/usr/bin/env bash
# Servers and databases: redis over a unix socket, sqlite's write-ahead log from four processes.
. "$(dirname "$0")/lib.sh"
need sqlite3 python3

same sqlite_wal 'sqlite3 t.db "pragma journal_mode=wal; create table t (who int, n int);"
for w in 1 2 3 4; do (for i in $(seq 25); do sqlite3 -cmd ".timeout 30000" t.db "insert into t values ($w, $i);" || echo "failed $w $i"; done) & done; wait
sqlite3 t.db "select who, count(*), sum(n) from t group by who; pragma integrity_check; pragma wal_checkpoint(truncate);"; ls | sort; rm t.db*'

same_cmd sqlite_wal_python python3 -c '
import multiprocessing as mp, sqlite3
def work(k):
    c = sqlite3.connect("p.db", timeout=60, isolation_level=None)
    for i in range(50):
        c.execute("begin immediate"); n = c.execute("select v from counter").fetchone()[0]
        c.execute("update counter set v = ?", (n + 1,)); c.execute("insert into log values (?, ?)", (k, n)); c.execute("commit")
    c.close()
if __name__ == "__main__":
    c = sqlite3.connect("p.db"); print(c.execute("pragma journal_mode=wal").fetchone())
    c.executescript("create table counter (v int); insert into counter values (0); create table log (k int, n int unique);"); c.commit()
    ps = [mp.Process(target=work, args=(k,)) for k in range(4)]
    [p.start() for p in ps]; [p.join() for p in ps]; print([p.exitcode for p in ps])
    print(c.execute("select v from counter").fetchone(), c.execute("select count(*), count(distinct n) from log").fetchone()); c.close()
import os
for f in ("p.db", "p.db-wal", "p.db-shm"):
    if os.path.exists(f): os.unlink(f)'

if command -v redis-server >/dev/null; then
  # shellcheck disable=SC2016
  same redis 'd=$(mktemp -d /tmp/redis-XXXXXX); trap "rm -rf $d" EXIT; s=$d/redis.sock; redis-server --port 0 --unixsocket $s --save "" --appendonly no --dir $d --daemonize no --logfile $d/redis.log & p=$!
for i in $(seq 100); do redis-cli -s $s ping >/dev/null 2>&1 && break; sleep 0.1; done
r="redis-cli -s $s"; $r ping; $r set k v; $r get k; $r incrby n 41; $r incr n; $r lpush l a b c; $r lrange l 0 -1
for i in $(seq 300); do echo "set key$i $i"; done | $r | sort | uniq -c; $r dbsize
($r --csv subscribe ch | head -2 | tail -1) & for i in $(seq 100); do [[ $($r pubsub numsub ch | tail -1) == 1 ]] && break; sleep 0.1; done; $r publish ch msg; for i in 1 2 3 4 5; do sleep 0.2; $r publish ch more >/dev/null; done; wait $!  # head has gone: it ends at the next line
redis-benchmark -s $s -q -n 2000 -c 20 -t set,get,lpush >$d/bench 2>&1; tr "\r" "\n" <$d/bench | grep -c "requests per second"
$r config set save "900 1" >/dev/null; $r save; ls -l $d/dump.rdb | wc -l; $r shutdown nosave; wait $p; echo status $?; rm -f $d/dump.rdb $s'
  same redis_tcp 'd=$(mktemp -d /tmp/redis-XXXXXX); trap "rm -rf $d" EXIT; redis-server --port 16399 --bind 127.0.0.1 --save "" --dir $d >$d/redis.log & p=$!
for i in $(seq 100); do redis-cli -p 16399 ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -p 16399 set a b; redis-cli -p 16399 get a; redis-cli -p 16399 bgsave; sleep 1; redis-cli -p 16399 lastsave | wc -l; kill $p; wait $p; echo $?; rm -f $d/dump.rdb'
else
  skip redis 'no redis-server on this machine'
fi

same http_server 'python3 -m http.server 18099 --bind 127.0.0.1 >/dev/null 2>&1 & p=$!; echo content >file
python3 -c "
import time, urllib.request
for i in range(100):
    try: print(urllib.request.urlopen(\"http://127.0.0.1:18099/file\").read()); break
    except OSError: time.sleep(0.1)"
kill $p; wait $p 2>/dev/null; echo $?'
finish
