// epoll: level and edge, one-shot, nesting, closing.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/syscalls/test_util.h"

namespace {

class Epoll : public ::testing::Test {
 protected:
  void SetUp() override {
    ep = test::Fd(epoll_create1(EPOLL_CLOEXEC));
    ASSERT_GE(ep.get(), 0);
    int fds[2];
    ASSERT_OK(pipe(fds));
    r = test::Fd(fds[0]);
    w = test::Fd(fds[1]);
  }
  int control(int op, int fd, uint32_t events, uint64_t data = 0) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    return epoll_ctl(ep, op, fd, &event);
  }
  // The number of ready events; the first of them in `event`.
  int wait(int timeout = 0) { return epoll_wait(ep, &event, 1, timeout); }
  epoll_event event{};
  test::Fd ep, r, w;
};

TEST_F(Epoll, LevelTriggered) {
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN, 0x1122334455667788));
  EXPECT_EQ(wait(), 0);
  ASSERT_EQ(write(w, "x", 1), 1);
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(wait(), 1);
    EXPECT_EQ(event.events, uint32_t{EPOLLIN});
    EXPECT_EQ(event.data.u64, 0x1122334455667788u);
  }
  char c;
  ASSERT_EQ(read(r, &c, 1), 1);
  EXPECT_EQ(wait(), 0);
}

TEST_F(Epoll, EdgeTriggered) {
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN | EPOLLET));
  ASSERT_EQ(write(w, "x", 1), 1);
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(wait(), 0);
  ASSERT_EQ(write(w, "y", 1), 1);
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(wait(), 0);
}

TEST_F(Epoll, EdgeIsSeenAtAdd) {
  ASSERT_EQ(write(w, "x", 1), 1);
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN | EPOLLET));
  EXPECT_EQ(wait(), 1);
}

TEST_F(Epoll, OneShotNeedsRearming) {
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN | EPOLLONESHOT));
  ASSERT_EQ(write(w, "x", 1), 1);
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(wait(), 0);
  ASSERT_OK(control(EPOLL_CTL_MOD, r, EPOLLIN | EPOLLONESHOT));
  EXPECT_EQ(wait(), 1);
}

TEST_F(Epoll, ControlErrors) {
  EXPECT_ERRNO(control(EPOLL_CTL_MOD, r, EPOLLIN), ENOENT);
  EXPECT_ERRNO(control(EPOLL_CTL_DEL, r, 0), ENOENT);
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN));
  EXPECT_ERRNO(control(EPOLL_CTL_ADD, r, EPOLLIN), EEXIST);
  EXPECT_ERRNO(control(EPOLL_CTL_ADD, 999, EPOLLIN), EBADF);
  EXPECT_ERRNO(control(EPOLL_CTL_ADD, ep, EPOLLIN), EINVAL);
  EXPECT_ERRNO(control(77, r, EPOLLIN), EINVAL);
  EXPECT_ERRNO(epoll_ctl(r, EPOLL_CTL_ADD, w, &event), EINVAL);
  EXPECT_ERRNO(epoll_ctl(ep, EPOLL_CTL_ADD, w, nullptr), EFAULT);
  test::TempDir dir;
  test::Fd file(open((dir / "f").c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_ERRNO(control(EPOLL_CTL_ADD, file, EPOLLIN), EPERM);
  EXPECT_OK(control(EPOLL_CTL_DEL, r, 0));
}

TEST_F(Epoll, WaitErrors) {
  EXPECT_ERRNO(epoll_wait(ep, &event, 0, 0), EINVAL);
  EXPECT_ERRNO(epoll_wait(ep, &event, -1, 0), EINVAL);
  EXPECT_ERRNO(epoll_wait(999, &event, 1, 0), EBADF);
  EXPECT_ERRNO(epoll_wait(r, &event, 1, 0), EINVAL);
  EXPECT_ERRNO(epoll_create1(0x40), EINVAL);
  EXPECT_ERRNO(epoll_create(0), EINVAL);
  ASSERT_OK(control(EPOLL_CTL_ADD, w, EPOLLOUT));
  EXPECT_ERRNO(epoll_wait(ep, test::bad_pointer<epoll_event>(), 1, 0), EFAULT);
}

TEST_F(Epoll, TimeoutPasses) {
  const int64_t start = test::now_ns();
  EXPECT_EQ(wait(40), 0);
  EXPECT_GE(test::now_ns() - start, 40 * test::kMs);
}

TEST_F(Epoll, WakesAWaiter) {
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN));
  pid_t pid = test::spawn([&] {
    test::sleep_ms(30);
    return write(w, "x", 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(wait(10'000), 1);
  EXPECT_EQ(test::wait_for(pid), 0);
}

TEST_F(Epoll, HangUpIsAlwaysReported) {
  ASSERT_OK(control(EPOLL_CTL_ADD, r, 0));
  w.reset();
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(event.events, uint32_t{EPOLLHUP});
}

TEST_F(Epoll, PipeWithoutReadersIsAnError) {
  ASSERT_OK(control(EPOLL_CTL_ADD, w, EPOLLOUT));
  r.reset();
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(event.events, uint32_t{EPOLLOUT | EPOLLERR});
}

TEST_F(Epoll, ClosingRemoves) {
  ASSERT_EQ(write(w, "x", 1), 1);
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN));
  EXPECT_EQ(wait(), 1);
  const int copy = dup(r);
  r.reset();
  EXPECT_EQ(wait(), 1);  // the description lives on through its copy
  close(copy);
  EXPECT_EQ(wait(), 0);
}

TEST_F(Epoll, SameFileUnderTwoNumbers) {
  const int copy = dup(r);
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN, 1));
  ASSERT_OK(control(EPOLL_CTL_ADD, copy, EPOLLIN, 2));
  ASSERT_EQ(write(w, "x", 1), 1);
  epoll_event events[4];
  EXPECT_EQ(epoll_wait(ep, events, 4, 0), 2);
  close(copy);
}

TEST_F(Epoll, FairAmongMany) {
  // With room for one event, every ready descriptor comes up in turn.
  int efds[4];
  for (int i = 0; i < 4; i++) {
    efds[i] = eventfd(1, 0);
    ASSERT_OK(control(EPOLL_CTL_ADD, efds[i], EPOLLIN, i));
  }
  int seen = 0;
  for (int i = 0; i < 4; i++) {
    ASSERT_EQ(wait(), 1);
    seen |= 1 << event.data.u64;
  }
  EXPECT_EQ(seen, 15);
  for (int fd : efds) close(fd);
}

TEST_F(Epoll, Nested) {
  test::Fd outer(epoll_create1(0));
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = 5;
  ASSERT_OK(epoll_ctl(outer, EPOLL_CTL_ADD, ep, &e));
  ASSERT_OK(control(EPOLL_CTL_ADD, r, EPOLLIN));
  EXPECT_EQ(epoll_wait(outer, &e, 1, 0), 0);
  ASSERT_EQ(write(w, "x", 1), 1);
  EXPECT_EQ(epoll_wait(outer, &e, 1, 0), 1);
  EXPECT_EQ(e.data.u64, 5u);
  // A loop is refused.
  e.events = EPOLLIN;
  EXPECT_ERRNO(epoll_ctl(ep, EPOLL_CTL_ADD, outer, &e), ELOOP);
}

TEST_F(Epoll, PwaitTakesAMask) {
  test::ActionGuard guard(SIGUSR1);
  test::MaskGuard mask;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t block, none;
  sigemptyset(&none);
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  sigprocmask(SIG_BLOCK, &block, nullptr);
  raise(SIGUSR1);
  EXPECT_EQ(epoll_wait(ep, &event, 1, 0), 0);
  EXPECT_ERRNO(epoll_pwait(ep, &event, 1, 1000, &none), EINTR);
}

TEST_F(Epoll, Pwait2HasNanoseconds) {
  timespec limit{0, 20 * test::kMs};
  const int64_t start = test::now_ns();
  EXPECT_EQ(syscall(SYS_epoll_pwait2, ep.get(), &event, 1, &limit, nullptr, 8), 0);
  EXPECT_GE(test::now_ns() - start, 20 * test::kMs);
}

TEST_F(Epoll, ReadHangUpOfASocket) {
  int s[2];
  ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  ASSERT_OK(control(EPOLL_CTL_ADD, s[0], EPOLLRDHUP));
  EXPECT_EQ(wait(), 0);
  shutdown(s[1], SHUT_WR);
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(event.events, uint32_t{EPOLLRDHUP});
  close(s[0]);
  close(s[1]);
}

// What could not be handed over is there at the next call.
TEST_F(Epoll, BadBufferLosesNoEvents) {
  void* gone = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_OK(munmap(gone, 4096));
  for (const uint32_t once : {uint32_t{EPOLLET}, uint32_t{EPOLLONESHOT}}) {
    ASSERT_OK(control(EPOLL_CTL_ADD, w, EPOLLOUT | once));
    EXPECT_ERRNO(epoll_wait(ep, static_cast<epoll_event*>(gone), 1, 0), EFAULT);
    EXPECT_EQ(wait(), 1);
    EXPECT_EQ(event.events, uint32_t{EPOLLOUT});
    EXPECT_EQ(wait(), 0);
    ASSERT_OK(control(EPOLL_CTL_DEL, w, 0));
  }
}

// path_limits in fs/eventpoll.c: 500 paths of two epolls may lead to one file.
TEST_F(Epoll, NoMorePathsThanLinuxHas) {
  const test::Fd event_fd(eventfd(0, 0));
  std::vector<test::Fd> middle;
  int added = 0;
  for (int i = 0; i < 505; i++) {
    middle.emplace_back(epoll_create1(EPOLL_CLOEXEC));
    epoll_event in{};
    in.events = EPOLLIN;
    ASSERT_OK(epoll_ctl(middle.back(), EPOLL_CTL_ADD, event_fd, &in));
    if (control(EPOLL_CTL_ADD, middle.back(), EPOLLIN) == 0) {
      added++;
    } else {
      EXPECT_EQ(errno, EINVAL);
    }
  }
  EXPECT_EQ(added, 500);
  const uint64_t one = 1;
  ASSERT_EQ(write(event_fd, &one, sizeof one), ssize_t{sizeof one});
  EXPECT_EQ(wait(), 1);
}

TEST_F(Epoll, NoMoreLevelsThanLinuxHas) {
  std::vector<test::Fd> chain;
  chain.push_back(std::move(ep));
  ep = test::Fd(epoll_create1(EPOLL_CLOEXEC));
  int levels = 1;
  for (; levels < 10; levels++) {
    if (control(EPOLL_CTL_ADD, chain.back(), EPOLLIN) != 0) break;
    chain.push_back(std::move(ep));
    ep = test::Fd(epoll_create1(EPOLL_CLOEXEC));
  }
  EXPECT_EQ(errno, ELOOP);
  EXPECT_EQ(levels, 5);  // EP_MAX_NESTS above the first
}

}  // namespace
