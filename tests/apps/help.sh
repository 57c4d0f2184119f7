#!/usr/bin/env bash
# Help, manual page and completions, as the binary prints them.
. "$(dirname "$0")/lib.sh"

fresh
"$UKS" man >"$base/uks.1"
for shell in bash zsh fish; do "$UKS" completion $shell >"$base/uks.$shell"; done

# Every flag that --help names is in the manual and in each completion.
everywhere() {
  local flag command bad=0
  for command in '' exec doctor ps completion; do
    for flag in $("$UKS" $command --help | grep -oE '^  (-., |    )--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
      grep -qF -- "${flag//-/\\-}" "$base/uks.1" || { echo "man lacks $flag"; bad=1; }
      grep -qF -- "$flag" "$base/uks.bash" || { echo "bash lacks $flag"; bad=1; }
      grep -qF -- "$flag" "$base/uks.zsh" || { echo "zsh lacks $flag"; bad=1; }
      grep -qF -- "-l ${flag#--} " "$base/uks.fish" || { echo "fish lacks $flag"; bad=1; }
    done
  done
  return $bad
}
check every_flag_is_everywhere everywhere
flags=$("$UKS" exec --help | grep -c -E '^  (-., |    )--')
check exec_has_its_flags test "$flags" -ge 19
for word in 'Exit code' 'Examples' 'Default'; do
  check "exec_help_has_${word// /_}" bash -c '"$1" exec --help | grep -q "$2"' _ "$UKS" "$word"
done

if command -v groff >/dev/null; then
  check man_sets_without_warnings bash -c 'text=$(groff -ww -man -Tutf8 "$1" 2>&1 >/dev/null); echo "$text"; test -z "$text"' _ "$base/uks.1"
else
  skip man_sets_without_warnings "no groff on this machine"
fi
if command -v man >/dev/null; then
  check man_reads_it bash -c 'text=$(MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$1" 2>&1 >/dev/null); echo "$text"; test -z "$text"' _ "$base/uks.1"
else
  skip man_reads_it "no man on this machine"
fi

# completes WORDS... : what bash offers for the last word, one a line.
completes() {
  bash --norc --noprofile -c '
    source "$1"; shift
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
    _uks; printf "%s\n" "${COMPREPLY[@]}"' _ "$base/uks.bash" "$@"
}
offers() {
  local name=$1 want=$2 got
  shift 2
  got=$(completes "$@" | sort | tr '\n' ' ')
  if [[ $got == $want ]]; then pass "$name"; else fail "$name" "offers: $got"; fi
}
touch 'a file' other
mkdir dir
offers bash_flag '--platform ' uks exec --pl
offers bash_choice 'auto ptrace trap ' uks exec --platform ''
offers bash_choice_prefix 'trap ' uks exec --platform t
offers bash_choice_equals 'trap ' uks exec --platform = t
offers bash_subcommand 'exec ' uks e
offers bash_subcommands 'completion doctor exec help man ps ' uks ''
offers bash_after_global 'doctor ' uks --log-level debug d
offers bash_path 'a file dir other ' uks exec --ro ''
offers bash_strace_file 'other ' uks exec --strace = o
offers bash_directory 'dir ' uks exec --workdir ''
export UKS_TEST_VARIABLE=1
offers bash_variable 'UKS_TEST_VARIABLE ' uks exec --pass-env UKS_TEST_V
offers bash_shells 'bash ' uks completion b
offers bash_ps '--processes ' uks ps --p
offers bash_command '*true*' uks exec -- tru
offers bash_argument 'other ' uks exec -- cat oth
offers bash_flag_of_the_command ' ' uks exec -- cat --pl
check bash_registers bash -c 'source "$1"; complete -p uks | grep -q _uks' _ "$base/uks.bash"
# Syntax, where the shell is there.
for shell in bash zsh fish; do
  if command -v $shell >/dev/null; then check "${shell}_parses" $shell -n "$base/uks.$shell"; else skip "${shell}_parses" "no $shell on this machine"; fi
done

# What the build left is what the binary prints.
share=$(dirname "$UKS")/share
if [[ -d $share ]]; then
  check built_man cmp "$share/man/man1/uks.1" "$base/uks.1"
  check built_bash cmp "$share/bash-completion/completions/uks" "$base/uks.bash"
  check built_zsh cmp "$share/zsh/site-functions/_uks" "$base/uks.zsh"
  check built_fish cmp "$share/fish/vendor_completions.d/uks.fish" "$base/uks.fish"
fi

# refused NAME PATTERN ARGS...: 125 and one line.
refused() {
  local name=$1 pattern=$2 text rc
  shift 2
  text=$("$UKS" "$@" 2>&1 >/dev/null)
  rc=$?
  if ((rc == 125)) && [[ $text != *$'\n'* && $text == uks:\ *$pattern* ]]; then pass "$name"; else fail "$name" "status $rc: $text"; fi
}
refused completion_without_shell 'which shell' completion
refused completion_for_csh csh completion csh
refused man_with_a_word 'too many' man uks
refused doctor_with_a_word 'too many' doctor x
refused ps_unknown_flag 'unknown flag --all (see `uks ps --help`)' ps --all
for command in '' exec doctor ps completion man; do
  check "help_${command:-uks}_is_its_--help" bash -c '[[ -n $("$1" help $2) && $("$1" help $2) == "$("$1" $2 --help)" ]]' _ "$UKS" "$command"
done
refused help_of_nothing 'there is no subcommand nothing' help nothing
refused help_with_value 'help' --help=roff
finish
