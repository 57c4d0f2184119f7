"""What a peer is: a way to run a command in the view of view.py."""
import os
import pathlib
import shutil

from .. import process

# Where `--install` puts what the distribution's own packages do not have.
TOOLS = pathlib.Path('/var/cache/uks-bench' if os.geteuid() == 0 else
                     os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'uks-bench'))
SEARCH = f'{TOOLS}/bin:{TOOLS}/npm/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'


def find(program):
    return shutil.which(program, path=SEARCH)


class Launch:
    """A command line that runs a command in a sandbox. `cleanup` follows always, untimed; `on_kill` before it, when the
    run had to be killed: engines have more to remove then."""

    def __init__(self, argv, env, cwd, cleanup=None, on_kill=None):
        self.argv, self.env, self.cwd = [str(word) for word in argv], env, str(cwd)
        self._cleanup, self._on_kill = cleanup, on_kill

    def cleanup(self, killed):
        if killed and self._on_kill:
            self._on_kill()
        if self._cleanup:
            self._cleanup()


class Peer:
    name = ''            # as in --peers
    what = ''            # one line for the report
    program = ''         # what is looked for
    packages = ()        # Debian packages that bring it
    how_to_get = ''      # said when it is missing, if packages do not say it
    options = ''         # the options that it gets, for the report
    boundary = True      # whether it claims to be one
    daemon = ''          # the daemon that must run
    confines_files = True  # whether what the command writes outside is kept off the host

    def __init__(self, context):
        self.context = context
        self.path = find(self.program) if self.program else None
        self.why_not = ''

    # What a peer may override.

    def command(self, argv, work, account):
        """Launch for running argv in work as account."""
        raise NotImplementedError

    def version(self):
        return first_line([self.path, '--version'])

    def before(self, account):
        """Makes the peer ready, once for each account. Raises OSError or RuntimeError with the reason if it cannot."""

    def after(self):
        """Undoes before()."""

    # The rest.

    def missing(self):
        if self.path or not self.program:
            return ''
        get = self.how_to_get or f'apt-get install {" ".join(self.packages)}'
        return f'{self.program} is not installed ({get})'

    def environment(self, work):
        return self.context.view.guest_environment(work)

    def outer_environment(self, account):
        """For engines that need a home and a run directory of their own, outside the sandbox."""
        home = self.state(account)
        return {'PATH': SEARCH, 'HOME': str(home), 'XDG_RUNTIME_DIR': str(home / 'run'), 'LANG': 'C.UTF-8'}

    def state(self, account):
        """A directory of the peer's and the account's own."""
        path = self.context.base / 'state' / f'{self.name}-{account.name}'  # short: podman allows 50 characters
        if not path.exists():
            (path / 'run').mkdir(parents=True)
            for part in (path, path / 'run'):
                part.chmod(0o700)
                if os.geteuid() == 0:
                    os.chown(part, account.uid, account.gid)
        return path


def first_line(argv):
    root = process.Account('root', os.geteuid(), os.getegid())
    outcome = process.run([str(word) for word in argv], root, '/', {'PATH': SEARCH, 'HOME': '/nonexistent'}, 20)
    lines = (outcome.out or outcome.err).strip().splitlines()
    return lines[0].strip() if lines else 'unknown'
