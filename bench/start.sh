#!/usr/bin/env bash
# Start-up beside native and bubblewrap in the same run, and the memory of a sandbox that sleeps.
# Prints medians, their ratio to native, what uks adds in milliseconds, and the PSS of all its processes.
set -euo pipefail
UKS=${UKS:-$(cd "$(dirname "$0")/.." && pwd)/build/release/uks}
runs=${UKS_BENCH_RUNS:-50}
command -v hyperfine >/dev/null || { echo "bench/start.sh: hyperfine is missing (apt-get install hyperfine)" >&2; exit 1; }

results=$(mktemp)
keeper=
trap 'rm -f "$results"; [[ -z $keeper ]] || kill "$keeper" 2>/dev/null || true' EXIT
cd "$(mktemp -d)"

# Each: NAME COMMAND. All get the same empty directory.
names=(native uks)
commands=(/bin/true "$UKS exec --quiet -- /bin/true")
if command -v bwrap >/dev/null && bwrap --ro-bind / / --unshare-all true 2>/dev/null; then
  names+=(bubblewrap)
  commands+=("bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all /bin/true")
fi
hyperfine -N --style none --warmup 5 --runs "$runs" --export-json "$results" "${commands[@]}" >/dev/null 2>&1
python3 - "$results" "${names[@]}" <<'X'
import json, sys
results = json.load(open(sys.argv[1]))['results']
native = results[0]['median']
print(f"{'start of /bin/true':<20}{'median ms':>10}{'min ms':>9}{'x native':>10}{'adds ms':>9}")
for name, r in zip(sys.argv[2:], results):
    print(f"{name:<20}{r['median'] * 1e3:>10.2f}{r['min'] * 1e3:>9.2f}{r['median'] / native:>10.1f}{(r['median'] - native) * 1e3:>9.2f}")
X

"$UKS" exec --quiet -- sleep 60 &
keeper=$!
sleep 1.5
total=0
printf '\n%-20s%10s\n' 'sleep inside' 'PSS KiB'
roles=$(pgrep -P "$keeper")
for pid in $roles; do
  [[ -r /proc/$pid/smaps_rollup ]] && awk 'END { exit NR == 0 }' "/proc/$pid/smaps_rollup" 2>/dev/null && continue
  echo "only root can read the memory of processes that are not dumpable" >&2
  exit 0
done
for pid in "$keeper" $roles $(for role in $roles; do pgrep -P "$role" || true; done); do
  pss=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")
  printf '%-20s%10d\n' "$(cat "/proc/$pid/comm")" "$pss"
  total=$((total + pss))
done
printf '%-20s%10d\n' all "$total"
kill "$keeper"
wait "$keeper" 2>/dev/null || true
