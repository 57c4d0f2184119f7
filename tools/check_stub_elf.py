#!/usr/bin/env python3
"""Post-link check of the stub: position-dependent on nothing, and free of vector registers.

  check_stub_elf.py STUB.elf

Fails if the file has relocations, a GOT or PLT, undefined symbols, a dynamic section, or an
instruction that touches x87, MMX, SSE, AVX, AVX-512 or AMX state (the patched path has no XSAVE
image, so such an instruction would corrupt the guest's registers).
"""
import re
import subprocess
import sys

VECTOR_REGISTER_RE = re.compile(r'%(?:[xyz]mm\d+|mm\d|st\b|k[0-7]\b|tmm\d)')
# Instructions that touch the state without naming a register. The xsave family only moves the
# state as a whole, on purpose, and is allowed.
X87_RE = re.compile(r'^(?:f[a-z]\w*|emms|femms|ldmxcsr|stmxcsr|vldmxcsr|vstmxcsr|vzeroupper|vzeroall)$')
ALLOWED = {'fxsave', 'fxrstor', 'fxsave64', 'fxrstor64'}
PREFIXES = {'rep', 'repz', 'repnz', 'lock', 'notrack', 'bnd', 'cs', 'ds', 'es', 'fs', 'gs', 'ss',
            'data16', 'addr32'}
FORBIDDEN_SECTIONS = ('.got', '.plt', '.dynamic', '.dynsym', '.interp', '.init_array', '.ctors',
                      '.tdata', '.tbss')
INSTRUCTION_RE = re.compile(r'^\s*([0-9a-f]+):\t(?:[0-9a-f]{2} )+\s*\t(.*)$')


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sections(path):
    """(name, size) of each section."""
    for line in run('readelf', '-SW', path).splitlines():
        match = re.match(r'\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)', line)
        if match:
            yield match.group(1), int(match.group(2), 16)


def check(path):
    problems = []
    relocations = run('readelf', '-rW', path)
    if 'There are no relocations' not in relocations:
        problems.append('relocations:\n' + relocations.strip())
    for name, size in sections(path):
        if name.startswith(FORBIDDEN_SECTIONS) and size:
            problems.append(f'section {name} of {size} bytes')
    undefined = run('nm', '-u', path).split()
    if undefined:
        problems.append('undefined symbols: ' + ' '.join(undefined))
    count = 0
    for line in run('objdump', '-d', path).splitlines():
        match = INSTRUCTION_RE.match(line)
        if not match:
            continue
        count += 1
        words = match.group(2).split('#')[0].split('<')[0].split()
        while words and words[0] in PREFIXES:
            words.pop(0)
        if not words:
            continue
        mnemonic = words[0]
        vector = VECTOR_REGISTER_RE.search(' '.join(words[1:]))
        if mnemonic not in ALLOWED and (vector or X87_RE.match(mnemonic)):
            problems.append(f'vector or x87 instruction at {match.group(1)}: {" ".join(words)}')
        if mnemonic == '(bad)':
            problems.append(f'undecodable bytes at {match.group(1)}')
    if count == 0:
        problems.append('no code')
    return problems


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = check(sys.argv[1])
    for problem in problems:
        print(f'{sys.argv[1]}: {problem}')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
