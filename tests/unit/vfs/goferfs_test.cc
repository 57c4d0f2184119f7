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
    // It holds its root, which holds it: kept where leak checkers see it.
    static auto* const kept = new std::vector<Ref<GoferFs>>;
    fs_ = make_ref<GoferFs>(*client_, 0u, MonotonicNs{1'000'000});
    kept->push_back(fs_);
    root_dir_ = fs_->attach().value();
  }
  ~GoferFsTest() override {
    root_dir_ = {};
    kernel_lock.unlock();
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

}  // namespace
}  // namespace uks
