// statfs, fstatfs.
#include <linux/magic.h>
#include <sys/statfs.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Statfs, KnownTypes) {
  struct statfs s;
  ASSERT_OK(statfs("/proc", &s));
  EXPECT_EQ(s.f_type, PROC_SUPER_MAGIC);
  ASSERT_OK(statfs("/dev/shm", &s));
  EXPECT_EQ(s.f_type, TMPFS_MAGIC);
  for (const char* path : {"/", ".", "/tmp"}) {
    ASSERT_OK(statfs(path, &s)) << path;
    EXPECT_GT(s.f_bsize, 0);
    EXPECT_EQ(s.f_namelen, 255);
    EXPECT_GT(s.f_blocks, 0u) << path;
    EXPECT_LE(s.f_bfree, s.f_blocks);
    test::Fd fd(open(path, O_PATH));
    struct statfs f;
    ASSERT_OK(fstatfs(fd, &f));
    EXPECT_EQ(f.f_type, s.f_type);
  }
  EXPECT_ERRNO(statfs("/nonexistent", &s), ENOENT);
  EXPECT_ERRNO(fstatfs(999, &s), EBADF);
  EXPECT_ERRNO(statfs("/", test::bad_pointer<struct statfs>()), EFAULT);
}

}  // namespace
