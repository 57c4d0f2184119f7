// fsync, fdatasync, sync, syncfs, sync_file_range; also posix_fadvise and readahead.
#include "tests/syscalls/test_util.h"

namespace {

class Sync : public test::FileTest {};
ALL_FILE_SYSTEMS(Sync);

TEST_P(Sync, Succeeds) {
  test::write_file(path("f"), "data");
  test::Fd fd(open(path("f").c_str(), O_RDWR)), d(open(dir.path().c_str(), O_RDONLY));
  EXPECT_OK(fsync(fd));
  EXPECT_OK(fdatasync(fd));
  EXPECT_OK(fsync(d));
  EXPECT_OK(sync_file_range(fd, 0, 4, SYNC_FILE_RANGE_WRITE));
  EXPECT_ERRNO(sync_file_range(fd, -1, 4, 0), EINVAL);
  EXPECT_OK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
  EXPECT_EQ(posix_fadvise(fd, 0, 0, 77), EINVAL);
  EXPECT_OK(readahead(fd, 0, 4));
}

TEST(SyncErrors, WhatCannotBeSynced) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_ERRNO(fsync(fds[0]), EINVAL);
  EXPECT_ERRNO(fdatasync(fds[1]), EINVAL);
  EXPECT_EQ(posix_fadvise(fds[0], 0, 0, POSIX_FADV_NORMAL), ESPIPE);
  EXPECT_ERRNO(fsync(999), EBADF);
  EXPECT_ERRNO(syncfs(999), EBADF);
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
