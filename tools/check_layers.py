#!/usr/bin/env python3
"""Fails if a file includes a header of a layer that it may not use (DESIGN §5).

  check_layers.py [ROOT]
"""
import os
import re
import sys

# Folder prefix of the including file -> folder prefixes it may include. The longest prefix decides.
ALLOWED = {
    'platform/base/': ['platform/base/'],
    'platform/abi/': ['platform/base/', 'platform/abi/'],
    'platform/': ['platform/', 'gen/copy_table.inc'],
    'gofer/proto/': ['platform/base/', 'platform/abi/', 'platform/host/', 'gofer/proto/'],
    'gofer/': ['platform/base/', 'platform/abi/', 'platform/host/', 'gofer/'],
    'sentry/': ['platform/', 'sentry/', 'gofer/proto/', 'gofer/client/'],
    'sentry/boot/': ['platform/', 'sentry/', 'gofer/', 'syscalls/', 'gen/'],
    'syscalls/': ['platform/', 'sentry/', 'syscalls/', 'gen/', 'gofer/proto/'],
    'tools/': None,  # the command line ties everything together
    'tests/': None,
    'bench/': None,
}
# sentry/* may not reach up into sentry/boot.
FORBIDDEN = {'sentry/': ['sentry/boot/'], 'syscalls/': ['sentry/boot/']}
INCLUDE_RE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
SUFFIXES = ('.h', '.cc', '.c', '.S', '.inc')


def longest_prefix(path, table):
    found = [prefix for prefix in table if path.startswith(prefix)]
    return max(found, key=len) if found else None


def check_file(root, path):
    layer = longest_prefix(path, ALLOWED)
    if layer is None or ALLOWED[layer] is None:
        return []
    problems = []
    with open(os.path.join(root, path), encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE_RE.match(line)
            if not match:
                continue
            target = match.group(1)
            if '/' not in target:  # a sibling of the same folder
                continue
            allowed = any(target.startswith(prefix) for prefix in ALLOWED[layer])
            forbidden = any(target.startswith(prefix) for prefix in FORBIDDEN.get(layer, []))
            if not allowed or forbidden:
                problems.append(f'{path}:{number}: {layer} may not include {target}')
    return problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')
    problems = []
    for top in ('platform', 'gofer', 'sentry', 'syscalls'):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith(SUFFIXES):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    problems += check_file(root, path)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
