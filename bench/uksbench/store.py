"""The raw results: a folder with plan.json and runs.jsonl, to which every run is appended as it ends. A bench that is
killed goes on where it was."""
import json
import os
import pathlib

FORMAT = 1


class Store:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runs = []
        self._done = set()
        path = self.folder / 'runs.jsonl'
        if path.exists():
            data = path.read_bytes()
            whole = data[:data.rfind(b'\n') + 1]
            if len(whole) != len(data):
                path.write_bytes(whole)  # a line that was cut off by a kill
            for line in whole.splitlines():
                self._remember(json.loads(line))
        self._file = open(path, 'a', encoding='utf-8')

    def plan(self, plan):
        """Takes this plan; raises ValueError if the folder was begun with another."""
        path = self.folder / 'plan.json'
        if path.exists():
            begun = json.loads(path.read_text())
            if begun != plan:
                differs = sorted(key for key in plan if begun.get(key) != plan[key])
                raise ValueError(f'{self.folder} was begun with other options ({", ".join(differs)}); '
                                 'name another --out, or the same options')
        else:
            path.write_text(json.dumps(plan, indent=1) + '\n')

    def _remember(self, run):
        self.runs.append(run)
        self._done.add(self.key(run['workload'], run['peer'], run['account'], run['round']))

    @staticmethod
    def key(workload, peer, account, number):
        return (workload, peer, account, number)

    def done(self, *key):
        return self.key(*key) in self._done

    def add(self, run):
        self._remember(run)
        json.dump(run, self._file)
        self._file.write('\n')
        self._file.flush()
        os.fsync(self._file.fileno())

    def section(self, name, value=None):
        """Part of the results that is measured once: written, or read if there is no value."""
        path = self.folder / f'{name}.json'
        if value is not None:
            path.write_text(json.dumps(value, indent=1) + '\n')
            return value
        return json.loads(path.read_text()) if path.exists() else None

    def results(self):
        """Everything, as one document: what the report and --compare read."""
        result = {'format': FORMAT, 'plan': self.section('plan'), 'runs': self.runs}
        for name in ('machine', 'peers', 'workloads', 'boundary', 'machine_after'):
            result[name] = self.section(name)
        return result

    def write_results(self):
        path = self.folder / 'results.json'
        path.write_text(json.dumps(self.results(), indent=1) + '\n')
        return path
