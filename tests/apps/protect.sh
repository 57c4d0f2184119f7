#!/usr/bin/env bash
# Repositories of the workspace: what would run outside the sandbox later cannot be planted; git works.
. "$(dirname "$0")/lib.sh"
need git

identity='export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org'
setup() {
  native git config --global init.defaultBranch main
  native git init -q .
  native git -C . -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m first
  native git init -q sub/nested
  native git -c user.name=A -c user.email=a@example.org worktree add -q ../wt -b w 2>/dev/null
}
state() { (cd "$base/project" && find .git sub/nested/.git \( -path '*/hooks*' -o -name config -o -name 'commondir' -o -name gitdir \) -type f -exec sha256sum {} + | sort; ls .git/hooks); }

# refused NAME COMMAND: fails inside, leaves hooks and configuration as they were, and says why in a line.
refused() {
  local before out
  rm -rf "$base/wt"
  fresh
  before=$(state)
  out=$(timeout -k 1 60 "${clean_env[@]}" "$UKS" exec -- bash -c "$2" 2>&1 </dev/null)
  if [[ $(state) != "$before" ]]; then
    fail "$1" 'it came through'
    diff <(echo "$before") <(state) | head -5
  elif ! grep -q '^uks: refused to change .*--unprotect' <<<"$out"; then
    fail "$1" "no line: $out"
  else
    pass "$1"
  fi
}
refused new_hook 'echo "echo owned" >.git/hooks/pre-commit'
refused moved_hook 'echo "echo owned" >h; mv h .git/hooks/post-checkout'
refused linked_hook 'ln -s /tmp/x .git/hooks/pre-commit'
refused hard_linked_hook 'echo x >h; ln h .git/hooks/pre-commit'
refused sample_hook 'echo x >>.git/hooks/pre-commit.sample'
refused chmod_hook 'chmod 700 .git/hooks/pre-commit.sample'
refused hooks_moved 'mv .git/hooks .git/h2'
refused nested_hook 'echo x >sub/nested/.git/hooks/pre-push'
refused config_written 'printf "[core]\nfsmonitor = ./x\n" >>.git/config'
refused config_truncated ': >.git/config'
refused config_renamed 'cp .git/config c; printf "[core]\nfsmonitor = ./x\n" >>c; mv c .git/config'
refused config_linked 'ln .git/config c; echo "[alias] x = !sh" >>c'
refused git_config_fsmonitor 'git config core.fsmonitor ./x'
refused git_config_hookspath 'git config core.hooksPath h'
refused git_config_alias 'git config alias.st "!sh x"'
refused git_config_filter 'git config filter.x.smudge ./x'
refused git_config_include 'git config include.path ../x'
refused git_config_ssh 'git config core.sshCommand ./x'
refused git_config_nested 'git -C sub/nested config core.pager ./x'
refused git_directory_moved 'mv .git g'
refused git_directory_exchanged 'git init -q e; mv --exchange e/.git .git 2>/dev/null || python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(libc.renameat2(-100, b\"e/.git\", -100, b\".git\", 2) and 1)"'
refused git_config_unknown 'git config x.y z'
refused git_config_subsection 'git config pager.log ./x'
refused commondir 'echo /tmp >.git/commondir'

# A descriptor kept open does not write to the configuration after the check.
kept_open() {
  fresh
  inside -- python3 -c '
import os
text = open(".git/config").read()
f = open(".git/config.lock", "w"); f.write(text); f.flush(); os.rename(".git/config.lock", ".git/config")
f.write("[core]\nfsmonitor = ./x\n"); f.flush()' || return
  ! grep -q fsmonitor .git/config
}
check descriptor_kept_open kept_open

# held NAME COMMAND TRIGGER [SETUP]: COMMAND inside tries to plant `$run`, a command that leaves a mark when git on
# the host runs it at TRIGGER. Whatever COMMAND was refused: no mark.
owned=$base/owned
run="touch $owned"
held() {
  rm -rf "$base/wt" "$owned"
  fresh
  native bash -c "git config --global user.name A; git config --global user.email a@e.org; echo a >a; git add a; git commit -qm a; echo b >>a; git commit -qam b; ${4:-:}" >/dev/null 2>&1
  timeout -k 1 60 "${clean_env[@]}" "run=$run" "$UKS" exec --quiet --pass-env run -- bash -c "$2" >"$base/held.out" 2>&1 </dev/null
  rm -f "$owned"
  native bash -c "$3" >/dev/null 2>&1 </dev/null
  if [[ -e $owned ]]; then
    fail "$1" 'it ran on the host'
    head -5 "$base/held.out"
  else
    pass "$1"
  fi
}
# Appends the lines of $1 to the configuration by way of a new file.
append='append() { cp .git/config c; printf "$1" >>c; mv c .git/config; }'
hook='hook() { printf "#!/bin/sh\n$run\n" >"$1"; chmod 755 "$1"; }'

held config_nul_section "$append; append \"[core \\\"fsmonitor\\\\0\\\"]\\nx = \\\"\$run;false\\\"\\n\"" 'git status'
held config_nul_include "$append; printf '[core]\\nfsmonitor = \"%s;false\"\\n' \"\$run\" >evil; append '[include \"path\\0\"]\\nx = ../evil\\n'" 'git status'
held config_dotted "$append; echo '* filter=foo.bar' >.gitattributes; append \"[filter.foo \\\"bar\\\"]\\nclean = \\\"\$run; cat\\\"\\n\"; echo q >>a" 'git diff'
held config_protocol_remote 'git config protocol.ext.allow always; git config branch.main.remote "ext::sh -c ${run/ /% }"' 'git fetch'
held config_push_remote 'git config protocol.allow always; git config branch.main.pushRemote "ext::sh -c ${run/ /% }"' 'git push'
held config_push_default 'git config protocol.allow always; git config remote.pushDefault "ext::sh -c ${run/ /% }"' 'git push'
held config_instead_of 'git config protocol.ext.allow always; git config "url.ext::sh -c ${run/ /% } .insteadOf" https://; git config remote.origin.url https://x' 'git fetch'
held config_rebase_format 'git checkout -qb t HEAD~1; echo c >c; git add c; git commit -qm c; git config rebase.instructionFormat "%s%nexec $run"' 'git rebase main'
held config_difftool 'echo "$run" >evil; git config diff.tool ../../../../../../..$PWD/evil; echo z >>a' 'git difftool -y'
held config_alias 'git config alias.st "grep --open-files-in-pager=${run/ /\\ } b"' 'git st'
held config_worktree 'git config core.worktree ../../away' "git reset --hard; [[ -e ../away/a ]] && $run" 'mkdir -p ../away; rm -f ../away/*'
held config_local_remote "$hook; git init -q --bare evil.git; hook evil.git/hooks/pre-receive; git config remote.origin.url ./evil.git" 'git push origin main'
held config_lost_remote "$hook; git init -q --bare origin; hook origin/hooks/pre-receive; git config --unset remote.origin.url" 'git push' 'git remote add origin /nowhere; git config branch.main.remote origin; git config push.default current'

unprotected() {
  fresh
  inside --unprotect -- bash -c 'echo x >.git/hooks/pre-commit && git config core.pager cat' && [[ -f .git/hooks/pre-commit ]]
}
check unprotect unprotected

# What git does otherwise works as outside.
setup_plain=$(declare -f setup)
same git_config "$identity; git config user.name X; git config --get user.name; git config --unset user.name; git config alias.st status; git remote add origin ../x; git remote rename origin o2; git branch -m main trunk; git config branch.trunk.description d; cat .git/config"
same git_config_harmless "$identity; git config pager.log false; git config core.fsmonitor true; git remote add v6 'ssh://[::1]/x'; git config branch.main.remote v6; git remote rename v6 v7; git config alias.lg 'log --graph'; git config core.fsmonitor false; cat .git/config"
same git_commit "$identity; echo a >a; git add a; git commit -qm a; git switch -qc t; echo b >b; git add b; git commit -qm b; git switch -q main; git merge -q t; git log --format=%s; git branch -u main t; git status -s; git gc -q; git fsck 2>&1"
same git_new "$identity; git init -q n; cd n; echo 'echo hook ran' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.pager cat; git commit -q --allow-empty -m x; cat .git/config; cd ..; rm -rf n; ls"
same git_clone "$identity; git clone -q . c; git -C c log --format=%s; git -C c config core.editor true; git -C c config core.editor; rm -rf c"
same git_worktree "$identity; git worktree add -q /tmp/w2 -b w2 && git -C /tmp/w2 status -s; git worktree list | wc -l; git worktree remove /tmp/w2; git branch -D -q w2; ls .git/worktrees"
same git_submodule "$identity; git init -q /tmp/s; git -C /tmp/s commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add /tmp/s s; git commit -qm sub; git submodule status | cut -c43-; git config --get submodule.s.url; rm -rf /tmp/s"
same git_stash_rebase "$identity; for i in 1 2 3; do echo \$i >f; git add f; git commit -qm \$i; done; echo d >>f; git stash -q; git rebase -q --root --exec true 2>/dev/null; git stash pop -q; git diff --stat | tail -1"
rm -rf "$base/wt"
finish
