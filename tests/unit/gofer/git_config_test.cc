// What makes git run something, found in its configuration.
#include "gofer/server/git_config.h"

#include <gtest/gtest.h>

namespace uks::gofer {
namespace {

using Set = std::set<std::string>;

TEST(GitConfig, UsualFilesRunNothing) {
  EXPECT_EQ(commands_in_git_config("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
                                   "[remote \"origin\"]\n\turl = https://example.org/x.git\n"
                                   "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
                                   "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
                                   "[user]\n\tname = A\n[alias]\n\tst = status\n"),
            Set{});
}

TEST(GitConfig, Commands) {
  EXPECT_EQ(commands_in_git_config("[core]\nfsmonitor = ./x\n"), Set{"core.fsmonitor=./x"});
  EXPECT_EQ(commands_in_git_config("[CORE] HooksPath=/h ; c\n"), Set{"core.hookspath=/h"});
  EXPECT_EQ(commands_in_git_config("[core]sshCommand = \"a b\" c # d\n"), Set{"core.sshcommand=a b c"});
  EXPECT_EQ(commands_in_git_config("[filter \"x\"]\n clean = c\n smudge = s\n"),
            (Set{"filter.x.clean=c", "filter.x.smudge=s"}));
  EXPECT_EQ(commands_in_git_config("[diff \"a \\\"b\"]\n textconv = t\n"), Set{"diff.a \"b.textconv=t"});
  EXPECT_EQ(commands_in_git_config("[diff.bin]\n command = t\n"), Set{"diff.bin.command=t"});
  EXPECT_EQ(commands_in_git_config("[alias]\n x = !sh\n y = log\n"), Set{"alias.x=!sh"});
  EXPECT_EQ(commands_in_git_config("[alias]\n x = \"!sh\"\n"), Set{"alias.x=!sh"});
  EXPECT_EQ(commands_in_git_config("[include]\n path = p\n[includeIf \"gitdir:x\"]\n path = q\n"),
            (Set{"include.path=p", "includeif.gitdir:x.path=q"}));
  EXPECT_EQ(commands_in_git_config("[credential \"https://x\"]\n helper = h\n"), Set{"credential.https://x.helper=h"});
  EXPECT_EQ(commands_in_git_config("[remote \"o\"]\n url = ext::sh -c x\n"), Set{"remote.o.url=ext::sh -c x"});
  EXPECT_EQ(commands_in_git_config("[pager]\n log = x\n"), Set{"pager.log=x"});
}

// However it is written, git would read the same.
TEST(GitConfig, Spellings) {
  EXPECT_EQ(commands_in_git_config("[core]\nfsmoni\\\ntor = x\n").size(), 0u);  // keys do not continue
  EXPECT_EQ(commands_in_git_config("[core]\neditor = a\\\nb\n"), Set{"core.editor=ab"});
  EXPECT_EQ(commands_in_git_config("\xef\xbb\xbf[core]\r\n\teditor = vi\r\n"), Set{"core.editor=vi"});
  EXPECT_EQ(commands_in_git_config("[core] editor = x"), Set{"core.editor=x"});
  EXPECT_EQ(commands_in_git_config("[a]\n b = c\n[ core ]\n editor = x\n"), Set{"core.editor=x"});
  EXPECT_EQ(commands_in_git_config("[core]\neditor\n"), Set{"core.editor="});
  EXPECT_EQ(commands_in_git_config("# [core]\n; editor = x\n"), Set{});
  EXPECT_EQ(commands_in_git_config("[core]\n\teditor = \"a;b\"\n"), Set{"core.editor=a;b"});
}

TEST(GitConfig, NoiseEnds) {
  for (const char* text : {"", "[", "[core", "[core \"", "]", "=", "[core]\n=", "[core]\neditor=\"", "[core]\neditor=\\", "\\"}) {
    (void)commands_in_git_config(text);
  }
}

}  // namespace
}  // namespace uks::gofer
