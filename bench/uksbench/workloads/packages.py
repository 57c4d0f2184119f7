"""npm ci without network: generated packages, as tar files beside the lock file."""
import base64
import gzip
import hashlib
import io
import json
import tarfile

from .base import Metric, Script, expect


class NpmCi(Script):
    name = 'npm'
    group = 'npm'
    what = 'npm ci --offline of generated packages (full: 60, quick: 15)'
    needs = ('npm', 'node')
    metrics = (Metric('npm/ci', 'npm ci --offline'),)
    seconds = 3.0

    def count(self):
        return self.full(60, 15)

    def prepare(self, work):
        project = work / 'project'
        (project / 'archives').mkdir(parents=True)
        (work / 'home').mkdir(exist_ok=True)
        dependencies = {}
        packages = {}
        for number in range(self.count()):
            name = f'bench-part-{number:02}'
            data = package(name, number)
            (project / 'archives' / f'{name}.tgz').write_bytes(data)
            dependencies[name] = f'file:archives/{name}.tgz'
            packages[f'node_modules/{name}'] = {
                'version': '1.0.0', 'resolved': f'file:archives/{name}.tgz',
                'integrity': 'sha512-' + base64.b64encode(hashlib.sha512(data).digest()).decode()}
        top = {'name': 'bench', 'version': '1.0.0', 'dependencies': dependencies}
        (project / 'package.json').write_text(json.dumps(top))
        (project / 'package-lock.json').write_text(json.dumps(
            {'name': 'bench', 'version': '1.0.0', 'lockfileVersion': 3, 'requires': True, 'packages': {'': top, **packages}}))

    def script(self):
        return f'''
rm -rf home/.npm project/node_modules
step ci sh -c 'cd project && npm ci --offline --no-audit --no-fund --silent'
cd project
node -p 'let sum = 0; for (let n = 0; n < {self.count()}; ++n) sum += require("bench-part-" + String(n).padStart(2, "0")); sum'
'''

    def check(self, outcome, work):
        wanted = self.count() * (self.count() - 1) // 2
        expect(outcome.out.split() == [str(wanted)], f'it printed {outcome.out[:120]!r}')


def package(name, number):
    files = {'package.json': json.dumps({'name': name, 'version': '1.0.0', 'main': 'index.js'}),
             'index.js': f'module.exports = {number};\n'}
    for part in range(30):
        files[f'lib/part{part}.js'] = f'// {name} {part}\n' + 'exports.f = () => 1;\n' * 40
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode='w') as tar:
        for path, text in files.items():
            info = tarfile.TarInfo(f'package/{path}')
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue(), mtime=0)


WORKLOADS = (NpmCi,)
