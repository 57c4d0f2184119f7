// Passed-through host files: readiness by the event loop, never O_NONBLOCK on the host's
// description.
#include "sentry/fs/host/host_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "sentry/task/kernel_lock.h"
#include "tests/unit/ipc/fixture.h"

namespace uks {
namespace {

class WakeCounter final : public Waiter {
 public:
  void on_wake(uint32_t events) override { seen |= events; }
  std::atomic<uint32_t> seen{0};
};

struct HostFiles : testing::Test {
  OneTask one;
  EventLoop loop{one.kernel};
  std::thread thread;

  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    ASSERT_TRUE(loop.init());
    thread = std::thread([this] { loop.run(); });
    kernel_lock.lock();
  }
  void TearDown() override {
    kernel_lock.unlock();
    loop.stop();
    thread.join();
  }
  std::string read(HostFile& file, size_t n) {
    std::string text(n, '\0');
    BufferSink sink{std::span<char>(text)};
    auto done = file.read(*one.task, sink);
    if (!done) return "error " + std::to_string(done.error().value);
    text.resize(*done);
    return text;
  }
  Result<size_t> write(HostFile& file, const std::string& text) {
    BufferSource source{std::span<const char>(text)};
    return file.write(*one.task, source);
  }
};

TEST_F(HostFiles, PipesAreAskedBeforeTheyAreRead) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  auto file = *make_host_file(loop, UniqueFd(fds[0]), "", {});
  EXPECT_EQ(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(file->anonymous_name().starts_with("pipe:["));
  EXPECT_EQ(read(*file, 10), "error " + std::to_string(EAGAIN));
  WakeCounter waiter;
  file->wait_queue()->add(waiter, EPOLLIN);
  ASSERT_EQ(::write(fds[1], "hello", 5), 5);
  for (int i = 0; i < 2000 && !(waiter.seen & EPOLLIN); i++) {
    Unlocked unlocked;
    usleep(1000);
  }
  EXPECT_TRUE(waiter.seen & EPOLLIN);
  EXPECT_EQ(read(*file, 3), "hel");
  EXPECT_EQ(read(*file, 10), "lo");
  close(fds[1]);
  EXPECT_TRUE(file->poll_events() & EPOLLHUP);
  EXPECT_EQ(read(*file, 10), "");
}

TEST_F(HostFiles, FullPipesDoNotBlockWriters) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  auto file = *make_host_file(loop, UniqueFd(fds[1]), "", {});
  size_t total = 0;
  for (;;) {
    auto n = write(*file, std::string(10'000, 'x'));
    if (!n) {
      EXPECT_EQ(n.error(), EAGAIN);
      break;
    }
    total += *n;
    ASSERT_LE(total, size_t{1} << 20);
  }
  EXPECT_GE(total, 60'000u);
  EXPECT_FALSE(file->poll_events() & EPOLLOUT);
  close(fds[0]);
}

TEST_F(HostFiles, RegularFilesAreAlwaysReadyAndSeek) {
  char name[] = "/tmp/uks-host-file-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  unlink(name);
  auto file = *make_host_file(loop, UniqueFd(fd), "/a/name", {});
  EXPECT_EQ(file->wait_queue(), nullptr);
  EXPECT_EQ(*write(*file, "0123456789"), 10u);
  EXPECT_EQ(*file->seek(*one.task, 4, SEEK_SET), 4);
  EXPECT_EQ(read(*file, 3), "456");
  EXPECT_EQ(*file->seek(*one.task, 0, SEEK_CUR), 7);
  EXPECT_EQ(file->inode()->type(), uint32_t{S_IFREG});
  EXPECT_EQ(open_host_stream(Ref<HostStream>(&file->stream()), Path{}, O_RDONLY)->get()->seekable(),
            true);
}

TEST_F(HostFiles, DescriptorsOfOneTerminalShareIt) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0) GTEST_SKIP() << "no pseudo terminals here";
  grantpt(master);
  unlockpt(master);
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(slave, 0);
  auto first = *make_host_file(loop, UniqueFd(slave), "/dev/pts/1", {});
  auto second = *make_host_file(loop, UniqueFd(dup(slave)), "/dev/pts/1", {first});
  EXPECT_EQ(first->kind(), FileKind::kTerminal);
  EXPECT_EQ(first->stream().terminal, second->stream().terminal);
  one.group->session = make_ref<Session>(1);
  one.group->pgid = 1;
  adopt_terminal(*one.group, *first);
  EXPECT_EQ(one.group->session->foreground_pgid, 1);
  EXPECT_EQ(controlling_terminal_device(*one.group), first->stream().terminal->device());
  EXPECT_EQ(*write(*first, "out\n"), 4u);
  EXPECT_EQ(read(*first, 10), "error " + std::to_string(EAGAIN));
  ASSERT_EQ(::write(master, "line\n", 5), 5);
  EXPECT_EQ(read(*first, 10), "line\n");
  leave_terminal(*one.group);  // as at the leader's end: terminal and stream hold each other
  EXPECT_EQ(controlling_terminal_device(*one.group), 0u);
  close(master);
}

}  // namespace
}  // namespace uks
