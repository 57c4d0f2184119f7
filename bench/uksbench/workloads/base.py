"""What a workload is: files, a command, what it must have done, and what was measured."""
import dataclasses
import pathlib
import shutil


class WrongResult(Exception):
    """The command ended well and did the wrong thing: its time does not count."""


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str
    label: str
    unit: str = 's'       # s, ns, KiB, 1/s
    better: str = 'lower'


class Workload:
    """Metrics are full names, GROUP/NAME. `needs` are programs: without one of them the workload is left out, and the
    report says so."""
    name = ''
    group = ''
    what = ''
    metrics = ()
    needs = ()
    quick = True            # whether --quick runs it
    only_account = None     # 'root' or 'user' if it makes sense for one only
    seconds = 2.0           # what a native run takes, roughly: for the order of things and time-outs

    def __init__(self, context):
        self.context = context

    def full(self, for_full, for_quick):
        """A size, by the scale of this run."""
        return for_quick if self.context.quick else for_full

    def prepare(self, work):
        """Puts the files that the command needs into an empty work directory. On the host, untimed."""

    def argv(self, work):
        raise NotImplementedError

    def values(self, outcome, work):
        """{metric: value}; raises WrongResult. Called on the host after a command that ended with 0."""
        raise NotImplementedError

    def measure(self, sandbox, work):
        """One run. Returns (Outcome, values). A workload that is more than one command overrides it."""
        outcome = sandbox.run(self.argv(work))
        if not outcome.ok:
            return outcome, {}
        return outcome, self.values(outcome, work)


class Outer(Workload):
    """Timed from outside: the sandbox's start and end are part of it. The median of a few runs in a row."""
    repeat = 1

    def measure(self, sandbox, work):
        seconds = []
        outcome = None
        for _ in range(self.repeat):
            outcome = sandbox.run(self.argv(work))
            if not outcome.ok:
                return outcome, {}
            self.check(outcome, work)
            seconds.append(outcome.seconds)
        seconds.sort()
        return outcome, {self.metrics[0].name: seconds[len(seconds) // 2]}

    def check(self, outcome, work):
        """Raises WrongResult."""


PRELUDE = '''\
set -eu
PROBE={probe}
rm -f times
# step NAME COMMAND...: what it takes, without the sandbox's start and end.
step() {{
  name=$1
  shift
  "$PROBE" time --fd 9 -- "$@" 9>step
  echo "$name $(cat step)" >>times
}}
'''


class Script(Workload):
    """Timed inside: a shell script whose steps bench_probe measures."""

    def script(self):
        raise NotImplementedError

    def argv(self, work):
        text = PRELUDE.format(probe=self.context.probe) + self.script()
        path = pathlib.Path(work) / 'script.sh'
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return ['/bin/sh', 'script.sh']

    def values(self, outcome, work):
        steps = {}
        for line in (pathlib.Path(work) / 'times').read_text().splitlines():
            name, seconds, code = line.split()
            if code != '0':
                raise WrongResult(f'step {name} ended with {code}')
            steps[f'{self.group}/{name}'] = float(seconds)
        wanted = {metric.name for metric in self.metrics}
        if set(steps) != wanted:
            raise WrongResult(f'steps are missing: {sorted(wanted - set(steps))}')
        if sum(steps.values()) > outcome.seconds * 1.1 + 0.05:
            raise WrongResult(f'the clock inside counted {sum(steps.values()):.2f} s, the one outside '
                              f'{outcome.seconds:.2f} s')
        self.check(outcome, pathlib.Path(work))
        return steps

    def check(self, outcome, work):
        """Raises WrongResult."""


def expect(condition, what):
    if not condition:
        raise WrongResult(what)


def clear(directory):
    for entry in pathlib.Path(directory).iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
