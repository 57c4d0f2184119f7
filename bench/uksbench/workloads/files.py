"""Small and large files, in the work directory and in /tmp."""
import hashlib

from .base import Metric, Script, expect

SMALL = '''
import os, sys
root, count = sys.argv[1], int(sys.argv[2])
os.mkdir(root)
for n in range(count):
    with open(f"{root}/{n}", "w") as file:
        file.write(str(n) * 100)
total = 0
for n in range(count):
    with open(f"{root}/{n}") as file:
        total += len(file.read())
for n in range(count):
    os.rename(f"{root}/{n}", f"{root}/r{n}")
for n in range(count):
    os.unlink(f"{root}/r{n}")
os.rmdir(root)
print(total)
'''


class SmallFiles(Script):
    name = 'files/small'
    group = 'files'
    what = 'files made, read, renamed and removed one after the other'
    needs = ('python3',)
    metrics = (Metric('files/small_work', 'small files, work directory'), Metric('files/small_tmp', 'small files, /tmp'))

    def prepare(self, work):
        (work / 'small.py').write_text(SMALL)

    def script(self):
        count = self.full(2000, 300)
        return f'''
step small_work /usr/bin/python3 small.py small {count}
step small_tmp /usr/bin/python3 small.py /tmp/small.$$ {count}
'''

    def check(self, outcome, work):
        total = sum(len(str(n)) * 100 for n in range(self.full(2000, 300)))
        expect(outcome.out.split() == [str(total)] * 2, f'it printed {outcome.out[:80]!r}')


class LargeFiles(Script):
    name = 'files/large'
    group = 'files'
    what = 'one large file written, copied and read'
    metrics = (Metric('files/large_write', 'large file, write'), Metric('files/large_copy', 'large file, cp'),
               Metric('files/large_read', 'large file, sha1sum'))

    def script(self):
        count = self.full(128, 32)
        return f'''
rm -f big copy
step large_write dd if=/dev/zero of=big bs=64k count={count * 16} status=none
step large_copy cp big copy
step large_read sha1sum copy
rm -f big copy
'''

    def check(self, outcome, work):
        wanted = hashlib.sha1(bytes(self.full(128, 32) << 20)).hexdigest()
        expect(outcome.out.split()[:1] == [wanted], f'it printed {outcome.out[:80]!r}')


WORKLOADS = (SmallFiles, LargeFiles)
