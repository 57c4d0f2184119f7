// What the gofer hides and protects: rules over a temporary tree, moved directories, malformed
// requests.
#include <linux/fs.h>

#include <random>

#include "gofer/proto/channel.h"
#include "tests/unit/gofer/fixture.h"

namespace uks::gofer {
namespace {

using GoferHidden = GoferTest;

std::vector<std::string> names_of(GoferClient& client, NodeId dir) {
  std::vector<std::string> names;
  auto all = client.read_directory(dir, true);
  if (!all) return {"error " + std::to_string(all.error().value)};
  for (const DirEntry& entry : *all) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(GoferHidden, ReadOnlyTree) {
  put("f");
  put("d/g");
  start({}, false);
  NodeAttr f = *look("f"), d = *look("d");
  EXPECT_EQ(f.attr.flags, 0u);
  EXPECT_EQ(open_error("f", O_RDONLY), 0);
  EXPECT_EQ(open_error("f", O_RDWR), EROFS);
  EXPECT_EQ(open_error("f", O_RDONLY | O_TRUNC), EROFS);
  EXPECT_EQ(error_of(client_->create(top_, "n", 0644, O_RDWR)), EROFS);
  EXPECT_TRUE(client_->create(top_, "f", 0644, O_RDONLY));
  EXPECT_EQ(error_of(client_->create(top_, "f", 0644, O_RDONLY | O_EXCL)), EEXIST);
  EXPECT_EQ(error_of(client_->mkdir(top_, "n", 0755)), EROFS);
  EXPECT_EQ(error_of(client_->symlink(top_, "n", "x")), EROFS);
  EXPECT_EQ(error_of(client_->mknod(top_, "n", S_IFREG | 0644)), EROFS);
  EXPECT_EQ(error_of(client_->link(f.id, d.id, "n")), EROFS);
  EXPECT_EQ(error_of(client_->unlink(top_, "f")), EROFS);
  EXPECT_EQ(error_of(client_->unlink(top_, "missing")), ENOENT);
  EXPECT_EQ(error_of(client_->rmdir(top_, "d")), EROFS);
  EXPECT_EQ(error_of(client_->rename(top_, "f", top_, "n", 0)), EROFS);
  EXPECT_EQ(error_of(client_->setxattr(f.id, "user.a", "v", 0)), EROFS);
  SetAttr c;
  c.mask = kSetMode;
  c.mode = 0600;
  EXPECT_EQ(error_of(client_->setattr(f.id, c)), EROFS);
  EXPECT_EQ(get("f"), "text");
}

TEST_F(GoferHidden, AbsentAndDenied) {
  put("home/.ssh/id");
  put("home/.config/git/config");
  put("home/.config/other");
  put("home/proj/f");
  put("home/proj/.env");
  put("home/proj/sub/.env");
  put("denied/f");
  ASSERT_EQ(::symlink("f", host("home/proj/link").c_str()), 0);
  start({{"/home", Action::kAbsent},
         {"/home/.config/git", Action::kRo},
         {"/home/proj", Action::kRw},
         {"/home/proj/**/.env", Action::kDeny},
         {"/home/proj/link", Action::kDeny},
         {"/denied", Action::kDeny}});
  EXPECT_EQ(names_of(*client_, look("home")->id), (std::vector<std::string>{".config", "proj"}));
  EXPECT_EQ(names_of(*client_, look("home/.config")->id), (std::vector<std::string>{"git"}));
  EXPECT_EQ(look_error("home/.ssh"), ENOENT);
  EXPECT_EQ(look_error("home/.config/other"), ENOENT);
  EXPECT_EQ(open_error("home/.config/git/config", O_RDONLY), 0);
  EXPECT_EQ(open_error("home/.config/git/config", O_RDWR), EROFS);
  EXPECT_EQ(open_error("home/proj/f", O_RDWR), 0);
  // Denied: seen, not read.
  EXPECT_EQ(look("home/proj/.env")->attr.flags, kAttrDenied);
  EXPECT_EQ(open_error("home/proj/.env", O_RDONLY), EACCES);
  EXPECT_EQ(open_error("home/proj/sub/.env", O_RDONLY), EACCES);
  EXPECT_EQ(error_of(client_->readlink(look("home/proj/link")->id)), EACCES);
  EXPECT_EQ(names_of(*client_, look("denied")->id), (std::vector<std::string>{"error 13"}));
  EXPECT_EQ(look_error("denied/f"), EACCES);
  NodeAttr proj = *look("home/proj");
  EXPECT_EQ(error_of(client_->unlink(proj.id, ".env")), EACCES);
  EXPECT_EQ(error_of(client_->rename(proj.id, ".env", proj.id, "env", 0)), EACCES);
  EXPECT_EQ(error_of(client_->rename(proj.id, "f", proj.id, ".env", 0)), EACCES);
  EXPECT_EQ(error_of(client_->link(look("home/proj/.env")->id, proj.id, "env")), EACCES);
  EXPECT_EQ(error_of(client_->create(proj.id, ".env", 0644, O_RDONLY)), EACCES);
  // Files that come later match too.
  put("home/proj/late/.env");
  EXPECT_EQ(open_error("home/proj/late/.env", O_RDONLY), EACCES);
  // Renames within the glob's reach change nothing about it.
  EXPECT_TRUE(client_->rename(proj.id, "late", proj.id, "later", 0));
  EXPECT_EQ(open_error("home/proj/later/.env", O_RDONLY), EACCES);
}

TEST_F(GoferHidden, DirectoriesThatLeadToHiddenPathsStay) {
  put("w/a/b/secret");
  put("w/c/d");
  put("w/k/x.pem");
  start({{"/w/a/b/secret", Action::kDeny},
         {"/w/k/*.pem", Action::kDeny},
         {"/w/p/hooks", Action::kRo}});
  NodeAttr w = *look("w"), a = *look("w/a");
  EXPECT_EQ(error_of(client_->rename(w.id, "a", w.id, "z", 0)), EBUSY);
  EXPECT_EQ(error_of(client_->rename(a.id, "b", w.id, "z", 0)), EBUSY);
  EXPECT_EQ(error_of(client_->rename(w.id, "k", w.id, "z", 0)), EBUSY);
  EXPECT_EQ(error_of(client_->rename(w.id, "c", w.id, "a", RENAME_EXCHANGE)), EXDEV);
  EXPECT_EQ(error_of(client_->rename(w.id, "a", w.id, "c", RENAME_EXCHANGE)), EBUSY);
  EXPECT_EQ(error_of(client_->rename(w.id, "c", w.id, "p", 0)), EXDEV);
  EXPECT_TRUE(client_->rename(w.id, "c", w.id, "e", 0));
  EXPECT_EQ(open_error("w/a/b/secret", O_RDONLY), EACCES);
}

TEST_F(GoferHidden, HardLinksOfHiddenFiles) {
  put("hidden/key", "secret");
  put("hidden/open/shared", "public");
  put("denied", "secret");
  put("w/f");
  ASSERT_EQ(::link(host("hidden/key").c_str(), host("w/key").c_str()), 0);
  ASSERT_EQ(::link(host("denied").c_str(), host("w/denied").c_str()), 0);
  ASSERT_EQ(::link(host("hidden/open/shared").c_str(), host("w/shared").c_str()), 0);
  ASSERT_EQ(::link(host("w/f").c_str(), host("w/f2").c_str()), 0);
  start({{"/hidden", Action::kAbsent}, {"/hidden/open", Action::kRo}, {"/denied", Action::kDeny}});
  EXPECT_EQ(open_error("w/key", O_RDONLY), EACCES);
  EXPECT_EQ(open_error("w/denied", O_RDONLY), EACCES);
  EXPECT_EQ(open_error("w/denied", O_RDWR), EACCES);
  EXPECT_EQ(error_of(client_->link(look("w/key")->id, top_, "again")), EACCES);
  EXPECT_EQ(open_error("w/shared", O_RDONLY), 0);
  EXPECT_EQ(open_error("w/f2", O_RDONLY), 0);
  SetAttr c;
  c.mask = kSetMode;
  c.mode = 0644;
  EXPECT_EQ(error_of(client_->setattr(look("w/key")->id, c)), EACCES);
}

TEST_F(GoferHidden, ReadOnlyFilesGetNoWritableName) {
  put("ro/f");
  put("w/g");
  start({{"/ro", Action::kRo}});
  EXPECT_EQ(error_of(client_->link(look("ro/f")->id, look("w")->id, "f")), EXDEV);
  EXPECT_EQ(error_of(client_->rename(look("ro")->id, "f", look("w")->id, "f", 0)), EROFS);
  EXPECT_EQ(error_of(client_->rename(look("w")->id, "g", look("ro")->id, "g", 0)), EROFS);
}

TEST_F(GoferHidden, WhatTheHostMovesIsStale) {
  put("w/dir/f", "inside");
  put("w/other/f", "x");
  start({{"/outside", Action::kDeny}});
  NodeAttr dir = *look("w/dir"), f = *look("w/dir/f"), other = *look("w/other");
  std::string away = root_ + "_moved";
  ASSERT_EQ(::rename(host("w/dir").c_str(), away.c_str()), 0);
  EXPECT_EQ(error_of(client_->create(dir.id, "new", 0644, O_RDWR)), ESTALE);
  EXPECT_EQ(error_of(client_->mkdir(dir.id, "new", 0755)), ESTALE);
  EXPECT_EQ(error_of(client_->open(f.id, O_RDONLY)), ESTALE);
  EXPECT_EQ(error_of(client_->lookup(dir.id, "f")), ESTALE);
  EXPECT_EQ(error_of(client_->readdir(dir.id, 0, false)), ESTALE);
  EXPECT_EQ(error_of(client_->rename(other.id, "f", dir.id, "g", 0)), ESTALE);
  EXPECT_EQ(look_error("w/dir"), ENOENT);
  // Another directory under the old name is another node; a link is not followed.
  ASSERT_EQ(::symlink(away.c_str(), host("w/dir").c_str()), 0);
  EXPECT_EQ(error_of(client_->open(f.id, O_RDONLY)), ESTALE);
  EXPECT_EQ(error_of(client_->create(dir.id, "new", 0644, O_RDWR)), ESTALE);
  ASSERT_EQ(::unlink(host("w/dir").c_str()), 0);
  put("w/dir/f", "other");
  EXPECT_NE(look("w/dir")->id, dir.id);
  EXPECT_EQ(error_of(client_->getattr(dir.id)), ESTALE);
  EXPECT_EQ(error_of(client_->getattr(f.id)), ESTALE);
  EXPECT_EQ(read_fd(client_->open(look("w/dir/f")->id, O_RDONLY)->fd.get()), "other");
  // Moved back, it is what it was.
  std::filesystem::remove_all(host("w/dir"));
  ASSERT_EQ(::rename(away.c_str(), host("w/dir").c_str()), 0);
  EXPECT_EQ(open_error("w/dir/f", O_RDONLY), 0);
}

TEST_F(GoferHidden, KernelInterfacesAreNotServed) {
  Config config;
  config.trees.push_back({"/", false});
  std::string problem;
  server_ = Server::create(std::move(config), problem);
  ASSERT_TRUE(server_) << problem;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  threads_.emplace_back([this, socket = pair[1]] {
    server_->serve(socket);
    ::close(socket);
  });
  std::vector<UniqueFd> ends;
  ends.emplace_back(pair[0]);
  client_ = std::make_unique<GoferClient>(std::move(ends));
  top_ = client_->attach(0)->id;
  EXPECT_EQ(look_error("proc"), 0);
  EXPECT_EQ(look_error("proc/self"), EACCES);
  EXPECT_EQ(look_error("proc/1"), EACCES);
  EXPECT_EQ(error_of(client_->readdir(look("proc")->id, 0, true)), EACCES);
  EXPECT_EQ(open_error("etc/passwd", O_RDONLY), 0);
  EXPECT_EQ(open_error("dev/null", O_RDONLY), ENXIO);
}

TEST_F(GoferHidden, ATreeMayBeOneFile) {
  put("f", "one");
  root_ += "/f";
  start({}, false);
  root_.resize(root_.size() - 2);
  EXPECT_TRUE(client_->getattr(top_)->is_regular());
  EXPECT_EQ(read_fd(client_->open(top_, O_RDONLY)->fd.get()), "one");
  EXPECT_EQ(error_of(client_->open(top_, O_RDWR)), EROFS);
  EXPECT_EQ(error_of(client_->mkdir(top_, "d", 0755)), ENOTDIR);
  std::string_view names[] = {"x"};
  EXPECT_EQ(client_->walk(top_, names)->error.value, ENOTDIR);
}

// Random and half-right requests: an answer for each, and no harm.
TEST_F(GoferHidden, MalformedRequests) {
  put("d/f");
  start({}, false);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  threads_.emplace_back([this, socket = pair[1]] {
    server_->serve(socket);
    ::close(socket);
  });
  UniqueFd raw(pair[0]);
  std::vector<char> buffer(kMaxMessage);
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    Writer w;
    w.u32(random() % 25);
    w.u32(static_cast<uint32_t>(i));
    size_t words = random() % 12;
    for (size_t k = 0; k < words; ++k) {
      switch (random() % 5) {
        case 0:
          w.u64(random() % 4);
          break;
        case 1:
          w.u32(static_cast<uint32_t>(random()));
          break;
        case 2:
          w.string("d");
          break;
        case 3:
          w.u32(random() % 3);
          break;
        default:
          w.string(std::string(random() % 300, 'z'));
          break;
      }
    }
    size_t size = random() % 4 ? w.size() : random() % (w.size() + 1);
    if (size == 0) size = 1;
    // Also with descriptors that nobody asked for.
    ASSERT_TRUE(
        send_packet(raw.get(), std::string_view(w.bytes()).substr(0, size), random() % 8 ? -1 : 0));
    auto packet = receive_packet(raw.get(), buffer);
    ASSERT_TRUE(packet);
    ASSERT_GE(packet->bytes.size(), 8u);
    Reader r(packet->bytes);
    if (size >= 8) {
      ASSERT_EQ(r.u32(), static_cast<uint32_t>(i));
    }
  }
  raw.reset();
  top_ = client_->attach(0)->id;  // one of them may have been a right forget
  EXPECT_EQ(open_error("d/f", O_RDONLY), 0);
  EXPECT_EQ(get("d/f"), "text");
}

}  // namespace
}  // namespace uks::gofer
