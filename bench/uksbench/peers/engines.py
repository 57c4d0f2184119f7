"""Container engines: podman and docker. No image from a registry: the root is empty directories with the host's bound in."""
import itertools
import os
import resource
import subprocess
import time

from .. import process
from .base import Launch, Peer, find, first_line

NUMBERS = itertools.count(1)


class Engine(Peer):
    def flags(self, work):
        """What `run` gets, in the words that both engines share."""
        words = ['--network=none', '--read-only', '--tmpfs', '/tmp:exec', '-w', work]
        for path in self.context.view.bound_directories():
            words += ['-v', f'{path}:{path}:ro']
        words += ['-v', f'{work}:{work}']
        for name, value in self.environment(work).items():
            words += ['-e', f'{name}={value}']
        return words


class Podman(Engine):
    name = 'podman'
    what = 'container engine without a daemon: crun, its default seccomp profile'
    program = 'podman'
    packages = ('podman', 'crun', 'uidmap')
    options = ('run --rm --rootfs, --network=none --cgroups=disabled --read-only --tmpfs /tmp, --runtime=crun, '
               '--events-backend=none')

    def engine(self, account):
        state = self.state(account)
        return [self.path, '--root', state / 'storage', '--runroot', state / 'run', '--runtime=crun',
                '--cgroup-manager=cgroupfs', '--events-backend=none']

    def command(self, argv, work, account):
        name = f'uks-bench-{os.getpid()}-{next(NUMBERS)}'
        env = self.outer_environment(account)
        limits = []
        if account.uid == 0:
            # Its own defaults are above what a root without CAP_SYS_RESOURCE may set; it lowers NPROC to pid_max itself.
            with open('/proc/sys/kernel/pid_max', encoding='utf-8') as file:
                most = {'nproc': min(hard(resource.RLIMIT_NPROC), int(file.read())),
                        'nofile': hard(resource.RLIMIT_NOFILE), 'memlock': hard(resource.RLIMIT_MEMLOCK)}
            for limit, value in most.items():
                limits += ['--ulimit', f'{limit}={value}:{value}']
        else:
            limits = ['--ulimit=host']

        def remove():
            process.run([str(word) for word in [*self.engine(account), 'rm', '--force', '--ignore', '--time=0', name]],
                        account, '/', env, 30)

        return Launch([*self.engine(account), 'run', '--rm', '--name', name, '--cgroups=disabled', '--pids-limit=0',
                       '--read-only-tmpfs=false', *limits, *self.flags(work), '--rootfs', self.context.view.rootfs,
                       *argv], env, work, on_kill=remove)


class Docker(Engine):
    name = 'docker'
    what = 'container engine with a daemon as root: containerd, runc, its default seccomp profile'
    program = 'dockerd'
    packages = ('docker.io',)
    options = ('run --rm --network=none --read-only --tmpfs /tmp; a daemon of the bench\'s own, '
               'without bridge and firewall rules')
    daemon = 'dockerd and containerd, as root'

    def __init__(self, context):
        super().__init__(context)
        self.client = find('docker')
        self.server = None
        self.socket = None

    def missing(self):
        if super().missing():
            return super().missing()
        if os.geteuid() != 0:
            return 'the bench starts a daemon of its own, for which it needs root'
        return ''

    def before(self, account):
        if self.server is None:
            root = process.Account('daemon', 0, 0)
            state = self.state(root)
            state.chmod(0o711)
            self.socket = f'unix://{state}/socket'
            with open(state / 'log', 'wb') as log:
                self.server = subprocess.Popen(
                    [self.path, '--data-root', state / 'data', '--exec-root', state / 'exec', '--pidfile', state / 'pid',
                     '-H', self.socket, '--group', str(self.context.ordinary_gid), '--iptables=false',
                     '--ip6tables=false', '--bridge=none'],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self._wait_for(state)
            tar = subprocess.Popen(['tar', '-C', self.context.view.rootfs, '-c', '.'], stdout=subprocess.PIPE)
            done = process.run([self.client, '-H', self.socket, 'import', '-', 'uks-bench'], root, '/',
                               self.outer_environment(root), 60, stdin=tar.stdout)
            tar.stdout.close()
            tar.wait()
            if not done.ok:
                raise RuntimeError('docker import: ' + done.message())

    def _wait_for(self, state):
        root = process.Account('daemon', 0, 0)
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            if self.server.poll() is not None:
                break
            if process.run([self.client, '-H', self.socket, 'version'], root, '/', self.outer_environment(root), 10).ok:
                return
            time.sleep(0.2)
        log = (state / 'log').read_text(errors='replace').strip().splitlines()
        self.after()
        raise RuntimeError('dockerd: ' + (log[-1][-300:] if log else 'no answer'))

    def after(self):
        if self.server is not None:
            self.server.terminate()
            try:
                self.server.wait(20)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait(10)
            self.server = None

    def command(self, argv, work, account):
        name = f'uks-bench-{os.getpid()}-{next(NUMBERS)}'
        env = self.outer_environment(account)

        def remove():
            process.run([self.client, '-H', self.socket, 'rm', '--force', name], account, '/', env, 30)

        return Launch([self.client, '-H', self.socket, 'run', '--rm', '--name', name, '--user',
                       f'{account.uid}:{account.gid}', *self.flags(work), 'uks-bench', *argv], env, work,
                      on_kill=remove)

    def version(self):
        return first_line([self.path, '--version'])


def hard(kind):
    value = resource.getrlimit(kind)[1]
    return -1 if value == resource.RLIM_INFINITY else value
