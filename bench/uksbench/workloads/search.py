"""grep, rg, find, du and tar over a tree of files."""
from .base import Metric, Script, expect
from .fixtures import source_tree


class Search(Script):
    name = 'search'
    group = 'search'
    what = 'grep -r, rg, find, du, tar c and tar x over 5,000 files (quick: 500)'
    needs = ('rg',)
    metrics = (Metric('search/grep', 'grep -r'), Metric('search/rg', 'rg'), Metric('search/find', 'find'),
               Metric('search/du', 'du'), Metric('search/tar_c', 'tar c'), Metric('search/tar_x', 'tar x'))

    def files(self):
        return self.full(5000, 500)

    def prepare(self, work):
        self.context.facts[self.name] = source_tree(work / 'tree', self.files())

    def script(self):
        return '''
rm -rf out
mkdir out
step grep sh -c 'grep -r needle42 tree >grep.txt'
step rg sh -c 'rg --no-heading needle42 tree >rg.txt'
step find sh -c "find tree -type f -name '*.c' -size +0 >find.txt"
step du sh -c 'du -a tree >du.txt'
step tar_c tar -c -f tree.tar tree
step tar_x tar -x -f tree.tar -C out
wc -l <grep.txt
wc -l <rg.txt
wc -l <find.txt
find out/tree -type f | wc -l
rm -rf out tree.tar
'''

    def check(self, outcome, work):
        needles = self.context.facts[self.name]
        wanted = [needles, needles, self.files(), self.files()]
        expect(outcome.out.split() == [str(n) for n in wanted], f'{wanted} wanted, it printed {outcome.out[:80]!r}')


WORKLOADS = (Search,)
