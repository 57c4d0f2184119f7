"""The Markdown summary: few figures, for a README."""
from . import boundary_text, charts, report

COLUMNS = (('start/true', 'start'), ('calls/getpid', 'getpid'), ('calls/stat_work', 'stat'), ('processes/spawn_true', 'spawn'),
           ('git/status', 'git status'), ('search/grep', 'grep -r'), ('python/imports', 'python'), ('npm/ci', 'npm ci'),
           ('compile/make', 'make -j'), ('agent/each', 'agent, a sandbox each'), ('agent/one', 'agent, one sandbox'))


def markdown(results, table):
    machine = results['machine']
    lines = ['# uks beside other sandboxes', '',
             f'{machine["system"]}, Linux {machine["kernel"]}, {machine["cpu"]}, {machine["cpus"]} CPUs, {machine["date"]}. '
             + ('Quick run: small sizes, few rounds.' if results['plan']['quick'] else f'{results["plan"]["rounds"]} rounds.'),
             'Ratios to native, medians of rounds; start also as a time.', '']
    for account, rows in table.items():
        by_name = {row['metric_name']: row for row in rows}
        columns = [(name, label) for name, label in COLUMNS if name in by_name]
        if not columns:
            continue
        lines += [f'As {report.ACCOUNTS[account]}:', '',
                  '| | ' + ' | '.join(label for _, label in columns) + ' |', '|---' * (len(columns) + 1) + '|']
        for peer in results['plan']['peers']:
            cells = [cell(by_name[name]['peers'].get(peer, {}), peer, by_name[name]) for name, _ in columns]
            if any(text != '–' for text in cells):
                lines.append(f'| {peer} | ' + ' | '.join(cells) + ' |')
        lines.append('')
    if results['boundary']:
        data = results['boundary']
        lines += [f'Host system calls that guest code reaches, of {data["implemented"]}, and where the peer runs:', '',
                  '| | calls | needs besides | ' + ' | '.join(label for _, label in boundary_text.SITUATIONS) + ' |',
                  '|---' * (3 + len(boundary_text.SITUATIONS)) + '|']
        for name, row in data['rows'].items():
            words = [boundary_text.outcome(row, situation)[0] for situation, _ in boundary_text.SITUATIONS]
            lines.append(f'| {name} | {boundary_text.reached(row, data["implemented"])} | {boundary_text.extras(row)} | '
                         + ' | '.join(words) + ' |')
        lines.append('')
    failed = [f'- {run["peer"]}, {run["workload"]} as {report.ACCOUNTS[run["account"]]}: ' + run['message'].replace('\n', ' ')
              for run in results['runs'] if not run['ok']]
    failed += [f'- {peer["name"]} does not run as {report.ACCOUNTS[account]}: {state["message"]}'
               for peer in results['peers'] for account, state in peer['accounts'].items() if not state['works']]
    failed += [f'- {peer["name"]}: {peer["missing"]}' for peer in results['peers'] if peer['missing']]
    if failed:
        lines += ['Missing or failed:', '', *failed, '']
    return '\n'.join(lines)


def cell(values, peer, row):
    if 'failed' in values:
        return 'failed'
    if 'median' not in values:
        return '–'
    if peer == 'native':
        return charts.quantity(values['median'], row['unit'])
    if not values.get('ratio'):
        return charts.quantity(values['median'], row['unit'])
    text = charts.times(values['ratio']['ratio'])
    return f'{text} ({charts.quantity(values["median"], row["unit"])})' if row['group'] == 'start' else text
