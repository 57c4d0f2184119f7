"""Reads the seccomp filters of a process and works out, for every system call, what they may answer.

Arguments and the instruction pointer are unknown, so that both sides of a branch on them are followed: the answer is the
set of all actions that some call of that number could meet. A number is reachable if one of them lets it run.
"""
import ctypes
import errno
import json
import os
import struct
import time

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_SECCOMP_GET_FILTER = 0x4206, 0x4207, 0x420c
WALL = 0x40000000
AUDIT_ARCH_X86_64 = 0xC000003E
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

# Strictest first, as the kernel chooses among several filters.
ACTIONS = {0x80000000: 'kill', 0x00000000: 'kill', 0x00030000: 'trap', 0x00050000: 'errno', 0x7fc00000: 'notify',
           0x7ff00000: 'trace', 0x7ffc0000: 'allow', 0x7fff0000: 'allow'}
ORDER = ('kill', 'trap', 'errno', 'notify', 'trace', 'allow')
UNKNOWN = None


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    result = LIBC.ptrace(request, pid, address, data)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def read_filters(pid, patience=2.0):
    """The thread's filters, as lists of (code, jt, jf, k). Needs root. Raises OSError if it cannot be traced, as when
    somebody traces it already, or if it does not stop: a call that waits for a seccomp listener's answer may not.

    In a child of ours, whose end lets the thread go whatever happened."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            answer = {'filters': read_here(pid, patience)}
        except OSError as error:
            answer = {'errno': error.errno}
        with os.fdopen(write_end, 'w') as file:
            json.dump(answer, file)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {'errno': errno.EIO}
    if 'errno' in answer:
        raise OSError(answer['errno'], os.strerror(answer['errno'] or errno.EIO))
    return [[tuple(instruction) for instruction in program] for program in answer['filters']]


def read_here(pid, patience):
    ptrace(PTRACE_SEIZE, pid)
    ptrace(PTRACE_INTERRUPT, pid)
    deadline = time.monotonic() + patience
    while os.waitpid(pid, WALL | os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, 'it does not stop')
        time.sleep(0.002)
    filters = []
    while True:
        try:
            count = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, len(filters), 0)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):  # no more of them; no filter at all
                return filters
            raise
        buffer = (ctypes.c_char * (8 * count))()
        ptrace(PTRACE_SECCOMP_GET_FILTER, pid, len(filters), ctypes.addressof(buffer))
        filters.append(list(struct.iter_unpack('<HBBI', bytes(buffer))))


def evaluate(program, number):
    """The actions that this filter may answer to that number."""
    known = {0: number & 0xffffffff, 4: AUDIT_ARCH_X86_64}
    found, seen = set(), set()
    # A state: instruction, accumulator, index register, scratch memory.
    waiting = [(0, 0, 0, (0,) * 16)]
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        at, a, x, memory = state
        if at >= len(program):
            found.add('kill')
            continue
        code, jt, jf, k = program[at]
        kind = code & 7
        if kind == 0:  # ld
            mode = code & 0xe0
            value = {0x00: k, 0x20: known.get(k, UNKNOWN), 0x60: memory[k & 15], 0x80: 64}.get(mode, UNKNOWN)
            waiting.append((at + 1, value, x, memory))
        elif kind == 1:  # ldx
            value = {0x00: k, 0x60: memory[k & 15], 0x80: 64}.get(code & 0xe0, UNKNOWN)
            waiting.append((at + 1, a, value, memory))
        elif kind in (2, 3):  # st, stx
            stored = list(memory)
            stored[k & 15] = a if kind == 2 else x
            waiting.append((at + 1, a, x, tuple(stored)))
        elif kind == 4:  # alu
            waiting.append((at + 1, compute(code & 0xf0, a, x if code & 8 else k), x, memory))
        elif kind == 5:  # jmp
            if code & 0xf0 == 0:
                waiting.append((at + 1 + k, a, x, memory))
                continue
            truth = compare(code & 0xf0, a, x if code & 8 else k)
            if truth is not False:
                waiting.append((at + 1 + jt, a, x, memory))
            if truth is not True:
                waiting.append((at + 1 + jf, a, x, memory))
        elif kind == 6:  # ret
            value = a if code & 0x18 == 0x10 else k
            found.add('allow' if value is UNKNOWN else ACTIONS.get(value & 0xffff0000, 'kill'))
        else:  # misc: tax, txa
            waiting.append((at + 1, a, a, memory) if code & 0xf8 == 0 else (at + 1, x, x, memory))
    return found


def compute(operation, a, b):
    if operation == 0x80:  # neg
        return UNKNOWN if a is UNKNOWN else -a & 0xffffffff
    if a is UNKNOWN or b is UNKNOWN:
        # And-ing with 0 is known all the same.
        return 0 if operation == 0x50 and 0 in (a, b) else UNKNOWN
    results = {0x00: lambda: a + b, 0x10: lambda: a - b, 0x20: lambda: a * b, 0x30: lambda: a // b if b else 0,
               0x40: lambda: a | b, 0x50: lambda: a & b, 0x60: lambda: a << (b & 31), 0x70: lambda: a >> (b & 31),
               0x90: lambda: a % b if b else 0, 0xa0: lambda: a ^ b}
    return results[operation]() & 0xffffffff if operation in results else UNKNOWN


def compare(operation, a, b):
    if a is UNKNOWN or b is UNKNOWN:
        return None
    return {0x10: a == b, 0x20: a > b, 0x30: a >= b, 0x40: bool(a & b)}[operation]


def combine(filters, number):
    """What all filters together may answer: for each choice of one action from each, the strictest."""
    possible = {'allow'}
    for program in filters:
        mine = evaluate(program, number)
        possible = {min(one, other, key=ORDER.index) for one in possible for other in mine}
    return possible


def let_through(filters, last):
    """The numbers up to `last` that the filters let run for some argument; all if there is no filter."""
    return [number for number in range(last + 1) if 'allow' in combine(filters, number)]
