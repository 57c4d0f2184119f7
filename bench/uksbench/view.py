"""The view that every peer is to give: the host's root read-only, one writable directory on the same file system, an
empty /tmp in memory, loopback and no other network."""
import os
import pathlib

# What a container gets its own of, and what holds other machines' or nobody's files.
OWN = ('proc', 'sys', 'dev', 'tmp', 'run')
LEFT_OUT = ('mnt', 'media', 'boot', 'lost+found')


class View:
    def __init__(self, base):
        self.base = pathlib.Path(base)
        self.rootfs = self.base / 'rootfs'

    def make_rootfs(self):
        """A root of empty directories, for engines that cannot take / itself: the host's are bound into it."""
        self.rootfs.mkdir(mode=0o755, exist_ok=True)
        for entry in os.scandir('/'):
            place = self.rootfs / entry.name
            if entry.is_symlink() and not place.is_symlink():
                place.symlink_to(os.readlink(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                place.mkdir(mode=0o755, exist_ok=True)

    @staticmethod
    def bound_directories():
        """The host's top directories that show as they are."""
        return sorted(entry.path for entry in os.scandir('/')
                      if entry.is_dir(follow_symlinks=False) and entry.name not in OWN + LEFT_OUT)

    @staticmethod
    def guest_environment(work):
        """What the command gets, in each peer. HOME is in the work directory: the only place that all let it write."""
        return {
            'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
            'HOME': f'{work}/home',
            'LANG': 'C.UTF-8',
            'TERM': 'dumb',
            'TMPDIR': '/tmp',
            'PYTHONDONTWRITEBYTECODE': '1',
            'GIT_CONFIG_NOSYSTEM': '1',
            'npm_config_update_notifier': 'false',
        }
