#!/usr/bin/env python3
"""Runs a command as a container engine's defaults would let it run, without an engine.

  launcher.py [--writable DIR]... PROFILE.json -- CMD...

As root: a mount namespace with a read-only root, fresh /dev/shm of the profile's size and /tmp, the named
directories writable; no capability, the profile's ids, no_new_privs. As anybody: the seccomp filter of the
profile. Ends with 125 and a line if a step is refused.
"""
import ctypes
import errno
import json
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWIPC = 0x20000, 0x08000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 24, 22, 2
AUDIT_ARCH_X86_64 = 0xC000003E
RET_ALLOW, RET_ERRNO, RET_KILL = 0x7FFF0000, 0x00050000, 0x80000000
SYS_CLONE, SYS_PERSONALITY, SYS_SOCKET = 56, 135, 41
ARG0_LOW = 16  # offset in struct seccomp_data


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        print(f'launcher: {what}: {os.strerror(number)}', file=sys.stderr)
        sys.exit(125)


def mount(source, target, kind, flags, data=None):
    encode = lambda text: text.encode() if text is not None else None
    check(LIBC.mount(encode(source), encode(target), encode(kind), flags, encode(data)), f'mount {target}')


def restrict_mounts(profile, writable):
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWIPC), 'unshare')
    mount(None, '/', None, MS_REC | MS_PRIVATE)
    for directory in writable:
        mount(directory, directory, None, MS_BIND)
    with open('/proc/self/mounts', encoding='utf-8') as file:
        mounts = [line.split() for line in file]
    for fields in mounts:
        target = fields[1].encode().decode('unicode_escape')
        if target in writable or target.startswith(('/proc', '/sys', '/dev')):
            continue
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY
        for word, bit in (('nosuid', MS_NOSUID), ('nodev', MS_NODEV), ('noexec', MS_NOEXEC)):
            if word in fields[3].split(','):
                flags |= bit
        mount(None, target, None, flags)
    mount('shm', '/dev/shm', 'tmpfs', MS_NOSUID | MS_NODEV | MS_NOEXEC, f"size={profile['shm_size_mib']}m,mode=1777")
    mount('tmpfs', '/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=1777')


def drop_root(profile):
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # EINVAL: there are no more
    os.setgroups([])
    os.setresgid(*[profile['gid']] * 3)
    os.setresuid(*[profile['uid']] * 3)


def filter_program(profile):
    """BPF as classic (code, jt, jf, k)."""
    load = lambda offset: (0x20, 0, 0, offset)
    equal = lambda value, jt, jf: (0x15, jt, jf, value)
    ret = lambda value: (0x06, 0, 0, value)
    program = [load(4), equal(AUDIT_ARCH_X86_64, 1, 0), ret(RET_KILL), load(0)]
    # x32, and whatever is newer than the profile.
    program += [(0x25, 0, 1, profile['last_known']), ret(RET_ERRNO | errno.ENOSYS)]
    for name, calls in profile['refused'].items():
        for number in calls.values():
            program += [equal(number, 0, 1), ret(RET_ERRNO | getattr(errno, name))]
    refuse = ret(RET_ERRNO | errno.EPERM)
    allow = ret(RET_ALLOW)
    program += [equal(SYS_CLONE, 0, 4), load(ARG0_LOW), (0x45, 0, 1, profile['clone_flags_refused']), refuse, allow]
    allowed = profile['personality_allowed']
    program += [equal(SYS_PERSONALITY, 0, len(allowed) + 3), load(ARG0_LOW)]
    program += [equal(value, len(allowed) - i, 0) for i, value in enumerate(allowed)]
    program += [refuse, allow]
    families = profile['socket_families_refused']
    program += [equal(SYS_SOCKET, 0, len(families) + 3), load(ARG0_LOW)]
    program += [equal(value, len(families) - i, 0) for i, value in enumerate(families)]
    program += [allow, refuse, allow]
    return program


def load_filter(profile):
    packed = b''.join(struct.pack('HBBI', *instruction) for instruction in filter_program(profile))
    code = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack('HxxxxxxQ', len(packed) // 8, ctypes.addressof(code))
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 'no_new_privs')
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0), 'seccomp')


def main():
    arguments = sys.argv[1:]
    writable = []
    while arguments[:1] == ['--writable']:
        writable.append(os.path.realpath(arguments[1]))
        arguments = arguments[2:]
    if len(arguments) < 3 or arguments[1] != '--':
        sys.exit(__doc__)
    with open(arguments[0], encoding='utf-8') as file:
        profile = json.load(file)
    if os.geteuid() == 0:
        restrict_mounts(profile, writable)
        drop_root(profile)
    load_filter(profile)
    try:
        os.execvp(arguments[2], arguments[2:])
    except OSError as error:
        print(f'launcher: {arguments[2]}: {error.strerror}', file=sys.stderr)
        sys.exit(127)


if __name__ == '__main__':
    main()
