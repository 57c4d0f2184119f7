"""Start-up: alone, at a rate, and beside busy processes."""
import os
import time

from .base import Metric, Outer, Workload, expect


class StartTrue(Outer):
    name = 'start/true'
    group = 'start'
    what = 'a sandbox that runs /bin/true, from exec to its end'
    metrics = (Metric('start/true', '/bin/true'),)
    repeat = 5
    seconds = 0.1

    def argv(self, work):
        return ['/bin/true']


class StartShell(Outer):
    name = 'start/sh'
    group = 'start'
    what = 'a sandbox that runs `sh -c "echo hello"`'
    metrics = (Metric('start/sh', 'sh -c "echo hello"'),)
    repeat = 5
    seconds = 0.1

    def argv(self, work):
        return ['/bin/sh', '-c', 'echo hello']

    def check(self, outcome, work):
        expect(outcome.out == 'hello\n', f'it printed {outcome.out[:80]!r}')


class StartRate(Workload):
    name = 'start/rate'
    group = 'start'
    what = 'starts of /bin/true a second, twice as many at a time as there are CPUs'
    metrics = (Metric('start/rate', 'starts a second, in parallel', '1/s', 'higher'),)
    seconds = 2.0

    def measure(self, sandbox, work):
        return sandbox.rate(['/bin/true'], at_once=2 * os.cpu_count(), total=self.full(60, 16))


class StartLoaded(Workload):
    name = 'start/loaded'
    group = 'start'
    what = 'a start of /bin/true while every CPU has a busy process'
    metrics = (Metric('start/loaded', '/bin/true, all CPUs busy'),)
    seconds = 0.3

    def measure(self, sandbox, work):
        with sandbox.busy(os.cpu_count()):
            time.sleep(0.05)
            seconds = []
            for _ in range(3):
                outcome = sandbox.run(['/bin/true'])
                if not outcome.ok:
                    return outcome, {}
                seconds.append(outcome.seconds)
        seconds.sort()
        return outcome, {'start/loaded': seconds[1]}


WORKLOADS = (StartTrue, StartShell, StartRate, StartLoaded)
