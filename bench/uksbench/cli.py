"""The command line of the bench."""
import argparse
import os
import pathlib
import signal
import sys
import time

from . import boundary, compare, install, machine, process, report
from .context import Context
from .peers import ALL as PEERS, BY_NAME
from .peers.base import find
from .progress import Progress
from .runner import Runner
from .store import Store
from .workloads import ALL as WORKLOADS

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICK_SECONDS = 270  # for everything: five minutes are promised


def parse(arguments):
    parser = argparse.ArgumentParser(prog='tools/dev bench', description='Compares uks with other sandboxes on this machine.')
    parser.add_argument('--quick', action='store_true', help='small sizes, one account, under five minutes')
    parser.add_argument('--peers', metavar='NAME,...', help='only these: ' + ','.join(BY_NAME))
    parser.add_argument('--only', metavar='NAME,...', help='only workloads whose group or name this is, e.g. git,start/true')
    parser.add_argument('--as', dest='accounts', metavar='root,user', help='as whom; default: both (--quick: the caller)')
    parser.add_argument('--rounds', type=int, help='runs of each; default 10 (--quick: 3)')
    parser.add_argument('--out', type=pathlib.Path, help='folder of the results; one that exists is gone on with')
    parser.add_argument('--work', type=pathlib.Path, default=pathlib.Path('/var/tmp'),
                        help='where the work directories are made; not below /tmp (default: %(default)s)')
    parser.add_argument('--no-boundary', action='store_true', help='without the boundary table')
    parser.add_argument('--install', action='store_true', help='first get the peers that are missing (as root)')
    parser.add_argument('--report', metavar='DIR', type=pathlib.Path, help='only write the report of these results anew')
    parser.add_argument('--compare', metavar='BASE.json', type=pathlib.Path,
                        help='afterwards compare with these results; ends with 1 if a ratio grew beyond noise')
    parser.add_argument('--uks', type=pathlib.Path, default=os.environ.get('UKS') or ROOT / 'build/release/uks',
                        help='the uks to measure (default: the release build)')
    parser.add_argument('--programs', type=pathlib.Path, default=ROOT / 'build/release/bench', help=argparse.SUPPRESS)
    parser.add_argument('--list', action='store_true', help='list peers and workloads')
    options = parser.parse_args(arguments)
    for name in (options.peers or '').split(','):
        if name and name not in BY_NAME:
            parser.error(f'no such peer: {name} (there are {", ".join(BY_NAME)})')
    for name in (options.only or '').split(','):
        if name and not any(name in (workload.name, workload.group) for workload in WORKLOADS):
            parser.error(f'no such workload: {name} (see --list)')
    if options.rounds is not None and options.rounds < 1:
        parser.error('--rounds: at least 1')
    if options.work.resolve().is_relative_to('/tmp'):
        parser.error('--work: /tmp is empty inside the sandboxes; name another place')
    if options.compare and not options.compare.is_file():
        parser.error(f'--compare: no such file: {options.compare}')
    return options


def list_all():
    for peer in PEERS:
        print(f'{peer.name:<16} {peer.what}')
    print()
    for workload in WORKLOADS:
        print(f'{workload.name:<20} {workload.what}')


def choose(options, context):
    """(workloads that run, [(name, why not)])."""
    wanted = [name for name in (options.only or '').split(',') if name]
    chosen, left_out = [], []
    for kind in WORKLOADS:
        if wanted and kind.name not in wanted and kind.group not in wanted:
            continue
        if options.quick and not kind.quick and not wanted:
            left_out.append((kind.name, 'not part of --quick'))
            continue
        needed = [program for program in kind.needs if not find(program)]
        if needed:
            left_out.append((kind.name, f'needs {", ".join(needed)}'))
            continue
        if not context.micro and kind.__name__.startswith('Micro_'):
            left_out.append((kind.name, 'bench_micro was not built: apt-get install libbenchmark-dev'))
            continue
        chosen.append(kind(context))
    chosen.sort(key=lambda workload: workload.seconds)  # short ones first: --quick may run out of time
    return chosen, left_out


def main(arguments=None):
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.list:
        list_all()
        return 0
    if options.report:
        store = Store(options.report)
        report.write(store, Progress())
        return compare.against(options.compare, store.results()) if options.compare else 0
    if not (options.programs / 'bench_probe').exists():
        print('bench: bench_probe is not built (tools/dev bench builds it)', file=sys.stderr)
        return 1
    begin = time.monotonic()
    if options.install:
        install.install(PEERS, Progress())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    boundary.set_back()
    process.become_subreaper()
    out = options.out or ROOT / 'build' / 'bench' / time.strftime('%Y%m%d-%H%M%S')
    places = [path for path in (out, options.uks, options.programs, options.compare, ROOT) if path]
    note = process.private_mounts(places) if os.geteuid() == 0 else 'native programs had the host\'s /tmp'
    store = Store(out)
    progress = Progress()
    context = Context(options.work / f'ub{os.getpid()}', options.uks, options.programs, options.quick)
    try:
        measure(options, context, store, progress, note, begin)
    except ValueError as error:
        print(f'bench: {error}', file=sys.stderr)
        return 2
    except (KeyboardInterrupt, SystemExit):
        progress.say(f'bench: stopped; go on with --out {out} and the same options')
        return 130
    finally:
        process.end_new_descendants(set(), patience=1.0)
        context.close()
    report.write(store, progress)
    return compare.against(options.compare, store.results()) if options.compare else 0


def measure(options, context, store, progress, note, begin):
    names = [name for name in (options.peers or '').split(',') if name] or list(BY_NAME)
    if 'native' not in names:
        names.insert(0, 'native')  # the ratios need it
    accounts = context.accounts[:1] if options.quick and not options.accounts else context.accounts
    if options.accounts:
        accounts = [account for account in accounts if account.name in options.accounts.split(',')]
        if not accounts:
            raise ValueError(f'--as {options.accounts}: not possible for this caller')
    rounds = options.rounds or (3 if options.quick else 10)
    workloads, left_out = choose(options, context)
    plan = {'quick': options.quick, 'peers': names, 'workloads': [workload.name for workload in workloads],
            'accounts': [account.name for account in accounts], 'rounds': rounds, 'seed': 1}
    store.plan(plan)
    if store.section('machine') is None:
        store.section('machine', {**machine.describe(note), 'file_system': machine.file_system(context.base)})
    runner = Runner(context, store, progress, plan, begin + QUICK_SECONDS if options.quick else None)
    peers = [BY_NAME[name](context) for name in names]
    try:
        ready = runner.ready_peers(peers, accounts)
        if not options.no_boundary and store.section('boundary') is None:
            store.section('boundary', boundary.measure(context, [peer for peer in peers if not peer.missing()], progress,
                                                       options.quick))
        tasks = [(workload, account, ready[account.name]) for workload in workloads for account in accounts
                 if workload.only_account in (None, account.name)]
        runner.run_all(tasks, rounds)
    finally:
        for peer in peers:
            peer.after()
    store.section('workloads', {
        'run': [{'name': workload.name, 'group': workload.group, 'what': workload.what,
                 'metrics': [metric.__dict__ for metric in workload.metrics]} for workload in workloads],
        'left_out': left_out,
        'out_of_time': sorted(map(list, runner.out_of_time))})
    store.section('machine_after', {'load': machine.load(), 'took': time.monotonic() - begin})
    store.write_results()
