// A call that waits keeps the file it began with, whatever becomes of the number; and no call that
// fails leaves descriptors behind.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "test_util.h"

namespace {

using test::Fd;

// A call in a thread of its own; the constructor returns when it sleeps in it.
class Waiting {
 public:
  explicit Waiting(const std::function<int64_t()>& call) {
    thread_ = std::thread([this, call] {
      tid_ = static_cast<pid_t>(syscall(SYS_gettid));
      result_ = call();
      if (result_ < 0) result_ = -errno;
    });
    EXPECT_TRUE(test::eventually([&] {
      if (tid_ == 0) return false;
      const std::string stat = test::read_file("/proc/self/task/" + std::to_string(tid_) + "/stat");
      return stat.find(") S ") != std::string::npos;
    }));
  }
  // Its result, or -errno.
  int64_t result() {
    thread_.join();
    return result_;
  }

 private:
  std::thread thread_;
  std::atomic<pid_t> tid_{0};
  int64_t result_ = 0;
};

int descriptors() {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    for (int fd : ends) close(fd);
  }
  int ends[2];
};

struct Pair {
  explicit Pair(int type = SOCK_STREAM) { EXPECT_EQ(socketpair(AF_UNIX, type, 0, ends), 0); }
  ~Pair() {
    for (int fd : ends) close(fd);
  }
  int ends[2];
};

TEST(CallFile, ReadGoesOnAfterClose) {
  Pipe p;
  const int again = dup(p.ends[0]);
  char text[8]{};
  Waiting read_call([&] { return read(again, text, sizeof text); });
  ASSERT_OK(close(again));
  ASSERT_EQ(write(p.ends[1], "right", 5), 5);
  EXPECT_EQ(read_call.result(), 5);
  EXPECT_STREQ(text, "right");
}

TEST(CallFile, ReadGoesOnAfterDup2) {
  Pipe p, other;
  ASSERT_EQ(write(other.ends[1], "wrong", 5), 5);
  const int again = dup(p.ends[0]);
  char text[8]{};
  Waiting read_call([&] { return read(again, text, sizeof text); });
  ASSERT_EQ(dup2(other.ends[0], again), again);
  ASSERT_EQ(write(p.ends[1], "right", 5), 5);
  EXPECT_EQ(read_call.result(), 5);
  EXPECT_STREQ(text, "right");
  close(again);
}

TEST(CallFile, WriteNeverReachesAnotherFile) {
  test::TempDir dir;
  Pipe p;
  ASSERT_GT(fcntl(p.ends[1], F_SETPIPE_SZ, 4096), 0);
  const int again = dup(p.ends[1]);
  const std::string data(10'000, 'd');
  Waiting write_call([&] { return write(again, data.data(), data.size()); });
  const std::string name = dir / "innocent";
  Fd file(open(name.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(dup2(file.get(), again), again);
  size_t got = 0;
  char buffer[4096];
  while (got < data.size()) {
    const ssize_t n = read(p.ends[0], buffer, sizeof buffer);
    ASSERT_GT(n, 0);
    got += static_cast<size_t>(n);
  }
  EXPECT_EQ(write_call.result(), 10'000);
  EXPECT_EQ(test::size_of(name), 0);
  close(again);
}

TEST(CallFile, SocketsGoOn) {
  Pair p;
  const int again = dup(p.ends[0]);
  char text[8]{};
  Waiting recv_call([&] { return recv(again, text, sizeof text, 0); });
  ASSERT_OK(close(again));
  ASSERT_EQ(send(p.ends[1], "ab", 2, 0), 2);
  EXPECT_EQ(recv_call.result(), 2);

  test::TempDir dir;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", (dir / "s").c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_OK(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address));
  ASSERT_OK(listen(listener, 1));
  Fd held(dup(listener));
  Waiting accept_call([&] { return accept(listener, nullptr, nullptr); });
  ASSERT_OK(close(listener));
  Fd client(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_OK(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address));
  const int64_t got = accept_call.result();
  EXPECT_GE(got, 0);
  close(static_cast<int>(got));
}

TEST(CallFile, OthersGoOn) {
  Fd events(eventfd(0, 0));
  const int again = dup(events);
  uint64_t value = 0;
  Waiting read_call([&] { return read(again, &value, sizeof value); });
  ASSERT_OK(close(again));
  const uint64_t one = 1;
  ASSERT_EQ(write(events, &one, sizeof one), 8);
  EXPECT_EQ(read_call.result(), 8);

  Fd epoll(epoll_create1(0));
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  ASSERT_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, events, &wanted));
  const int same = dup(epoll);
  epoll_event found{};
  Waiting wait_call([&] { return epoll_wait(same, &found, 1, 10'000); });
  ASSERT_OK(close(same));
  ASSERT_EQ(write(events, &one, sizeof one), 8);
  EXPECT_EQ(wait_call.result(), 1);
}

TEST(CallFile, FlockTakesTheLockOfItsFile) {
  test::TempDir dir;
  const std::string name = dir / "lock";
  Fd first(open(name.c_str(), O_RDWR | O_CREAT, 0600));
  Fd second(open(name.c_str(), O_RDWR));
  Fd third(open(name.c_str(), O_RDWR));
  ASSERT_OK(flock(first, LOCK_EX));
  const int again = dup(second);
  Waiting lock_call([&] { return flock(again, LOCK_EX); });
  ASSERT_OK(close(again));
  ASSERT_OK(flock(first, LOCK_UN));
  EXPECT_EQ(lock_call.result(), 0);
  EXPECT_ERRNO(flock(third, LOCK_EX | LOCK_NB), EWOULDBLOCK);
}

// Not its path either.
TEST(CallFile, FifoOpensAfterItsNameIsGone) {
  test::TempDir dir;
  const std::string name = dir / "fifo", moved = dir / "moved";
  ASSERT_OK(mkfifo(name.c_str(), 0600));
  Waiting open_call([&] { return open(name.c_str(), O_RDONLY); });
  ASSERT_OK(rename(name.c_str(), moved.c_str()));
  Fd other(open(name.c_str(), O_CREAT | O_RDWR, 0600));
  Fd writer(open(moved.c_str(), O_WRONLY));
  ASSERT_EQ(write(writer, "x", 1), 1);
  Fd reader(static_cast<int>(open_call.result()));
  char x = 0;
  EXPECT_EQ(read(reader, &x, 1), 1);
  EXPECT_EQ(x, 'x');
}

// The descriptors of a message are those of the time it was sent.
TEST(CallFile, SentDescriptorsAreTakenOnce) {
  Pair p(SOCK_DGRAM);
  const int small = 4096;
  ASSERT_OK(setsockopt(p.ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
  const std::string filler(1000, 'f');
  while (send(p.ends[0], filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
  }
  Pipe sent;
  const int given = dup(sent.ends[0]);
  Waiting send_call([&] {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    iovec data{const_cast<char*>(filler.data()), filler.size()};
    msghdr m{};
    m.msg_iov = &data;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    auto* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &given, sizeof given);
    return sendmsg(p.ends[0], &m, 0);
  });
  ASSERT_OK(close(given));
  bool arrived = false;
  while (!arrived) {
    char buffer[2000];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    iovec data{buffer, sizeof buffer};
    msghdr m{};
    m.msg_iov = &data;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    ASSERT_EQ(recvmsg(p.ends[1], &m, 0), 1000);
    if (const auto* c = CMSG_FIRSTHDR(&m)) {
      int fd;
      memcpy(&fd, CMSG_DATA(c), sizeof fd);
      ASSERT_EQ(write(sent.ends[1], "x", 1), 1);
      char x = 0;
      EXPECT_EQ(read(fd, &x, 1), 1);
      EXPECT_EQ(x, 'x');
      close(fd);
      arrived = true;
    }
  }
  EXPECT_EQ(send_call.result(), 1000);
}

// ---- RWF_APPEND

class Append : public testing::TestWithParam<const char*> {};

TEST_P(Append, EachWriteAtTheEnd) {
  std::optional<test::TempDir> dir;
  int fd;
  if (std::string_view(GetParam()) == "memfd") {
    fd = memfd_create("append", 0);
  } else {
    dir.emplace(GetParam());
    fd = open((*dir / "f").c_str(), O_RDWR | O_CREAT, 0600);
  }
  ASSERT_GE(fd, 0);
  constexpr int kThreads = 4, kRounds = 200, kSize = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::string data(kSize, static_cast<char>('a' + t));
      iovec v{data.data(), data.size()};
      for (int i = 0; i < kRounds; i++)
        EXPECT_EQ(pwritev2(fd, &v, 1, t % 2 ? 0 : -1, RWF_APPEND), kSize);
    });
  }
  for (auto& t : threads) t.join();
  struct stat st{};
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_size, kThreads * kRounds * kSize);
  close(fd);
}

INSTANTIATE_TEST_SUITE_P(On, Append, testing::Values("/tmp", ".", "memfd"), [](const auto& info) {
  const std::string_view p = info.param;
  return p == "/tmp" ? "Tmp" : p == "." ? "Workspace" : "Memfd";
});

TEST(AppendPosition, MovesThePositionOnlyWithoutAnOffset) {
  Fd fd(memfd_create("append", 0));
  ASSERT_EQ(write(fd, "0123456789", 10), 10);
  ASSERT_EQ(lseek(fd, 3, SEEK_SET), 3);
  iovec v{const_cast<char*>("ab"), 2};
  EXPECT_EQ(pwritev2(fd, &v, 1, 0, RWF_APPEND), 2);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 3);
  EXPECT_EQ(pwritev2(fd, &v, 1, -1, RWF_APPEND), 2);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 14);
}

// ---- Descriptors of calls that fail

void* const kBad = reinterpret_cast<void*>(16);

TEST(LostDescriptors, PairsWithoutAPlaceToGo) {
  const int before = descriptors();
  EXPECT_ERRNO(syscall(SYS_pipe2, kBad, 0), EFAULT);
  EXPECT_ERRNO(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, kBad), EFAULT);
  EXPECT_EQ(descriptors(), before);
}

TEST(LostDescriptors, AcceptWithABadAddress) {
  test::TempDir dir;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", (dir / "s").c_str());
  Fd listener(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_OK(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address));
  ASSERT_OK(listen(listener, 4));
  Fd client(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_OK(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address));
  const int before = descriptors();
  socklen_t length = sizeof address;
  EXPECT_ERRNO(accept(listener, static_cast<sockaddr*>(kBad), &length), EFAULT);
  EXPECT_EQ(descriptors(), before);
  char c;
  EXPECT_EQ(recv(client, &c, 1, 0), 0);  // the connection is closed
}

TEST(LostDescriptors, RightsWithoutAPlaceToGo) {
  Pair p;
  Pipe sent;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  char byte = 'x';
  iovec data{&byte, 1};
  msghdr m{};
  m.msg_iov = &data;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  auto* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &sent.ends[0], sizeof(int));
  ASSERT_EQ(sendmsg(p.ends[0], &m, 0), 1);
  const int before = descriptors();
  m.msg_control = kBad;
  byte = 0;
  EXPECT_EQ(recvmsg(p.ends[1], &m, 0), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_TRUE(m.msg_flags & MSG_CTRUNC);
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
