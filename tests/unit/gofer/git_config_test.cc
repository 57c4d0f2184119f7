// git's configuration: its syntax, and what makes git run something.
#include "gofer/server/git_config.h"

#include <gtest/gtest.h>

#include "gofer/server/git_keys.h"

namespace uks::gofer {
namespace {

using Lines = std::vector<std::string>;

// The entries; "error" where git would not read the file.
Lines entries_of(std::string_view text) {
  Lines lines;
  const auto entries = parse_git_config(text);
  if (!entries) return {"error"};
  for (const ConfigEntry& entry : *entries) lines.push_back(entry.text());
  return lines;
}

Effect effect(const std::string& text) {
  const auto entries = parse_git_config(text);
  return entries && entries->size() == 1 ? effect_of((*entries)[0]) : Effect::kRuns;
}

TEST(GitConfig, Syntax) {
  EXPECT_EQ(entries_of("[core]\n\tbare = false\n[remote \"origin\"]\n\turl = u\n"),
            (Lines{"core.bare=false", "remote.origin.url=u"}));
  EXPECT_EQ(entries_of("[CORE] HooksPath=/h ; c\n"), Lines{"core.hookspath=/h"});
  EXPECT_EQ(entries_of("[core]sshCommand = \"a b\" c # d\n"), Lines{"core.sshcommand=a b c"});
  EXPECT_EQ(entries_of("[diff \"a \\\"b\"]\n textconv = t\n"), Lines{"diff.a \"b.textconv=t"});
  EXPECT_EQ(entries_of("[diff.Bin]\n command = t\n"), Lines{"diff.bin.command=t"});
  EXPECT_EQ(entries_of("[core]\neditor = a\\\nb\n"), Lines{"core.editor=ab"});
  EXPECT_EQ(entries_of("\xef\xbb\xbf[core]\r\n\teditor = vi\r\n"), Lines{"core.editor=vi"});
  EXPECT_EQ(entries_of("[core] editor = x"), Lines{"core.editor=x"});
  EXPECT_EQ(entries_of("[core]\neditor"), Lines{"core.editor"});
  EXPECT_EQ(entries_of("[core]\neditor\n=x"), Lines{"error"});
  EXPECT_EQ(entries_of("# [core]\n; editor = x\n"), Lines{});
  EXPECT_EQ(entries_of("[core]\n\teditor = \"a;b\"  c\t \n"), Lines{"core.editor=a;b  c"});
  EXPECT_EQ(entries_of("[a];x\\\n[core]editor=x"), Lines{"core.editor=x"});
}

// git splits the whole name at the first and the last dot, wherever they come from.
TEST(GitConfig, DottedSectionWithSubsection) {
  const auto entries = parse_git_config("[filter.Foo \"Bar.x\"]\n clean = c\n");
  ASSERT_TRUE(entries && entries->size() == 1);
  EXPECT_EQ((*entries)[0].section, "filter");
  EXPECT_EQ((*entries)[0].subsection, "foo.Bar.x");
  EXPECT_EQ((*entries)[0].key, "clean");
  EXPECT_EQ(effect("[filter.foo \"bar\"]\n clean = c\n"), Effect::kRuns);
}

TEST(GitConfig, WhatGitWouldNotRead) {
  for (const char* text :
       {"[", "[core", "[core \"", "]", "=", "[core]\n=", "[core]\neditor=\"", "\\", "[ core ]\nx=y",
        "[core \"a\" ]\nx=y", "[core]\neditor=\\q", "[core]\n1=x", "x=y", "[]\nx=y",
        "[core]\nfsmoni\\\ntor = x\n", "[core \"a\nb\"]\nx=y", "[core]\na_b=c"}) {
    EXPECT_EQ(entries_of(text), Lines{"error"}) << text;
  }
  for (const std::string_view text :
       {std::string_view("[core \"fsmonitor\0\"]\nx=y", 23), std::string_view("[a]\n\0b=c", 8),
        std::string_view("[a]\nb=c\0", 8)}) {
    EXPECT_EQ(entries_of(text), Lines{"error"});
  }
}

TEST(GitKeys, UsualEntriesAreHarmless) {
  for (const char* text : {"[core]\nrepositoryformatversion=0",
                           "[core]\nfsmonitor",
                           "[core]\nfsmonitor=true",
                           "[core]\nautocrlf=input",
                           "[user]\nname=A B",
                           "[pager]\nlog=false",
                           "[remote \"o\"]\nfetch=+refs/heads/*:refs/remotes/o/*",
                           "[branch \"m\"]\nmerge=refs/heads/m",
                           "[branch \"m\"]\ndescription=\"a\\nb\"",
                           "[alias]\nst=status -s",
                           "[alias]\nmycmd=log",
                           "[alias \"x\"]\ncommand=log",
                           "[alias]\nsw=switch -c",
                           "[alias]\nlg=log --graph --format=%h",
                           "[core]\neditor=vim",
                           "[core]\npager=less",
                           "[core]\nsharedRepository=group",
                           "[credential]\nusername=x",
                           "[gitflow \"branch\"]\nmaster=main",
                           "[gc]\npruneExpire=2.weeks.ago",
                           "[url \"https://example.org/\"]\ninsteadOf=gh:",
                           "[branch \"m\"]\nremote=origin",
                           "[branch \"m\"]\nremote=.",
                           "[submodule \"s\"]\nactive=true",
                           "[submodule \"s\"]\nupdate=rebase",
                           "[gc]\nauto=0",
                           "[diff]\ntool=vimdiff",
                           "[unknown]\nswitch=on",
                           "[x \"y\"]\nz=12",
                           "[extensions]\nworktreeConfig=true",
                           "[branch \"m\"]\nvscode-merge-base=origin/main",
                           "[lfs]\nrepositoryformatversion=0"}) {
    EXPECT_EQ(effect(text), Effect::kHarmless) << text;
  }
}

TEST(GitKeys, CommandsAndUnknownKeys) {
  for (const char* text : {"[core]\nfsmonitor=./x",
                           "[core]\nhooksPath=1",
                           "[core]\nsshCommand=x",
                           "[core]\neditor=x",
                           "[include]\npath=1",
                           "[includeIf \"gitdir:x\"]\npath=q",
                           "[credential \"https://x\"]\nhelper=h",
                           "[filter \"x\"]\nprocess=p",
                           "[pager]\nlog=x",
                           "[diff \"d\"]\ntextconv=t",
                           "[diff]\ntool=../x",
                           "[merge]\nguitool=a/b",
                           "[merge \"d\"]\ndriver=x",
                           "[protocol]\nallow=always",
                           "[protocol \"ext\"]\nallow=always",
                           "[rebase]\ninstructionFormat=%s%nexec x",
                           "[gc]\nrecentObjectsHook=x",
                           "[lfs \"customtransfer.x\"]\npath=p",
                           "[svn]\nauthorsProg=x",
                           "[mergetool \"x\"]\nlayout=y",
                           "[http]\ncookieFile=x",
                           "[http]\nsaveCookies=true",
                           "[remote \"o\"]\nuploadpack=x",
                           "[remote \"o\"]\nvcs=x",
                           "[remote \"o\"]\nproxy=x",
                           "[submodule \"s\"]\nupdate=!x",
                           "[branch \"m\"]\nmergeoptions=-s x",
                           "[x]\ny=z",
                           "[sequence]\neditor=x",
                           "[gpg]\nprogram=x",
                           "[trailer \"x\"]\ncommand=y",
                           "[hook \"x\"]\nevent=pre-commit",
                           "[core]\neditor=vim -c x",
                           "[core]\npager=./less",
                           "[core]\nprotectNTFS=false",
                           "[core]\nsharedRepository=0666",
                           "[credential]\nprotectProtocol=false",
                           "[gc]\nrepackFilterTo=/x",
                           "[gitflow \"path\"]\nhooks=x",
                           "[gpg \"ssh\"]\nallowedSignersFile=1",
                           "[http]\nproxy=2130706433",
                           "[http \"https://x\"]\nproxy=1",
                           "[http]\nsslCAInfo=1",
                           "[remote \"o\"]\nvcs=1",
                           "[url \"ext::x\"]\ninsteadOf=https://",
                           "[url \"file:\"]\ninsteadOf=foo:x",
                           "[url \"https:/\"]\ninsteadOf=x",
                           "[url \"https://\"]\ninsteadOf=x",
                           "[url \"ssh://-o/\"]\ninsteadOf=x",
                           "[url \"https://h\"]\ninsteadOf=x"}) {
    EXPECT_EQ(effect(text), Effect::kRuns) << text;
  }
}

TEST(GitKeys, Aliases) {
  for (const char* value : {"!sh",
                            "grep --open-files-in-pager=x y",
                            "grep -Ox y",
                            "rebase -x y",
                            "rebase -ix y",
                            "rebase --exe y",
                            "rebase -\\\"x\\\" y",
                            "log --format='%h'",
                            "push -f",
                            "-c core.pager=x log",
                            "difftool",
                            "config core.pager x",
                            "submodule foreach x",
                            "bisect run x",
                            "log --output=x",
                            "log --ext-diff",
                            "fetch --upl x",
                            "push --receive-pack=x",
                            "push evil",
                            "pull ../evil",
                            "push --repo=x",
                            "log `x`",
                            "log $(x)",
                            "log | x",
                            "mergetool",
                            ""}) {
    EXPECT_EQ(effect("[alias]\nx=\"" + std::string(value) + "\""), Effect::kRuns) << value;
    EXPECT_EQ(effect("[alias \"x\"]\ncommand=\"" + std::string(value) + "\""), Effect::kRuns)
        << value;
  }
}

TEST(GitKeys, OtherRepositories) {
  EXPECT_EQ(effect("[remote \"o\"]\nurl=https://x/y"), Effect::kRepository);
  EXPECT_EQ(effect("[submodule \"o\"]\nurl=x"), Effect::kRepository);
  EXPECT_EQ(effect("[branch \"m\"]\nremote=ext::x"), Effect::kRepository);
  EXPECT_EQ(effect("[branch \"m\"]\npushRemote=~/x"), Effect::kRepository);
  EXPECT_EQ(effect("[remote]\npushDefault=./x"), Effect::kRepository);
  EXPECT_EQ(effect("[core]\nworktree=/home"), Effect::kWorkTree);
}

TEST(GitKeys, Addresses) {
  for (const char* address : {"https://example.org/x", "ssh://[::1]/x", "git@host:a/b.git",
                              "host:x", "ssh://u@h:22/x", "[::1]:x"}) {
    EXPECT_EQ(kind_of_address(address), Address::kNetwork) << address;
  }
  for (const char* address : {"../x", "/x", "x", "./a:b", "file:///x", "x/y:z"}) {
    EXPECT_EQ(kind_of_address(address), Address::kPath) << address;
  }
  for (const char* address : {"ext::sh -c x", "fd::3", "-oProxyCommand=x:y", "ext://x",
                              "ssh://-o/x", "ssh://u@-o/x", "foo://x", "", "http::x"}) {
    EXPECT_EQ(kind_of_address(address), Address::kOther) << address;
  }
}

}  // namespace
}  // namespace uks::gofer
