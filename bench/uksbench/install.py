"""`--install`: gets the peers that are missing, from the machine's own Debian mirror and npm's registry. What the machine's
release does not have, or has too old, is unpacked into a folder of the bench and does not touch the system."""
import os
import pathlib
import re
import subprocess

from .peers.base import TOOLS, find

NEWER_SUITE = 'trixie'  # Debian 13: its runsc has the platform systrap
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'


def install(peers, progress):
    if os.geteuid() != 0:
        progress.say('bench: --install needs root; it would run: apt-get install ' + ' '.join(wanted_packages(peers)))
        return
    TOOLS.mkdir(parents=True, exist_ok=True)
    TOOLS.chmod(0o755)
    packages = wanted_packages(peers)
    if packages:
        progress.say('bench: installing ' + ' '.join(packages))
        run(['apt-get', 'update', '-qq'], progress)
        # One by one: a package that cannot be had must not keep the others away. No upgrades of what is there.
        for package in packages:
            run(['apt-get', 'install', '--yes', '-qq', '--no-install-recommends', '--no-upgrade', package], progress)
    if not (TOOLS / 'bin' / 'runsc').exists():
        newer_package('runsc', 'usr/bin/runsc', progress)
    if find('npm') and not find('srt'):
        progress.say('bench: installing sandbox-runtime with npm')
        run(['npm', 'install', '--silent', '--prefix', str(TOOLS / 'npm'), '@anthropic-ai/sandbox-runtime'], progress)


def wanted_packages(peers):
    names = [name for peer in peers if peer.program and not find(peer.program) for name in peer.packages]
    names += [name for program, name in (('rg', 'ripgrep'), ('socat', 'socat'), ('pytest-3', 'python3-pytest'),
                                         ('sqlite3', 'sqlite3'), ('redis-server', 'redis-server')) if not find(program)]
    return sorted(set(names))


def run(command, progress):
    done = subprocess.run(command, env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        progress.say(f'bench: {" ".join(command[:2])} failed: {lines[-1] if lines else done.returncode}')
    return done.returncode == 0


def mirror():
    """The Debian mirror that apt uses here."""
    for path in [pathlib.Path('/etc/apt/sources.list'), *sorted(pathlib.Path('/etc/apt/sources.list.d').glob('*'))]:
        if not path.is_file():
            continue
        for line in path.read_text(errors='replace').splitlines():
            found = re.match(r'(?:URIs:\s*|deb\s+(?:\[[^\]]*\]\s*)?)(https?://\S+/debian)/?(?:\s|$)', line.strip())
            if found:
                return found[1]
    return None


def newer_package(name, program, progress):
    """Takes one program of a newer release's package, with lists of its own, so that apt here never learns of them."""
    source = mirror()
    if source is None:
        progress.say(f'bench: no Debian mirror among apt\'s sources: {name} cannot be got')
        return
    folder = TOOLS / 'apt'
    (folder / 'lists' / 'partial').mkdir(parents=True, exist_ok=True)
    (folder / 'source.list').write_text(f'deb [signed-by={KEYRING}] {source} {NEWER_SUITE} main\n')
    options = ['-o', f'Dir::Etc::SourceList={folder}/source.list', '-o', 'Dir::Etc::SourceParts=-',
               '-o', f'Dir::State::Lists={folder}/lists', '-o', 'Dir::Cache::pkgcache=', '-o', 'Dir::Cache::srcpkgcache=',
               '-o', 'APT::Sandbox::User=root']
    progress.say(f'bench: taking {name} from {NEWER_SUITE}')
    if not run(['apt-get', *options, 'update', '-qq'], progress):
        return
    download = subprocess.run(['apt-get', *options, 'download', name], cwd=folder, capture_output=True, text=True, check=False)
    archives = sorted(folder.glob(f'{name}_*.deb'))
    if download.returncode != 0 or not archives:
        progress.say(f'bench: {name}: ' + (download.stderr.strip().splitlines() or ['no answer'])[-1])
        return
    if run(['dpkg', '-x', str(archives[-1]), str(folder / 'unpacked')], progress):
        (TOOLS / 'bin').mkdir(exist_ok=True)
        os.replace(folder / 'unpacked' / program, TOOLS / 'bin' / name)
