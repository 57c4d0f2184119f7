"""Interpreters: their start, and test suites."""
from .base import Metric, Script, expect


class Python(Script):
    name = 'python'
    group = 'python'
    what = 'python3: nothing, a dozen imports, a unittest suite'
    needs = ('python3',)
    metrics = (Metric('python/start', 'python3 -c pass'), Metric('python/imports', 'python3, 12 imports'),
               Metric('python/unittest', 'unittest suite'))

    def prepare(self, work):
        make_suite(work / 'suite', self.full(40, 10))

    def script(self):
        return '''
step start /usr/bin/python3 -c pass
step imports /usr/bin/python3 -c 'import json, re, subprocess, argparse, logging, asyncio, sqlite3, ssl, http.client, email, decimal, unittest; print("imported")'
step unittest sh -c 'cd suite && /usr/bin/python3 -m unittest -q 2>../unittest.txt'
tail -1 unittest.txt
grep -o 'Ran [0-9]* tests' unittest.txt
'''

    def check(self, outcome, work):
        wanted = f'imported\nOK\nRan {self.full(40, 10) * 3} tests\n'
        expect(outcome.out == wanted, f'it printed {outcome.out[:120]!r}')


class Pytest(Script):
    name = 'pytest'
    group = 'python'
    what = 'the same suite by pytest'
    needs = ('pytest-3',)
    metrics = (Metric('python/pytest', 'pytest suite'),)
    quick = False

    def prepare(self, work):
        make_suite(work / 'suite', self.full(40, 10))

    def script(self):
        return '''
step pytest sh -c 'cd suite && /usr/bin/pytest-3 -q -p no:cacheprovider >../pytest.txt'
tail -1 pytest.txt
'''

    def check(self, outcome, work):
        expect(f'{self.full(40, 10) * 3} passed' in outcome.out, f'it printed {outcome.out[:120]!r}')


def make_suite(root, files):
    """Tests as they are: temporary files, a subprocess, some arithmetic."""
    root.mkdir()
    for number in range(files):
        (root / f'test_part{number:02}.py').write_text(f'''import os
import subprocess
import tempfile
import unittest


class Part{number}(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in range(20):
                with open(os.path.join(directory, str(name)), "w") as file:
                    file.write("x" * {number})
            self.assertEqual(len(os.listdir(directory)), 20)

    def test_command(self):
        self.assertEqual(subprocess.run(["/bin/echo", "{number}"], capture_output=True, text=True).stdout, "{number}\\n")

    def test_sum(self):
        self.assertEqual(sum(range({number} + 1000)), {(number + 1000) * (number + 999) // 2})
''')


class Node(Script):
    name = 'node'
    group = 'node'
    what = 'node: its start, and reading and hashing a few hundred files'
    needs = ('node',)
    metrics = (Metric('node/start', 'node -e ""'), Metric('node/hash', 'node, hash 300 files'))

    def prepare(self, work):
        (work / 'data').mkdir()
        for number in range(300):
            (work / 'data' / f'{number}.txt').write_text(str(number) * 500)
        (work / 'hash.mjs').write_text('''import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
const names = (await readdir("data")).sort();
const hashes = await Promise.all(names.map(async (name) => createHash("sha256").update(await readFile("data/" + name)).digest("hex")));
console.log(names.length, createHash("sha256").update(hashes.join()).digest("hex"));
''')

    def script(self):
        return '''
step start node -e ''
step hash node hash.mjs
'''

    def check(self, outcome, work):
        expect(outcome.out.startswith('300 '), f'it printed {outcome.out[:120]!r}')
        expect(outcome.out == self.context.once(self.name, lambda: outcome.out), 'another hash than the first run\'s')


WORKLOADS = (Python, Pytest, Node)
