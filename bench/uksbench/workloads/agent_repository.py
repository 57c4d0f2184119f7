"""The repository that the agent works on, and what it does there: some tasks in a library with a C, a Python and a node
part. Every command gives the same result on every machine; 200 calls, each a JSON object: command, code, says."""
import base64
import gzip
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile

IDENTITY = {
    'GIT_AUTHOR_NAME': 'bench', 'GIT_AUTHOR_EMAIL': 'bench@localhost', 'GIT_AUTHOR_DATE': '2020-01-01T00:00:00Z',
    'GIT_COMMITTER_NAME': 'bench', 'GIT_COMMITTER_EMAIL': 'bench@localhost',
    'GIT_COMMITTER_DATE': '2020-01-01T00:00:00Z', 'PATH': '/usr/local/bin:/usr/bin:/bin', 'HOME': '/nonexistent',
    'GIT_CONFIG_NOSYSTEM': '1'}
TOPICS = ('parse', 'format', 'count', 'merge', 'split', 'search', 'escape', 'hash', 'range', 'table')


def make_repository(root):
    root = pathlib.Path(root)
    for folder in ('c/src', 'c/tests', 'python/textlib', 'python/tests', 'node/lib', 'node/test', 'node/vendor', 'docs'):
        (root / folder).mkdir(parents=True)
    c_part(root / 'c')
    python_part(root / 'python')
    node_part(root / 'node')
    (root / 'README.md').write_text('# textlib\n\nThe same functions in C, Python and node.\n\n' +
                                    ''.join(f'- {topic}: see docs/{topic}.md\n' for topic in TOPICS))
    for topic in TOPICS:
        (root / 'docs' / f'{topic}.md').write_text(f'# {topic}\n\n' + f'How {topic} works, and why it does so.\n' * 20)
    (root / '.gitignore').write_text('*.o\n__pycache__/\nnode_modules/\nc/build/\n')

    def git(*words):
        subprocess.run(['git', *words], cwd=root, env=IDENTITY, check=True, capture_output=True)

    git('init', '-q', '-b', 'main')
    git('config', 'user.name', 'bench')
    git('config', 'user.email', 'bench@localhost')
    git('config', 'gc.auto', '0')
    git('add', '-A')
    git('commit', '-q', '-m', 'textlib: Start')


def c_part(root):
    for number, topic in enumerate(TOPICS):
        (root / 'src' / f'{topic}.c').write_text(
            f'#include "textlib.h"\n\n#include <string.h>\n\nint textlib_{topic}(const char *text) {{\n'
            f'  int value = {number};\n  for (size_t i = 0; i < strlen(text); ++i) {{\n    value = value * 31 + text[i];\n'
            f'    value %= 9973;\n  }}\n  return value;\n}}\n')
    (root / 'src' / 'textlib.h').write_text(
        '#pragma once\n\n' + ''.join(f'int textlib_{topic}(const char *text);\n' for topic in TOPICS))
    checks = ''.join(f'  if (textlib_{topic}("") != {number}) return {number + 1};\n' for number, topic in enumerate(TOPICS))
    (root / 'tests' / 'all.c').write_text(
        f'#include <stdio.h>\n\n#include "../src/textlib.h"\n\nint main(void) {{\n{checks}  puts("all passed");\n'
        '  return 0;\n}\n')
    (root / 'Makefile').write_text(
        'CC = gcc\nCFLAGS = -O1 -Wall\nOBJECTS = $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))\n'
        'build/all: tests/all.c $(OBJECTS)\n\t$(CC) $(CFLAGS) -o $@ $^\n'
        'build/%.o: src/%.c src/textlib.h | build\n\t$(CC) $(CFLAGS) -c -o $@ $<\nbuild:\n\tmkdir -p build\n'
        'test: build/all\n\tbuild/all\nclean:\n\trm -rf build\n.PHONY: test clean\n')


def python_part(root):
    (root / 'textlib' / '__init__.py').write_text(''.join(f'from .{topic} import {topic}\n' for topic in TOPICS))
    for number, topic in enumerate(TOPICS):
        (root / 'textlib' / f'{topic}.py').write_text(
            f'"""{topic} of texts."""\n\n\ndef {topic}(text):\n    value = {number}\n    for character in text:\n'
            f'        value = (value * 31 + ord(character)) % 9973\n    return value\n')
        (root / 'tests' / f'test_{topic}.py').write_text(
            f'import unittest\n\nimport textlib\n\n\nclass {topic.capitalize()}Test(unittest.TestCase):\n'
            f'    def test_empty(self):\n        self.assertEqual(textlib.{topic}(""), {number})\n\n'
            f'    def test_same(self):\n        self.assertEqual(textlib.{topic}("ab"), textlib.{topic}("ab"))\n')
    (root / 'tests' / '__init__.py').write_text('')


def node_part(root):
    for number, topic in enumerate(TOPICS):
        (root / 'lib' / f'{topic}.js').write_text(
            f'"use strict";\n\nmodule.exports = function {topic}(text) {{\n  let value = {number};\n'
            '  for (const character of text) value = (value * 31 + character.charCodeAt(0)) % 9973;\n  return value;\n};\n')
    (root / 'lib' / 'index.js').write_text(
        '"use strict";\n\n' + ''.join(f'exports.{topic} = require("./{topic}");\n' for topic in TOPICS))
    checks = ''.join(f'assert.equal(textlib.{topic}(""), {number});\n' for number, topic in enumerate(TOPICS))
    (root / 'test' / 'all.js').write_text(
        f'"use strict";\n\nconst assert = require("assert");\nconst textlib = require("../lib");\nconst vendor = require("small");\n\n'
        f'{checks}assert.equal(vendor, 7);\nconsole.log("all passed");\n')
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode='w') as tar:
        for path, text in {'package.json': '{"name": "small", "version": "1.0.0"}', 'index.js': 'module.exports = 7;\n'}.items():
            info = tarfile.TarInfo(f'package/{path}')
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    data = gzip.compress(raw.getvalue(), mtime=0)
    (root / 'vendor' / 'small.tgz').write_bytes(data)
    top = {'name': 'textlib', 'version': '1.0.0', 'dependencies': {'small': 'file:vendor/small.tgz'}}
    (root / 'package.json').write_text(json.dumps({**top, 'scripts': {'test': 'node test/all.js'}}, indent=2))
    integrity = 'sha512-' + base64.b64encode(hashlib.sha512(data).digest()).decode()
    (root / 'package-lock.json').write_text(json.dumps({
        'name': 'textlib', 'version': '1.0.0', 'lockfileVersion': 3, 'requires': True, 'packages': {
            '': top, 'node_modules/small': {'version': '1.0.0', 'resolved': 'file:vendor/small.tgz',
                                            'integrity': integrity}}}, indent=2))


def call(command, says='', code=0):
    return {'command': command, 'code': code, 'says': says}


def commit(message):
    dates = "GIT_AUTHOR_DATE='2020-01-02T00:00:00Z' GIT_COMMITTER_DATE='2020-01-02T00:00:00Z'"
    return call(f"git add -A && {dates} git commit -q -m '{message}' && git log --oneline | head -3", message)


def transcript():
    """Looking around, then ten tasks of 18 calls each: one in every topic, through all three parts, then a last look."""
    calls = [
        call('ls -la', 'README.md'),
        call('cat README.md', '# textlib'),
        call('git log --oneline | head', 'textlib: Start'),
        call('git status --short'),
        call('find . -name "*.py" -not -path "./.git/*" | sort | head -50', './python/textlib/parse.py'),
        call('cat c/Makefile', 'textlib.h'),
        call('make -s -C c test', 'all passed'),
        call('cd node && npm ci --offline --no-audit --no-fund --silent && npm test --silent', 'all passed'),
        call('cd python && python3 -m unittest -q 2>&1', 'OK'),
        call('du -sh . | wc -l && df . | wc -l', '2'),
    ]
    for topic in TOPICS:
        calls += task(topic)
    calls += [
        call('git log --oneline | wc -l', '11'),
        call('git diff --stat HEAD~10', 'files changed'),
        call('make -s -C c clean && make -s -C c test', 'all passed'),
        call('cd node && rm -rf node_modules && npm ci --offline --no-audit --no-fund --silent && npm test --silent',
             'all passed'),
        call('cd python && python3 -m unittest -q 2>&1', 'OK'),
        call('git status --short'),
        call('git show --stat HEAD', 'textlib: Offset'),
        call('tar -c -z -f ../release.tgz --exclude=.git . && tar -t -f ../release.tgz | wc -l && rm ../release.tgz'),
        call('rg -c offset --sort path . | wc -l', '30'),
        call('git fsck 2>&1 | tail -1'),
    ]
    return calls


def task(topic):
    python, node, c = f'python/textlib/{topic}.py', f'node/lib/{topic}.js', f'c/src/{topic}.c'
    return [
        call(f'rg -n "{topic}\\b" --sort path . | head -40', topic),
        call(f'cat docs/{topic}.md | head -5', f'# {topic}'),
        call(f'sed -n "1,40p" {c}', f'textlib_{topic}'),
        call(f'cat {python} {node}', f'def {topic}'),
        call(f'grep -rn "offset" c python --include="*.c" --include="{topic}.py"' +
             ('' if topic != TOPICS[0] else ' || echo nothing'), 'offset' if topic != TOPICS[0] else 'nothing'),
        call(f'sed -i "s/9973/9967/; s/value = value \\* 31/value = value * 33/" {c} && git diff --stat', f'{topic}.c'),
        call(f'sed -i "s/\\* 31/* 33/; s/9973/9967/" {python} {node} && git diff -U1 {python}', '+'),
        call(f"printf '\\n/* offset of {topic} */\\n' >>{c} && tail -2 {c}", f'offset of {topic}'),
        call(f"printf '\\n# offset of {topic}\\n' >>{python} && python3 -m py_compile {python}"),
        call(f"printf '// offset of {topic}\\n' >>{node} && node --check {node}"),
        call('make -s -C c test 2>&1 | tail -3', 'all passed'),
        call(f'cd python && python3 -m unittest -q tests.test_{topic} 2>&1 | tail -1', 'OK'),
        call('cd node && npm test --silent 2>&1 | tail -1', 'all passed'),
        call(f'test -e c/src/{topic}.cc', code=1),
        call(f'cat >docs/{topic}.md <<END\n# {topic}\n\nNow with an offset.\nEND\nwc -l docs/{topic}.md', '3 '),
        call('git diff | head -60', 'diff --git'),
        call('git status --short | sort', f'M docs/{topic}.md'),
        commit(f'textlib: Offset of {topic}'),
    ]
