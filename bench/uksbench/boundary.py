"""The boundary table: what of the host's kernel guest code reaches in each peer, and what each peer needs. Measured here,
in two ways that check each other:

- *seen*: bench_probe makes every call once from inside, with arguments that can do nothing and a mark in the sixth
  register; the host's tracepoint at the entry of system calls (after ptrace and seccomp have had their say) shows which
  of them the host's kernel began to execute.
- *let through*: the seccomp filters of the guest's process, read from the kernel and evaluated for every number and any
  arguments. This is what an attacker may try, who is not content with one harmless attempt or who jumps into a stub's code.

The count in the table is of the calls that the host implements and that the filters let through or the host saw, unless every call of the
process stops at a tracer or runs on a virtual CPU, when it is of those seen.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import threading
import time

from . import bpf, process
from .sandbox import Sandbox

TRACING = pathlib.Path('/sys/kernel/tracing')
CALL_MARK = '5eedca11'       # bench/probe/calls_command.cc
LAST = 479
ENOSYS = 38
FUTEX = 202                  # answers ENOSYS to an unknown operation although it is there
LIMIT = pathlib.Path('/proc/sys/user/max_user_namespaces')
SAVED = pathlib.Path('/run/uks-bench.max_user_namespaces')
LAUNCHER = pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'posture' / 'launcher.py'
PROFILE = LAUNCHER.with_name('docker_default.json')


def measure(context, peers, progress, quick):
    root = next((account for account in context.accounts if account.uid == 0), None)
    table, native = {}, None
    for number, peer in enumerate(peers):
        progress.show(number, len(peers), 4.0 * (len(peers) - number), f'boundary of {peer.name}')
        row = {'needs': needs(context, peer, progress, quick)}
        table[peer.name] = row
        if root is None:
            row['message'] = 'only root can watch from the host'
            continue
        try:
            peer.before(root)
            row.update(from_inside(context, peer, root))
            row.update(filters(context, peer, root))
        except (OSError, RuntimeError) as error:
            row['message'] = str(error)[:300]
        if peer.name == 'native' and 'answers' in row:
            native = row
    if not quick:
        without_namespaces(context, peers, table, progress)
    return finish(table, native)


def finish(table, native):
    """Counts, from what was measured."""
    implemented = set(range(LAST + 1))
    if native:
        implemented = {int(number) for number, answer in native['answers'].items()
                       if answer != str(-ENOSYS) or int(number) == FUTEX}
    for row in table.values():
        if 'answers' not in row:
            continue
        seen = set(row['seen'] or ()) & implemented
        row['seen_count'] = len(seen) if row['seen'] is not None else None
        through = set(row['let_through']) & implemented if row.get('let_through') is not None else None
        row['through_count'] = len(through) if through is not None else None
        if row.get('tracer') or row.get('virtual_cpu'):
            row['reachable'] = row['seen_count']
        else:
            # Some calls pass every filter: the kernel lets uprobe and uretprobe by.
            row['reachable'] = len(through | seen) if through is not None else row['seen_count']
        refused, served = 0, 0
        for number in implemented - seen:
            answer = row['answers'].get(str(number), '')
            native_answer = native['answers'].get(str(number), '') if native else ''
            if answer == str(-ENOSYS) and number != FUTEX or answer.startswith('signal') or \
                    answer == '-1' != native_answer:
                refused += 1
            else:
                served += 1
        row['refused'], row['served'] = refused, served
    return {'implemented': len(implemented), 'rows': table}


def directory(context, peer, account, name):
    path = context.base / 'work' / account.name / name / peer.name
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, account.uid, account.gid)
    return path


# Seen by the host.

class Trace:
    """Collects the numbers of marked calls that enter the host's kernel from a set of processes and their children."""

    def __init__(self, pids):
        self.numbers = set()
        self._stop = threading.Event()
        self.place = TRACING / 'instances' / f'uks-bench-{os.getpid()}'
        self.place.mkdir()
        threads = [tid for pid in pids for tid in thread_ids(pid)]
        self._put('buffer_size_kb', '8192')
        self._put('options/event-fork', '1')
        self._put('set_event_pid', ' '.join(map(str, threads)))
        self._put('events/raw_syscalls/sys_enter/enable', '1')
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _put(self, name, text):
        (self.place / name).write_text(text)

    def _read(self):
        pipe = os.open(self.place / 'trace_pipe', os.O_RDONLY | os.O_NONBLOCK)
        rest = b''
        while True:
            try:
                data = os.read(pipe, 1 << 16)
            except BlockingIOError:
                if self._stop.is_set():
                    break
                time.sleep(0.005)
                continue
            *lines, rest = (rest + data).split(b'\n')
            for line in lines:
                if CALL_MARK.encode() + b')' in line:
                    words = line.partition(b' NR ')[2].split()
                    if words and words[0].isdigit():
                        self.numbers.add(int(words[0]))
        os.close(pipe)

    def close(self):
        self._put('events/raw_syscalls/sys_enter/enable', '0')
        self._stop.set()
        self._thread.join()
        self.place.rmdir()
        return sorted(self.numbers)


def thread_ids(pid):
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f'/proc/{pid}/task')]
    return []


def can_trace():
    return (TRACING / 'events' / 'raw_syscalls' / 'sys_enter').exists() and (TRACING / 'instances').is_dir()


def from_inside(context, peer, account):
    """Runs `bench_probe calls` in the peer. Returns {answers: {number: text}, seen: [number] or None}."""
    work = directory(context, peer, account, 'calls')
    start, answers = work / 'start', work / 'answers'
    before = set(process.descendants())
    sandbox = Sandbox(context, peer, account, work, 120)
    command, launch = sandbox.start([context.probe, 'calls', '--start', start, '--out', answers, '--last', LAST])
    seen, trace = None, None
    try:
        if not wait_for(start, command):
            raise RuntimeError('the probe did not start: ' + command.wait(1).message())
        begin = time.monotonic()
        if can_trace():
            trace = Trace(set(process.descendants()) - before)
        if time.monotonic() - begin > 1.5:
            raise RuntimeError('the machine is too busy to watch the probe')
        outcome = command.wait(120)
        if trace:
            time.sleep(0.1)
    finally:
        if trace:
            seen = trace.close()
        if command.process.poll() is None:
            command.kill()
        launch.cleanup(True)
        process.end_new_descendants(before, patience=2.0)
    lines = answers.read_text().splitlines() if answers.exists() else []
    if lines[-1:] != ['end']:
        raise RuntimeError(f'the probe ended at {lines[-1] if lines else "once"}: {outcome.message()}')
    return {'answers': dict(line.split(' ', 1) for line in lines[:-1]), 'seen': seen}


def wait_for(path, command, seconds=25):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists():
            return True
        if command.process.poll() is not None:
            return False
        time.sleep(0.01)
    command.kill()
    return False


# Let through by the filters.

def filters(context, peer, account):
    """Reads the filters of the guest's process and of the peer's own processes from an idle sandbox."""
    work = directory(context, peer, account, 'filters')
    mark = work / 'ready'
    before = set(process.descendants())
    sandbox = Sandbox(context, peer, account, work, 60)
    command, launch = sandbox.start([context.probe, 'idle', '--file', mark])
    row = {'let_through': None, 'tracer': None, 'virtual_cpu': False, 'own': {}}
    try:
        if not wait_for(mark, command):
            raise RuntimeError('the idle sandbox did not start')
        time.sleep(0.3)
        cache = {}
        pids = [pid for pid in process.descendants() if pid not in before and not is_wrapper(context, pid)]
        guests = [pid for pid in pids if process.is_guest(pid)]
        row['virtual_cpu'] = not guests
        for pid in guests:
            row['tracer'] = row['tracer'] or tracer(pid)
            numbers = let_through(pid, cache)
            if numbers is not None:
                row['let_through'] = sorted(set(row['let_through'] or ()) | numbers)
        for pid in pids:
            # The peer's own processes, by name: what they could call if they were taken over.
            numbers = let_through(pid, cache) if pid not in guests else None
            if numbers is not None:
                row['own'][name_of(pid)] = max(len(numbers), row['own'].get(name_of(pid), 0))
    finally:
        mark.unlink(missing_ok=True)
        if not ended(command):
            command.kill()
        launch.cleanup(True)
        process.end_new_descendants(before, patience=2.0)
    return row


def ended(command):
    try:
        command.process.wait(5)
        return True
    except subprocess.TimeoutExpired:
        return False


def is_wrapper(context, pid):
    try:
        words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
    except OSError:
        return True
    return words[:2] == [os.fsencode(str(context.probe)), b'time']


def tracer(pid):
    for line in (read_status(pid) or '').splitlines():
        if line.startswith('TracerPid:') and line.split()[1] != '0':
            return name_of(int(line.split()[1]))
    return None


def read_status(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f'/proc/{pid}/status').read_text(errors='replace')
    return None


def name_of(pid):
    """By its command line, else by its name: runsc calls all its processes `exe`."""
    with contextlib.suppress(OSError):
        words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace').split('\0')
        if words[0].startswith('uks') and len(words) > 1 and words[1].startswith('--role='):
            return f'uks {words[1][7:]}'
        if words[0]:
            return os.path.basename(words[0])
        return pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
    return 'ended'


def let_through(pid, cache):
    """The numbers that the filters of the process let run; of its most permissive thread. None if they cannot be read."""
    most = None
    for tid in thread_ids(pid)[:64]:
        try:
            programs = bpf.read_filters(tid)
        except OSError:
            continue
        key = repr(programs)
        if key not in cache:
            cache[key] = frozenset(bpf.let_through(programs, LAST))
        if most is None or len(cache[key]) > len(most):
            most = cache[key]
    return most


# What a peer needs.

def needs(context, peer, progress, quick):
    """{situation: '' if it runs there, else the message; absent if it was not tried}."""
    result = {'daemon': peer.daemon, 'kvm': peer.name.endswith('-kvm')}
    for account in context.accounts:
        if not quick:
            result[account.name] = try_to_run(context, peer, account)
    if os.geteuid() == 0 and not quick:
        result['docker_rules'] = under_docker_rules(context, peer)
    return result


def try_to_run(context, peer, account, prefix=(), caller=None):
    try:
        peer.before(account)
        work = directory(context, peer, account, 'needs')
        launch = peer.command(['/bin/sh', '-c', 'echo inside'], work, account)
    except (OSError, RuntimeError) as error:
        return str(error)[:300]
    before = set(process.descendants())
    outcome = process.run([*map(str, prefix), *launch.argv], caller or account, launch.cwd, launch.env, 20, context.probe)
    launch.cleanup(not outcome.ok)
    process.end_new_descendants(before, patience=1.0)
    if outcome.ok and outcome.out.strip().endswith('inside'):
        return ''
    return outcome.message()


def under_docker_rules(context, peer):
    """As inside a container with docker's default rules: tests/posture's launcher sets them up without docker."""
    profile = json.loads(PROFILE.read_text())
    account = process.Account('docker-rules', profile['uid'], profile['gid'])
    root = process.Account('root', 0, 0)
    prefix = ['/usr/bin/python3', LAUNCHER, '--writable', context.base, PROFILE, '--']
    return try_to_run(context, peer, account, prefix, root)


@contextlib.contextmanager
def no_user_namespaces():
    """user.max_user_namespaces is 0 meanwhile, for the whole machine; set back whatever happens. Should we be killed, the
    next bench finds the old value in SAVED."""
    old = LIMIT.read_text()
    SAVED.write_text(old)
    try:
        LIMIT.write_text('0')
        yield
    finally:
        LIMIT.write_text(old)
        SAVED.unlink()


def set_back():
    """What a killed bench could not."""
    if os.geteuid() == 0 and SAVED.exists():
        LIMIT.write_text(SAVED.read_text())
        SAVED.unlink()


def without_namespaces(context, peers, table, progress):
    ordinary = next((account for account in context.accounts if account.uid != 0), None)
    if os.geteuid() != 0 or ordinary is None:
        return
    progress.say('boundary: user namespaces are off for some seconds')
    with no_user_namespaces():
        for peer in peers:
            table[peer.name]['needs']['no_user_namespaces'] = try_to_run(context, peer, ordinary)
