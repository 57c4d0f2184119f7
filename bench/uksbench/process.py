"""Starts commands, measures them, and makes sure that nothing of them is left.

The bench is a child subreaper: whatever a sandbox leaves behind, however often it forked, stays its descendant and can
be found, counted and ended by pid.
"""
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE, MS_SHARED = 2, 4, 0x4000, 1 << 18, 1 << 20
GUEST_MARK = 0x5eed00000000  # bench/probe/commands.h
OUTPUT_LIMIT = 4 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str
    seconds: float
    timed_out: bool

    @property
    def ok(self):
        return self.code == 0 and not self.timed_out

    def message(self):
        """The line that best says what went wrong."""
        if self.timed_out:
            return f'no end after {self.seconds:.0f} s'
        lines = [line.strip() for line in (self.err + '\n' + self.out).splitlines() if line.strip()]
        words = ('error', 'cannot', 'failed', 'denied', 'not permitted', 'no such', 'fatal', 'bad system call')
        telling = [line for line in lines if any(word in line.lower() for word in words)]
        text = (telling or lines or ['no message'])[-1]
        return f'status {self.code}: {text[:240]}'


def become_subreaper():
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def private_mounts(places):
    """A mount namespace of our own, as root: what container engines mount goes with us. An empty /tmp in memory, so that
    native programs have one like all others (not if one of `places`, which we use, is below it). With version 1 and 2
    of cgroups side by side ("hybrid") crun refuses to work, so that version 2 alone shows. Says what was done."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        return 'no mount namespace: native programs had the host\'s /tmp'
    LIBC.mount(None, b'/', None, MS_REC | MS_PRIVATE, None)
    done = []
    if any(pathlib.Path(place).resolve().is_relative_to('/tmp') for place in places):
        done.append('native programs had the host\'s /tmp, since the bench itself lies below it')
    elif LIBC.mount(b'tmpfs', b'/tmp', b'tmpfs', MS_NOSUID | MS_NODEV, b'mode=1777') == 0:
        done.append('native programs had a /tmp in memory, as all others')
    cgroup = pathlib.Path('/sys/fs/cgroup')
    if not (cgroup / 'cgroup.controllers').exists() and (cgroup / 'unified').exists():
        umount = subprocess.run(['umount', '-R', str(cgroup)], capture_output=True, check=False)
        if umount.returncode == 0 and LIBC.mount(b'none', b'/sys/fs/cgroup', b'cgroup2', 0, None) == 0:
            done.append('the host has hybrid cgroups; the peers were shown version 2 only')
    LIBC.mount(None, b'/', None, MS_REC | MS_SHARED, None)  # rootless podman insists
    return '; '.join(done)


def parents():
    """{pid: parent} of every process."""
    result = {}
    for entry in os.scandir('/proc'):
        if entry.name.isdigit():
            try:
                with open(f'/proc/{entry.name}/stat', encoding='utf-8', errors='replace') as file:
                    result[int(entry.name)] = int(file.read().rpartition(')')[2].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    return result


def descendants(root=None):
    root = root or os.getpid()
    children = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, wanted = [], [root]
    while wanted:
        for pid in children.get(wanted.pop(), ()):
            found.append(pid)
            wanted.append(pid)
    return found


def reap():
    """Takes in the orphans that have ended. Only when no Popen of ours is running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def end_new_descendants(keep, patience=0.0):
    """Kills every descendant that is not in `keep`; says how many there were after `patience` seconds."""
    left, first = [], None
    deadline = time.monotonic() + patience
    while True:
        reap()
        left = [pid for pid in descendants() if pid not in keep and not is_zombie(pid)]
        if not left:
            return first or 0
        if time.monotonic() >= deadline:
            first = first or len(left)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if time.monotonic() >= deadline + 10:
                return first
        time.sleep(0.01)


def is_zombie(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            return file.read().rpartition(')')[2].split()[0] in 'ZX'
    except OSError:
        return True


def is_guest(pid):
    """Whether the process runs guest code: the page that bench_probe maps shows."""
    try:
        with open(f'/proc/{pid}/maps', encoding='utf-8') as file:
            return any(line.startswith(f'{GUEST_MARK:x}-') for line in file)
    except OSError:
        return False


class Account:
    """Whose processes the peers are: root, or an ordinary user."""

    def __init__(self, name, uid, gid, groups=()):
        self.name, self.uid, self.gid, self.groups = name, uid, gid, tuple(groups)

    def popen_arguments(self):
        if os.geteuid() != 0 or self.uid == 0:
            return {}
        return {'user': self.uid, 'group': self.gid, 'extra_groups': list(self.groups)}


class Command:
    """A running command of ours, in a session of its own. Output goes to files: a daemon that keeps a pipe open would
    keep us waiting."""

    def __init__(self, argv, account, cwd, env, probe=None, stdin=subprocess.DEVNULL):
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._clock = None
        arguments = account.popen_arguments()
        if probe:
            self._clock, write_end = os.pipe()
            argv = [str(probe), 'time', '--fd', str(write_end), '--', *argv]
            arguments['pass_fds'] = (write_end,)
        try:
            self.process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin, stdout=self._out, stderr=self._err,
                                            start_new_session=True, **arguments)
        finally:
            if probe:
                os.close(write_end)

    def wait(self, timeout):
        begin = time.monotonic()
        timed_out = False
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill()
            code = self.process.returncode
        seconds = time.monotonic() - begin
        if self._clock is not None:
            if not timed_out:
                fields = os.read(self._clock, 100).split()
                seconds = float(fields[0]) if fields else seconds
            os.close(self._clock)
            self._clock = None
        return Outcome(code, self._text(self._out), self._text(self._err), seconds, timed_out)

    def kill(self):
        for name in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, name)
            except OSError:
                pass
            try:
                self.process.wait(2)
                return
            except subprocess.TimeoutExpired:
                pass
        self.process.wait(10)

    @staticmethod
    def _text(file):
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - OUTPUT_LIMIT))
        text = file.read(OUTPUT_LIMIT).decode('utf-8', 'replace')
        file.close()
        return text


def run(argv, account, cwd, env, timeout, probe=None, stdin=subprocess.DEVNULL):
    try:
        command = Command(argv, account, cwd, env, probe, stdin)
    except OSError as error:
        return Outcome(127, '', str(error), 0.0, False)
    return command.wait(timeout)
