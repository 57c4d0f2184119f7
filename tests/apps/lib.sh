# What the application scripts share: runs a command outside and inside, and compares.
# A script sources this, calls `same` and `check`, and ends with `finish`. Each test prints one line:
# PASS name, FAIL name (with the difference) or SKIP name: reason.
set -u

UKS=${UKS:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/release/uks}
app=$(basename "$0" .sh)
base=$(mktemp -d "${UKS_TEST_BASE:-/var/tmp}/uks-app-$app-XXXXXX")
chmod 755 "$base"
# Nothing of the caller's environment, locale or home may make a difference.
clean_env=(env -i "HOME=$base/home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
           LANG=C.UTF-8 TERM=dumb TMPDIR=/tmp USER="$(id -un)" LOGNAME="$(id -un)" SHELL=/bin/bash)
native_timeout=120
inside_timeout=${UKS_INSIDE_TIMEOUT:-240}
failures=0

cleanup() {
  chmod -R u+rwX "$base" 2>/dev/null
  rm -rf "$base"
}
trap cleanup EXIT

pass() { echo "PASS $app.$1"; }
fail() {
  echo "FAIL $app.$1${2:+: $2}"
  failures=$((failures + 1))
}
skip() { echo "SKIP $app.$1${2:+: $2}"; }

# A fresh project folder and home, the same path each time.
fresh() {
  chmod -R u+rwX "$base/project" "$base/home" 2>/dev/null
  rm -rf "$base/project" "$base/home"
  mkdir -p "$base/project" "$base/home"
  cd "$base/project" || exit 1
  if declare -F setup >/dev/null; then setup; fi
}

# uks with a clean environment in the project folder: inside FLAGS... -- CMD...
inside() {
  timeout --kill-after=5 "$inside_timeout" "${clean_env[@]}" "$UKS" exec --quiet "$@"
}
native() {
  timeout --kill-after=5 "$native_timeout" "${clean_env[@]}" "$@"
}

# Types, modes, link targets and contents of the project, without times, in a fixed order.
tree() {
  (cd "$base/project" && find . -name .git -prune -o -printf '%P %y %m %l\n' | LC_ALL=C sort
   find . -name .git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum)
}

# Process ids in bash's messages differ; what this file's own shell says does not count.
normalise() {
  sed -i -E -e '/^[^ ]*lib\.sh: line /d' -e '/^Terminated$/d' -e 's/(line [0-9]+:) +[0-9]+ /\1 PID /' "$1"
}

# same NAME SCRIPT: `bash -c SCRIPT` gives the same output, errors, status and files inside as outside.
# Status 77 outside: the machine lacks what the test needs.
same() { same_cmd "$1" bash -c "$2"; }

# same_cmd NAME CMD...
same_cmd() {
  local name=$1 native_rc inside_rc out=$base/result
  shift
  mkdir -p "$out"
  fresh
  native "$@" >"$out/native.out" 2>"$out/native.err" </dev/null
  native_rc=$?
  normalise "$out/native.err"
  tree >"$out/native.tree"
  if ((native_rc == 77)); then
    skip "$name" "$(head -1 "$out/native.out")"
    return
  fi
  fresh
  inside -- "$@" >"$out/inside.out" 2>"$out/inside.err" </dev/null
  inside_rc=$?
  normalise "$out/inside.err"
  tree >"$out/inside.tree"
  local part bad=
  for part in out err tree; do
    if ! cmp -s "$out/native.$part" "$out/inside.$part"; then
      bad+=" std$part"
    fi
  done
  ((native_rc == inside_rc)) || bad+=" status"
  if [[ -z $bad ]]; then
    pass "$name"
    return
  fi
  fail "$name" "differs in${bad//stdtree/files} (status outside $native_rc, inside $inside_rc)"
  for part in out err tree; do
    diff -u --label "outside.$part" --label "inside.$part" "$out/native.$part" \
      "$out/inside.$part" | head -"${UKS_DIFF_LINES:-20}"
  done
}

# check NAME CONDITION...: the command must succeed; its output is shown if it does not.
check() {
  local name=$1 text
  shift
  if text=$("$@" 2>&1); then
    pass "$name"
  else
    fail "$name"
    head -20 <<<"$text"
  fi
}

# need PROGRAM...: ends the script with one SKIP line if a program is missing outside.
need() {
  local program
  for program in "$@"; do
    if ! "${clean_env[@]}" bash -c "command -v $program" >/dev/null; then
      skip all "no $program on this machine"
      exit 0
    fi
  done
}

finish() {
  cd /
  ((failures == 0))
  exit
}
