"""What is computed of the raw runs. The report shows nothing else."""
import math
import random

BOOTSTRAPS = 1000


def median(values):
    return quantile(values, 0.5)


def quantile(values, share):
    """Linear between the two nearest, as in most tools."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError('no values')
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mad(values):
    """Median absolute deviation: how far a typical run is from the median."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def by_round(runs, workload, peer, account, metric):
    """{round: value} of the runs whose result was right."""
    return {run['round']: run['values'][metric] for run in runs
            if run['workload'] == workload and run['peer'] == peer and run['account'] == account and run['ok'] and
            metric in run['values']}


def summary(values):
    return {'count': len(values), 'median': median(values), 'p10': quantile(values, 0.1), 'p90': quantile(values, 0.9),
            'mad': mad(values), 'min': min(values)}


def log_ratios(peer, native, better):
    """The logarithms of how many times dearer the peer was, of each round that both have: what the machine did in a
    round it did to both."""
    sign = -1 if better == 'higher' else 1
    return [sign * math.log(peer[number] / native[number]) for number in sorted(peer)
            if number in native and peer[number] > 0 and native[number] > 0]


def bootstrap(values, seed=1, share=0.95):
    """Interval of the median, by drawing from the values with replacement. One value has no interval."""
    if len(values) < 2:
        return None
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(BOOTSTRAPS))
    return quantile(medians, (1 - share) / 2), quantile(medians, (1 + share) / 2)


def ratio(peer, native, better='lower'):
    """{ratio, low, high}: how many times dearer than native, with its 95 % interval; None without common rounds."""
    logs = log_ratios(peer, native, better)
    if not logs:
        return None
    interval = bootstrap(logs)
    return {'ratio': math.exp(median(logs)), 'low': math.exp(interval[0]) if interval else None,
            'high': math.exp(interval[1]) if interval else None, 'count': len(logs)}


def change(new, base, seed=1):
    """How a ratio changed between two benches: exp of the difference of the medians of two sets of log ratios, with its
    95 % interval by bootstrap of both. None if either has fewer than two rounds."""
    if len(new) < 2 or len(base) < 2:
        return None
    generator = random.Random(seed)
    differences = sorted(median(generator.choices(new, k=len(new))) - median(generator.choices(base, k=len(base)))
                         for _ in range(BOOTSTRAPS))
    return {'change': math.exp(median(new) - median(base)), 'low': math.exp(quantile(differences, 0.025)),
            'high': math.exp(quantile(differences, 0.975))}


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def table(results):
    """Everything that the report shows of the runs: {account: [{workload, metric, label, unit, better, peers: {peer: cell}}]}.
    A cell has the summary and the ratio, or the message of a failure, or nothing if there was no run."""
    runs = results['runs']
    accounts = {}
    for account in results['plan']['accounts']:
        rows = []
        for workload in (results['workloads'] or {'run': []})['run']:
            mine = [run for run in runs if run['workload'] == workload['name'] and run['account'] == account]
            if not mine:
                continue
            for metric in workload['metrics']:
                values = {peer: by_round(mine, workload['name'], peer, account, metric['name'])
                          for peer in results['plan']['peers']}
                row = {'workload': workload['name'], 'group': workload['group'], 'metric_name': metric['name'],
                       'label': metric['label'], 'unit': metric['unit'], 'better': metric['better'], 'peers': {}}
                for peer, rounds in values.items():
                    row['peers'][peer] = cell(mine, peer, rounds, values.get('native', {}), metric)
                rows.append(row)
        accounts[account] = rows
    return accounts


def cell(runs, peer, rounds, native, metric):
    failures = [run['message'] for run in runs if run['peer'] == peer and not run['ok']]
    if failures:
        # A peer that fails once has failed, but what it did before stands beside the message.
        partial = [run['values'][metric['name']] for run in runs if run['peer'] == peer and metric['name'] in run['values']]
        if not partial:
            return {'failed': failures[0]}
        return {'failed': failures[0], 'partial': median(partial)}
    if not rounds:
        return {}
    return {**summary(list(rounds.values())), 'ratio': ratio(rounds, native, metric['better'])}
