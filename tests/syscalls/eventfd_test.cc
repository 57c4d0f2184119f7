// eventfd and eventfd2.
#include <poll.h>
#include <sys/eventfd.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Eventfd, CountsAndResets) {
  test::Fd fd(eventfd(3, EFD_NONBLOCK));
  ASSERT_GE(fd.get(), 0);
  uint64_t v = 4;
  EXPECT_EQ(write(fd, &v, 8), 8);
  EXPECT_EQ(read(fd, &v, 8), 8);
  EXPECT_EQ(v, 7u);
  EXPECT_ERRNO(read(fd, &v, 8), EAGAIN);
}

TEST(Eventfd, Semaphore) {
  test::Fd fd(eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
  uint64_t v = 0;
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(read(fd, &v, 8), 8);
    EXPECT_EQ(v, 1u);
  }
  EXPECT_ERRNO(read(fd, &v, 8), EAGAIN);
}

TEST(Eventfd, Limits) {
  test::Fd fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  uint64_t v = UINT64_MAX;
  EXPECT_ERRNO(write(fd, &v, 8), EINVAL);
  v = UINT64_MAX - 1;
  EXPECT_EQ(write(fd, &v, 8), 8);
  v = 1;
  EXPECT_ERRNO(write(fd, &v, 8), EAGAIN);
  EXPECT_ERRNO(read(fd, &v, 7), EINVAL);
  EXPECT_ERRNO(write(fd, &v, 7), EINVAL);
  EXPECT_ERRNO(eventfd(0, 0x40), EINVAL);
}

TEST(Eventfd, BlocksUntilWritten) {
  test::Fd fd(eventfd(0, 0));
  pid_t pid = test::spawn([&] {
    test::sleep_ms(30);
    uint64_t v = 9;
    return write(fd, &v, 8) == 8 ? 0 : 1;
  });
  uint64_t v = 0;
  EXPECT_EQ(read(fd, &v, 8), 8);
  EXPECT_EQ(v, 9u);
  test::wait_for(pid);
}

TEST(Eventfd, Poll) {
  test::Fd fd(eventfd(0, 0));
  pollfd p{fd, POLLIN | POLLOUT, 0};
  EXPECT_EQ(poll(&p, 1, 0), 1);
  EXPECT_EQ(p.revents, POLLOUT);
  uint64_t v = UINT64_MAX - 1;
  ASSERT_EQ(write(fd, &v, 8), 8);
  EXPECT_EQ(poll(&p, 1, 0), 1);
  EXPECT_EQ(p.revents, POLLIN);
}

TEST(Eventfd, OldCallTakesNoFlags) {
  test::Fd fd(syscall(SYS_eventfd, 5));
  ASSERT_GE(fd.get(), 0);
  EXPECT_EQ(fcntl(fd, F_GETFL), O_RDWR);
  uint64_t v = 0;
  EXPECT_EQ(read(fd, &v, 8), 8);
  EXPECT_EQ(v, 5u);
  test::Fd second(syscall(SYS_eventfd2, 1, EFD_NONBLOCK));
  EXPECT_EQ(fcntl(second, F_GETFL), O_RDWR | O_NONBLOCK);
}

}  // namespace
