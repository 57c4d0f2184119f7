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
  if [[ -n ${more:-} ]]; then native bash -c "$identity; $more" >/dev/null 2>&1; fi
}
state() { (cd "$base/project" && find .git sub/nested/.git \( -path '*/hooks*' -o -name config -o -name 'commondir' -o -name gitdir \) -type f -exec sha256sum {} + | sort; ls .git/hooks); }

# refused NAME COMMAND [SETUP]: fails inside, leaves hooks and configuration as they were, and says why in a line.
refused() {
  local before out
  rm -rf "$base/wt"
  fresh
  native bash -c "${3:-:}"
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
refused unnamed_hook 'python3 -c "import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o755); os.link(str(f), \".git/hooks/pre-commit\", src_dir_fd=os.open(\"/proc/self/fd\", 0), follow_symlinks=True)"'
refused linked_hook 'ln -s /tmp/x .git/hooks/pre-commit'
refused hard_linked_hook 'echo x >h; ln h .git/hooks/pre-commit'
refused sample_becomes_hook 'mv .git/hooks/pre-commit.sample .git/hooks/pre-commit'
refused chmod_hook 'chmod 755 .git/hooks/pre-commit' 'echo x >.git/hooks/pre-commit; chmod 644 .git/hooks/pre-commit'
refused hooks_moved 'mv .git/hooks .git/h2'
refused nested_hook 'echo x >sub/nested/.git/hooks/pre-push'
refused config_written 'printf "[core] fsmonitor = ./x\n" >>.git/config'
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
refused git_directory_moved 'mv .git g' 'echo x >.git/hooks/pre-commit'
refused git_directory_exchanged 'git init -q e; mv --exchange e/.git .git 2>/dev/null || python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(libc.renameat2(-100, b\"e/.git\", -100, b\".git\", 2) and 1)"' 'echo x >.git/hooks/pre-commit'
refused git_config_unknown 'git config x.y z'
refused git_config_subsection 'git config pager.log ./x'
refused new_repository_hook 'git init -q n; echo x >n/.git/hooks/pre-commit; rm -rf n'
refused new_repository_config 'git init -q n; git -C n config core.fsmonitor ./x; rm -rf n'
refused config_hard_link 'echo "[alias] x = !sh" >>other' 'ln .git/config other'
refused config_included 'echo "[alias] x = !sh" >inc; mv inc conf/inc; mv conf c; rm conf/inc' 'mkdir conf; git config -f conf/inc user.name x; git config include.path ../conf/inc; sha256sum conf/inc >sum'
refused hook_hard_link 'echo x >>script' 'echo x >script; chmod 755 script; ln script .git/hooks/pre-commit'
refused relative_remote 'git remote add o ../x'
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

# What a hook in place runs is only noticed: git itself has to change it in a checkout.
noticed() {
  fresh
  mkdir scripts && echo x >scripts/pc && ln -s ../../scripts/pc .git/hooks/pre-commit
  local out
  out=$(timeout -k 1 60 "${clean_env[@]}" "$UKS" exec -- bash -c 'echo y >>scripts/pc; echo z >>scripts/pc' 2>&1 </dev/null)
  [[ $(<scripts/pc) == $'x\ny\nz' && $(grep -c '^uks: note: .*/scripts/pc is changed' <<<"$out") == 1 ]]
}
check hook_in_the_tree_is_noticed noticed
noticed_directory() {
  fresh
  mkdir -p a/myhooks b/myhooks && rm -rf .git/hooks && ln -s ../a/myhooks .git/hooks
  local out
  out=$(timeout -k 1 60 "${clean_env[@]}" "$UKS" exec -- bash -c "$1" 2>&1 </dev/null)
  grep -q "^uks: note: .*$2 is changed; git runs hooks in it" <<<"$out"
}
check hooks_that_are_a_link_are_noticed noticed_directory 'echo x >a/myhooks/pre-commit' a/myhooks/pre-commit
check hooks_that_come_with_a_directory_are_noticed noticed_directory 'echo x >b/myhooks/pre-commit; mv a c; mv b a' project/a
# Where the hooks directory itself is the workspace.
inside_hooks() {
  fresh
  local out
  out=$(cd .git/hooks && timeout -k 1 60 "${clean_env[@]}" "$UKS" exec "$@" -- bash -c 'echo x >pre-commit; mkdir d; echo y >x.sample' 2>&1 </dev/null)
  grep -q '^uks: refused to change .*/.git/hooks/pre-commit' <<<"$out" && [[ ! -e .git/hooks/pre-commit && -e .git/hooks/x.sample ]]
}
check inside_the_hooks_directory inside_hooks
check hooks_directory_made_writable inside_hooks --rw .

# held NAME COMMAND TRIGGER [SETUP] [COMMAND OF A SECOND SESSION]: COMMAND inside tries to plant `$run`, a command that leaves a mark when git on
# the host runs it at TRIGGER. Whatever COMMAND was refused: no mark.
owned=$base/owned
run="touch $owned"
held() {
  rm -rf "$base"/{wt,away,other,.git} "$owned"
  fresh
  native bash -c "git config --global user.name A; git config --global user.email a@e.org; echo a >a; git add a; git commit -qm a; echo b >>a; git commit -qam b; ${4:-:}" >/dev/null 2>&1
  local command
  : >"$base/held.out"
  for command in "$2" ${5:+"$5"}; do
    timeout -k 1 60 "${clean_env[@]}" "run=$run" "$UKS" exec --quiet --pass-env run -- bash -c "$command" >>"$base/held.out" 2>&1 </dev/null
  done
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

# What is taken away and comes back counts as what it was.
held head_moved "$append; $hook; mv .git/HEAD .git/H; printf '[core]\\nfsmonitor = \"%s;false\"\\n' \"\$run\" >>.git/config; hook .git/hooks/post-commit; mv .git/H .git/HEAD" 'git status; git commit --allow-empty -m x'
held objects_moved "$hook; mv .git/objects .git/o; hook .git/hooks/pre-commit; mv .git/o .git/objects" 'git commit --allow-empty -m x'
held refs_moved "$hook; mv .git/refs .git/o; hook .git/hooks/pre-commit; mv .git/o .git/refs" 'git commit --allow-empty -m x'
held head_removed "$hook; cat .git/HEAD >h; rm .git/HEAD; hook .git/hooks/pre-commit; mv h .git/HEAD" 'git commit --allow-empty -m x'
held dot_git_replaced 'cp -a .git /tmp/g; rm .git/HEAD; rm -rf .git; mkdir .git && cp -a /tmp/g/. .git; git config core.fsmonitor "$run;false"' 'git status'
held dot_git_planted "$hook; cp -a .git /tmp/g; hook /tmp/g/hooks/pre-commit; rm -rf .git; mkdir .git && cp -a /tmp/g/. .git" 'git commit --allow-empty -m x'
held dot_git_link 'cp -a .git g; git --git-dir=g config core.fsmonitor "$run;false"; rm -rf .git; ln -s g .git; mv .git .g 2>/dev/null; ln -s g x; mv x .git' 'git status'
held dot_git_renamed 'cp -a .git g; git --git-dir=g config core.fsmonitor "$run;false"; rm -rf .git; mv g .git' 'git status'
held descriptor_over_completion 'cp -a .git /tmp/g; rm -rf .git; mkdir .git; cp /tmp/g/config .git; exec 5>>.git/config; rm /tmp/g/config; cp -a /tmp/g/. .git; printf "[core]\nfsmonitor = \"%s;false\"\n" "$run" >&5' 'git status'
nested='git init -q n; git -C n commit -q --allow-empty -m n'
held nested_moved 'mv n o; cp -a o n; git -C n config core.fsmonitor "$run;false"' 'git -C n status' "$nested"
held nested_moved_deep 'mv d o; mkdir -p d/e; cp -a o/e/n d/e/n; git -C d/e/n config core.fsmonitor "$run;false"; cp -a o p; git -C p/e/n config core.fsmonitor "$run;false"; mv d/e/n /tmp/x; mv p/e/n d/e/n; rm -rf d; mv p d' 'git -C d/e/n status' "mkdir -p d/e; cd d/e; $nested"
held nested_linked 'mv n o; cp -a o e; git -C e config core.fsmonitor "$run;false"; ln -s e n' 'git -C n status' "$nested"
held nested_above_linked 'mv d o; cp -a o e; git -C e/n config core.fsmonitor "$run;false"; ln -s e d; ln -s e x; mv x d' 'git -C d/n status' "mkdir d; cd d; $nested"
exchange='exchange() { python3 -c "import ctypes, sys; ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)" "$1" "$2"; }'
held nested_exchanged "$exchange; cp -a n m; git -C m config core.fsmonitor \"\$run;false\"; exchange m n" 'git -C n status' "$nested"
held nested_exchanged_other "$exchange; cp -a n m; git -C m config core.fsmonitor \"\$run;false\"; exchange n m" 'git -C n status' "$nested"
held nested_case_fold 'cp -a n m; git -C m config core.fsmonitor "$run;false"; rm -rf n; mkdir N; mv m/.git N/.git; mv N n' 'git -C n status' "$nested"
submodule='git init -q ../s; git -C ../s commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add ../s s; git commit -qm s; rm -rf ../s'
held modules_moved 'mv .git/modules .git/m2; cp -a .git/m2 .git/modules; git -C s config core.fsmonitor "$run;false"' 'git status' "$submodule"
held modules_linked 'cp -a .git/modules m; git --git-dir=m/s config core.fsmonitor "$run;false"; git --git-dir=m/s config core.worktree ../../s; mv .git/modules .git/m2; ln -s ../m .git/modules' 'git status' "$submodule"
held module_moved 'mv .git/modules/s .git/modules/s2; cp -a .git/modules/s2 .git/modules/s; git -C s config core.fsmonitor "$run;false"' 'git status' "$submodule"
held submodule_pointer 'cp -a .git/modules/s e; git --git-dir=e config core.fsmonitor "$run;false"; git --git-dir=e config core.worktree ../s; echo "gitdir: ../e" >s/.git; rm -f s/.git; echo "gitdir: ../e" >s/.git' 'git status' "$submodule"
worktree='git worktree add -q w -b w9'
held worktree_commondir 'cp -a .git e; git --git-dir=e config core.fsmonitor "$run;false"; rm .git/worktrees/w/commondir; echo $PWD/e >.git/worktrees/w/commondir' 'git -C w status' "$worktree"
held worktree_commondir_again 'cp -a .git e; git --git-dir=e config core.fsmonitor "$run;false"; mv .git/worktrees/w .git/worktrees/x; cp -a .git/worktrees/x y; echo $PWD/e >y/commondir; mv y .git/worktrees/w; mkdir -p .git/worktrees/w; cp -a y/. .git/worktrees/w' 'git -C w status' "$worktree"
held worktree_config 'mv .git/worktrees/w/HEAD .git/worktrees/w/h; printf "[core]\nfsmonitor = \"%s;false\"\n" "$run" >.git/worktrees/w/config.worktree; mv .git/worktrees/w/h .git/worktrees/w/HEAD; git config extensions.worktreeConfig true' 'git -C w status' "$worktree"
held worktrees_moved 'mv .git/worktrees .git/wts; cp -a .git/wts .git/worktrees; printf "[core]\nfsmonitor = \"%s;false\"\n" "$run" >.git/worktrees/w/config.worktree; git config extensions.worktreeConfig true' 'git -C w status' "$worktree"
held worktree_moved 'mv w w2; mkdir w; cp -a w2/. w; cp -a .git e; git --git-dir=e config core.fsmonitor "$run;false"; rm w/.git; echo gitdir: $PWD/e >w/.git' 'git -C w status' "$worktree"
held worktree_elsewhere 'cp -a .git e; git --git-dir=e config core.fsmonitor "$run;false"; rm -rf e/worktrees; mkdir e/worktrees; mv .git/worktrees/w e/worktrees/w; echo gitdir: $PWD/e/worktrees/w >w/.git' 'git -C w status' "$worktree"
held bare_in_old_directory 'printf "[core]\nbare=false\nworktree=..\nrepositoryformatversion=0\nfsmonitor = \"%s;false\"\n" "$run" >src/config; cp -a .git/HEAD .git/objects .git/refs src' 'cd src; git status' 'mkdir src'
held legacy_remotes 'mkdir .git/remotes; printf "URL: ext::sh -c %s\n" "${run/ /% }" >.git/remotes/origin; git config protocol.allow always' 'git -c protocol.allow=always fetch'
held remote_made_later "$hook; git config remote.origin.url ./evil.git; git init -q --bare evil.git; hook evil.git/hooks/pre-receive" 'git push origin main'

# What comes in the place of a repository, whoever makes it and when.
rename='rename() { python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), int(sys.argv[3])) and 1)" "$1" "$2" "${3:-0}"; }'
held over_empty "$hook; $rename; cp -a .git /tmp/g; find .git -mindepth 1 -delete; mkdir x; rename x .git; cp -a /tmp/g/. .git; git config core.fsmonitor \"\$run;false\"; hook .git/hooks/pre-commit" 'git status; git commit --allow-empty -m x'
held over_empty_bare "$hook; $rename; cp -a n.git /tmp/g; find n.git -mindepth 1 -delete; mkdir x; rename x n.git; cp -a /tmp/g/. n.git; hook n.git/hooks/pre-receive" 'git push ./n.git main:q' 'git clone -q --bare . n.git'
held over_empty_bare_planted "$hook; $rename; cp -a n.git /tmp/g; find n.git -mindepth 1 -delete; mkdir x x/hooks; hook x/hooks/pre-receive; rename x n.git; cp -a /tmp/g/. n.git" 'git push ./n.git main:q' 'git clone -q --bare . n.git'
held two_sessions_dotgit 'cp -a .git g; rm -rf .git' 'git status; git commit --allow-empty -m x' '' "$hook; cp -a g .git; git config core.fsmonitor \"\$run;false\"; hook .git/hooks/pre-commit"
held two_sessions_nested 'mv n o' 'git -C n status' "$nested" 'cp -a o n; git -C n config core.fsmonitor "$run;false"'
held two_sessions_rename 'mv n o' 'git -C n status' "$nested" 'cp -a o e; git -C e config core.fsmonitor "$run;false"; mv e n'
held two_sessions_bare "mv n.git/HEAD h" 'git push ./n.git main:q' 'git clone -q --bare . n.git' "$hook; hook n.git/hooks/pre-receive; mv h n.git/HEAD"
held config_exchanged "$rename; cp -a .git /tmp/g; rm -rf .git; mkdir .git; cp /tmp/g/config .git/c; mv .git/c .git/config; mv .git/config .git/foo; exec 5>>.git/foo; : >.git/config; rename .git/foo .git/config 2; rm /tmp/g/config; rm -f .git/foo; cp -a /tmp/g/. .git; printf '[core]\nfsmonitor = \"%s;false\"\n' \"\$run\" >&5" 'git status'
held host_init "$hook; mkdir -p .git/hooks; hook .git/hooks/pre-commit; printf '[core]\n\tfsmonitor = \"%s;false\"\n' \"\$run\" >.git/config" 'git init; git add a; git commit -m x' 'rm -rf .git'
held host_repair 'mv .git/HEAD .git/H' 'git status; git init; git status; git commit --allow-empty -m x' '' "$hook; hook .git/hooks/pre-commit; printf '[core]\nfsmonitor = \"%s;false\"\n' \"\$run\" >>.git/config"
held root_below 'git init -q .; git config core.fsmonitor "$run;false"' 'git status' 'rm -rf .git; git -C .. init -q .; git -C .. add project/a; git -C .. commit -qm x'
held root_below_in_tracked 'cd src; git init -q .; git config core.fsmonitor "$run;false"' 'cd src; git status' 'mkdir src; echo x >src/x; git add src; git commit -qm x'
two_gofers() {
  fresh
  rm -f "$owned"
  native bash -c "$nested" >/dev/null 2>&1
  timeout -k 1 60 "${clean_env[@]}" "run=$run" "$UKS" exec --quiet --pass-env run -- bash -c 'mkdir m; touch ready; until [[ -e go ]]; do sleep 0.1; done; cp -a o/. m; git -C m config core.fsmonitor "$run;false"; mv m n' >/dev/null 2>&1 </dev/null &
  until [[ -e ready ]]; do kill -0 $! || return; sleep 0.1; done
  inside -- bash -c 'mv n o; touch go'
  wait $!
  rm -f "$owned"
  native git -C n status >/dev/null 2>&1
  [[ ! -e $owned ]]
}
check held_two_gofers two_gofers

# git's own files come to no git directory, and what it writes goes through no link.
held worktree_in_git "$hook; hook post-checkout; hook pre-commit; git add post-checkout pre-commit; git commit -qm x; git config core.worktree hooks" 'git checkout -f; git reset --hard; git checkout .; git commit --allow-empty -m y'
held worktree_git_itself "$hook; mkdir hooks; hook hooks/post-checkout; git add hooks; git commit -qm x; git config core.worktree ." 'git checkout .; git checkout -f'
held worktree_other "$hook; hook post-checkout; git add post-checkout; git commit -qm x; git config core.worktree ../n/.git/hooks" 'git checkout -f; git -C n checkout -f' "$nested"
held worktree_link "$hook; hook post-checkout; git add post-checkout; git commit -qm x; mkdir w; echo \"gitdir: \$PWD/.git\" >w/.git; git config core.worktree ../w; rm -rf w; ln -s .git/hooks w" 'git checkout -f; git checkout -f'
held worktree_submodule "$hook; cd s; hook post-checkout; git add post-checkout; git commit -qm x; git config core.worktree ../../hooks" 'git -C s checkout -f; git checkout -f' "$submodule"
held link_message "git commit -q --allow-empty -m '[core]
	repositoryformatversion = 0
	fsmonitor = \"$run;false\"'; rm -f .git/COMMIT_EDITMSG; ln -s config .git/COMMIT_EDITMSG" 'GIT_EDITOR=true git commit --amend; git status'
held link_merge "printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"%s;false\"\n' \"\$run\" >.git/MERGE_MSG; rm -f .git/COMMIT_EDITMSG; ln -s config .git/COMMIT_EDITMSG; echo z >>a" 'GIT_EDITOR=true git commit -a; git status'
held link_template "printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"%s;false\"\n' \"\$run\" >t; git config commit.template t; mkdir g; rm .git/COMMIT_EDITMSG; ln -s config g/COMMIT_EDITMSG; mv g/COMMIT_EDITMSG .git; echo z >>a" 'GIT_EDITOR=true git commit -a; git status'

# Addresses that git reads in another way than they look, and what it does not ask about.
evil="$hook; git init -q --bare evil.git; hook evil.git/hooks/pre-receive; git config push.default current"
held url_relative_module "$evil; mv evil.git s; git -C s config remote.origin.url ./evil.git" 'git -C s push origin HEAD:refs/heads/q' "$submodule"
held url_relative_worktree "$evil; mv evil.git w; git config remote.origin.url ./evil.git" 'git -C w push origin HEAD:refs/heads/q' "$worktree"
held url_percent "$evil; git config remote.origin.url file://\$PWD/%65vil.git" 'git push origin main'
held url_host "$evil; git config remote.origin.url file://localhost\$PWD/evil.git" 'git push origin main'
held url_tilde "$evil; git config remote.origin.url '~/ws/evil.git'; git config branch.main.remote '~/ws/evil.git'" 'git push origin main; git push' 'ln -sfn $PWD ~/ws'
held url_working_directory "$evil; git config remote.origin.url /proc/self/cwd/evil.git" 'git push origin main'
held url_instead_of "$evil; git config url.file:.insteadOf foo:x; git config remote.origin.url foo:x//\$PWD/evil.git" 'git push origin main'
held url_absolute "$evil; git config remote.origin.url \$PWD/evil.git" 'git push origin main'
held alias_quoted 'echo "$run" >e.sh; git config alias.st "rebase -\"x\" \"sh e.sh\" HEAD~1"; git config alias.su "rebase --\"exec\" \"sh e.sh\" --force-rebase HEAD~1"' 'git st; git su'
evil_common='cp -a .git evil; git --git-dir=evil config core.sshCommand "$run;false"; git --git-dir=evil config remote.origin.url ssh://x/y; cp .git/HEAD src/HEAD; echo $PWD/evil >src/c'
held commondir_last "$evil_common; mv src/c src/commondir" 'cd src; git fetch' 'mkdir src'
held commondir_link "$evil_common; ln -s c src/commondir" 'cd src; git fetch' 'mkdir src'

unprotected() {
  fresh
  inside --unprotect -- bash -c 'echo x >.git/hooks/pre-commit && git config core.pager cat' && [[ -f .git/hooks/pre-commit ]]
}
check unprotect unprotected

# What git does otherwise works as outside.
same git_config "$identity; git config user.name X; git config --get user.name; git config --unset user.name; git config alias.st status; git remote add origin /nowhere/x; git remote rename origin o2; git branch -m main trunk; git config branch.trunk.description d; cat .git/config"
same git_config_harmless "$identity; git config pager.log false; git config core.fsmonitor true; git remote add v6 'ssh://[::1]/x'; git config branch.main.remote v6; git remote rename v6 v7; git config alias.lg 'log --graph'; git config core.fsmonitor false; cat .git/config"
same git_commit "$identity; echo a >a; git add a; git commit -qm a; git switch -qc t; echo b >b; git add b; git commit -qm b; git switch -q main; git merge -q t; git log --format=%s; git branch -u main t; git status -s; git gc -q; git fsck 2>&1"
same git_new "$identity; git init -q n; cd n; git config core.pager cat; git commit -q --allow-empty -m x; cat .git/config; cd ..; rm -rf n; ls"
same git_clone "$identity; git clone -q . c; git -C c log --format=%s; git -C c config core.editor true; git -C c config core.editor; rm -rf c"
same git_worktree "$identity; git worktree add -q /tmp/w2 -b w2 && git -C /tmp/w2 status -s; git worktree list | wc -l; git worktree remove /tmp/w2; git branch -D -q w2; ls .git/worktrees"
same git_submodule "$identity; git init -q /tmp/s; git -C /tmp/s commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add /tmp/s s; git commit -qm sub; git submodule status | cut -c43-; git config --get submodule.s.url; rm -rf /tmp/s"
same git_stash_rebase "$identity; for i in 1 2 3; do echo \$i >f; git add f; git commit -qm \$i; done; echo d >>f; git stash -q; git rebase -q --root --exec true 2>/dev/null; git stash pop -q; git diff --stat | tail -1"
same git_again "$identity; git init -q --bare /tmp/o; git push -q /tmp/o main; rm -rf sub; git clone -q /tmp/o sub; git -C sub log --format=%s; git -C sub config user.name; rm -rf .git; git init -q; cat .git/config; git add sub/a 2>/dev/null; git commit -q --allow-empty -m again; git log --format=%s; ls .git; rm -rf /tmp/o"
same git_clean "$identity; git init -q n; git clean -qffdx; ls; chmod -R u+w .; git status -s"
same git_sample_hooks "$identity; chmod 700 .git/hooks/*.sample; mkdir -p .git/hooks; rm -rf .git/hooks; git init -q; ls .git"
# same_with NAME SETUP SCRIPT: as same, with more in the repository before.
more=
same_with() {
  more=$2
  same "$1" "$3"
  more=
}
same git_moved "$identity; git init -q n; mv n o; mv o n; git -C n status -s; cp -a n m; git -C m config user.name X; mv m/.git k; mv k m/.git; git -C m config user.name; git init -q --bare b.git; mv b.git c.git; cp -a c.git d.git; git -C d.git config core.bare; t=\$(mktemp); tar cf \$t n; rm -rf n; tar xf \$t; git -C n status -s; rm -rf m n *.git \$t"
same git_append "$identity; echo '[user]' >>.git/config; printf '\tname = Y\n' >>.git/config; git config user.name; cp .git/config c; cat c; rm c"
same git_remote_here "$identity; git init -q n; git -C n commit -q --allow-empty -m n; git -c protocol.file.allow=always submodule --quiet add ./n ss; git submodule status | cut -c43-; git init -q --bare up.git; git remote add origin \$PWD/up.git; git push -q -u origin main; git branch -vv | cut -c1-6; git clone -q up.git c; git -C c log --format=%s; rm -rf up.git c n"
same git_sparse "$identity; git config extensions.worktreeConfig true; git config --worktree user.name W; git sparse-checkout set d; git sparse-checkout disable; git config core.symlinks; cat .git/config.worktree"
same git_ordinary_names "echo a >commondir; mkdir -p b/branches b/hooks b/refs; echo x >b/hooks/pre-commit; echo x >b/branches/x; echo x >b/config; mv b c; ls -R"
same_with git_bare_workspace 'rm -rf sub .git; git init -q s; git -C s commit -q --allow-empty -m s; git clone -q --bare s b; mv b/* .; rmdir b; rm -rf s; git worktree prune; git worktree add -q feat -b feat' "$identity; git worktree add -q more -b more; cd feat; ln -s ../x l; mkdir -p n/.bin; ln -s ../x n/.bin/x; git add -A; git commit -qm c; mv n m; git status -s; cd ..; git worktree move feat moved; git -C moved log --format=%s; git worktree list | wc -l; rm -rf ./*"
same_with git_worktree_old 'git worktree add -q w3 -b w3' "$identity; git worktree move w3 w4; git -C w4 status -s; cat .git/worktrees/w3/gitdir | sed 's/.*project//'; mv w4 w5; git worktree repair w5; git -C w5 status -s; git worktree remove w5; git worktree add -q w3 w3; git worktree move w3 w6; git worktree move w6 w3; git -C w3 status -s; git -C w3 log --format=%s -1; git worktree list | wc -l"
same_with git_submodule_old "$submodule" "$identity; git mv s t; git status -s; git -C t status -s; git commit -qm mv; git checkout -q --recurse-submodules HEAD~2; git checkout -q --recurse-submodules main; git mv t u; git mv u t; git -C t log --format=%s; mkdir d; git mv t d/t; git -C d/t log --format=%s; git submodule deinit -q -f d/t; git submodule --quiet update --init; git -C d/t log --format=%s; git status -s"
rm -rf "$base/wt"
finish
