// Git repositories in a writable tree: what git on the host would run cannot be planted.
#include <linux/fs.h>

#include "tests/unit/gofer/fixture.h"

namespace uks::gofer {
namespace {

constexpr const char* kPlain = "[core]\n\tbare = false\n";
constexpr const char* kRuns = "[core]\n\tfsmonitor = ./x\n";

class RepositoriesTest : public GoferTest {
 protected:
  // A repository of the host's.
  void repository(const std::string& dir) const {
    put(dir + "/HEAD", "ref: refs/heads/main\n");
    put(dir + "/config", kPlain);
    std::filesystem::create_directories(host(dir + "/objects"));
    std::filesystem::create_directories(host(dir + "/refs"));
    std::filesystem::create_directories(host(dir + "/hooks"));
  }
  NodeId id(std::string_view path) {
    auto found = look(path);
    return found ? found->id : kNoNode;
  }
  int make(std::string_view dir, std::string_view name) {
    return error_of(client_->create(id(dir), name, 0644, O_RDWR | O_EXCL));
  }
  int make_directory(std::string_view dir, std::string_view name) {
    return error_of(client_->mkdir(id(dir), name, 0755));
  }
  int link_to(std::string_view dir, std::string_view name, std::string_view target) {
    return error_of(client_->symlink(id(dir), name, target));
  }
  int move(std::string_view old_dir, std::string_view old_name, std::string_view dir,
           std::string_view name, uint32_t flags = 0) {
    return error_of(client_->rename(id(old_dir), old_name, id(dir), name, flags));
  }
  int write_to(std::string_view path, std::string_view text) {
    return error_of(client_->write(id(path), 0, text));
  }
  // What the file says once it is `text`, by way of a new file renamed over it; or the error.
  int replace(std::string_view dir, std::string_view name, std::string_view text) {
    put("new", text);
    return move("", "new", dir, name);
  }
};

TEST_F(RepositoriesTest, Hooks) {
  repository(".git");
  put("ordinary");
  start();
  EXPECT_EQ(make(".git/hooks", "pre-commit"), EACCES);
  EXPECT_EQ(make(".git/hooks", "pre-commit.sample"), 0);
  EXPECT_EQ(move("", "ordinary", ".git/hooks", "pre-commit"), EACCES);
  EXPECT_EQ(move(".git/hooks", "pre-commit.sample", ".git/hooks", "pre-commit"), EACCES);
  EXPECT_EQ(error_of(client_->link(id("ordinary"), id(".git/hooks"), "pre-push")), EACCES);
  EXPECT_EQ(link_to(".git/hooks", "pre-push", "/x"), EACCES);
  EXPECT_EQ(move(".git", "hooks", ".git", "h"), EACCES);
}

TEST_F(RepositoriesTest, GuardedByNameBeforeItIsOne) {
  start();
  ASSERT_EQ(make_directory("", ".git"), 0);
  ASSERT_EQ(make_directory(".git", "hooks"), 0);
  EXPECT_EQ(make(".git/hooks", "pre-commit"), EACCES);
  EXPECT_EQ(replace(".git", "config", kRuns), EACCES);
  EXPECT_EQ(replace(".git", "config", kPlain), 0);
  EXPECT_EQ(get(".git/config"), kPlain);
}

TEST_F(RepositoriesTest, ConfigurationIsReplacedByACopy) {
  repository(".git");
  put("new", kPlain);
  start();
  auto file = client_->open(id("new"), O_RDWR);
  ASSERT_TRUE(file);
  ASSERT_EQ(move("", "new", ".git", "config"), 0);
  ASSERT_GT(::pwrite(file->fd.get(), "[x]y=z", 6, 0), 0);
  EXPECT_EQ(get(".git/config"), kPlain);
}

TEST_F(RepositoriesTest, ConfigurationIsWrittenByTheGofer) {
  repository(".git");
  start();
  auto file = client_->open(id(".git/config"), O_RDWR);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->attr.flags & kAttrIndirect);
  EXPECT_LT(::pwrite(file->fd.get(), "x", 1, 0), 0);
  EXPECT_EQ(write_to(".git/config", kRuns), EACCES);
  EXPECT_EQ(get(".git/config"), kPlain);
  EXPECT_EQ(write_to(".git/config", "[core]\n\tbare = true \n"), 0);
  EXPECT_EQ(get(".git/config"), "[core]\n\tbare = true \n");
  // Filled again, what was there before would count as new.
  EXPECT_EQ(open_error(".git/config", O_RDWR | O_TRUNC), EACCES);
  SetAttr cut;
  cut.mask = kSetSize;
  EXPECT_EQ(error_of(client_->setattr(id(".git/config"), cut)), EACCES);
  EXPECT_EQ(error_of(client_->link(id(".git/config"), top_, "other")), EACCES);
}

TEST_F(RepositoriesTest, WriteOfWhatIsNoPart) {
  repository(".git");
  put("ordinary", "text");
  start();
  EXPECT_EQ(write_to("ordinary", "TE"), 0);
  EXPECT_EQ(get("ordinary"), "TExt");
  EXPECT_EQ(error_of(client_->write(id("ordinary"), Repositories::kMaxText, "x")), EFBIG);
  EXPECT_EQ(error_of(client_->write(id(".git"), 0, "x")), EISDIR);
  EXPECT_EQ(error_of(client_->write(top_, 0, "x")), EISDIR);
  EXPECT_EQ(error_of(client_->write(12345, 0, "x")), ESTALE);
}

TEST_F(RepositoriesTest, WriteObeysTheRules) {
  put("r/.git", "x");
  start({{"/r", Action::kRo}});
  EXPECT_EQ(write_to("r/.git", "y"), EROFS);
}

// A bare repository is one by what is in it: that is checked when the last part comes.
TEST_F(RepositoriesTest, BecomesOne) {
  repository("hook.git");
  put("hook.git/hooks/update");
  repository("runs.git");
  put("runs.git/config", kRuns);
  repository("link.git");
  std::filesystem::create_symlink("config", host("link.git/MERGE_MSG"));
  repository("deep.git");
  std::filesystem::create_directories(host("deep.git/logs/refs"));
  std::filesystem::create_symlink("../../config", host("deep.git/logs/refs/x"));
  repository("address.git");
  put("address.git/remotes/o", "URL: ext::x");
  repository("plain.git");
  for (const char* name : {"hook", "runs", "link", "deep", "address", "plain"})
    std::filesystem::remove(host(std::string(name) + ".git/HEAD"));
  start();
  for (const char* name : {"hook", "runs", "link", "deep", "address"})
    EXPECT_EQ(make(std::string(name) + ".git", "HEAD"), EACCES) << name;
  auto file = client_->open(id("plain.git/config"), O_RDWR);
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->attr.flags & kAttrIndirect);
  ASSERT_EQ(make("plain.git", "HEAD"), 0);
  ASSERT_GT(::pwrite(file->fd.get(), "[x]y=z", 6, 0), 0);
  EXPECT_EQ(get("plain.git/config"), kPlain);
  EXPECT_EQ(make("plain.git/hooks", "update"), EACCES);
}

TEST_F(RepositoriesTest, DirectoriesThatMove) {
  repository(".git");
  repository("old/.git");
  put("old/.git/hooks/pre-commit");
  repository("hook/.git");
  put("hook/.git/hooks/pre-commit");
  repository("plain.git");
  repository("worktree.git");
  put("worktree.git/config", "[core]\nworktree = ../x\n");
  put("rebase/message");
  start();
  // With its directory it goes where it likes.
  EXPECT_EQ(move("", "old", "", "o"), 0);
  EXPECT_EQ(move("", "o", "", "old"), 0);
  EXPECT_EQ(move("hook", ".git", "", "x"), EACCES);
  EXPECT_EQ(move("", "rebase", ".git", "rebase-merge"), EXDEV);
  EXPECT_EQ(move("", "rebase", "", ".git", RENAME_EXCHANGE), EXDEV);
  EXPECT_EQ(make_directory(".git", "empty"), 0);
  EXPECT_EQ(move(".git", "empty", "", "empty"), EXDEV);
  EXPECT_EQ(make_directory("", "n"), 0);
  EXPECT_EQ(move("", "rebase", "n", ".git"), EXDEV);
  EXPECT_EQ(move("", "worktree.git", "n", ".git"), EACCES);
  EXPECT_EQ(move("", "plain.git", "n", ".git"), 0);
}

TEST_F(RepositoriesTest, Links) {
  repository(".git");
  repository("bare.git");
  put("bare.git/tree/x");
  start();
  EXPECT_EQ(link_to(".git", "COMMIT_EDITMSG", "config"), EACCES);
  EXPECT_EQ(link_to("", "hooks", "./.git/hooks"), EACCES);
  EXPECT_EQ(link_to("", "l", "a/.GIT"), EACCES);
  EXPECT_EQ(link_to("", "annexed", ".git/annex/objects/x"), 0);
  EXPECT_EQ(link_to("", "up", ".git/annex/../hooks"), EACCES);
  EXPECT_EQ(link_to("", "other", "x.git/hooks"), 0);
  EXPECT_EQ(link_to("bare.git", "x", "config"), EACCES);
  EXPECT_EQ(link_to("bare.git/refs", "x", "../config"), EACCES);
  EXPECT_EQ(link_to("bare.git/tree", "y", "../x"), 0);
  // As git init finds out whether links can be made.
  EXPECT_EQ(link_to(".git", "tAbCdEf", "testing"), 0);
  EXPECT_EQ(make_directory("", "n"), 0);
  EXPECT_EQ(link_to("n", ".git", "../bare.git"), EACCES);
}

TEST_F(RepositoriesTest, Pointers) {
  repository(".git");
  repository(".git/modules/s");
  put("s/x");
  put("ordinary/x");
  start();
  ASSERT_EQ(make("s", ".git"), 0);
  EXPECT_EQ(write_to("s/.git", "gitdir: /nowhere\n"), EACCES);
  EXPECT_EQ(write_to("s/.git", "nothing"), EACCES);
  EXPECT_EQ(write_to("s/.git", "gitdir: ../.git/modules/s\n"), 0);
  // Where it leads is where files may come to, and not into a git directory.
  const auto worktree = [](const char* path) {
    return std::string(kPlain) + "\tworktree = " + path + "\n";
  };
  EXPECT_EQ(replace(".git/modules/s", "config", worktree("../../hooks")), EACCES);
  EXPECT_EQ(replace(".git/modules/s", "config", worktree("../../../ordinary")), EACCES);
  EXPECT_EQ(replace(".git/modules/s", "config", worktree("../../../s")), 0);
  EXPECT_EQ(replace(".git", "config", worktree("hooks")), EACCES);
  EXPECT_EQ(replace(".git", "config", worktree(".")), EACCES);
  EXPECT_EQ(replace(".git", "config", worktree("..")), 0);
  ASSERT_EQ(make(".git/hooks", ".git"), 0);
  EXPECT_EQ(write_to(".git/hooks/.git", "gitdir: ../modules/s\n"), EACCES);
  // A file of this name leads git on only next to HEAD.
  EXPECT_EQ(make("ordinary", "commondir"), 0);
  EXPECT_EQ(write_to("ordinary/commondir", "/x"), 0);
  EXPECT_EQ(make("ordinary", "HEAD"), EACCES);
  put("head/HEAD");
  put("head/c", "/x");
  EXPECT_EQ(move("head", "c", "head", "commondir"), EACCES);
  EXPECT_EQ(link_to("head", "commondir", "c"), EACCES);
  EXPECT_EQ(make("head", "commondir"), EACCES);
  EXPECT_EQ(make(".git", "commondir"), EACCES);
}

TEST_F(RepositoriesTest, Addresses) {
  repository(".git");
  repository("o.git");
  std::filesystem::create_directory_symlink("o.git", host("l.git"));
  start();
  const auto remote = [&](const std::string& url) {
    return replace(".git", "config",
                   std::string(kPlain) + "[remote \"" + std::to_string(url.size()) +
                       "\"]\n\turl = \"" + url + "\"\n");
  };
  for (const std::string& url :
       {std::string("./o.git"), std::string("o.git"), std::string("~/o.git"),
        "file://localhost" + root_, "file://" + root_ + "/%6f.git",
        std::string("/proc/self/cwd/o.git"), std::string("/proc/1234567890/cwd"), root_ + "/l.git",
        std::string("ext::x")}) {
    EXPECT_EQ(remote(url), EACCES) << url;
  }
  for (const std::string& url : {root_ + "/o.git", "file://" + root_ + "/o.git",
                                 root_ + "/not/there/yet", std::string("https://h/x")}) {
    EXPECT_EQ(remote(url), 0) << url;
  }
}

TEST_F(RepositoriesTest, WhatTheRepositoryUsesOfTheTree) {
  repository(".git");
  put("script");
  put("conf/inc", "[user]\n");
  std::filesystem::create_symlink("../../script", host(".git/hooks/pre-commit"));
  put("hard", "#!/bin/sh\n");
  std::filesystem::create_hard_link(host("hard"), host(".git/hooks/pre-push"));
  put(".git/config", "[include]\npath = ../conf/inc\n[core]\nhooksPath = hooks.d\n");
  put("hooks.d/x");
  testing::internal::CaptureStderr();
  start();
  EXPECT_EQ(open_error("hard", O_RDWR), EACCES);
  EXPECT_EQ(open_error("conf/inc", O_RDWR), EACCES);
  EXPECT_EQ(replace("conf", "inc", kRuns), EACCES);
  EXPECT_EQ(move("", "conf", "", "c"), EACCES);
  EXPECT_EQ(error_of(client_->unlink(id("conf"), "inc")), EACCES);
  EXPECT_EQ(open_error("script", O_RDWR), 0);
  EXPECT_EQ(open_error("script", O_RDWR), 0);
  EXPECT_EQ(make("hooks.d", "y"), 0);
  stop();
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("script is changed"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("script is changed"), lines.rfind("script is changed")) << lines;
  EXPECT_NE(lines.find("hooks.d/y is changed"), std::string::npos) << lines;
}

}  // namespace
}  // namespace uks::gofer
