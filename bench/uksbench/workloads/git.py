"""git, on a tree of generated sources."""
from .base import Metric, Script, expect
from .fixtures import source_tree

ENVIRONMENT = '''
export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@localhost GIT_AUTHOR_DATE='2020-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@localhost GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main
export GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0 GIT_CONFIG_KEY_2=safe.directory GIT_CONFIG_VALUE_2='*'
'''


class Git(Script):
    name = 'git'
    group = 'git'
    what = 'init, add and commit; status; clone; log -p'
    needs = ('git',)
    metrics = (Metric('git/commit', 'init, add, commit'), Metric('git/status', 'status'), Metric('git/clone', 'clone'),
               Metric('git/log', 'log -p'))

    def files(self):
        return self.full(2000, 250)

    def prepare(self, work):
        (work / 'home').mkdir(exist_ok=True)
        source_tree(work / 'pristine', self.files())

    def script(self):
        return ENVIRONMENT + '''
rm -rf repo copy
cp -r pristine repo
step commit sh -c 'cd repo && git init -q && git add -A && git commit -q -m first'
step status git -C repo status --porcelain
step clone git clone -q repo copy
step log sh -c 'git -C copy log -p >log.txt'
git -C copy rev-parse HEAD^{tree}
git -C copy status --porcelain
find copy -name '*.c' | wc -l
grep -c '^+' log.txt
'''

    def check(self, outcome, work):
        lines = outcome.out.split()
        expect(len(lines) == 3 and lines[1] == str(self.files()), f'it printed {outcome.out[:120]!r}')
        expect(lines[0] == self.context.once(self.name, lambda: lines[0]), 'another tree than the first run\'s')
        expect(int(lines[2]) > self.files() * 20, 'log -p is too short')


WORKLOADS = (Git,)
