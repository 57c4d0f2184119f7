"""Peers that take the host's root as it is and need nothing prepared."""
import json

from .base import Launch, Peer, find, first_line


class Native(Peer):
    name = 'native'
    what = 'no sandbox: what the ratios compare with'
    options = 'none'
    boundary = False
    confines_files = False

    def command(self, argv, work, account):
        return Launch(argv, self.environment(work), work)

    def version(self):
        return first_line(['uname', '-r'])


class Uks(Peer):
    name = 'uks'
    what = 'user-space kernel, platform trap (seccomp listener)'
    platform = 'trap'

    def __init__(self, context):
        super().__init__(context)
        self.path = context.uks
        self.options = f'exec --quiet --platform {self.platform} --rw WORK --workdir WORK'

    def missing(self):
        return '' if self.path else 'no uks binary (tools/dev build, or --uks PATH)'

    def command(self, argv, work, account):
        # Variables that uks would withhold as credentials there are none; what it does withhold is part of it.
        return Launch([self.path, 'exec', '--quiet', '--platform', self.platform, '--rw', work, '--workdir', work, '--',
                       *argv], self.environment(work), work)

    def version(self):
        return self.context.uks_version


class UksPtrace(Uks):
    name = 'uks-ptrace'
    what = 'user-space kernel, platform ptrace (for hosts without a seccomp listener)'
    platform = 'ptrace'


class Bwrap(Peer):
    name = 'bwrap'
    what = 'bubblewrap: namespaces, no seccomp filter of its own'
    program = 'bwrap'
    packages = ('bubblewrap',)
    options = '--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind WORK WORK --unshare-all --die-with-parent'

    def command(self, argv, work, account):
        return Launch([self.path, '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp',
                       '--bind', work, work, '--unshare-all', '--die-with-parent', '--chdir', work, '--', *argv],
                      self.environment(work), work)


class Firejail(Peer):
    name = 'firejail'
    what = 'set-uid program: namespaces and a seccomp filter'
    program = 'firejail'
    packages = ('firejail',)
    options = ('--noprofile --net=none --read-only=/ --read-write=WORK --private-tmp --keep-var-tmp --caps.drop=all '
               '--seccomp')

    def command(self, argv, work, account):
        return Launch([self.path, '--quiet', '--noprofile', '--net=none', '--read-only=/', f'--read-write={work}',
                       '--private-tmp', '--keep-var-tmp', '--caps.drop=all', '--seccomp', '--', *argv],
                      self.environment(work), work)


class Proot(Peer):
    name = 'proot'
    what = 'ptrace: another root without privileges; no boundary, and what is written reaches the host'
    program = 'proot'
    packages = ('proot',)
    options = '-r / -b EMPTY:/tmp (its seccomp acceleration on, as by default)'
    boundary = False
    confines_files = False

    def command(self, argv, work, account):
        tmp = self.state(account) / 'tmp'
        if not tmp.exists():
            tmp.mkdir()
            tmp.chmod(0o1777)
        return Launch([self.path, '-r', '/', '-b', f'{tmp}:/tmp', *argv], self.environment(work), work)

    def version(self):
        words = first_line([self.path, '--version'])
        return words if any(c.isdigit() for c in words) else package_version('proot') or words


class Srt(Peer):
    name = 'srt'
    what = 'sandbox-runtime: a node program that sets up bubblewrap, a filter against unix sockets and proxies'
    program = 'srt'
    how_to_get = 'npm install --prefix TOOLS @anthropic-ai/sandbox-runtime; apt-get install bubblewrap socat ripgrep'
    npm = '@anthropic-ai/sandbox-runtime'
    packages = ('bubblewrap', 'socat', 'ripgrep')
    options = '--settings: no domains; writes to WORK and /tmp (the host\'s /tmp: it has no other)'

    def command(self, argv, work, account):
        settings = self.state(account) / 'settings.json'
        settings.write_text(json.dumps({
            'network': {'allowedDomains': [], 'deniedDomains': []},
            'filesystem': {'denyRead': [], 'allowWrite': [str(work), '/tmp'], 'denyWrite': []}}))
        # With `-c` it would take one string; as words it quotes them itself.
        return Launch([self.path, '--settings', settings, '--', *argv], self.environment(work), work)

    def missing(self):
        needed = [program for program in ('bwrap', 'socat', 'rg') if not find(program)]
        return super().missing() or (f'it needs {", ".join(needed)} ({self.how_to_get})' if needed else '')


def package_version(name):
    line = first_line(['dpkg-query', '-W', '-f', '${Version}', name])
    return line if line[:1].isdigit() else ''
