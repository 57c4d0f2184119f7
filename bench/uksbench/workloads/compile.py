"""Compilers, make, and builds of very many short processes."""
import os

from .base import Metric, Script, expect
from .fixtures import c_project, source_tree

HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); }\n'
REGEX = '''#include <iostream>
#include <regex>
int main() { std::cout << std::regex_replace(std::string("a1b2"), std::regex("[0-9]"), "") << "\\n"; }
'''


STRING = '#include <string>\n#include <cstdio>\nint main() { std::string s = "ab"; std::puts(s.c_str()); }\n'


class Compile(Script):
    name = 'compile'
    group = 'compile'
    what = 'gcc of a small program; g++ of one with <regex> (quick: <string>)'
    needs = ('gcc', 'g++')
    metrics = (Metric('compile/gcc', 'gcc, hello'), Metric('compile/gxx', 'g++'))
    seconds = 3.0

    def prepare(self, work):
        (work / 'hello.c').write_text(HELLO)
        (work / 'program.cc').write_text(self.full(REGEX, STRING))

    def script(self):
        return '''
rm -f hello program
step gcc /usr/bin/gcc -O2 -o hello hello.c
step gxx /usr/bin/g++ -O0 -o program program.cc
./hello
./program
'''

    def check(self, outcome, work):
        expect(outcome.out == 'hello\nab\n', f'it printed {outcome.out[:120]!r}')


class Make(Script):
    name = 'compile/make'
    group = 'compile'
    what = 'make -j of a C program (full: 60 files, quick: 12)'
    needs = ('gcc', 'make')
    metrics = (Metric('compile/make', 'make -j'), Metric('compile/make_again', 'make, nothing to do'))
    seconds = 3.0

    def prepare(self, work):
        self.context.facts[self.name] = c_project(work / 'project', self.full(60, 12))

    def script(self):
        return f'''
make -s -C project clean
step make make -s -C project -j{os.cpu_count()} CC=/usr/bin/gcc
step make_again make -s -C project -j{os.cpu_count()} CC=/usr/bin/gcc
project/program
'''

    def check(self, outcome, work):
        expect(outcome.out.split()[-1:] == [str(self.context.facts[self.name])], f'it printed {outcome.out[:120]!r}')


class ManyProcesses(Script):
    name = 'compile/processes'
    group = 'compile'
    what = 'a build of very many short processes, as cargo or ninja make them: a pipeline for each of 200 files (quick: 40)'
    metrics = (Metric('compile/processes', 'many-process build'),)

    def count(self):
        return self.full(200, 40)

    def prepare(self, work):
        source_tree(work / 'in', self.count())

    def script(self):
        return f'''
rm -rf out
mkdir out
step processes sh -c "find in -name '*.c' -print0 | xargs -0 -P{os.cpu_count()} -n1 sh -c 'sort \\"\\$0\\" | uniq -c | sha1sum >out/\\$(basename \\"\\$0\\").sum'"
ls out | wc -l
cat out/*.sum | sha1sum
'''

    def check(self, outcome, work):
        expect(outcome.out.startswith(f'{self.count()}\n'), f'it printed {outcome.out[:120]!r}')
        expect(outcome.out == self.context.once(self.name, lambda: outcome.out), 'another sum than the first run\'s')


WORKLOADS = (Compile, Make, ManyProcesses)
