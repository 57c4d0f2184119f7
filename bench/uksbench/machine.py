"""The machine: what a reader must know to judge the figures."""
import os
import pathlib
import platform
import time


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding='utf-8', errors='replace').strip()
    except OSError:
        return None


def describe(mount_note=''):
    cpu = read('/proc/cpuinfo') or ''
    models = [line.partition(':')[2].strip() for line in cpu.splitlines() if line.startswith('model name')]
    memory = read('/proc/meminfo') or ''
    total = next((int(line.split()[1]) // 1024 for line in memory.splitlines() if line.startswith('MemTotal')), None)
    release = {}
    for line in (read('/etc/os-release') or '').splitlines():
        name, _, value = line.partition('=')
        release[name] = value.strip('"')
    return {
        'cpu': models[0] if models else platform.machine(),
        'cpus': os.cpu_count(),
        'memory_mib': total,
        'kernel': platform.release(),
        'system': release.get('PRETTY_NAME', 'unknown'),
        'governor': read('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor') or 'not told by this machine',
        'virtual': 'hypervisor' in cpu,
        'mitigations': read('/sys/devices/system/cpu/vulnerabilities/spectre_v2'),
        'max_user_namespaces': read('/proc/sys/user/max_user_namespaces'),
        'date': time.strftime('%Y-%m-%d %H:%M:%S %z'),
        'load': load(),
        'note': mount_note,
    }


def load():
    return [float(word) for word in (read('/proc/loadavg') or '0 0 0').split()[:3]]


def file_system(path):
    """The type of the file system that holds path."""
    best, kind = '', 'unknown'
    for line in (read('/proc/self/mounts') or '').splitlines():
        words = line.split()
        place = words[1]
        if (str(path) + '/').startswith(place.rstrip('/') + '/') and len(place) >= len(best):
            best, kind = place, words[2]
    return kind
