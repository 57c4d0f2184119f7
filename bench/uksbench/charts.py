"""Bar charts as SVG: median, spread, and how many times native. Colours are CSS variables of the page around them, or
fixed ones for files of their own."""
import html
import math

LABEL, VALUE, ROW = 118, 150, 22
LIGHT = {'--ink': '#1c2430', '--soft': '#5b6675', '--line': '#d5dae1', '--bar': '#9aa9bd', '--ours': '#1f6feb',
         '--native': '#c3cad4', '--bad': '#b42318', '--paper': '#ffffff'}
DARK = {'--ink': '#e6e9ee', '--soft': '#9aa5b4', '--line': '#353d48', '--bar': '#66768c', '--ours': '#5aa2ff',
        '--native': '#4a5462', '--bad': '#ff8a7a', '--paper': '#14181e'}


def number(value):
    if value >= 100:
        return f'{value:,.0f}'
    return f'{value:.3g}'


def quantity(value, unit):
    """A value in the unit that reads best."""
    if unit == 's':
        value, unit = value * 1e9, 'ns'
    if unit == 'ns':
        for factor, name in ((1e9, 's'), (1e6, 'ms'), (1e3, 'µs')):
            if value >= factor:
                return f'{number(value / factor)} {name}'
        return f'{number(value)} ns'
    if unit == 'KiB' and value >= 1024:
        return f'{number(value / 1024)} MiB'
    return f'{number(value)} {unit}' if unit == 'KiB' else f'{number(value)}/s' if unit == '1/s' else f'{number(value)} {unit}'


def times(ratio):
    return f'{number(ratio)}×' if ratio >= 0.995 else f'{ratio:.2f}×'


def bar_kind(peer):
    return 'native' if peer == 'native' else 'ours' if peer.startswith('uks') else 'bar'


def bars(title, rows, unit, better, width=520, standalone=False):
    """rows: [(peer, cell)] as in stats.table. Logarithmic when the values span more than a factor of twenty."""
    measured = [cell for _, cell in rows if 'median' in cell]
    shown = [(peer, cell) for peer, cell in rows if cell]
    height = 34 + ROW * len(shown) + 8
    parts = [f'<text x="0" y="15" class="t">{html.escape(title)}</text>']
    span = width - LABEL - VALUE
    if measured:
        most = max(cell['p90'] for cell in measured)
        least = min(cell['p10'] for cell in measured)
        logarithmic = least > 0 and most / least > 20
        floor = least / 2 if logarithmic else 0.0
    else:
        most, floor, logarithmic = 1.0, 0.0, False
    scale = f'{"logarithmic scale, " if logarithmic else ""}{better} is better'
    parts.append(f'<text x="{width}" y="15" text-anchor="end" class="s">{scale}</text>')

    def place(value):
        if logarithmic:
            return span * math.log(max(value, floor) / floor) / math.log(most / floor)
        return span * value / most if most else 0.0

    for line, (peer, cell) in enumerate(shown):
        y = 26 + ROW * line
        middle = y + ROW / 2
        parts.append(f'<text x="{LABEL - 8}" y="{middle + 4:.1f}" text-anchor="end" class="l {bar_kind(peer)}-l">{peer}</text>')
        if 'median' not in cell:
            text = 'failed: ' + cell['failed']
            if 'partial' in cell:
                text = f'{quantity(cell["partial"], unit)}, then {text}'
            fits = int((width - LABEL) / 6.1)
            short = text if len(text) <= fits else text[:fits - 1] + '…'
            parts.append(f'<text x="{LABEL}" y="{middle + 4:.1f}" class="f"><title>{html.escape(text)}</title>'
                         f'{html.escape(short)}</text>')
            continue
        length = max(1.0, place(cell['median']))
        parts.append(f'<rect x="{LABEL}" y="{y + 4}" width="{length:.1f}" height="{ROW - 8}" rx="2" '
                     f'class="{bar_kind(peer)}"/>')
        end = length
        if cell['count'] > 1:
            low, high = place(cell['p10']), place(cell['p90'])
            end = max(length, high)
            parts.append(f'<path d="M{LABEL + low:.1f} {middle}H{LABEL + high:.1f}M{LABEL + low:.1f} {middle - 4}v8'
                         f'M{LABEL + high:.1f} {middle - 4}v8" class="w"/>')
        text = quantity(cell['median'], unit)
        if peer != 'native' and cell.get('ratio'):
            text += f'  {times(cell["ratio"]["ratio"])}'
        parts.append(f'<text x="{LABEL + end + 7:.1f}" y="{middle + 4:.1f}" class="v">{text}</text>')
    return svg(width, height, parts, standalone)


def counts(title, rows, total, width=520, standalone=False):
    """rows: [(peer, number, note)]: plain bars of a whole."""
    height = 34 + ROW * len(rows) + 8
    parts = [f'<text x="0" y="15" class="t">{html.escape(title)}</text>']
    span = width - LABEL - VALUE
    for line, (peer, value, note) in enumerate(rows):
        y = 26 + ROW * line
        middle = y + ROW / 2
        parts.append(f'<text x="{LABEL - 8}" y="{middle + 4}" text-anchor="end" class="l {bar_kind(peer)}-l">{peer}</text>')
        length = max(1.0, span * value / total)
        parts.append(f'<rect x="{LABEL}" y="{y + 4}" width="{length:.1f}" height="{ROW - 8}" rx="2" class="{bar_kind(peer)}"/>')
        parts.append(f'<text x="{LABEL + length + 7:.1f}" y="{middle + 4}" class="v">{value}'
                     f'{"  " + html.escape(note) if note else ""}</text>')
    return svg(width, height, parts, standalone)


STYLE = ('text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:var(--ink)}.t{font-weight:600;font-size:13px}'
         '.s{fill:var(--soft);font-size:11px}.v{font-variant-numeric:tabular-nums}.f{fill:var(--bad)}'
         '.ours-l{font-weight:600;fill:var(--ours)}.bar{fill:var(--bar)}.ours{fill:var(--ours)}.native{fill:var(--native)}'
         '.w{stroke:var(--ink);stroke-width:1;fill:none;opacity:.65}')


def svg(width, height, parts, standalone):
    if not standalone:
        return (f'<svg class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
                f'{"".join(parts)}</svg>')
    style = STYLE
    for name, colour in LIGHT.items():
        style = style.replace(f'var({name})', colour)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -12 {width + 32} {height + 24}" width="{width + 32}" '
            f'height="{height + 24}"><style>{style}</style><rect x="-16" y="-12" width="{width + 32}" '
            f'height="{height + 24}" fill="{LIGHT["--paper"]}"/>{"".join(parts)}</svg>')
