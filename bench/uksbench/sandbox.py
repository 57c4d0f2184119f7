"""One peer, as one account, on one work directory: runs commands there and cleans up after each."""
import contextlib
import os
import pathlib
import subprocess
import time

from . import process


class Sandbox:
    def __init__(self, context, peer, account, work, timeout):
        self.context, self.peer, self.account, self.work, self.timeout = context, peer, account, work, timeout

    def run(self, argv, timeout=None):
        keep = set(process.descendants())
        launch = self.peer.command([str(word) for word in argv], self.work, self.account)
        outcome = process.run(launch.argv, self.account, launch.cwd, launch.env, timeout or self.timeout,
                              self.context.probe)
        launch.cleanup(not outcome.ok)
        process.end_new_descendants(keep, patience=2.0)
        return outcome

    def outside(self, argv):
        """Runs a command of the account's own in the work directory, without a sandbox."""
        return process.run(argv, self.account, self.work, self.context.view.guest_environment(self.work), 120)

    def start(self, argv):
        """Starts without waiting. Returns (Command, Launch)."""
        launch = self.peer.command([str(word) for word in argv], self.work, self.account)
        return process.Command(launch.argv, self.account, launch.cwd, launch.env, self.context.probe), launch

    def rate(self, argv, at_once, total):
        """Starts and ends `total` sandboxes, `at_once` at a time. Returns (Outcome, values)."""
        keep = set(process.descendants())
        launches = [self.peer.command(argv, self._part(number % (2 * at_once)), self.account) for number in range(total)]
        running, outcomes = [], []
        begin = time.perf_counter()
        try:
            waiting = list(launches)
            while waiting or running:
                while waiting and len(running) < at_once:
                    launch = waiting.pop()
                    running.append(process.Command(launch.argv, self.account, launch.cwd, launch.env,
                                                   self.context.probe))
                for command in [command for command in running if command.process.poll() is not None]:
                    running.remove(command)
                    outcomes.append(command.wait(1))
                    if not outcomes[-1].ok:
                        return outcomes[-1], {}
                if time.perf_counter() - begin > self.timeout:
                    return process.Outcome(124, '', '', self.timeout, True), {}
                time.sleep(0.0002)
        finally:
            seconds = time.perf_counter() - begin
            for command in running:
                command.kill()
            for launch in launches:
                launch.cleanup(len(outcomes) < total)
            process.end_new_descendants(keep, patience=2.0)
        return outcomes[-1], {'start/rate': total / seconds}

    def _part(self, number):
        """A work directory for one of several sandboxes at a time: some put files of their own there."""
        part = pathlib.Path(self.work) / f'part{number}'
        if not part.exists():
            part.mkdir()
            if os.geteuid() == 0:
                os.chown(part, self.account.uid, self.account.gid)
        return part

    @contextlib.contextmanager
    def busy(self, count):
        spinners = [subprocess.Popen([self.context.probe, 'spin']) for _ in range(count)]
        try:
            yield
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()

    def idle_memory(self, count):
        """Returns (Outcome, KiB of `count` idle sandboxes); None for the KiB if they do not all start."""
        before = set(process.descendants())
        marks = [pathlib.Path(self.work) / f'ready.{number}' for number in range(count)]
        started, kib = [], None
        outcome = process.Outcome(0, '', '', 0.0, False)
        try:
            for mark in marks:
                mark.unlink(missing_ok=True)
                started.append(self.start([self.context.probe, 'idle', '--file', str(mark)]))
                # A few at a time: what is measured is memory, not a storm of starts.
                if not self._wait_for(mark, started[-1][0]):
                    command = started[-1][0]
                    outcome = command.wait(0.1)
                    outcome.code = outcome.code or 1
                    return outcome, None
            time.sleep(1.0)
            pids = set(process.descendants()) - before
            daemon = getattr(self.peer, 'server', None)
            if daemon is not None:
                pids |= {daemon.pid, *process.descendants(daemon.pid)}
            pids -= set(probe_parents(pids, self.context.probe))
            kib = sum(pss(pid) for pid in pids)
        finally:
            for mark in marks:
                mark.unlink(missing_ok=True)
            # They end when their file vanishes, if they see that: gVisor is told that nobody else changes files.
            patience = time.monotonic() + 5
            for command, launch in started:
                launch.cleanup(not self._end(command, patience - time.monotonic()))
            process.end_new_descendants(before, patience=5.0)
        return outcome, kib

    def _wait_for(self, mark, command):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if mark.exists():
                return True
            if command.process.poll() is not None:
                return False
            time.sleep(0.005)
        return False

    @staticmethod
    def _end(command, patience):
        try:
            return command.process.wait(max(0.01, patience)) == 0
        except subprocess.TimeoutExpired:
            command.kill()
            return False


def probe_parents(pids, probe):
    """The `bench_probe time` processes that wrap what we start: ours, not the peer's."""
    for pid in pids:
        try:
            words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if len(words) > 1 and words[0] == os.fsencode(str(probe)) and words[1] == b'time':
            yield pid


def pss(pid):
    try:
        with open(f'/proc/{pid}/smaps_rollup', encoding='utf-8') as file:
            for line in file:
                if line.startswith('Pss:'):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0

