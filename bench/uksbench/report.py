"""The report: one HTML page that needs nothing else, PNG charts, and a Markdown summary."""
import html

from . import boundary_text, charts, png, stats, summary

GROUPS = {'start': 'Start-up', 'calls': 'System calls', 'processes': 'Processes and threads', 'memory': 'Memory faults',
          'ipc': 'Pipes and sockets', 'files': 'Files', 'git': 'git', 'search': 'Searching and packing', 'python': 'Python',
          'node': 'Node', 'npm': 'npm', 'compile': 'Compilers and builds', 'databases': 'Databases',
          'agent': 'A coding agent\'s tool calls', 'footprint': 'Memory of idle sandboxes'}
ACCOUNTS = {'root': 'root', 'user': 'an ordinary user'}

PAGE_STYLE = '''
body{margin:0 auto;max-width:1160px;padding:24px 20px 60px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,"DejaVu Sans",sans-serif}h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:42px 0 6px;
border-bottom:1px solid var(--line);padding-bottom:4px}h3{font-size:16px;margin:26px 0 8px}p{max-width:78ch;margin:6px 0}
.soft{color:var(--soft)}.bad{color:var(--bad)}.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;
font-variant-numeric:tabular-nums;margin:8px 0}th,td{padding:4px 9px;text-align:right;border-bottom:1px solid var(--line);
white-space:nowrap;vertical-align:top}th{font-weight:600}td:first-child,th:first-child,.left td,.left th{text-align:left}
.left td{white-space:normal;min-width:70px}tr.ours td{color:var(--ours)}.grid{display:grid;gap:18px 40px;
grid-template-columns:repeat(auto-fill,minmax(520px,1fr))}svg.chart{max-width:100%;height:auto;display:block}
small{color:var(--soft)}details{margin:8px 0}summary{cursor:pointer;color:var(--soft)}
@media(max-width:600px){.grid{grid-template-columns:1fr}}
'''


def colours(values):
    return ''.join(f'{name}:{value};' for name, value in values.items())


def write(store, progress):
    results = store.results()
    if not results['plan'] or not results['workloads']:
        progress.say('bench: there are no results to report')
        return
    path = store.write_results()
    table = stats.table(results)
    page = store.folder / 'report.html'
    page.write_text(html_page(results, table), encoding='utf-8')
    markdown = store.folder / 'summary.md'
    markdown.write_text(summary.markdown(results, table), encoding='utf-8')
    said = png.write(store.folder / 'charts', summary_charts(results, table))
    progress.say(f'report:  {page}\nsummary: {markdown}\nraw:     {path}\ncharts:  {said}')


def html_page(results, table):
    parts = ['<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
             'content="width=device-width,initial-scale=1"><title>uks beside other sandboxes</title><style>'
             f':root{{color-scheme:light dark;{colours(charts.LIGHT)}}}'
             f'@media(prefers-color-scheme:dark){{:root{{{colours(charts.DARK)}}}}}{charts.STYLE}{PAGE_STYLE}'
             '</style></head><body>']
    parts.append(head(results))
    parts.append(failures(results))
    parts.append(overview(results, table))
    if results['boundary']:
        parts.append(boundary(results['boundary']))
    for account, rows in table.items():
        parts.append(f'<h2>In detail, as {ACCOUNTS[account]}</h2>')
        groups = dict.fromkeys(row['group'] for row in rows)
        for group in sorted(groups, key=list(GROUPS).index):
            parts.append(detail(results, group, [row for row in rows if row['group'] == group]))
    parts.append(peers(results))
    parts.append('</body></html>\n')
    return '\n'.join(parts)


def head(results):
    machine, after = results['machine'], results['machine_after'] or {}
    facts = [machine['system'], f'Linux {machine["kernel"]}',
             f'{machine["cpu"]}, {machine["cpus"]} CPUs{" (virtual machine)" if machine["virtual"] else ""}',
             f'{(machine["memory_mib"] or 0) / 1024:.0f} GiB', f'work directories on {machine["file_system"]}',
             f'governor: {machine["governor"]}',
             f'load {machine["load"][0]} before, {after.get("load", ["?"])[0]} after', f'begun {machine["date"]}']
    text = '<h1>uks beside other sandboxes</h1>'
    text += f'<p class="soft">{html.escape(" · ".join(facts))}</p>'
    if machine.get('note'):
        text += f'<p class="soft">{html.escape(machine["note"])}</p>'
    scale = 'quick: small sizes, few runs: a look, not a measurement' if results['plan']['quick'] else 'full sizes'
    text += (f'<p>Up to {results["plan"]["rounds"]} runs of each workload in each peer, interleaved run by run; {scale}. A time counts '
             'only if the result was right. Bars are medians, whiskers the 10th to the 90th percentile. '
             'Ratios compare with the native run of the same round.</p>')
    return text


def failures(results):
    """What did not work, before any figure."""
    items = []
    for peer in results['peers']:
        if peer['missing']:
            items.append((peer['name'], 'missing', peer['missing']))
        for account, state in peer['accounts'].items():
            if not state['works']:
                items.append((peer['name'], f'does not run as {ACCOUNTS[account]}', state['message']))
    for run in results['runs']:
        if not run['ok']:
            items.append((run['peer'], f'{run["workload"]} as {ACCOUNTS[run["account"]]} failed', run['message']))
    for name, why in results['workloads']['left_out']:
        items.append((name, 'left out', why))
    cut = results['workloads']['out_of_time']
    text = ''
    if items:
        rows = ''.join(f'<tr><td>{html.escape(who)}<td>{html.escape(what)}<td>{html.escape(why)}' for who, what, why in items)
        text += (f'<details{" open" if len(items) < 13 else ""}><summary>{len(items)} things that are missing or failed</summary>'
                 f'<table class="left"><tr><th>What<th>State<th>Message{rows}</table></details>')
    if cut:
        names = sorted({f'{workload} in {peer}' for workload, peer, _ in cut})
        text += (f'<details><summary>{len(names)} were run fewer times or not at all, because --quick ran out of time'
                 f'</summary><p>{html.escape(", ".join(names))}</p></details>')
    return text


def group_ratios(results, rows):
    """{peer: {group: geometric mean of the ratios}}; groups without ratios are not in it. A failure makes it partial."""
    means = {}
    for peer in results['plan']['peers']:
        for group in dict.fromkeys(row['group'] for row in rows):
            cells = [row['peers'].get(peer, {}) for row in rows if row['group'] == group]
            ratios = [cell['ratio']['ratio'] for cell in cells if cell.get('ratio')]
            if ratios:
                failed = sum('failed' in cell for cell in cells)
                means.setdefault(peer, {})[group] = (stats.geometric_mean(ratios), failed)
            elif any('failed' in cell for cell in cells):
                means.setdefault(peer, {})[group] = (None, len(cells))
    return means


def overview(results, table):
    text = '<h2>How many times native</h2><p>The geometric mean of the ratios of each group; lower is better. '\
           '<span class="bad">!</span>: some of the group failed there.</p>'
    for account, rows in table.items():
        means = group_ratios(results, rows)
        groups = sorted(dict.fromkeys(row['group'] for row in rows), key=list(GROUPS).index)
        groups = [group for group in groups if any(group in row for row in means.values())]
        text += f'<h3>As {ACCOUNTS[account]}</h3><div class="scroll"><table><tr><th>' + ''.join(
            f'<th>{html.escape(group)}' for group in groups)
        for peer, values in means.items():
            if peer == 'native':
                continue
            text += f'<tr class="{charts.bar_kind(peer)}"><td>{peer}'
            for group in groups:
                mean, failed = values.get(group, (None, 0))
                mark = f' <span class="bad" title="{failed} of the group failed">!</span>' if failed else ''
                text += f'<td>{charts.times(mean) if mean else "–" if not failed else ""}{mark}'
        text += '</table></div>'
        chosen = [row for row in rows if row['metric_name'] in ('start/true', 'agent/each', 'agent/one', 'git/status')]
        text += f'<div class="grid">{"".join(chart(row) for row in chosen)}</div>'
    return text


def chart(row, standalone=False):
    return charts.bars(f'{GROUPS[row["group"]]}: {row["label"]}' if standalone else row['label'], list(row['peers'].items()),
                       row['unit'], row['better'], standalone=standalone)


def detail(results, group, rows):
    what = {workload['name']: workload['what'] for workload in results['workloads']['run'] if workload['group'] == group}
    text = f'<h3>{GROUPS[group]}</h3><p class="soft">{html.escape("; ".join(what.values()))}</p>'
    text += f'<div class="grid">{"".join(chart(row) for row in rows)}</div>'
    text += ('<details><summary>the figures: median ± median deviation, runs, ratio with its 95 % interval</summary>'
             '<div class="scroll"><table><tr><th>')
    names = [peer for peer in results['plan']['peers'] if any(row['peers'].get(peer) for row in rows)]
    text += ''.join(f'<th>{name}' for name in names)
    for row in rows:
        text += f'<tr><td>{html.escape(row["label"])}'
        for name in names:
            text += f'<td>{figure(row["peers"].get(name, {}), row["unit"])}'
    return text + '</table></div></details>'


def figure(cell, unit):
    if 'failed' in cell:
        return f'<span class="bad" title="{html.escape(cell["failed"])}">failed</span>'
    if 'median' not in cell:
        return '–'
    text = f'{charts.quantity(cell["median"], unit)}<br><small>± {charts.quantity(cell["mad"], unit)}, {cell["count"]}</small>'
    ratio = cell.get('ratio')
    if ratio:
        text += f'<br>{charts.times(ratio["ratio"])}'
        if ratio['low'] is not None:
            text += f'<br><small>{charts.times(ratio["low"])}–{charts.times(ratio["high"])}</small>'
    return text


def boundary(data):
    rows = ''
    for name, row in data['rows'].items():
        cells = [name, boundary_text.reached(row, data['implemented']), str(row.get('seen_count', '–')),
                 str(row.get('refused', '–')), str(row.get('served', '–')), boundary_text.own_processes(row),
                 boundary_text.extras(row)]
        rows += f'<tr class="{charts.bar_kind(name)}">' + ''.join(f'<td>{html.escape(cell)}' for cell in cells)
        for situation, _ in boundary_text.SITUATIONS:
            word, message = boundary_text.outcome(row, situation)
            style = ' class="bad"' if message else ''
            rows += f'<td{style} title="{html.escape(message)}">{word}'
    heads = ''.join(f'<th>{text}' for text in (
        '', 'Calls of the host that guest code reaches', 'of them seen', 'Refused', 'Served by another',
        'What its own processes may call', 'Needs besides', *(label for _, label in boundary_text.SITUATIONS)))
    numbers = [(name, row['reachable'], '') for name, row in data['rows'].items() if 'reachable' in row]
    return (f'<h2>The boundary</h2><p>The host implements {data["implemented"]} system calls. Each was made from inside, with '
            'arguments that can do nothing, while the host\'s tracepoint showed which of them its kernel began to execute '
            '(<i>seen</i>). The filters of the guest\'s process were read from the kernel and evaluated for every number '
            'and any arguments; a call counts as reached if some arguments of it pass, or if it was seen. '
            '<i>Served</i>: answered without the host\'s kernel seeing the call from the guest. For container peers a call that is reached is still '
            'subject to namespaces and capabilities.</p>'
            f'{charts.counts("host system calls that guest code reaches", numbers, data["implemented"], width=700)}'
            f'<div class="scroll"><table class="left"><tr>{heads}{rows}</table></div>')


VIEW = {'root': {'read-only': 'read-only', 'own': 'writable, discarded', 'writable': 'writable: the host\'s'},
        'tmp': {'own': 'its own', 'shared': 'the host\'s'}}


def peers(results):
    rows = ''
    for peer in results['peers']:
        views = [(account, state['view']) for account, state in peer['accounts'].items() if state['works']]
        view = views[0][1] if views else {}
        links = [link for link in view.get('links', '').split(',') if link]
        cells = [peer['name'], peer['version'] or peer['missing'], peer['what'], peer['options'],
                 VIEW['root'].get(view.get('root'), '–'), VIEW['tmp'].get(view.get('tmp'), '–'),
                 ('loopback only' if links == ['lo'] else 'none' if not links else ', '.join(links)) if view else '–',
                 ', '.join(f'{account}: {"0" if v.get("uid") == "0" else v.get("uid")}' for account, v in views) or '–']
        rows += f'<tr class="{charts.bar_kind(peer["name"])}">' + ''.join(f'<td>{html.escape(cell)}' for cell in cells)
    return ('<h2>The peers</h2><p>All are to give the same view: the host\'s root read-only, one writable directory on the '
            'same file system, an empty /tmp in memory, loopback only. The last columns say what each gave.</p>'
            '<div class="scroll"><table class="left"><tr><th>Peer<th>Version<th>What it is<th>Options<th>Root<th>/tmp'
            f'<th>Network<th>User id inside{rows}</table></div>')


def summary_charts(results, table):
    """{name: SVG} of the charts that become PNG files."""
    found = {}
    account = next(iter(table))
    for row in table[account]:
        if row['metric_name'] in ('start/true', 'agent/each', 'agent/one', 'git/status', 'compile/make', 'python/imports',
                                  'footprint/twenty', 'calls/getpid', 'files/small_work'):
            found[row['metric_name'].replace('/', '-')] = chart(row, standalone=True)
    if results['boundary']:
        numbers = [(name, row['reachable'], '') for name, row in results['boundary']['rows'].items() if 'reachable' in row]
        if numbers:
            found['boundary'] = charts.counts('Host system calls that guest code reaches', numbers,
                                              results['boundary']['implemented'], standalone=True)
    return found
