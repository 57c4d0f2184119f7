// signalfd and signalfd4.
#include <poll.h>
#include <sys/signalfd.h>

#include "tests/syscalls/test_util.h"

namespace {

class Signalfd : public ::testing::Test {
 protected:
  void SetUp() override {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    fd = test::Fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    ASSERT_GE(fd.get(), 0);
  }
  void TearDown() override {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR1, SIG_DFL);
  }
  test::MaskGuard guard;
  sigset_t set;
  test::Fd fd;
  signalfd_siginfo info{};
};

TEST_F(Signalfd, ReadsWhatIsPending) {
  EXPECT_ERRNO(read(fd, &info, sizeof info), EAGAIN);
  kill(getpid(), SIGUSR1);
  EXPECT_EQ(read(fd, &info, sizeof info), static_cast<ssize_t>(sizeof info));
  EXPECT_EQ(info.ssi_signo, static_cast<unsigned>(SIGUSR1));
  EXPECT_EQ(info.ssi_code, SI_USER);
  EXPECT_EQ(info.ssi_pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(info.ssi_uid, getuid());
  sigset_t pending;
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGUSR1));
}

TEST_F(Signalfd, SeveralAtOnce) {
  sigval v{};
  for (int i = 0; i < 3; i++) {
    v.sival_int = i;
    sigqueue(getpid(), SIGRTMIN, v);
  }
  signalfd_siginfo many[5];
  EXPECT_EQ(read(fd, many, sizeof many), static_cast<ssize_t>(3 * sizeof info));
  for (int i = 0; i < 3; i++) EXPECT_EQ(many[i].ssi_int, i);
}

TEST_F(Signalfd, Poll) {
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  raise(SIGUSR1);
  EXPECT_EQ(poll(&p, 1, 0), 1);
  EXPECT_EQ(p.revents, POLLIN);
}

TEST_F(Signalfd, BlocksUntilASignal) {
  ASSERT_OK(fcntl(fd, F_SETFL, 0));
  pid_t parent = getpid();
  pid_t pid = test::spawn([=] {
    test::sleep_ms(30);
    kill(parent, SIGUSR1);
    return 0;
  });
  EXPECT_EQ(read(fd, &info, sizeof info), static_cast<ssize_t>(sizeof info));
  EXPECT_EQ(info.ssi_pid, static_cast<unsigned>(pid));
  test::wait_for(pid);
}

TEST_F(Signalfd, MaskCanBeChanged) {
  sigset_t other;
  sigemptyset(&other);
  sigaddset(&other, SIGRTMIN);
  EXPECT_EQ(signalfd(fd, &other, 0), fd.get());
  raise(SIGUSR1);
  EXPECT_ERRNO(read(fd, &info, sizeof info), EAGAIN);
}

TEST_F(Signalfd, Errors) {
  EXPECT_ERRNO(signalfd(-1, &set, 0x77), EINVAL);
  EXPECT_ERRNO(signalfd(999, &set, 0), EBADF);
  EXPECT_ERRNO(signalfd(0, &set, 0), EINVAL);
  EXPECT_ERRNO(read(fd, &info, 10), EINVAL);
  test::Fd old(syscall(SYS_signalfd, -1, &set, 8));
  EXPECT_GE(old.get(), 0);
  EXPECT_ERRNO(syscall(SYS_signalfd4, -1, &set, 4, 0), EINVAL);
}

}  // namespace
