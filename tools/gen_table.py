#!/usr/bin/env python3
"""Generates from syscalls/table.def the dispatch table, the stub's copy descriptors and COMPAT.md.

  gen_table.py TABLE --out DIR          writes syscalls.h, syscall_table.inc, copy_table.inc, COMPAT.md
  gen_table.py TABLE --check-tests DIR  fails unless every row marked full has its test
"""
import argparse
import glob
import os
import re
import sys

# Type of table.def -> (C++ type, conversion of the register, ArgKind, name in COMPAT.md).
SCALARS = {
    'fd': ('int', 'static_cast<int>(a[{i}])', 'kFd'),
    'int': ('int', 'static_cast<int>(a[{i}])', 'kInt'),
    'pid': ('int', 'static_cast<int>(a[{i}])', 'kPid'),
    'whence': ('int', 'static_cast<int>(a[{i}])', 'kWhence'),
    'clockid': ('int', 'static_cast<int>(a[{i}])', 'kClockId'),
    'sig': ('int', 'static_cast<int>(a[{i}])', 'kSignal'),
    'oflags': ('int', 'static_cast<int>(a[{i}])', 'kOpenFlags'),
    'uint': ('uint32_t', 'static_cast<uint32_t>(a[{i}])', 'kUint'),
    'mode': ('uint32_t', 'static_cast<uint32_t>(a[{i}])', 'kMode'),
    'uid': ('uint32_t', 'static_cast<uint32_t>(a[{i}])', 'kUid'),
    'gid': ('uint32_t', 'static_cast<uint32_t>(a[{i}])', 'kGid'),
    'size': ('uint64_t', 'a[{i}]', 'kSize'),
    'ulong': ('uint64_t', 'a[{i}]', 'kUlong'),
    'long': ('int64_t', 'static_cast<int64_t>(a[{i}])', 'kLong'),
    'off': ('int64_t', 'static_cast<int64_t>(a[{i}])', 'kOff'),
    'addr': ('UserAddr', 'UserAddr{{a[{i}]}}', 'kAddr'),
    'path': ('UserPath', 'UserPath{{{{a[{i}]}}}}', 'kPath'),
    'str': ('UserStr', 'UserStr{{{{a[{i}]}}}}', 'kStr'),
    'strvec': ('UserAddr', 'UserAddr{{a[{i}]}}', 'kStrVec'),
}
BUFFERS = {'in': ('UserIn', 'kIn'), 'out': ('UserOut', 'kOut'), 'inout': ('UserInOut', 'kInOut'),
           'fill': ('UserOut', 'kOut'), 'fillvec': ('UserIn', 'kIn'), 'fillmsg': ('UserInOut', 'kInOut')}
RESTART = {'none': 'kNone', 'sys': 'kSys', 'nohand': 'kNoHand', 'block': 'kBlock'}
COVER = ('none', 'stub', 'part', 'full')  # stub: served in the guest process (platform/stub)
COPY_ITEMS_MAX = 3
CONSTANT_LENGTH = 'ArgExtent::kConstantLength'
BUFFER_RE = re.compile(r'^(in|out|inout|fill|fillvec|fillmsg)(?:\[(\w+)(?:\*(\d+))?\]|\((\d+)\))$')


class TableError(Exception):
    """A row of the table that cannot be understood."""


class Arg:
    """One argument of a call."""

    def __init__(self, text, names):
        if ':' not in text:
            raise TableError(f'argument {text!r} is not name:type')
        self.name, self.type = text.split(':', 1)
        if not re.fullmatch(r'[a-z][a-z0-9_]*', self.name):
            raise TableError(f'bad argument name {self.name!r}')
        self.length_arg = None
        self.scale = 0
        if self.type in SCALARS:
            self.cpp, self.convert, self.kind = SCALARS[self.type]
            self.buffer = None
            return
        match = BUFFER_RE.match(self.type)
        if not match:
            raise TableError(f'unknown type {self.type!r}')
        self.buffer, length_arg, scale, constant = match.groups()
        self.cpp, self.kind = BUFFERS[self.buffer]
        self.convert = self.cpp + '{{{{a[{i}]}}}}'
        if constant:
            self.scale = int(constant)
        else:
            if length_arg not in names:
                raise TableError(f'{self.name}: no argument {length_arg!r} gives its length')
            self.length_arg = names.index(length_arg)
            self.scale = int(scale or (16 if self.buffer == 'fillvec' else 1))
        if self.scale > 0xffff:
            raise TableError(f'{self.name}: a unit of {self.scale} bytes is too large')


class Row:
    """One call."""

    def __init__(self, line):
        fields = line.split()
        if len(fields) < 5:
            raise TableError('fewer than five columns')
        self.number = int(fields[0])
        self.name, self.file, self.restart, self.cover = fields[1:5]
        rest = fields[5:]
        self.flags = []
        if rest and rest[-1].startswith('flags='):
            self.flags = rest.pop()[len('flags='):].split(',')
        if self.restart not in RESTART:
            raise TableError(f'unknown restart class {self.restart!r}')
        if self.cover not in COVER:
            raise TableError(f'unknown cover {self.cover!r}')
        if self.file == '-' and self.covered():
            raise TableError('a covered call needs a file')
        if len(rest) > 6:
            raise TableError('more than six arguments')
        names = [text.split(':', 1)[0] for text in rest]
        if len(set(names)) != len(names):
            raise TableError('two arguments with one name')
        self.args = [Arg(text, names) for text in rest]
        if len(self.copies()) > COPY_ITEMS_MAX:
            raise TableError(f'more than {COPY_ITEMS_MAX} arguments to fetch')

    def covered(self):
        return self.cover not in ('none', 'stub')

    def signature(self):
        params = ''.join(f', {arg.cpp} {arg.name}' for arg in self.args)
        return f'Result<int64_t> sys_{self.name}(Task& task{params})'

    def copies(self):
        """(argument index, kind, length argument, size) of what the stub fetches."""
        items = []
        for i, arg in enumerate(self.args):
            if arg.type in ('path', 'str'):
                items.append((i, 'COPY_STR', 0, 0))
            elif arg.type == 'strvec':
                items.append((i, 'COPY_STRVEC', 0, 0))
            elif arg.buffer in ('in', 'inout'):
                if arg.length_arg is None:
                    items.append((i, 'COPY_BUF_CONST', 0, arg.scale))
                else:
                    items.append((i, 'COPY_BUF_ARG', arg.length_arg, arg.scale))
            elif arg.buffer == 'fill':
                items.append((i, 'COPY_FILL', arg.length_arg, arg.scale))
            elif arg.buffer == 'fillvec':
                items.append((i, 'COPY_FILL_VEC', arg.length_arg, arg.scale))
            elif arg.buffer == 'fillmsg':
                items.append((i, 'COPY_FILL_MSG', 0, arg.scale))
        return items


def read_table(path):
    rows = []
    with open(path, encoding='utf-8') as file:
        for lineno, line in enumerate(file, 1):
            line = line.split('#', 1)[0].strip()
            if not line:
                continue
            try:
                row = Row(line)
                if rows and row.number <= rows[-1].number:
                    raise TableError('rows are not sorted by number')
                if any(row.name == other.name for other in rows):
                    raise TableError(f'{row.name} occurs twice')
            except (TableError, ValueError) as error:
                sys.exit(f'{path}:{lineno}: {error}')
            rows.append(row)
    return rows


def handlers_header(rows):
    out = ['// Handlers of the system calls. Generated from syscalls/table.def by tools/gen_table.py.',
           '#pragma once', '#include <cstdint>', '',
           '#include "platform/base/result.h"', '#include "sentry/usermem/user_types.h"', '',
           'namespace uks {', '', 'class Task;', '']
    current = None
    for row in sorted((r for r in rows if r.covered()), key=lambda r: (r.file, r.number)):
        if row.file != current:
            if current is not None:
                out.append('')
            current = row.file
            out.append(f'// syscalls/{current}.cc')
        out.append(row.signature() + ';')
    out += ['', '}  // namespace uks', '']
    return '\n'.join(out)


def dispatch_table(rows):
    by_number = {row.number: row for row in rows}
    count = rows[-1].number + 1
    out = ['// The system call table, indexed by number. Generated from syscalls/table.def by',
           '// tools/gen_table.py; include it once, inside namespace uks, after gen/syscalls.h and',
           '// syscalls/table_types.h.', '']
    for row in rows:
        if not row.covered():
            continue
        args = ''.join(', ' + arg.convert.format(i=i) for i, arg in enumerate(row.args))
        used = 'a' if row.args else '/*a*/'
        out.append(f'static Result<int64_t> call_{row.name}(Task& task, '
                   f'const std::array<uint64_t, 6>& {used}) {{')
        out.append(f'  return sys_{row.name}(task{args});')
        out.append('}')
    out.append('')
    out.append(f'static constexpr std::array<SyscallEntry, {count}> kSyscallTable = {{{{')
    for number in range(count):
        row = by_number.get(number)
        if row is None:
            out.append(f'    /* {number} */ {{}},')
            continue
        handler = f'call_{row.name}' if row.covered() else 'nullptr'
        kinds = ', '.join(f'ArgKind::{arg.kind}' for arg in row.args)
        extents = []
        for arg in row.args:
            if arg.buffer is None:
                extents.append('ArgExtent{}')
            else:
                length = CONSTANT_LENGTH if arg.length_arg is None else arg.length_arg
                extents.append(f'ArgExtent{{{length}, {arg.scale}}}')
        out.append(f'    /* {number} */ {{"{row.name}", {handler}, '
                   f'RestartClass::{RESTART[row.restart]}, {len(row.args)}, '
                   f'{{{{{kinds}}}}}, {{{{{", ".join(extents)}}}}}}},')
    out += ['}};', '']
    return '\n'.join(out)


def copy_table(rows):
    count = rows[-1].number + 1
    out = ['/* What the stub fetches ahead for each call. Generated from syscalls/table.def by',
           ' * tools/gen_table.py; needs platform/channel/copy_descriptor.h. */',
           f'enum {{ COPY_DESCRIPTOR_COUNT = {count} }};',
           'static const struct copy_descriptor copy_descriptors[COPY_DESCRIPTOR_COUNT] = {']
    for row in rows:
        # A call without a handler gets nothing fetched: its arguments are never looked at.
        items = row.copies() if row.covered() else []
        if items:
            text = ', '.join(f'{{{arg}, {kind}, {length}, 0, {size}}}'
                             for arg, kind, length, size in items)
            out.append(f'    [{row.number}] = {{{{{text}}}}}, /* {row.name} */')
    if len(out) == 4:
        out.append('    [0] = {{{0, COPY_NONE, 0, 0, 0}}},')
    out += ['};', '']
    return '\n'.join(out)


def compat_page(rows):
    full = sum(row.cover == 'full' for row in rows)
    part = sum(row.cover == 'part' for row in rows)
    stub = sum(row.cover == 'stub' for row in rows)
    out = ['# System calls', '',
           'Generated from `syscalls/table.def`. *full*: behaves as Linux does, with a test for every',
           'listed flag. *part*: the common uses work. *stub*: served in the guest process. *none*: ENOSYS.', '',
           f'{full} full, {part} part, {stub} stub, {len(rows) - full - part - stub} none.', '',
           '| nr | call | cover | file | tested flags |', '|---|---|---|---|---|']
    for row in rows:
        file = '' if row.file == '-' else row.file
        out.append(f'| {row.number} | {row.name} | {row.cover} | {file} | {" ".join(row.flags)} |')
    out.append('')
    return '\n'.join(out)


def write_if_changed(path, text):
    """Keeps the time stamp of an unchanged file, so that nothing is rebuilt for it."""
    try:
        with open(path, encoding='utf-8') as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def check_tests(rows, directory):
    """Every row marked full: the tests of its file name the call and each of its flags as a word.

    These are FILE_test.cc and, where that was too long for one file, FILE_*_test.cc.
    """
    words = {}
    failures = []
    for row in rows:
        if row.cover != 'full':
            continue
        path = os.path.join(directory, f'{row.file}_test.cc')
        if path not in words:
            text = ''
            for part in glob.glob(path) + glob.glob(path.removesuffix('test.cc') + '*_test.cc'):
                with open(part, encoding='utf-8') as file:
                    text += file.read()
            # SYS_name and __NR_name count as naming the call.
            words[path] = set(re.sub(r'^(SYS_|__NR_)', '', word) for word in re.findall(r'\w+', text))
        if not words[path]:
            failures.append(f'{row.name}: no {path}')
            continue
        for word in [row.name] + row.flags:
            if word not in words[path]:
                failures.append(f'{row.name}: {path} does not mention {word}')
    for failure in failures:
        print(failure)
    if failures:
        sys.exit(f'{len(failures)} rows of the table are marked full without their test')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('table')
    parser.add_argument('--out', metavar='DIR')
    parser.add_argument('--check-tests', metavar='DIR')
    options = parser.parse_args()
    rows = read_table(options.table)
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        for name, text in (('syscalls.h', handlers_header(rows)),
                           ('syscall_table.inc', dispatch_table(rows)),
                           ('copy_table.inc', copy_table(rows)),
                           ('COMPAT.md', compat_page(rows))):
            write_if_changed(os.path.join(options.out, name), text)
        # The build compares this one's time stamp with the table's.
        with open(os.path.join(options.out, 'table.stamp'), 'w', encoding='utf-8'):
            pass
    if options.check_tests:
        check_tests(rows, options.check_tests)


if __name__ == '__main__':
    main()
