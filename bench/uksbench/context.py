"""What peers, workloads and the runner know of this run."""
import os
import pathlib
import pwd
import shutil

from . import process
from .peers.base import first_line
from .view import View


class Context:
    def __init__(self, base, uks, programs, quick):
        self.base = pathlib.Path(base)
        self.base.mkdir(parents=True)
        self.base.chmod(0o755)
        self.quick = quick
        self.view = View(self.base)
        self.view.make_rootfs()
        self.facts = {}
        self._once = {}
        tools = self.base / 'bin'
        tools.mkdir()
        # Copies, at one place that everybody may read: a checkout often lies in a home directory.
        self.uks = self._copy(uks, tools)
        self.uks_version = first_line([self.uks, '--version']) if self.uks else ''
        self.probe = self._copy(programs / 'bench_probe', tools)
        self.micro = self._copy(programs / 'bench_micro', tools)
        self.accounts = accounts()
        ordinary = [account for account in self.accounts if account.uid != 0]
        self.ordinary_gid = ordinary[0].gid if ordinary else 0

    @staticmethod
    def _copy(program, folder):
        if not program or not pathlib.Path(program).exists():
            return None
        return pathlib.Path(shutil.copy(program, folder))

    def once(self, key, make):
        """The value of the first call with this key: what all later runs must agree with."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)


def accounts():
    """Root and an ordinary user; only the caller if that is not root."""
    if os.geteuid() != 0:
        return [process.Account('user', os.geteuid(), os.getegid())]
    result = [process.Account('root', 0, 0)]
    wanted = os.environ.get('SUDO_UID')
    for entry in pwd.getpwall():
        if (wanted and entry.pw_uid == int(wanted) != 0) or (not wanted and 1000 <= entry.pw_uid < 60000):
            return result + [process.Account('user', entry.pw_uid, entry.pw_gid)]
    return result + [process.Account('user', 65534, 65534)]
