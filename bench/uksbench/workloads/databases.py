"""sqlite, redis and postgres: server and client inside the same sandbox."""
import glob
import os

from .base import Metric, Script, expect


class Sqlite(Script):
    name = 'sqlite'
    group = 'databases'
    what = 'sqlite3: inserts in one and in many transactions, an index, queries'
    needs = ('sqlite3',)
    metrics = (Metric('databases/sqlite', 'sqlite3'),)

    def prepare(self, work):
        rows, commits = self.full(50000, 5000), self.full(100, 20)
        sql = ['create table t(a integer, b text);', 'begin;']
        sql += [f"insert into t values({n * 7919 % 100003}, 'row {n}');" for n in range(rows)]
        sql += ['commit;', 'create index i on t(a);']
        sql += [f"insert into t values({n}, 'late');" for n in range(commits)]
        sql += ['select count(*), sum(a) from t;', "select count(*) from t where b like '%99%';"]
        (work / 'work.sql').write_text('\n'.join(sql) + '\n')

    def script(self):
        return '''
rm -f data.db*
step sqlite sqlite3 data.db ".read work.sql"
'''

    def check(self, outcome, work):
        rows, commits = self.full(50000, 5000), self.full(100, 20)
        total = sum(n * 7919 % 100003 for n in range(rows)) + sum(range(commits))
        expect(outcome.out.startswith(f'{rows + commits}|{total}\n'), f'it printed {outcome.out[:120]!r}')


class Redis(Script):
    name = 'redis'
    group = 'databases'
    what = 'redis-benchmark with ten clients over loopback: SET and GET'
    needs = ('redis-server', 'redis-benchmark', 'redis-cli')
    metrics = (Metric('databases/redis_set', 'redis SET'), Metric('databases/redis_get', 'redis GET'))

    def script(self):
        requests = self.full(20000, 3000)
        return f'''
redis-server --port 17379 --save '' --appendonly no --daemonize no --dir . >redis.log 2>&1 &
for i in $(seq 100); do redis-cli -p 17379 ping >/dev/null 2>&1 && break; sleep 0.1; done
step redis_set sh -c 'redis-benchmark -p 17379 -n {requests} -c 10 -t set -q >set.txt'
step redis_get sh -c 'redis-benchmark -p 17379 -n {requests} -c 10 -t get -q >get.txt'
redis-cli -p 17379 info commandstats | grep -c -E '^cmdstat_(set|get):calls={requests},'
redis-cli -p 17379 shutdown nosave || true
wait
'''

    def check(self, outcome, work):
        expect(outcome.out.split()[:1] == ['2'], f'SET or GET were not all served: {outcome.out[:120]!r}')


class Postgres(Script):
    name = 'postgres'
    group = 'databases'
    what = 'pgbench with four clients; its server refuses to run as root, so as an ordinary user only'
    needs = ('psql',)
    only_account = 'user'
    quick = False
    seconds = 8.0
    metrics = (Metric('databases/pg_init', 'initdb'), Metric('databases/pgbench', 'pgbench'))

    def binaries(self):
        found = sorted(glob.glob('/usr/lib/postgresql/*/bin/initdb'))
        return os.path.dirname(found[-1]) if found else '/usr/lib/postgresql/none/bin'

    def script(self):
        return f'''
PATH={self.binaries()}:$PATH
rm -rf data /tmp/pg
mkdir -p /tmp/pg
step pg_init initdb -D data --no-sync --auth=trust -U bench >init.txt
pg_ctl -D data -w -l server.log -o "-c unix_socket_directories=/tmp/pg -c listen_addresses=''" start >/dev/null
pgbench -h /tmp/pg -U bench -i -q postgres 2>/dev/null
step pgbench sh -c 'pgbench -h /tmp/pg -U bench -c 4 -t {self.full(300, 50)} postgres >pgbench.txt 2>&1'
pg_ctl -D data -w -m fast stop >/dev/null
rm -rf /tmp/pg
grep -o 'transactions actually processed: [0-9]*/[0-9]*' pgbench.txt
'''

    def check(self, outcome, work):
        total = 4 * self.full(300, 50)
        expect(f'{total}/{total}' in outcome.out, f'it printed {outcome.out[-120:]!r}')


WORKLOADS = (Sqlite, Redis, Postgres)
