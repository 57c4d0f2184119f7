"""bench_micro's groups: system calls, processes, pages, messages."""
import json

from .base import Metric, Workload, WrongResult

NAMES = {
    'calls': ('getpid', 'clock_gettime', 'stat_work', 'stat_root', 'stat_miss', 'fstat', 'open_close', 'pread_4k',
              'pwrite_4k', 'create_unlink_work', 'create_unlink_tmp', 'list_usr_bin', 'eventfd_epoll'),
    'processes': ('fork_wait', 'spawn_true', 'thread_join', 'signal_self'),
    'memory': ('map_unmap', 'touch_page', 'touch_file_page', 'copy_on_write_page'),
    'ipc': ('pipe_ping_pong', 'unix_ping_pong', 'tcp_ping_pong', 'pipe_256k', 'unix_256k', 'tcp_256k'),
}
WHAT = {
    'calls': 'single system calls',
    'processes': 'making and ending processes and threads, a signal',
    'memory': 'mappings and first touches, by page',
    'ipc': 'a byte there and back between two processes, 256 KiB one way',
}


class Micro(Workload):
    seconds = 1.0

    def argv(self, work):
        minimum = self.full('0.05', '0.02')
        return [self.context.micro, f'--benchmark_filter=^{self.group}/', f'--benchmark_min_time={minimum}',
                '--benchmark_out=micro.json', '--benchmark_out_format=json']

    def values(self, outcome, work):
        with open(f'{work}/micro.json', encoding='utf-8') as file:
            rows = json.load(file)['benchmarks']
        values = {}
        scale = {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}
        for row in rows:
            name = '/'.join(row['name'].split('/')[:2])
            if row.get('error_occurred'):
                raise WrongResult(f'{name}: {row.get("error_message")}')
            values[name] = row['real_time'] * scale[row['time_unit']]
        missing = {metric.name for metric in self.metrics} - set(values)
        if missing:
            raise WrongResult(f'missing: {sorted(missing)}')
        return values


def micro(group_name):
    return type(f'Micro_{group_name}', (Micro,), {
        'name': group_name, 'group': group_name, 'what': WHAT[group_name],
        'metrics': tuple(Metric(f'{group_name}/{name}', name.replace('_', ' '), 'ns') for name in NAMES[group_name])})


WORKLOADS = tuple(micro(group) for group in NAMES)
