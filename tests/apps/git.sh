#!/usr/bin/env bash
# git on a local repository.
. "$(dirname "$0")/lib.sh"
need git

# Fixed identities and dates: the hashes are equal outside and inside.
identity='export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org GIT_AUTHOR_DATE="@1700000000 +0000" GIT_COMMITTER_DATE="@1700000000 +0000" GIT_PAGER=cat; git config --global init.defaultBranch main; git config --global advice.detachedHead false'
start="$identity; git init -q .; echo one >a; mkdir d; echo two >d/b; git add -A; git commit -qm first"

same init "$identity; git init; ls .git; git status; git rev-parse --git-dir; cat .git/HEAD"
same add_commit "$start; git status --short; git log --format='%H %an %s'; git show --stat; echo x >>a; git diff; git commit -aqm second; git log --oneline; git cat-file -p HEAD; git ls-tree -r HEAD"
same status "$start; echo n >new; echo x >>a; rm d/b; git status; git status --porcelain=v2; git add -A; git status -s; git reset -q --hard; git clean -fdq; git status -s; ls"
same branch_merge "$start; git switch -qc topic; echo t >t; git add t; git commit -qm topic; git switch -q main; echo m >m; git add m; git commit -qm main2; git merge -q --no-edit topic; git log --graph --oneline; git branch -a; git branch -d topic; git tag v1; git describe --tags"
same conflict "$start; git switch -qc x; echo X >a; git commit -aqm x; git switch -q main; echo M >a; git commit -aqm m; git merge x; git status -s; cat a; echo R >a; git commit -aqm resolved; git log --oneline | wc -l"
same stash "$start; echo dirty >>a; git stash -q; cat a; git stash list; git stash pop -q; cat a; git stash -q -u; git stash drop -q; git status -s"
same rebase "$start; git switch -qc f; for i in 1 2 3; do echo \$i >f\$i; git add .; git commit -qm f\$i; done; git switch -q main; echo z >z; git add z; git commit -qm z; git rebase -q main f; git log --oneline; GIT_SEQUENCE_EDITOR='sed -i 2d' git rebase -q -i main; git log --oneline; git cherry-pick main~0 2>&1 | head -1; git cherry-pick --abort 2>/dev/null; git revert --no-edit HEAD >/dev/null; git log --format=%s -1"
same clone "$start; git clone -q . ../clone; git -C ../clone log --oneline; git -C ../clone remote -v | wc -l; git clone -q --bare . ../bare.git; cd ../clone; echo c >c; git add c; git commit -qm c; git push -q ../bare.git main; git -C ../bare.git log --oneline; git pull -q ../bare.git main; git fetch -q origin; cd ..; rm -rf clone bare.git" 
same worktree "$start; git worktree add -q ../wt -b w; git worktree list | wc -l; echo w >../wt/w; git -C ../wt add w; git -C ../wt commit -qm w; git log --oneline w; git worktree remove ../wt; git worktree prune"
same gc_fsck "$start; for i in \$(seq 30); do echo \$i >a; git commit -aqm \$i; done; git gc -q; git fsck --full; git count-objects -v | grep -E '^(count|in-pack|packs)'; git repack -adq; git prune; git log --oneline | wc -l; git reflog | wc -l; git bundle create -q b HEAD; git bundle verify -q b; git archive HEAD | tar t"
same grep_blame "$start; git grep -n two; git blame -s a; git log -p --follow -- a | head -20; git bisect start -q 2>/dev/null; git bisect reset -q 2>/dev/null; git shortlog -s HEAD; git ls-files -s; git check-ignore x; echo '*.o' >.gitignore; git check-ignore x.o; git rev-list --count HEAD"
same hooks "$start; printf '#!/bin/sh\necho hook ran\nexit 1\n' >h; mkdir -p hk; mv h hk/pre-commit; chmod +x hk/pre-commit; git -c core.hooksPath=hk commit --allow-empty -qm x; echo \$?"
same submodule "$start; git init -q ../sub; git -C ../sub commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add ../sub s; git commit -qm sub; git submodule status | cut -c43-; rm -rf ../sub"
same apply "$start; echo more >>a; git diff >p; git checkout -q a; git apply p; cat a; git format-patch -q -1 HEAD --root 2>/dev/null; ls *.patch; git stash -q; git am -q *.patch 2>/dev/null; echo \$?; git am --abort 2>/dev/null"
same many_files "$identity; git init -q .; for i in \$(seq 500); do mkdir -p d\$((i % 20)); echo \$i >d\$((i % 20))/f\$i; done; git add -A; git commit -qm many; git status -s | wc -l; git ls-files | wc -l; for i in \$(seq 100); do echo x >>d\$((i % 20))/f\$i; done; git status -s | wc -l; git commit -aqm more; git log --stat -1 | tail -1; git rev-parse HEAD"
same config "$identity; git init -q .; git config user.name X; git config --get user.name; git config --list --local | sort; cat .git/config | tail -3; git config --unset user.name; git config user.name; echo \$?; git remote add origin /nowhere/x; git remote; git fetch -q; echo \$?"

# In a subdirectory, with the repository shown as uks advises: git does not stop at the mount.
subdirectory() {
  fresh
  bash -c "$start" >/dev/null && mkdir sub && cd sub || return 1
  [[ $(inside --ro .. -- git log --format=%s 2>&1) == "$(git log --format=%s)" && $(inside --ro .. -- git status -s 2>&1) == "$(git status -s)" ]]
}
subdirectory && pass subdirectory || fail subdirectory
finish
