#!/usr/bin/env python3
"""Writes the ctest list of the behaviour cases: each natively and under each platform.

  list_cases.py BEHAVIOUR_TESTS UKS OUTPUT.cmake
"""
import os
import subprocess
import sys

NATIVE_TIMEOUT_S = 60
# A sandbox that hangs must not hold up the rest for long.
INSIDE_TIMEOUT_S = 120
# Suites that also run where /proc/PID/mem is refused: guest memory by copy orders.
BY_ORDER = ('GuestMemory.',)


def cases(program):
    listing = subprocess.run([program, '--gtest_list_tests'], check=True, capture_output=True,
                             text=True).stdout
    suite = ''
    for line in listing.splitlines():
        name = line.split('#')[0].rstrip()
        if not name.startswith(' '):
            suite = name
        else:
            yield suite + name.strip()


def main():
    program, uks, output = sys.argv[1:4]
    folder = os.path.join(os.path.dirname(output), 'work')
    lines = []

    def add(name, command, label, timeout, extra=''):
        # The case runs in a folder of its own kind: native and trap cases never meet.
        directory = os.path.join(folder, label)
        os.makedirs(directory, exist_ok=True)
        quoted = ' '.join(f'[==[{word}]==]' for word in command)
        lines.append(f'add_test([==[{name}]==] {quoted})')
        lines.append(f'set_tests_properties([==[{name}]==] PROPERTIES LABELS {label} TIMEOUT '
                     f'{timeout} WORKING_DIRECTORY [==[{directory}]==]{extra})')

    skipped = ' SKIP_REGULAR_EXPRESSION [==[\\[  SKIPPED \\]]==]'
    # A case that is skipped inside passed outside (or is listed as skipped there): that is a failure.
    no_skip = ' FAIL_REGULAR_EXPRESSION [==[\\[  SKIPPED \\]]==]'
    for case in cases(program):
        arguments = [program, f'--gtest_filter={case}']
        add(f'native.{case}', arguments, 'native', NATIVE_TIMEOUT_S, skipped)
        for platform in ('trap', 'ptrace'):
            add(f'{platform}.{case}',
                [uks, 'exec', '--quiet', '--platform', platform, '--rw', '.', '--ro',
                 os.path.dirname(program), '--'] + arguments, platform, INSIDE_TIMEOUT_S, no_skip)
            if case.startswith(BY_ORDER):
                add(f'{platform}_by_order.{case}',
                    [uks, 'exec', '--quiet', '--platform', platform, '--rw', '.', '--ro',
                     os.path.dirname(program), '--'] + arguments, platform, INSIDE_TIMEOUT_S,
                    no_skip + ' ENVIRONMENT UKS_FEATURES=-proc_mem')
    text = '\n'.join(lines) + '\n'
    with open(output, 'w', encoding='utf-8') as file:
        file.write(text)


if __name__ == '__main__':
    main()
