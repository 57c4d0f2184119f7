// signalfd and signalfd4.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <thread>

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
    for (const int pending : {SIGUSR1, SIGRTMIN}) {  // what is left would end us
      signal(pending, SIG_IGN);
      signal(pending, SIG_DFL);
    }
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

// It has no owner: who asks is told of its own signals.
TEST_F(Signalfd, AChildPollsItsOwnSignals) {
  EXPECT_CHILD_OK([&] {
    pollfd p{fd, POLLIN, 0};
    kill(getppid(), SIGUSR1);
    CHILD_CHECK(poll(&p, 1, 0) == 0);
    CHILD_CHECK(read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
    sigqueue(getpid(), SIGRTMIN, {});
    CHILD_CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    timeval now{};
    CHILD_CHECK(select(fd + 1, &in, nullptr, nullptr, &now) == 1);
    CHILD_CHECK(read(fd, &info, sizeof info) == sizeof info);
    CHILD_CHECK(info.ssi_signo == static_cast<unsigned>(SIGRTMIN));
    return 0;
  });
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 1);
  ASSERT_EQ(read(fd, &info, sizeof info), static_cast<ssize_t>(sizeof info));
  EXPECT_EQ(info.ssi_signo, static_cast<unsigned>(SIGUSR1));
  EXPECT_EQ(poll(&p, 1, 0), 0);
}

// Waiting, too: nobody else's descriptor wakes it.
TEST_F(Signalfd, AChildWaitsForItsOwnSignals) {
  ASSERT_OK(fcntl(fd, F_SETFL, 0));
  for (const bool polls : {true, false}) {
    const pid_t pid = test::spawn([&] {
      pollfd p{fd, POLLIN, 0};
      if (polls && poll(&p, 1, 30'000) != 1) return 1;
      return read(fd, &info, sizeof info) == sizeof info ? 0 : 2;
    });
    test::sleep_ms(20);
    ASSERT_OK(kill(pid, SIGUSR1));
    EXPECT_EQ(test::wait_for(pid), 0);
  }
}

TEST_F(Signalfd, AThreadPollsItsOwnSignals) {
  std::thread([&] {
    raise(SIGUSR1);  // to this thread alone
    pollfd p{fd, POLLIN, 0};
    EXPECT_EQ(poll(&p, 1, 0), 1);
    std::thread([&] {
      pollfd q{fd, POLLIN, 0};
      EXPECT_EQ(poll(&q, 1, 0), 0);
    }).join();
  }).join();
}

// An epoll hears of the signals of the process that added the descriptor, and asks for who waits.
TEST_F(Signalfd, EpollListensToWhoAddedIt) {
  test::Fd epoll(epoll_create1(0));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 5}};
  ASSERT_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
  EXPECT_CHILD_OK([&] {
    epoll_event got{};
    raise(SIGUSR1);
    CHILD_CHECK(epoll_wait(epoll, &got, 1, 0) == 0);  // nobody heard of that
    test::Fd own(epoll_create1(0));
    CHILD_CHECK(epoll_ctl(own, EPOLL_CTL_ADD, fd, &event) == 0);
    CHILD_CHECK(epoll_wait(own, &got, 1, 0) == 1 && got.data.u64 == 5);
    CHILD_CHECK(read(fd, &info, sizeof info) == sizeof info);
    kill(getppid(), SIGUSR1);
    CHILD_CHECK(epoll_wait(epoll, &got, 1, 0) == 0);  // heard of, but not for us
    kill(getppid(), SIGRTMIN);
    raise(SIGUSR1);
    CHILD_CHECK(epoll_wait(epoll, &got, 1, 0) == 1);  // heard of, and there is one for us
    return 0;
  });
  epoll_event got{};
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 1);
}

TEST_F(Signalfd, NestedEpollAsksForWhoWaits) {
  test::Fd inner(epoll_create1(0)), outer(epoll_create1(0));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 5}};
  ASSERT_OK(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event));
  ASSERT_OK(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
  epoll_event got{};
  EXPECT_EQ(epoll_wait(outer, &got, 1, 0), 0);
  raise(SIGUSR1);
  EXPECT_EQ(epoll_wait(outer, &got, 1, 0), 1);
  pollfd p{inner, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 1);
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
