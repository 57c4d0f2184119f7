// goferfs over a real gofer in threads of the test.
#include "sentry/fs/goferfs/gofer_fs.h"

#include "tests/unit/gofer/fixture.h"

namespace uks {
namespace {

class GoferFsTest : public gofer::GoferTest {
 protected:
  GoferFsTest() {
    start();
    kernel_lock.lock();
    mount(1'000'000);
  }
  ~GoferFsTest() override {
    root_dir_ = {};
    kernel_lock.unlock();
  }

  void mount(MonotonicNs ttl) {
    // It holds its root, which holds it: kept where leak checkers see it.
    static auto* const kept = new std::vector<Ref<GoferFs>>;
    fs_ = make_ref<GoferFs>(*client_, 0u, ttl);
    kept->push_back(fs_);
    root_dir_ = fs_->attach().value();
  }
  Ref<Inode> make(const char* name) {
    return root_dir_->mknod(name, {.mode = S_IFREG | 0644, .uid = 0, .gid = 0, .rdev = 0}).value();
  }
  // Descriptors of this process, which is sentry and gofer at once, to files without a name.
  int held() const {
    int count = 0;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string name = std::filesystem::read_symlink(fd.path(), error).string();
      count += name.starts_with(root_ + "/") && name.ends_with(" (deleted)");
    }
    return count;
  }
  void wait_and_ask() {
    {
      Unlocked unlocked;
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    }
    EXPECT_TRUE(root_dir_->find("something else"));
  }

  Ref<GoferFs> fs_;
  Ref<GoferInode> root_dir_;
};

TEST_F(GoferFsTest, UnlinkedFilesLeaveTheDisk) {
  for (int i = 0; i < 10; ++i) {
    Ref<Inode> file = make("f");
    ASSERT_TRUE(root_dir_->unlink("f", *file));
  }
  wait_and_ask();
  EXPECT_EQ(held(), 0);
}

TEST_F(GoferFsTest, AnUnlinkedFileLivesAsLongAsItsUsers) {
  Ref<Inode> file = make("f");
  Ref<HostFd> open = static_cast<GoferInode&>(*file).acquire(true).value();
  ASSERT_TRUE(root_dir_->unlink("f", *file));
  wait_and_ask();
  EXPECT_EQ(file->getattr()->nlink, 0u);
  EXPECT_TRUE(static_cast<GoferInode&>(*file).acquire(false));
  open = {};
  file = {};
  wait_and_ask();
  EXPECT_EQ(held(), 0);
}

TEST_F(GoferFsTest, AReplacedFileLeavesTheDisk) {
  Ref<Inode> from = make("from"), to = make("to");
  ASSERT_TRUE(root_dir_->rename("from", *from, *root_dir_, "to", to.get(), 0));
  from = to = {};
  wait_and_ask();
  EXPECT_EQ(held(), 0);
}

// The attributes of a directory come with the answer that says its names were changed: each unlink
// would otherwise cost another question.
TEST_F(GoferFsTest, ADirectoryIsKnownAfterEachChangeOfItsNames) {
  mount(int64_t{3600} * 1'000'000'000);
  const NewNode dir{.mode = S_IFDIR | 0755, .uid = 0, .gid = 0, .rdev = 0};
  auto check = [&](uint32_t nlink, const char* what) {
    struct stat st;
    ASSERT_EQ(::stat(root_.c_str(), &st), 0);
    const auto attr = root_dir_->getattr();
    ASSERT_TRUE(attr);
    EXPECT_EQ(attr->nlink, nlink) << what;
    EXPECT_EQ(attr->mtime.tv_sec, st.st_mtim.tv_sec) << what;
    EXPECT_EQ(attr->mtime.tv_nsec, st.st_mtim.tv_nsec) << what;
    // Not asked for anew: a change on the host is not seen for an hour.
    EXPECT_EQ(attr->mode & 07777, 0700u) << what;
  };
  ASSERT_TRUE(root_dir_->getattr());
  ASSERT_EQ(::chmod(root_.c_str(), 0750), 0);
  // The answers do carry the change, so it is put back before each.
  auto change = [&](const char* what, uint32_t nlink, auto&& f) {
    ASSERT_EQ(::chmod(root_.c_str(), 0700), 0);
    ASSERT_TRUE(f()) << what;
    ASSERT_EQ(::chmod(root_.c_str(), 0750), 0);
    check(nlink, what);
  };
  Ref<Inode> d, f;
  change("mkdir", 3, [&] {
    d = root_dir_->mkdir("d", dir).value();
    return true;
  });
  change("create", 3, [&] {
    f = make("f");
    return true;
  });
  change("symlink", 3, [&] { return root_dir_->symlink("l", "f", dir).has_value(); });
  change("link", 3, [&] { return root_dir_->link("f2", *f).has_value(); });
  change("rename", 3,
         [&] { return root_dir_->rename("f2", *f, *root_dir_, "f3", nullptr, 0).has_value(); });
  change("move", 3, [&] { return root_dir_->rename("f3", *f, *d, "f3", nullptr, 0).has_value(); });
  change("unlink", 3, [&] { return root_dir_->unlink("f", *f).has_value(); });
  ASSERT_TRUE(d->unlink("f3", *f));
  change("rmdir", 2, [&] { return root_dir_->rmdir("d", *d).has_value(); });
}

}  // namespace
}  // namespace uks
