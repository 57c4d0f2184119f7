#!/usr/bin/env bash
# The comparison benchmarks: what the report says is what the raw runs say, failures are told, changes are found.
. "$(dirname "$0")/lib.sh"
need python3
need git

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=${UKS%/*}/bench
[[ -x $programs/bench_probe && -e $root/bench/run.py ]] || { skip all 'bench_probe is not built'; exit 0; }
bench() { timeout -k 5 280 python3 "$root/bench/run.py" --programs "$programs" --work "$base" "$@" >"$base/log" 2>&1; }
told() { grep -q -- "$1" "$2" || { echo "$2 does not say: $1"; tail -n 20 "$2"; return 1; }; }

first_run() {
  bench --quick --no-boundary --uks "$UKS" --peers native,uks --only start/true,start/rate,git --rounds 3 --out "$base/out" || { cat "$base/log"; return 1; }
  [[ $(grep -c '"ok": true' "$base/out/runs.jsonl") == 18 ]] || { cat "$base/out/summary.md"; return 1; }
}
check runs_and_reports first_run

# Computed here once more, from the raw runs, with other code.
figures() {
  python3 - "$base/out" <<'P'
import html.parser, json, math, pathlib, re, statistics, sys
out = pathlib.Path(sys.argv[1])
results = json.loads((out / 'results.json').read_text())
runs = [json.loads(line) for line in (out / 'runs.jsonl').read_text().splitlines()]
assert runs == results['runs'], 'results.json holds other runs than runs.jsonl'
expected = {}  # (label, peer): (median, ratio)
for workload in results['workloads']['run']:
    for metric in workload['metrics']:
        values = {peer: {r['round']: r['values'][metric['name']] for r in runs
                         if r['ok'] and r['peer'] == peer and r['workload'] == workload['name']}
                  for peer in ('native', 'uks')}
        for peer, rounds in values.items():
            quotients = [rounds[n] / values['native'][n] for n in rounds]
            if metric['better'] == 'higher':
                quotients = [1 / q for q in quotients]
            expected[metric['label'], peer] = statistics.median(rounds.values()), math.exp(statistics.median(map(math.log, quotients)))

class Tables(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.tags = [], []
    def handle_starttag(self, tag, attributes):
        if tag in ('td', 'th'):
            self.rows[-1].append('')
        elif tag == 'tr':
            self.rows.append([])
        elif tag == 'br' and self.rows and self.rows[-1]:
            self.rows[-1][-1] += '|'
        self.tag = tag
    def handle_endtag(self, tag):
        if tag == 'table':
            self.rows.append([])
    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

def number(text):  # as shown, in s or 1/s
    value, unit = re.fullmatch(r'([\d.,]+) ?(.*)', text).groups()
    return float(value.replace(',', '')) * {'s': 1, 'ms': 1e-3, 'µs': 1e-6, 'ns': 1e-9, '/s': 1, '×': 1}[unit]

def near(shown, exact):  # three figures are shown
    return abs(number(shown) - exact) <= 0.006 * exact

tables = Tables()
tables.feed((out / 'report.html').read_text())
heads, checked = [], 0
for row in tables.rows:
    if 'native' in row and 'uks' in row:
        heads = row
    elif heads and len(row) == len(heads) and (row[0], 'uks') in expected:
        for peer in ('native', 'uks'):
            parts = row[heads.index(peer)].split('|')
            middle, ratio = expected[row[0], peer]
            assert near(parts[0], middle), (row[0], peer, parts, middle)
            assert near(parts[2], ratio), (row[0], peer, parts, ratio)
            checked += 1
assert checked == len(expected) > 8, (checked, len(expected))

summary = [line.split('|') for line in (out / 'summary.md').read_text().splitlines() if line.startswith('| ')]
start = next(cells for cells in summary if cells[1].strip() == 'uks')[2].strip()
shown = re.fullmatch(r'(.*×) \((.*)\)', start).groups()
middle, ratio = expected['/bin/true', 'uks']
assert near(shown[0], ratio) and near(shown[1], middle), (start, middle, ratio)
page = (out / 'report.html').read_text()
assert not re.search(r'(?:src|href)=["\']?(?!#|data:)', page) and 'url(' not in page, 'the page needs other files'
for picture in (out / 'charts').glob('*.png'):
    assert picture.read_bytes().startswith(b'\x89PNG\r\n'), picture
P
}
check figures_are_those_of_the_runs figures

goes_on() {
  local before
  before=$(wc -l <"$base/out/runs.jsonl")
  bench --quick --no-boundary --uks "$UKS" --peers native,uks --only start/true,start/rate,git --rounds 3 --out "$base/out" || return 1
  [[ $(wc -l <"$base/out/runs.jsonl") == "$before" ]]
}
check what_is_done_is_not_done_again goes_on

compares() {
  bench --report "$base/out" --compare "$base/out/results.json" || { cat "$base/log"; return 1; }
  told ' 0 changed beyond noise' "$base/log" || return 1
  # As if uks had taken a third of the time before.
  python3 - "$base/out/results.json" "$base/faster.json" <<'P'
import json, sys
results = json.load(open(sys.argv[1]))
for run in results['runs']:
    if run['peer'] == 'uks' and run['workload'] == 'start/true':
        run['values'] = {name: value / 3 for name, value in run['values'].items()}
json.dump(results, open(sys.argv[2], 'w'))
P
  ! bench --report "$base/out" --compare "$base/faster.json" || { cat "$base/log"; return 1; }
  told '^  slower  uks  *start/true' "$base/log"
}
check a_change_is_found compares

# A peer that cannot do it has failed, with what it said.
failure() {
  printf '#!/bin/sh\nfor a; do if [ "$a" = script.sh ]; then echo broken on purpose >&2; exit 3; fi; done\nexec %q "$@"\n' "$UKS" >"$base/broken"
  chmod 755 "$base/broken"
  bench --quick --no-boundary --uks "$base/broken" --peers native,uks --only start/true,git --rounds 2 --out "$base/failed"
  told '^- uks, git as .*broken on purpose' "$base/failed/summary.md" && told '| uks | .*failed' "$base/failed/summary.md" &&
    told 'broken on purpose' "$base/failed/report.html"
}
check a_failure_is_told failure

wrong_result() {
  printf '#!/bin/sh\nfor a; do if [ "$a" = script.sh ]; then exit 0; fi; done\nexec %q "$@"\n' "$UKS" >"$base/broken"
  bench --quick --no-boundary --uks "$base/broken" --peers native,uks --only git --rounds 2 --out "$base/wrong"
  told '^- uks, git as ' "$base/wrong/summary.md"
}
check who_does_nothing_is_not_fast wrong_result

missing() {
  bench --quick --no-boundary --uks "$base/none" --peers native,uks,gvisor-kvm --only start/true --rounds 2 --out "$base/missing"
  told '^- uks: ' "$base/missing/summary.md"
}
check a_missing_peer_is_told missing
finish
