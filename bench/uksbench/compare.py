"""`--compare BASE.json`: whether a ratio to native changed beyond noise since another bench."""
import json

from . import stats

SMALLEST = 1.05  # smaller changes are not told, however sure they are


def changes(base, new):
    """[{account, peer, metric, change, low, high, verdict}] for all that both have; verdict: slower, faster or same."""
    found = []
    for account in new['plan']['accounts']:
        for workload in new['workloads']['run']:
            for metric in workload['metrics']:
                for peer in new['plan']['peers']:
                    if peer == 'native':
                        continue
                    logs = [ratios(results, workload['name'], peer, account, metric) for results in (new, base)]
                    result = stats.change(*logs)
                    if result is None:
                        continue
                    verdict = 'same'
                    if result['low'] > 1 and result['change'] > SMALLEST:
                        verdict = 'slower'
                    elif result['high'] < 1 and result['change'] < 1 / SMALLEST:
                        verdict = 'faster'
                    found.append({'account': account, 'peer': peer, 'metric': metric['name'], 'verdict': verdict, **result})
    return found


def ratios(results, workload, peer, account, metric):
    values = [stats.by_round(results['runs'], workload, name, account, metric['name']) for name in (peer, 'native')]
    return stats.log_ratios(*values, metric['better'])


def broken(base, new):
    """What failed in the new bench and did not in the base: (account, peer, workload, message)."""
    def failures(results):
        return {(run['account'], run['peer'], run['workload']): run['message'] for run in results['runs'] if not run['ok']}

    before = {(run['account'], run['peer'], run['workload']) for run in base['runs'] if run['ok']} - set(failures(base))
    return [(*key, message) for key, message in sorted(failures(new).items()) if key in before]


def against(path, new):
    """Prints the comparison. 1 if uks grew slower or fails where it did not; other peers' changes are only told."""
    base = json.loads(path.read_text())
    if base.get('format') != new['format'] or base['plan']['quick'] != new['plan']['quick']:
        print(f'bench: {path} cannot be compared: other sizes (--quick) or another format')
        return 2
    found = changes(base, new)
    told = sorted((row for row in found if row['verdict'] != 'same'), key=lambda row: -abs(row['change'] - 1))
    print(f'\ncompared with {path}: {len(found)} ratios that both have, {len(told)} changed beyond noise')
    for row in told:
        print(f'  {row["verdict"]}  {row["peer"]:<15} {row["metric"]:<28} as {row["account"]:<5} ratio x '
              f'{row["change"]:.2f} (95 %: {row["low"]:.2f} to {row["high"]:.2f})')
    failed = broken(base, new)
    for account, peer, workload, message in failed:
        print(f'  failed  {peer:<15} {workload:<28} as {account:<5} {message}')
    if not found:
        print('bench: nothing to compare: at least two rounds of the same workloads and peers are needed')
        return 2
    ours = [row for row in told if row['verdict'] == 'slower' and row['peer'].startswith('uks')]
    return 1 if ours or any(peer.startswith('uks') for _, peer, _, _ in failed) else 0
