// poll, ppoll, select, pselect6.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "tests/syscalls/test_util.h"

namespace {

class Poll : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_OK(pipe(fds));
    r = test::Fd(fds[0]);
    w = test::Fd(fds[1]);
  }
  test::Fd r, w;
};

TEST_F(Poll, ReadyEnds) {
  pollfd p[] = {{r, POLLIN, 0}, {w, POLLOUT, 0}};
  EXPECT_EQ(poll(p, 2, 0), 1);
  EXPECT_EQ(p[0].revents, 0);
  EXPECT_EQ(p[1].revents, POLLOUT);
  ASSERT_EQ(write(w, "x", 1), 1);
  EXPECT_EQ(poll(p, 2, -1), 2);
  EXPECT_EQ(p[0].revents, POLLIN);
}

TEST_F(Poll, HangUpAndError) {
  pollfd p[] = {{r, POLLIN, 0}, {w, POLLOUT, 0}};
  r.reset();
  p[0].fd = -1;
  EXPECT_EQ(poll(p, 2, 0), 1);
  EXPECT_EQ(p[1].revents, POLLOUT | POLLERR);
  int fds[2];
  ASSERT_OK(pipe(fds));
  close(fds[1]);
  pollfd q{fds[0], POLLIN, 0};
  EXPECT_EQ(poll(&q, 1, 0), 1);
  EXPECT_EQ(q.revents, POLLHUP);
  close(fds[0]);
}

TEST_F(Poll, InvalidDescriptorIsNval) {
  pollfd p{999, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, -1), 1);
  EXPECT_EQ(p.revents, POLLNVAL);
}

TEST_F(Poll, NegativeDescriptorIsSkipped) {
  pollfd p{-5, POLLIN, 0x7f};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  EXPECT_EQ(p.revents, 0);
}

TEST_F(Poll, WritesBackOnlyRevents) {
  // In a page that another thread may change meanwhile, fd and events are the guest's.
  pollfd p{r, POLLIN | 0x4000, 0x1234};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  EXPECT_EQ(p.events, POLLIN | 0x4000);
  EXPECT_EQ(p.fd, r.get());
  EXPECT_EQ(p.revents, 0);
}

TEST_F(Poll, TimeoutPasses) {
  pollfd p{r, POLLIN, 0};
  const int64_t start = test::now_ns();
  EXPECT_EQ(poll(&p, 1, 50), 0);
  const int64_t took = test::now_ns() - start;
  EXPECT_GE(took, 50 * test::kMs);
  EXPECT_LT(took, 2000 * test::kMs);
  EXPECT_EQ(poll(nullptr, 0, 10), 0);
}

TEST_F(Poll, WakesWhenDataArrives) {
  pid_t pid = test::spawn([&] {
    test::sleep_ms(30);
    return write(w, "x", 1) == 1 ? 0 : 1;
  });
  pollfd p{r, POLLIN, 0};
  const int64_t start = test::now_ns();
  EXPECT_EQ(poll(&p, 1, 10'000), 1);
  EXPECT_GE(test::now_ns() - start, 20 * test::kMs);
  EXPECT_LT(test::now_ns() - start, 5'000 * test::kMs);
  EXPECT_EQ(p.revents, POLLIN);
  test::wait_for(pid);
}

TEST_F(Poll, FilesAreAlwaysReady) {
  test::TempDir dir;
  test::Fd fd(open((dir / "f").c_str(), O_RDWR | O_CREAT, 0600));
  pollfd p{fd, POLLIN | POLLOUT | POLLPRI, 0};
  EXPECT_EQ(poll(&p, 1, 0), 1);
  EXPECT_EQ(p.revents, POLLIN | POLLOUT);
}

TEST_F(Poll, InterruptedBySignal) {
  test::ActionGuard guard(SIGALRM);
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;  // poll is never restarted after a handler
  sigaction(SIGALRM, &action, nullptr);
  pid_t parent = getpid();
  pid_t pid = test::spawn([=] {
    test::sleep_ms(30);
    kill(parent, SIGALRM);
    return 0;
  });
  pollfd p{r, POLLIN, 0};
  EXPECT_ERRNO(poll(&p, 1, 10'000), EINTR);
  test::wait_for(pid);
}

TEST_F(Poll, TooManyDescriptors) {
  pollfd p{r, POLLIN, 0};
  EXPECT_ERRNO(syscall(SYS_poll, &p, 0x7fffffff, 0), EINVAL);
  EXPECT_ERRNO(syscall(SYS_poll, test::bad_pointer<pollfd>(), 1, 0), EFAULT);
}

TEST_F(Poll, ThousandDescriptors) {
  std::vector<pollfd> fds(1000, pollfd{w, POLLOUT, 0});
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 1000);
}

TEST_F(Poll, PpollTakesASignalMask) {
  test::ActionGuard guard(SIGUSR1);
  test::MaskGuard mask;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t block, none, now;  // ppoll with `none` lets the pending signal in
  sigemptyset(&block);
  sigemptyset(&none);
  sigaddset(&block, SIGUSR1);
  sigprocmask(SIG_BLOCK, &block, nullptr);
  raise(SIGUSR1);
  pollfd p{r, POLLIN, 0};
  timespec limit{10, 0};
  EXPECT_ERRNO(ppoll(&p, 1, &limit, &none), EINTR);
  sigprocmask(SIG_SETMASK, nullptr, &now);
  EXPECT_TRUE(sigismember(&now, SIGUSR1));
  // With data the call succeeds, whatever is pending and blocked.
  raise(SIGUSR1);
  ASSERT_EQ(write(w, "x", 1), 1);
  EXPECT_EQ(ppoll(&p, 1, &limit, &block), 1);
  EXPECT_EQ(p.revents, POLLIN);
}

TEST_F(Poll, Select) {
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_ZERO(&writable);
  FD_SET(r, &readable);
  FD_SET(w, &writable);
  timeval zero{0, 0};
  EXPECT_EQ(select(w + 1, &readable, &writable, nullptr, &zero), 1);
  EXPECT_FALSE(FD_ISSET(r, &readable));
  EXPECT_TRUE(FD_ISSET(w, &writable));
  ASSERT_EQ(write(w, "x", 1), 1);
  FD_SET(r, &readable);
  EXPECT_EQ(select(w + 1, &readable, &writable, nullptr, nullptr), 2);
  EXPECT_TRUE(FD_ISSET(r, &readable));
}

TEST_F(Poll, SelectTimeoutIsUpdated) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(r, &set);
  timeval limit{0, 40'000};
  const int64_t start = test::now_ns();
  EXPECT_EQ(select(r + 1, &set, nullptr, nullptr, &limit), 0);
  EXPECT_GE(test::now_ns() - start, 40 * test::kMs);
  EXPECT_EQ(limit.tv_sec, 0);
  EXPECT_EQ(limit.tv_usec, 0);
  EXPECT_FALSE(FD_ISSET(r, &set));
  // Linux writes back what is left.
  ASSERT_EQ(write(w, "x", 1), 1);
  FD_SET(r, &set);
  limit = {5, 0};
  EXPECT_EQ(select(r + 1, &set, nullptr, nullptr, &limit), 1);
  EXPECT_EQ(limit.tv_sec, 4);
}

TEST_F(Poll, SelectErrors) {
  fd_set set;
  FD_ZERO(&set);
  const int closed = dup(r);
  close(closed);
  FD_SET(closed, &set);
  timeval zero{0, 0}, bad{-1, 0};
  EXPECT_ERRNO(select(closed + 1, &set, nullptr, nullptr, &zero), EBADF);
  EXPECT_ERRNO(select(-1, nullptr, nullptr, nullptr, &zero), EINVAL);
  EXPECT_ERRNO(select(0, nullptr, nullptr, nullptr, &bad), EINVAL);
}

TEST_F(Poll, Pselect) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(r, &set);
  timespec limit{0, 20 * test::kMs};
  EXPECT_EQ(pselect(r + 1, &set, nullptr, nullptr, &limit, nullptr), 0);
  EXPECT_EQ(limit.tv_nsec, 20 * test::kMs);  // libc hides the kernel's update
  // The raw call is pselect6 and takes mask and size by one pointer.
  ASSERT_EQ(write(w, "x", 1), 1);
  FD_SET(r, &set);
  sigset_t none;
  sigemptyset(&none);
  struct {
    const sigset_t* mask;
    size_t size;
  } data{&none, 8};
  EXPECT_EQ(syscall(SYS_pselect6, r + 1, &set, nullptr, nullptr, &limit, &data), 1);
  data.size = 4;
  EXPECT_ERRNO(syscall(SYS_pselect6, r + 1, &set, nullptr, nullptr, &limit, &data), EINVAL);
}

TEST_F(Poll, SocketPairHangUp) {
  int s[2];
  ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  pollfd p{s[0], POLLIN | POLLRDHUP, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  close(s[1]);
  EXPECT_EQ(poll(&p, 1, 0), 1);
  EXPECT_EQ(p.revents, POLLIN | POLLRDHUP | POLLHUP);
  close(s[0]);
}

TEST(PollMany, MoreFilesThanAreLookedAtInOneGo) {
  rlimit limit;
  ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
  constexpr rlim_t kFiles = 6000;
  if (limit.rlim_max < kFiles + 100) return;
  EXPECT_CHILD_OK([limit] {
    const rlimit more{kFiles + 100, limit.rlim_max};
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &more) == 0);
    int fds[2];
    CHILD_CHECK(pipe(fds) == 0);
    std::vector<pollfd> list(kFiles, pollfd{fds[0], POLLIN, 0});
    const int last = eventfd(0, EFD_NONBLOCK);
    list.push_back({last, POLLIN, 0});
    CHILD_CHECK(poll(list.data(), list.size(), 0) == 0);
    CHILD_CHECK(poll(list.data(), list.size(), 20) == 0);
    const pid_t writer = fork();
    if (writer == 0) {
      test::sleep_ms(50);
      const uint64_t one = 1;
      _exit(write(last, &one, sizeof one) == sizeof one ? 0 : 1);
    }
    CHILD_CHECK(poll(list.data(), list.size(), -1) == 1);
    CHILD_CHECK(list.back().revents == POLLIN && list.front().revents == 0);
    CHILD_CHECK(test::wait_for(writer) == 0);
    CHILD_CHECK(write(fds[1], "x", 1) == 1);
    CHILD_CHECK(poll(list.data(), list.size(), -1) == int{kFiles} + 1);
    return 0;
  });
}

}  // namespace
