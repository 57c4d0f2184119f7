// Each operation of the gofer over a temporary tree.
#include <linux/fs.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include <atomic>
#include <set>

#include "tests/unit/gofer/fixture.h"

namespace uks::gofer {
namespace {

using GoferServer = GoferTest;

TEST_F(GoferServer, WalkStopsWhereItMust) {
  put("a/b/c", "x");
  ASSERT_EQ(::symlink("b", host("a/link").c_str()), 0);
  start();
  std::string_view all[] = {"a", "b", "c"};
  auto result = client_->walk(top_, all);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error.value, 0);
  ASSERT_EQ(result->steps.size(), 3u);
  EXPECT_TRUE(result->steps[1].attr.is_directory());
  EXPECT_EQ(result->steps[2].attr.size, 1u);
  struct stat s;
  ASSERT_EQ(::stat(host("a/b/c").c_str(), &s), 0);
  EXPECT_EQ(result->steps[2].attr.ino, s.st_ino);
  EXPECT_EQ(result->steps[2].attr.dev, s.st_dev);
  EXPECT_EQ(result->steps[2].attr.mode, s.st_mode);

  std::string_view through_link[] = {"a", "link", "c"};
  result = client_->walk(top_, through_link);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error.value, 0);
  ASSERT_EQ(result->steps.size(), 2u);
  EXPECT_TRUE(result->steps[1].attr.is_symlink());
  EXPECT_EQ(result->target, "b");

  std::string_view missing[] = {"a", "no", "c"};
  result = client_->walk(top_, missing);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error.value, ENOENT);
  EXPECT_EQ(result->steps.size(), 1u);

  std::string_view below_file[] = {"a", "b", "c", "d"};
  result = client_->walk(top_, below_file);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error.value, ENOTDIR);
  EXPECT_EQ(result->steps.size(), 3u);
}

TEST_F(GoferServer, EachOfSeveralNames) {
  put("d/file", "xy");
  put("d/secret");
  put("d/gone");
  put("d/sub/x");
  ASSERT_EQ(::symlink("file", host("d/link").c_str()), 0);
  ASSERT_EQ(::symlink("file", host("d/secret_link").c_str()), 0);
  start({{"/d/secret", Action::kDeny, true},
         {"/d/secret_link", Action::kDeny, true},
         {"/d/gone", Action::kAbsent, true}});
  const NodeId dir = look("d")->id;
  const std::string_view names[] = {"file", "secret", "gone", "no",   "link",       "..",
                                    "sub",  "",       "a/b",  "file", "secret_link"};
  const auto each = client_->look_each(dir, names);
  ASSERT_TRUE(each);
  ASSERT_EQ(each->size(), std::size(names));
  // What is denied is there; its target is not told.
  const int errors[] = {0, 0, ENOENT, ENOENT, 0, EINVAL, 0, EINVAL, EINVAL, 0, 0};
  for (size_t i = 0; i < each->size(); i++) {
    EXPECT_EQ((*each)[i].error.value, errors[i]) << names[i];
    EXPECT_EQ((*each)[i].node.id != kNoNode, errors[i] == 0) << names[i];
    EXPECT_EQ((*each)[i].target, names[i] == "link" ? "file" : "") << names[i];
  }
  EXPECT_EQ((*each)[0].node.attr.size, 2u);
  EXPECT_EQ((*each)[0].node.id, (*each)[9].node.id);
  EXPECT_TRUE((*each)[6].node.attr.is_directory());
  const std::string_view hidden_link[] = {"d", "secret_link"};
  auto walked = client_->walk(top_, hidden_link);
  EXPECT_EQ(walked->steps.size(), 2u);
  EXPECT_EQ(walked->target, "");
  const std::string_view through_it[] = {"d", "secret_link", "x"};
  walked = client_->walk(top_, through_it);
  EXPECT_EQ(walked->steps.size(), 2u);
  EXPECT_EQ(walked->target, "");
  EXPECT_EQ(error_of(client_->readlink(walked->steps[1].id)), EACCES);
  EXPECT_TRUE(client_->look_each(dir, {})->empty());
  const std::string_view one[] = {"x"};
  EXPECT_EQ(error_of(client_->look_each((*each)[0].node.id, one)), ENOTDIR);
  EXPECT_EQ(error_of(client_->look_each(12345, one)), error_of(client_->getattr(12345)));
}

// Targets have no room without end: the names are more important.
TEST_F(GoferServer, EachOfManyLongLinks) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; i++) {
    names.push_back("link" + std::to_string(i));
    ASSERT_EQ(::symlink(std::string(4000, 'x').c_str(), host(names.back()).c_str()), 0);
  }
  start();
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto each = client_->look_each(top_, views);
  ASSERT_TRUE(each);
  size_t with_target = 0;
  for (const Looked& looked : *each) {
    EXPECT_EQ(looked.error.value, 0);
    EXPECT_TRUE(looked.node.attr.is_symlink());
    with_target += looked.target.size() == 4000;
  }
  EXPECT_GE(with_target, 1u);
  EXPECT_EQ(*client_->readlink(each->back().node.id), std::string(4000, 'x'));
}

TEST_F(GoferServer, HostileNames) {
  put("a");
  start();
  for (std::string name : {std::string(".."), std::string("."), std::string(""), std::string("a/b"),
                           std::string("a\0", 2), std::string("/etc")}) {
    EXPECT_EQ(error_of(client_->lookup(top_, name)), EINVAL) << name;
    EXPECT_EQ(error_of(client_->create(top_, name, 0644, O_RDWR)), EINVAL) << name;
    EXPECT_EQ(error_of(client_->mkdir(top_, name, 0755)), EINVAL) << name;
    EXPECT_EQ(error_of(client_->unlink(top_, name)), EINVAL) << name;
    EXPECT_EQ(error_of(client_->rename(top_, "a", top_, name, 0)), EINVAL) << name;
    EXPECT_EQ(error_of(client_->rename(top_, name, top_, "b", 0)), EINVAL) << name;
  }
  EXPECT_EQ(error_of(client_->lookup(top_, std::string(256, 'x'))), ENAMETOOLONG);
  EXPECT_EQ(error_of(client_->getattr(12345)), ESTALE);
  EXPECT_EQ(error_of(client_->attach(1)), ENOENT);
}

TEST_F(GoferServer, OpenDonatesExactlyTheMode) {
  put("f", "hello");
  start();
  NodeAttr f = *look("f");
  auto ro = client_->open(f.id, O_RDONLY);
  ASSERT_TRUE(ro);
  EXPECT_EQ(read_fd(ro->fd.get()), "hello");
  EXPECT_EQ(::fcntl(ro->fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(::write(ro->fd.get(), "x", 1), -1);
  auto wo = client_->open(f.id, O_WRONLY);
  ASSERT_TRUE(wo);
  EXPECT_EQ(::fcntl(wo->fd.get(), F_GETFL) & O_ACCMODE, O_WRONLY);
  auto rw = client_->open(f.id, O_RDWR | O_TRUNC);
  ASSERT_TRUE(rw);
  EXPECT_EQ(rw->attr.size, 0u);
  EXPECT_EQ(::fcntl(rw->fd.get(), F_GETFL) & O_ACCMODE, O_RDWR);
  EXPECT_EQ(error_of(client_->open(f.id, O_RDWR | O_CREAT)), EINVAL);
  EXPECT_EQ(error_of(client_->open(f.id, O_ACCMODE)), EINVAL);
}

TEST_F(GoferServer, OnlyRegularFilesOpen) {
  ::mkdir(host("d").c_str(), 0755);
  ASSERT_EQ(::mkfifo(host("fifo").c_str(), 0644), 0);
  ASSERT_EQ(::symlink("/etc/passwd", host("link").c_str()), 0);
  start();
  EXPECT_EQ(open_error("d", O_RDONLY), EISDIR);
  EXPECT_EQ(open_error("fifo", O_RDONLY), ENXIO);
  EXPECT_EQ(open_error("link", O_RDONLY), ELOOP);
  EXPECT_TRUE(S_ISFIFO(look("fifo")->attr.mode));
  EXPECT_EQ(*client_->readlink(look("link")->id), "/etc/passwd");
  EXPECT_EQ(error_of(client_->create(top_, "link", 0644, O_RDWR)), ELOOP);
}

TEST_F(GoferServer, CreateAndUnlink) {
  start();
  auto made = client_->create(top_, "f", 04755, O_RDWR | O_EXCL);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->node.attr.mode, static_cast<uint32_t>(S_IFREG | 0755));
  EXPECT_EQ(::write(made->fd.get(), "abc", 3), 3);
  EXPECT_EQ(get("f"), "abc");
  EXPECT_EQ(error_of(client_->create(top_, "f", 0644, O_RDWR | O_EXCL)), EEXIST);
  auto again = client_->create(top_, "f", 0600, O_RDONLY | O_TRUNC);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->node.id, made->node.id);
  EXPECT_EQ(again->node.attr.size, 0u);
  ASSERT_TRUE(client_->unlink(top_, "f"));
  EXPECT_EQ(look_error("f"), ENOENT);
  // The id of an unlinked file still works.
  auto gone = client_->getattr(made->node.id);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->nlink, 0u);
  EXPECT_TRUE(client_->open(made->node.id, O_RDWR));
  SetAttr changes;
  changes.mask = kSetSize | kSetMode;
  changes.size = 10;
  changes.mode = 0600;
  ASSERT_TRUE(client_->setattr(made->node.id, changes));
  auto next = client_->create(top_, "f", 0644, O_RDWR);
  ASSERT_TRUE(next);
  EXPECT_NE(next->node.id, made->node.id);
}

TEST_F(GoferServer, DirectoriesLinksAndSpecialFiles) {
  start();
  auto dir = client_->mkdir(top_, "d", 0751);
  ASSERT_TRUE(dir);
  EXPECT_EQ(dir->attr.mode, static_cast<uint32_t>(S_IFDIR | 0751));
  auto link = client_->symlink(dir->id, "l", "../target");
  ASSERT_TRUE(link);
  EXPECT_EQ(*client_->readlink(link->id), "../target");
  EXPECT_EQ(error_of(client_->readlink(dir->id)), EINVAL);
  EXPECT_TRUE(client_->mknod(dir->id, "p", S_IFIFO | 0600));
  EXPECT_TRUE(client_->mknod(dir->id, "s", S_IFSOCK | 0600));
  EXPECT_TRUE(client_->mknod(dir->id, "r", S_IFREG | 06600));
  EXPECT_EQ(look("d/r")->attr.mode, static_cast<uint32_t>(S_IFREG | 0600));
  EXPECT_EQ(error_of(client_->mknod(dir->id, "c", S_IFCHR | 0600)), EPERM);
  EXPECT_EQ(error_of(client_->mknod(dir->id, "b", S_IFBLK | 0600)), EPERM);
  auto hard = client_->link(look("d/r")->id, top_, "hard");
  ASSERT_TRUE(hard);
  EXPECT_EQ(hard->attr.nlink, 2u);
  EXPECT_EQ(hard->attr.ino, look("d/r")->attr.ino);
  EXPECT_NE(hard->id, look("d/r")->id);
  EXPECT_TRUE(client_->link(link->id, top_, "hardlink"));
  EXPECT_TRUE(look("hardlink")->attr.is_symlink());
  EXPECT_EQ(error_of(client_->link(dir->id, top_, "harddir")), EPERM);
  EXPECT_EQ(error_of(client_->rmdir(top_, "d")), ENOTEMPTY);
  EXPECT_EQ(error_of(client_->unlink(top_, "d")), EISDIR);
  EXPECT_EQ(error_of(client_->rmdir(top_, "hard")), ENOTDIR);
  for (const char* name : {"l", "p", "s", "r"}) EXPECT_TRUE(client_->unlink(dir->id, name)) << name;
  EXPECT_TRUE(client_->rmdir(top_, "d"));
  EXPECT_EQ(error_of(client_->create(dir->id, "x", 0644, O_RDWR)), ENOENT);
  EXPECT_TRUE(client_->readdir(dir->id, 0, true)->entries.empty());
}

TEST_F(GoferServer, RenameKeepsIds) {
  put("a/f", "1");
  put("b/g", "2");
  start();
  NodeAttr a = *look("a"), f = *look("a/f"), b = *look("b"), g = *look("b/g");
  ASSERT_TRUE(client_->rename(a.id, "f", b.id, "f2", 0));
  EXPECT_EQ(look("b/f2")->id, f.id);
  EXPECT_TRUE(client_->open(f.id, O_RDONLY));
  EXPECT_EQ(error_of(client_->rename(b.id, "f2", b.id, "g", RENAME_NOREPLACE)), EEXIST);
  ASSERT_TRUE(client_->rename(b.id, "f2", b.id, "g", RENAME_EXCHANGE));
  EXPECT_EQ(look("b/g")->id, f.id);
  EXPECT_EQ(look("b/f2")->id, g.id);
  EXPECT_EQ(get("b/g"), "1");
  ASSERT_TRUE(client_->rename(b.id, "f2", b.id, "g", 0));
  EXPECT_EQ(look("b/g")->id, g.id);
  EXPECT_EQ(client_->getattr(f.id)->nlink, 0u);  // replaced, still there by id
  // A directory with what is below it.
  ASSERT_TRUE(client_->rename(top_, "b", a.id, "moved", 0));
  EXPECT_EQ(look("a/moved/g")->id, g.id);
  EXPECT_EQ(read_fd(client_->open(g.id, O_RDONLY)->fd.get()), "2");
  EXPECT_EQ(error_of(client_->rename(top_, "a", b.id, "loop", 0)), EINVAL);
  // Two names of one inode: nothing happens.
  ASSERT_TRUE(client_->link(g.id, top_, "g1"));
  ASSERT_TRUE(client_->rename(top_, "g1", b.id, "g", 0));
  EXPECT_EQ(look_error("g1"), 0);
  EXPECT_EQ(look("a/moved/g")->id, g.id);
}

TEST_F(GoferServer, Setattr) {
  put("f", "hello");
  start();
  NodeAttr f = *look("f");
  SetAttr c;
  c.mask = kSetMode | kSetSize | kSetAtime | kSetMtime;
  c.mode = 0640;
  c.size = 2;
  c.atime = {100, 5};
  c.mtime = {200, 999'999'999};
  auto attr = client_->setattr(f.id, c);
  ASSERT_TRUE(attr);
  EXPECT_EQ(attr->mode & 07777, 0640u);
  EXPECT_EQ(attr->size, 2u);
  EXPECT_EQ(attr->atime, (Time{100, 5}));
  EXPECT_EQ(attr->mtime, (Time{200, 999'999'999}));
  c = {};
  c.mask = kSetMtimeNow;
  attr = client_->setattr(f.id, c);
  ASSERT_TRUE(attr);
  EXPECT_GT(attr->mtime.sec, 1000);
  EXPECT_EQ(attr->atime, (Time{100, 5}));
  c.mask = kSetMode;
  for (uint32_t mode : {04755u, 02755u, 06000u}) {
    c.mode = mode;
    EXPECT_EQ(error_of(client_->setattr(f.id, c)), EPERM);
  }
  c.mode = 01644;
  EXPECT_TRUE(client_->setattr(f.id, c));
  c.mask = 1u << 20;
  EXPECT_EQ(error_of(client_->setattr(f.id, c)), EINVAL);
  c = {};
  c.mask = kSetMtime;
  c.mtime = {1, 1'000'000'000};
  EXPECT_EQ(error_of(client_->setattr(f.id, c)), EINVAL);
  ASSERT_EQ(::symlink("f", host("l").c_str()), 0);
  c.mtime = {7, 7};
  attr = client_->setattr(look("l")->id, c);
  ASSERT_TRUE(attr);
  EXPECT_EQ(attr->mtime, (Time{7, 7}));
  EXPECT_NE(client_->getattr(f.id)->mtime, (Time{7, 7}));
}

TEST_F(GoferServer, SetIdFilesAreNotWritten) {
  put("suid");
  ASSERT_EQ(::chmod(host("suid").c_str(), 04755), 0);
  start();
  EXPECT_EQ(open_error("suid", O_RDONLY), 0);
  EXPECT_EQ(open_error("suid", O_RDWR), EPERM);
  EXPECT_EQ(open_error("suid", O_RDONLY | O_TRUNC), EPERM);
  EXPECT_EQ(error_of(client_->link(look("suid")->id, top_, "again")), EPERM);
  EXPECT_EQ(get("suid"), "text");
}

TEST_F(GoferServer, ReadsBigDirectoriesInPages) {
  constexpr int kCount = 3000;
  for (int i = 0; i < kCount; ++i) put("d/file-with-a-longer-name-" + std::to_string(i), "");
  ::mkdir(host("d/sub").c_str(), 0700);
  start();
  NodeAttr d = *look("d");
  for (bool with_ids : {false, true}) {
    auto all = client_->read_directory(d.id, with_ids);
    ASSERT_TRUE(all);
    std::set<std::string> names;
    std::vector<Forget> forgets;
    for (const DirEntry& entry : *all) {
      names.insert(entry.name);
      EXPECT_EQ(entry.id != kNoNode, with_ids);
      EXPECT_EQ(entry.attr.is_directory(), entry.name == "sub");
      if (with_ids) forgets.push_back({entry.id, 1});
    }
    EXPECT_EQ(names.size(), kCount + 1u);
    EXPECT_EQ(all->size(), kCount + 1u);
    client_->forget(forgets);
  }
  EXPECT_EQ(server_->node_count(), 2u);
  EXPECT_EQ(error_of(client_->readdir(d.id, 999, false)), ESTALE);
  EXPECT_EQ(error_of(client_->readdir(look("d/file-with-a-longer-name-1")->id, 0, false)), ENOTDIR);
}

TEST_F(GoferServer, ForgetsNodes) {
  put("a/b/c");
  start();
  NodeAttr c = *look("a/b/c");
  EXPECT_EQ(look("a/b/c")->id, c.id);
  NodeAttr a = *look("a"), b = *look("a/b");
  client_->forget(a.id, 100);
  client_->forget(b.id, 100);
  EXPECT_EQ(server_->node_count(), 4u);  // held by what is below them
  client_->forget(c.id, 1);
  EXPECT_TRUE(client_->getattr(c.id));
  client_->forget(c.id, 1);
  EXPECT_EQ(server_->node_count(), 1u);
  EXPECT_EQ(error_of(client_->getattr(c.id)), ESTALE);
  EXPECT_NE(look("a/b/c")->id, c.id);  // ids are not used again
}

TEST_F(GoferServer, Xattrs) {
  put("f");
  if (::setxattr(host("f").c_str(), "user.probe", "1", 1, 0) < 0)
    GTEST_SKIP() << "no user xattrs here";
  start();
  NodeAttr f = *look("f");
  ASSERT_TRUE(client_->setxattr(f.id, "user.a", "value", 0));
  EXPECT_EQ(*client_->getxattr(f.id, "user.a"), "value");
  EXPECT_EQ(error_of(client_->setxattr(f.id, "user.a", "v", XATTR_CREATE)), EEXIST);
  auto names = client_->listxattr(f.id);
  ASSERT_TRUE(names);
  EXPECT_EQ(std::set<std::string>(names->begin(), names->end()),
            (std::set<std::string>{"user.a", "user.probe"}));
  EXPECT_TRUE(client_->removexattr(f.id, "user.a"));
  EXPECT_EQ(error_of(client_->getxattr(f.id, "user.a")), ENODATA);
  for (const char* name :
       {"security.capability", "trusted.x", "system.posix_acl_access", "user."}) {
    EXPECT_EQ(error_of(client_->setxattr(f.id, name, "v", 0)), EPERM) << name;
    EXPECT_EQ(error_of(client_->removexattr(f.id, name)), EPERM) << name;
    EXPECT_EQ(error_of(client_->getxattr(f.id, name)), EOPNOTSUPP) << name;
  }
}

TEST_F(GoferServer, StatfsAndFsync) {
  put("f");
  start();
  struct statfs s;
  ASSERT_EQ(::statfs(root_.c_str(), &s), 0);
  EXPECT_EQ(client_->statfs(top_)->type, static_cast<uint64_t>(s.f_type));
  EXPECT_TRUE(client_->fsync(look("f")->id, false));
  EXPECT_TRUE(client_->fsync(look("f")->id, true));
  EXPECT_TRUE(client_->fsync(top_, false));
}

TEST_F(GoferServer, DeadGoferIsEio) {
  std::vector<UniqueFd> ends;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  ends.emplace_back(pair[0]);
  GoferClient client(std::move(ends));
  // One call is under way and two wait for the connection when the other side goes.
  std::atomic<int> failed = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] { failed += error_of(client.attach(0)) == EIO; });
  }
  char buffer[128];
  ASSERT_GT(::recv(pair[1], buffer, sizeof(buffer), 0), 0);
  ::close(pair[1]);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 3);
  EXPECT_TRUE(client.dead());
  EXPECT_EQ(error_of(client.getattr(1)), EIO);
}

TEST_F(GoferServer, ManyThreads) {
  start();
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string dir_name = "d" + std::to_string(t);
      auto dir = client_->mkdir(top_, dir_name, 0755);
      if (!dir) return;
      for (int i = 0; i < 200; ++i) {
        std::string name = "f" + std::to_string(i);
        auto made = client_->create(dir->id, name, 0644, O_RDWR);
        if (!made) return;
        if (!client_->rename(dir->id, name, top_, dir_name + name, 0)) return;
        if (look(dir_name + name)->id != made->node.id) return;
        if (!client_->unlink(top_, dir_name + name)) return;
        client_->forget(made->node.id, 2);
      }
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4);
  EXPECT_EQ(server_->node_count(), 5u);
}

}  // namespace
}  // namespace uks::gofer
