#!/usr/bin/env bash
# The cases of ../shared/cases, where that folder exists beside the repository: what passes outside
# passes inside, but for those of later issues.
. "$(dirname "$0")/lib.sh"

cases=${UKS_CASES:-$(cd "$(dirname "$0")/../../.." && pwd)/shared/cases}
if [[ ! -f $cases/run.py ]]; then
  skip all "no run.py in the cases folder"
  exit 0
fi
# What later issues bring.
later=' K10 K16 K26 K28 K30 K32 K50 K76 K78 K80 K86 '
fresh
cp "$cases/run.py" run.py
timeout 600 "${clean_env[@]}" python3 run.py >"$base/outside" 2>&1 </dev/null
timeout 600 "${clean_env[@]}" "$UKS" exec --quiet -- python3 run.py >"$base/inside" 2>&1 </dev/null
while read -r id name verdict; do
  # Some cases print figures before their verdict; run.py counts what says FAIL.
  result=$(grep "^$id " "$base/inside" | cut -d' ' -f3-)
  if [[ $verdict != *PASS* ]]; then
    skip "$id.$name" "outside: $verdict"
  elif [[ $result == *PASS* && $result != *FAIL* ]]; then
    pass "$id.$name"
  elif [[ $later == *" $id "* ]]; then
    skip "$id.$name" "belongs to a later issue (${result:0:80})"
  else
    fail "$id.$name" "outside ${verdict}, inside ${result:-nothing}"
  fi
done < <(grep -E '^K[0-9]+ ' "$base/outside")
tail -1 "$base/inside"
finish
