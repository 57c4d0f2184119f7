// memfd_create and seals.
#include <sys/mman.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

TEST(Memfd, IsAFile) {
  Fd fd(memfd_create("name", MFD_CLOEXEC));
  ASSERT_GE(fd.get(), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(write(fd, "hello", 5), 5);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_TRUE(S_ISREG(st.st_mode));
  EXPECT_EQ(st.st_size, 5);
  EXPECT_EQ(st.st_nlink, 0u);
  char link[100] = {};
  ASSERT_OK(readlink(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), link, 99));
  EXPECT_STREQ(link, "/memfd:name (deleted)");
}

TEST(Memfd, SharedMappingAcrossProcesses) {
  Fd fd(memfd_create("m", 0));
  ASSERT_OK(ftruncate(fd, 8192));
  auto* p = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_CHILD_OK([&] {
    p[5000] = 'x';
    CHILD_CHECK(pwrite(fd, "y", 1, 0) == 1);
    return 0;
  });
  EXPECT_EQ(p[5000], 'x');
  EXPECT_EQ(p[0], 'y');
  char c = 0;
  EXPECT_EQ(pread(fd, &c, 1, 5000), 1);
  EXPECT_EQ(c, 'x');
  munmap(p, 8192);
}

TEST(Memfd, ReopenedThroughProc) {
  Fd fd(memfd_create("m", 0));
  ASSERT_EQ(write(fd, "data", 4), 4);
  Fd again(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY));
  ASSERT_GE(again.get(), 0);
  char buffer[5] = {};
  EXPECT_EQ(read(again, buffer, 4), 4);
  EXPECT_STREQ(buffer, "data");
}

TEST(Memfd, Seals) {
  Fd fd(memfd_create("m", MFD_ALLOW_SEALING));
  ASSERT_EQ(write(fd, "12345678", 8), 8);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), 0);
  ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
  EXPECT_ERRNO(ftruncate(fd, 4), EPERM);
  EXPECT_OK(ftruncate(fd, 16));
  ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
  EXPECT_ERRNO(ftruncate(fd, 32), EPERM);
  EXPECT_ERRNO(pwrite(fd, "x", 1, 100), EPERM);
  auto* p = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_ERRNO(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
  munmap(p, 4096);
  ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
  EXPECT_ERRNO(pwrite(fd, "x", 1, 0), EPERM);
  EXPECT_ERRNO(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), EPERM);
  ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
  EXPECT_ERRNO(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), EPERM);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

TEST(Memfd, Errors) {
  Fd fd(memfd_create("m", 0));
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SEAL);
  EXPECT_ERRNO(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), EPERM);
  EXPECT_ERRNO(memfd_create("m", 0x1000), EINVAL);
  EXPECT_ERRNO(memfd_create(std::string(250, 'x').c_str(), 0), EINVAL);
  EXPECT_OK(Fd(memfd_create(std::string(249, 'x').c_str(), 0)).get());
  EXPECT_ERRNO(memfd_create(test::bad_pointer<char>(), 0), EFAULT);
}

}  // namespace
