"""Peers that run an OCI bundle: runc, crun, and gVisor's platforms."""
import itertools
import json
import os

from .. import process
from .base import Launch, Peer, first_line

CAPABILITIES = ('CAP_AUDIT_WRITE', 'CAP_KILL', 'CAP_NET_BIND_SERVICE')  # those of `runc spec`
NUMBERS = itertools.count(1)


class OciPeer(Peer):
    takes_host_root = False  # whether the bundle's root may be /
    own_user_namespace = True  # whether the bundle must say so for an ordinary user

    def command(self, argv, work, account):
        name = f'{self.name}-{os.getpid()}-{next(NUMBERS)}'
        bundle = self.state(account) / 'bundles' / name
        bundle.mkdir(parents=True)
        (bundle / 'config.json').write_text(json.dumps(self.config(argv, str(work), account)))
        env = self.outer_environment(account)

        def cleanup():
            self.delete(name, account, env)
            (bundle / 'config.json').unlink()
            bundle.rmdir()

        return Launch([*self.runtime(account), 'run', '--bundle', bundle, name], env, work, cleanup)

    def runtime(self, account):
        raise NotImplementedError

    def delete(self, name, account, env):
        """A container that ended by itself is gone already."""
        if (self.state(account) / 'run' / name).exists() or self.always_delete:
            process.run([str(word) for word in [*self.runtime(account), 'delete', '--force', name]], account, '/', env, 20)

    always_delete = False

    def config(self, argv, work, account):
        ordinary = account.uid != 0
        mounts = [
            {'destination': '/proc', 'type': 'proc', 'source': 'proc'},
            {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs',
             'options': ['nosuid', 'strictatime', 'mode=755', 'size=65536k']},
            {'destination': '/dev/pts', 'type': 'devpts', 'source': 'devpts',
             'options': ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620']},
            {'destination': '/dev/shm', 'type': 'tmpfs', 'source': 'shm', 'options': ['nosuid', 'nodev', 'mode=1777']},
            {'destination': '/tmp', 'type': 'tmpfs', 'source': 'tmpfs', 'options': ['nosuid', 'nodev', 'mode=1777']},
        ]
        if ordinary:
            mounts.append({'destination': '/sys', 'type': 'none', 'source': '/sys', 'options': ['rbind', 'ro']})
        else:
            mounts.append({'destination': '/sys', 'type': 'sysfs', 'source': 'sysfs',
                           'options': ['nosuid', 'noexec', 'nodev', 'ro']})
        if not self.takes_host_root:
            mounts += [{'destination': path, 'type': 'none', 'source': path, 'options': ['rbind', 'ro']}
                       for path in self.context.view.bound_directories()]
        mounts.append({'destination': work, 'type': 'none', 'source': work, 'options': ['rbind', 'rw']})
        namespaces = [{'type': kind} for kind in ('pid', 'mount', 'ipc', 'uts', 'network')]
        linux = {'namespaces': namespaces}
        if ordinary and self.own_user_namespace:
            namespaces.append({'type': 'user'})
            linux['uidMappings'] = [{'containerID': 0, 'hostID': account.uid, 'size': 1}]
            linux['gidMappings'] = [{'containerID': 0, 'hostID': account.gid, 'size': 1}]
        return {
            'ociVersion': '1.0.0',
            'process': {
                'user': {'uid': 0, 'gid': 0}, 'args': [str(word) for word in argv], 'cwd': work,
                'env': [f'{name}={value}' for name, value in self.environment(work).items()],
                'noNewPrivileges': True,
                'capabilities': {kind: list(CAPABILITIES) for kind in ('bounding', 'effective', 'permitted')},
            },
            'root': {'path': '/' if self.takes_host_root else str(self.context.view.rootfs), 'readonly': True},
            'hostname': 'bench', 'mounts': mounts, 'linux': linux,
        }


class Runc(OciPeer):
    name = 'runc'
    what = 'containers: namespaces and dropped capabilities; `runc spec` has no seccomp filter'
    program = 'runc'
    packages = ('runc',)
    options = 'run, with the capabilities of `runc spec` and no_new_privs; as an ordinary user in a user namespace'

    def runtime(self, account):
        return [self.path, '--root', self.state(account) / 'run']


class Crun(OciPeer):
    name = 'crun'
    what = 'containers, written in C: as runc'
    program = 'crun'
    packages = ('crun',)
    options = Runc.options

    def runtime(self, account):
        return [self.path, '--root', self.state(account) / 'run']


class Gvisor(OciPeer):
    program = 'runsc'
    platform = ''
    takes_host_root = True
    own_user_namespace = False
    always_delete = True
    newer_suite = True  # bookworm's runsc has no systrap

    def __init__(self, context):
        super().__init__(context)
        self.how_to_get = 'tools/dev bench --install, which takes runsc from Debian 13'
        self.options = (f'--platform={self.platform} --network=none --overlay2=none --file-access=exclusive '
                        '--file-access-mounts=exclusive --ignore-cgroups, directfs on as by default')

    def runtime(self, account):
        flags = [self.path, '--root', self.state(account) / 'run', f'--platform={self.platform}', '--network=none',
                 '--overlay2=none', '--file-access=exclusive', '--file-access-mounts=exclusive', '--ignore-cgroups']
        return flags + (['--rootless'] if account.uid != 0 else [])

    def version(self):
        return first_line([self.path, '--version'])


class GvisorPtrace(Gvisor):
    name = 'gvisor-ptrace'
    what = 'user-space kernel in Go, platform ptrace'
    platform = 'ptrace'


class GvisorSystrap(Gvisor):
    name = 'gvisor-systrap'
    what = 'user-space kernel in Go, platform systrap (its default)'
    platform = 'systrap'


class GvisorKvm(Gvisor):
    name = 'gvisor-kvm'
    what = 'user-space kernel in Go, platform KVM'
    platform = 'kvm'

    def missing(self):
        return super().missing() or ('' if os.path.exists('/dev/kvm') else 'there is no /dev/kvm here')


