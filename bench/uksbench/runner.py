"""Runs every workload in every peer, interleaved run by run: what the machine does meanwhile hits all alike."""
import os
import random
import shutil
import time

from . import machine, process
from .sandbox import Sandbox
from .workloads.base import WrongResult

# Whether a peer gives the view: each line is a fact that the report shows. Run once for each peer and account. A write
# outside the work directory is refused, or goes to an overlay ("own"), or reaches the host, which the host sees.
VIEW_CHECK = r'''
touch work.probe && echo work=writable
(: >"$1") 2>/dev/null && echo root=own || echo root=read-only
echo "links=$(tail -n +3 /proc/net/dev 2>/dev/null | sed 's/:.*//' | tr -d ' ' | tr '\n' ',')"
[ -e /tmp/uks-bench.mark ] && echo tmp=shared || echo tmp=own
echo "uid=$(id -u)"
'''


class Runner:
    def __init__(self, context, store, progress, plan, deadline=None):
        self.context, self.store, self.progress, self.plan, self.deadline = context, store, progress, plan, deadline
        self.prepared = {}
        self.last_seconds = {}
        self.native_seconds = {}
        self.given_up = {}    # (workload, peer, account): message
        self.out_of_time = set()
        for run in store.runs:
            self._learn(run)

    # Peers.

    def ready_peers(self, peers, accounts):
        """Tries each peer as each account. Returns {account name: [peer]} and writes the section `peers`."""
        facts, ready = [], {account.name: [] for account in accounts}
        mark = '/tmp/uks-bench.mark'
        with open(mark, 'w', encoding='utf-8'):
            pass
        for peer in peers:
            entry = {'name': peer.name, 'what': peer.what, 'options': peer.options, 'missing': peer.missing(),
                     'version': '', 'boundary': peer.boundary, 'daemon': peer.daemon, 'accounts': {}}
            facts.append(entry)
            if entry['missing']:
                self.progress.say(f'{peer.name}: {entry["missing"]}')
                continue
            entry['version'] = peer.version()
            for account in accounts:
                message, view = self._try(peer, account)
                entry['accounts'][account.name] = {'works': not message, 'message': message, 'view': view}
                if message:
                    self.progress.say(f'{peer.name} does not run here as {account.name}: {message}')
                else:
                    ready[account.name].append(peer)
        os.unlink(mark)
        self.store.section('peers', facts)
        return ready

    def _try(self, peer, account):
        try:
            peer.before(account)
        except (OSError, RuntimeError) as error:
            return str(error), {}
        work = self._directory(account, 'view', peer.name)
        # A place outside the work directory that the account may write on the host.
        outside = self._directory(account, 'view', f'{peer.name}-outside') / 'probe'
        sandbox = Sandbox(self.context, peer, account, work, 8 if self.context.quick else 25)
        outcome = sandbox.run(['/bin/sh', '-c', VIEW_CHECK, 'sh', str(outside)])
        view = dict(line.split('=', 1) for line in outcome.out.splitlines() if '=' in line)
        if outside.exists():
            view['root'] = 'writable'
        if not outcome.ok:
            return outcome.message(), view
        if view.get('work') != 'writable':
            return 'the work directory is not writable: ' + outcome.message(), view
        return '', view

    # Runs.

    def run_all(self, tasks, rounds):
        """tasks: [(workload, account, [peer])]."""
        order = random.Random(self.plan['seed'])
        total = sum(len(peers) * self._rounds(workload, rounds) for workload, _, peers in tasks)
        done = 0
        for number in range(rounds):
            for workload, account, peers in tasks:
                if number >= self._rounds(workload, rounds):
                    continue
                # The native run is the first of all, because time-outs and expected answers come from it.
                shuffled = order.sample(peers, len(peers))
                if number == 0:
                    shuffled.sort(key=lambda peer: peer.name != 'native')
                for peer in shuffled:
                    self.progress.show(done, total, self._left(tasks, rounds, number, workload, account),
                                       f'{workload.name} in {peer.name} as {account.name}')
                    self._run_one(workload, peer, account, number)
                    done += 1
        self.progress.show(total, total, 0, 'done')

    @staticmethod
    def _rounds(workload, rounds):
        return 1 if getattr(workload, 'once', False) else rounds

    def _run_one(self, workload, peer, account, number):
        key = (workload.name, peer.name, account.name)
        if self.store.done(*key, number) or key in self.given_up:
            return
        if self.deadline is not None and time.monotonic() + self.last_seconds.get(key, 1.0) > self.deadline:
            self.out_of_time.add(key)
            return
        timeout = self._timeout(workload, account)
        if self.deadline is not None:
            timeout = min(timeout, max(5.0, self.deadline - time.monotonic()))
        begin = time.monotonic()
        run = {'workload': workload.name, 'peer': peer.name, 'account': account.name, 'round': number, 'ok': False,
               'values': {}, 'message': '', 'load': machine.load()[0], 'at': time.time()}
        try:
            work = self._work(workload, peer, account)
            sandbox = Sandbox(self.context, peer, account, work, timeout)
            if number == 0 and not self.context.quick and not getattr(workload, 'once', False):
                workload.measure(sandbox, work)  # warm-up: caches, and what the peer makes once
            outcome, values = workload.measure(sandbox, work)
            run['values'] = values
            run['ok'] = outcome.ok
            if not outcome.ok:
                run['message'] = outcome.message()
        except (WrongResult, OSError, ValueError, KeyError) as error:
            run['values'] = {}
            kind = 'wrong result' if isinstance(error, WrongResult) else type(error).__name__
            run['message'] = f'{kind}: {error}'[:400]
        run['took'] = time.monotonic() - begin
        if not run['ok'] and self.deadline is not None and time.monotonic() >= self.deadline:
            self.out_of_time.add(key)  # cut off by us: no result
            return
        self._learn(run)
        self.store.add(run)
        if not run['ok']:
            self.progress.say(f'{workload.name} failed in {peer.name} as {account.name}: {run["message"]}')

    def _learn(self, run):
        key = (run['workload'], run['peer'], run['account'])
        self.last_seconds[key] = run.get('took', 1.0)
        if not run['ok']:
            # A failure is a result: it is not tried again in every round.
            self.given_up[key] = run['message']
        elif run['peer'] == 'native':
            self.native_seconds[run['workload'], run['account']] = run.get('took', 1.0)

    def _timeout(self, workload, account):
        native = self.native_seconds.get((workload.name, account.name), workload.seconds)
        if self.context.quick:
            return min(25.0, 5 + 20 * native)
        return min(600.0, 30 + 60 * native)

    def _left(self, tasks, rounds, number, workload_now, account_now):
        """Seconds left, by what the last runs took."""
        left, reached = 0.0, False
        for round_number in range(number, rounds):
            for workload, account, peers in tasks:
                reached = reached or (workload is workload_now and account is account_now)
                if not reached or round_number >= self._rounds(workload, rounds):
                    continue
                for peer in peers:
                    key = (workload.name, peer.name, account.name)
                    if key not in self.given_up and not self.store.done(*key, round_number):
                        left += self.last_seconds.get(key, 2 * workload.seconds)
        if self.deadline is not None:
            left = min(left, max(0.0, self.deadline - time.monotonic()))
        return left

    # Work directories.

    def _directory(self, account, workload, peer):
        path = self.context.base / 'work' / account.name / workload.replace('/', '-') / peer
        path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(path, account.uid, account.gid)
        return path

    def _work(self, workload, peer, account):
        """The work directory of this workload and peer, prepared before its first run."""
        path = self._directory(account, workload.name, peer.name)
        if path not in self.prepared:
            shutil.rmtree(path)
            self._directory(account, workload.name, peer.name)
            workload.prepare(path)
            own(path, account)
            self.prepared[path] = True
        return path


def own(path, account):
    if os.geteuid() != 0:
        return
    for folder, _, files in os.walk(path):
        os.chown(folder, account.uid, account.gid)
        for name in files:
            os.chown(os.path.join(folder, name), account.uid, account.gid, follow_symlinks=False)


def leftovers(before):
    """What of ours still runs, at the end; ended and counted."""
    return process.end_new_descendants(before, patience=3.0)
