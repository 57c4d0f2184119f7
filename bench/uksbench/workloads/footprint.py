"""Memory: what 1, 20 and 100 idle sandboxes take."""
from .base import Metric, Workload


class Idle(Workload):
    name = 'memory/idle'
    group = 'footprint'
    what = ('proportional set size of all processes of idle sandboxes together, guests included, divided by their number '
            '(native: the guests alone); a daemon counts too')
    metrics = (Metric('footprint/one', '1 sandbox, each', 'KiB'), Metric('footprint/twenty', '20 sandboxes, each', 'KiB'),
               Metric('footprint/hundred', '100 sandboxes, each', 'KiB'))
    only_account = 'root'   # smaps of processes that are not dumpable
    once = True             # the spread is that of the sandboxes, not of runs
    seconds = 20.0
    quick = False

    def measure(self, sandbox, work):
        values = {}
        for metric, count in zip(self.metrics, (1, 20, 100)):
            outcome, kib = sandbox.idle_memory(count)
            if kib is None:
                # What was measured stands; that it fails with more is the result.
                return outcome, values
            values[metric.name] = kib / count
        return outcome, values


WORKLOADS = (Idle,)
