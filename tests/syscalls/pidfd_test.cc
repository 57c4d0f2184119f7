// pidfd_open, pidfd_send_signal.
#include <poll.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Pidfd, PollsAndSignals) {
  pid_t pid = test::spawn([] {
    for (;;) pause();
    return 0;
  });
  test::Fd fd(syscall(SYS_pidfd_open, pid, 0));
  ASSERT_GE(fd.get(), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  EXPECT_OK(syscall(SYS_pidfd_send_signal, fd.get(), 0, nullptr, 0));
  EXPECT_OK(syscall(SYS_pidfd_send_signal, fd.get(), SIGTERM, nullptr, 0));
  EXPECT_EQ(poll(&p, 1, 5000), 1);
  EXPECT_EQ(p.revents, POLLIN);
  int status = test::wait_for(pid);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_ERRNO(syscall(SYS_pidfd_send_signal, fd.get(), SIGTERM, nullptr, 0), ESRCH);
}

TEST(Pidfd, Errors) {
  EXPECT_ERRNO(syscall(SYS_pidfd_open, 4'000'000, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_pidfd_open, -1, 0), EINVAL);
  EXPECT_ERRNO(syscall(SYS_pidfd_open, getpid(), 0x1), EINVAL);
  EXPECT_ERRNO(syscall(SYS_pidfd_send_signal, 999, SIGTERM, nullptr, 0), EBADF);
  EXPECT_ERRNO(syscall(SYS_pidfd_send_signal, 0, SIGTERM, nullptr, 0), EBADF);
}

}  // namespace
