// What a call does when the guest's memory is not as it should be: Linux's answer, and nothing lost
// that was not delivered. The kernel takes from a file only what it can hand over.
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <set>
#include <string>

#include "test_util.h"

namespace {

using test::Fd;

constexpr size_t kPage = 4096;

// Writable memory with nothing behind it.
class Area {
 public:
  explicit Area(size_t pages = 24) : size_(pages * kPage) {
    begin_ = static_cast<char*>(
        mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(begin_ + size_, kPage);
  }
  ~Area() { munmap(begin_, size_); }
  char* begin() const { return begin_; }
  char* end() const { return begin_ + size_; }  // also an address that is not there

 private:
  size_t size_;
  char* begin_;
};

// Memory with other rights.
class Guarded {
 public:
  explicit Guarded(int prot, size_t size = 40 * kPage) : size_(size) {
    begin_ = static_cast<char*>(mmap(nullptr, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Guarded() { munmap(begin_, size_); }
  char* begin() const { return begin_; }
  bool unchanged() const {
    return std::all_of(begin_, begin_ + size_, [](char c) { return c == 0; });
  }

 private:
  size_t size_;
  char* begin_;
};

std::string pattern(size_t n) {
  std::string s(n, '\0');
  for (size_t i = 0; i < n; i++) s[i] = static_cast<char>(i * 7 + i / 251 + 1);
  return s;
}

// All that a stream has now.
std::string drain(int fd) {
  std::string all;
  char piece[16384];
  EXPECT_OK(fcntl(fd, F_SETFL, O_NONBLOCK));
  for (;;) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n <= 0) return all;
    all.append(piece, static_cast<size_t>(n));
  }
}

void fill(int fd, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t n = write(fd, data.data() + done, data.size() - done);
    ASSERT_GT(n, 0) << strerror(errno);
    done += static_cast<size_t>(n);
  }
}

struct Ends {
  Fd reader, writer;
};

Ends make_pipe() {
  int p[2];
  EXPECT_OK(pipe(p));
  EXPECT_OK(fcntl(p[1], F_SETPIPE_SZ, 1 << 20));
  return {Fd(p[0]), Fd(p[1])};
}

Ends make_pair(int type) {
  int p[2];
  EXPECT_OK(socketpair(AF_UNIX, type, 0, p));
  const int size = 1 << 20;
  EXPECT_OK(setsockopt(p[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
  return {Fd(p[0]), Fd(p[1])};
}

Ends make_inet(int type) {
  Fd first(socket(AF_INET, type, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof a;
  EXPECT_OK(bind(first, reinterpret_cast<sockaddr*>(&a), sizeof a));
  EXPECT_OK(getsockname(first, reinterpret_cast<sockaddr*>(&a), &length));
  if (type == SOCK_STREAM) EXPECT_OK(listen(first, 1));
  Fd second(socket(AF_INET, type, 0));
  EXPECT_OK(connect(second, reinterpret_cast<sockaddr*>(&a), sizeof a));
  if (type == SOCK_STREAM) return {Fd(accept(first, nullptr, nullptr)), std::move(second)};
  return {std::move(first), std::move(second)};
}

ssize_t receive(int fd, std::vector<iovec> parts, int flags) {
  msghdr m{};
  m.msg_iov = parts.data();
  m.msg_iovlen = parts.size();
  return recvmsg(fd, &m, flags);
}

// ---- Pipes

TEST(Faults, PipeKeepsWhatDidNotArrive) {
  const Area area;
  const std::string data = pattern(9000);
  const Ends p = make_pipe();
  fill(p.writer, data);
  EXPECT_ERRNO(read(p.reader, area.end(), 100), EFAULT);
  EXPECT_ERRNO(read(p.reader, area.end() - 10, 20), EFAULT);
  EXPECT_ERRNO(read(p.reader, nullptr, 20), EFAULT);
  iovec parts[2] = {{area.end(), 10}, {area.begin(), 10}};
  EXPECT_ERRNO(readv(p.reader, parts, 2), EFAULT);
  parts[0] = {area.begin(), 10};
  parts[1] = {area.end(), 10};
  EXPECT_ERRNO(readv(p.reader, parts, 2), EFAULT);
  // A page is what it takes or leaves.
  EXPECT_EQ(read(p.reader, area.end() - kPage, 2 * kPage), static_cast<ssize_t>(kPage));
  EXPECT_EQ(std::string(area.end() - kPage, kPage), data.substr(0, kPage));
  EXPECT_EQ(drain(p.reader), data.substr(kPage));
}

TEST(Faults, PipeKeepsTheEndOfALargeRead) {
  const Area area;
  const std::string data = pattern(90000);
  const Ends p = make_pipe();
  fill(p.writer, data);
  EXPECT_ERRNO(read(p.reader, area.end(), 80000), EFAULT);
  const ssize_t n = read(p.reader, area.end() - 70000, 80000);
  ASSERT_TRUE(n == 69632 || n == 70000) << n;  // whole pages on Linux
  const auto got = static_cast<size_t>(n);
  EXPECT_EQ(std::string(area.end() - 70000, got), data.substr(0, got));
  EXPECT_EQ(drain(p.reader), data.substr(got));
}

TEST(Faults, PipeGetsNoPartOfAPage) {
  const Area area;
  const std::string data = pattern(2 * kPage);
  memcpy(area.end() - kPage, data.data(), kPage);
  const Ends p = make_pipe();
  EXPECT_ERRNO(write(p.writer, area.end(), 1), EFAULT);
  EXPECT_ERRNO(write(p.writer, area.end() - 10, 20), EFAULT);
  iovec parts[2] = {{area.begin(), 10}, {area.end(), 10}};
  EXPECT_ERRNO(writev(p.writer, parts, 2), EFAULT);
  EXPECT_EQ(write(p.writer, area.end() - kPage, 2 * kPage), static_cast<ssize_t>(kPage));
  EXPECT_EQ(drain(p.reader), data.substr(0, kPage));
}

TEST(Faults, PipeOfPacketsKeepsThePacket) {
  const Area area;
  int p[2];
  ASSERT_OK(pipe2(p, O_DIRECT));
  const Fd reader(p[0]), writer(p[1]);
  ASSERT_EQ(write(writer, "first", 5), 5);
  ASSERT_EQ(write(writer, "second", 6), 6);
  EXPECT_ERRNO(read(reader, area.end() - 2, 20), EFAULT);
  char buffer[20];
  EXPECT_EQ(read(reader, buffer, sizeof buffer), 5);
  EXPECT_EQ(read(reader, buffer, sizeof buffer), 6);
}

TEST(Faults, SpliceToMemoryKeepsWhatDidNotArrive) {
  const Area area;
  const Ends p = make_pipe();
  fill(p.writer, "0123456789abcdefghij");
  iovec parts[2] = {{area.begin(), 10}, {area.end(), 10}};
  EXPECT_ERRNO(vmsplice(p.reader, parts, 2, 0), EFAULT);
  EXPECT_EQ(drain(p.reader), "0123456789abcdefghij");
}

// ---- Stream sockets

void stream_keeps_what_did_not_arrive(const Ends& s) {
  const Area area;
  const std::string data = pattern(90000);
  fill(s.writer, data);
  EXPECT_ERRNO(read(s.reader, area.end(), 100), EFAULT);
  EXPECT_ERRNO(recv(s.reader, area.end() - 10, 20, 0), EFAULT);
  EXPECT_ERRNO(recv(s.reader, area.end(), 80000, 0), EFAULT);
  EXPECT_ERRNO(recv(s.reader, area.end(), 80000, MSG_PEEK), EFAULT);
  EXPECT_ERRNO(recv(s.reader, area.end(), 80000, MSG_WAITALL), EFAULT);
  EXPECT_ERRNO(receive(s.reader, {{area.end(), 10}, {area.begin(), 10}}, 0), EFAULT);
  EXPECT_ERRNO(receive(s.reader, {{area.begin(), 10}, {area.end(), 10}}, 0), EFAULT);
  // How much of this arrives depends on the packets that Linux made of it.
  const ssize_t n = read(s.reader, area.end() - 70000, 80000);
  ASSERT_GT(n, 0);
  ASSERT_LE(n, 70000);
  const auto got = static_cast<size_t>(n);
  EXPECT_EQ(std::string(area.end() - 70000, got), data.substr(0, got));
  std::string rest = drain(s.reader);
  EXPECT_TRUE(test::eventually([&] {
    rest += drain(s.reader);
    return got + rest.size() >= data.size();
  }));
  EXPECT_EQ(rest, data.substr(got));
}

TEST(Faults, UnixStreamKeepsWhatDidNotArrive) {
  stream_keeps_what_did_not_arrive(make_pair(SOCK_STREAM));
}
TEST(Faults, TcpStreamKeepsWhatDidNotArrive) {
  stream_keeps_what_did_not_arrive(make_inet(SOCK_STREAM));
}

TEST(Faults, StreamGetsNoPartOfAPacket) {
  const Area area;
  for (const Ends& s : {make_pair(SOCK_STREAM), make_inet(SOCK_STREAM)}) {
    EXPECT_ERRNO(send(s.writer, area.end(), 1, 0), EFAULT);
    EXPECT_ERRNO(send(s.writer, area.end() - 10, 20, 0), EFAULT);
    EXPECT_EQ(drain(s.reader), "");
  }
}

// ---- Messages

void message_is_whole_or_lost(const Ends& s) {
  const Area area;
  for (const size_t size : {size_t{20}, size_t{2 * kPage}}) {
    const std::string data = pattern(size);
    ASSERT_EQ(send(s.writer, data.data(), size, 0), static_cast<ssize_t>(size));
    ASSERT_EQ(send(s.writer, "second", 6, 0), 6);
    EXPECT_ERRNO(recv(s.reader, area.end() - size / 2, size, MSG_PEEK), EFAULT);
    EXPECT_EQ(recv(s.reader, area.begin(), size, MSG_PEEK), static_cast<ssize_t>(size));
    EXPECT_ERRNO(recv(s.reader, area.end() - size / 2, size, 0), EFAULT);
    EXPECT_EQ(recv(s.reader, area.begin(), size, 0), 6);
    ASSERT_EQ(send(s.writer, data.data(), size, 0), static_cast<ssize_t>(size));
    ASSERT_EQ(send(s.writer, "second", 6, 0), 6);
    EXPECT_ERRNO(receive(s.reader, {{area.begin(), 10}, {area.end(), size}}, 0), EFAULT);
    EXPECT_EQ(recv(s.reader, area.begin(), size, 0), 6);
    // Nothing is sent that is not whole.
    EXPECT_ERRNO(send(s.writer, area.end() - size / 2, size, 0), EFAULT);
    EXPECT_ERRNO(recv(s.reader, area.begin(), size, MSG_DONTWAIT), EAGAIN);
  }
}

TEST(Faults, DatagramIsWholeOrLost) { message_is_whole_or_lost(make_pair(SOCK_DGRAM)); }
TEST(Faults, UnixPacketIsWholeOrLost) { message_is_whole_or_lost(make_pair(SOCK_SEQPACKET)); }
TEST(Faults, UdpDatagramIsWholeOrLost) { message_is_whole_or_lost(make_inet(SOCK_DGRAM)); }

TEST(Faults, LargeDatagramIsWholeOrLost) {
  const Area area;
  const Ends s = make_pair(SOCK_DGRAM);
  const std::string data = pattern(90000);
  ASSERT_EQ(send(s.writer, data.data(), data.size(), 0), 90000);
  ASSERT_EQ(send(s.writer, "second", 6, 0), 6);
  EXPECT_ERRNO(recv(s.reader, area.end() - 70000, 90000, 0), EFAULT);
  EXPECT_EQ(recv(s.reader, area.begin(), 100, 0), 6);
}

// ---- Files

class FileFaults : public test::FileTest {};

void positions_follow_what_arrived(int fd, const std::string& data) {
  const Area area;
  const auto pos = [&] { return lseek(fd, 0, SEEK_CUR); };
  const auto again = [&] { EXPECT_OK(lseek(fd, 0, SEEK_SET)); };
  const auto got = [&](const char* at, size_t n, size_t from) {
    EXPECT_EQ(std::string(at, n), data.substr(from, n));
  };
  again();
  EXPECT_ERRNO(read(fd, area.end(), 100), EFAULT);
  EXPECT_EQ(pos(), 0);
  EXPECT_ERRNO(read(fd, area.end(), 80000), EFAULT);
  EXPECT_EQ(pos(), 0);
  EXPECT_EQ(read(fd, area.end() - 10, 20), 10);
  EXPECT_EQ(pos(), 10);
  got(area.end() - 10, 10, 0);
  EXPECT_EQ(pread(fd, area.end() - 10, 20, 100), 10);
  EXPECT_EQ(pos(), 10);
  got(area.end() - 10, 10, 100);
  again();
  EXPECT_EQ(read(fd, area.end() - 70000, 80000), 70000);
  EXPECT_EQ(pos(), 70000);
  got(area.end() - 70000, 70000, 0);
  again();
  iovec parts[3] = {{area.end(), 10}, {area.begin(), 80000}, {area.begin(), 1}};
  EXPECT_ERRNO(readv(fd, parts, 2), EFAULT);
  EXPECT_EQ(pos(), 0);
  memset(area.begin(), 'x', 100);
  parts[0] = {area.end() - 50, 100};
  EXPECT_EQ(readv(fd, parts, 2), 50);
  EXPECT_EQ(pos(), 50);
  EXPECT_EQ(area.begin()[0], 'x');
  again();
  parts[0] = {area.begin(), 80000};
  parts[1] = {area.end(), 100};
  EXPECT_EQ(readv(fd, parts, 2), 80000);
  EXPECT_EQ(pos(), 80000);
  got(area.begin(), 80000, 0);
  again();
  parts[1] = {area.end() - 50, 100};
  EXPECT_EQ(readv(fd, parts, 2), 80050);
  EXPECT_EQ(pos(), 80050);
  got(area.end() - 50, 50, 80000);
  EXPECT_EQ(preadv(fd, parts, 2, 0), 80050);
  // Many small buffers, more than the stub has orders for.
  std::vector<iovec> many;
  for (size_t i = 0; i < 100; i++) many.push_back({area.begin() + 20 * i, 7});
  many.push_back({area.end() - 3, 7});
  many.push_back({area.begin(), 7});
  again();
  EXPECT_EQ(readv(fd, many.data(), static_cast<int>(many.size())), 703);
  EXPECT_EQ(pos(), 703);
  for (size_t i = 0; i < 100; i++) got(area.begin() + 20 * i, 7, 7 * i);
  got(area.end() - 3, 3, 700);
}

TEST_P(FileFaults, PositionsFollowWhatArrived) {
  const std::string data = pattern(90000);
  test::write_file(path("f"), data);
  const Fd fd(open(path("f").c_str(), O_RDONLY));
  positions_follow_what_arrived(fd, data);
}
ALL_FILE_SYSTEMS(FileFaults);

TEST(Faults, MemfdPositionsFollowWhatArrived) {
  const std::string data = pattern(90000);
  const Fd fd(memfd_create("faults", 0));
  fill(fd, data);
  positions_follow_what_arrived(fd, data);
}

TEST(Faults, ProcFilePositionsFollowWhatArrived) {
  const Area area;
  const Fd fd(open("/proc/version", O_RDONLY));
  ASSERT_OK(fd.get());
  EXPECT_ERRNO(read(fd, area.end(), 100), EFAULT);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0);
  EXPECT_EQ(read(fd, area.end() - 10, 20), 10);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 10);
  EXPECT_EQ(std::string(area.end() - 10, 10), "Linux vers");
}

TEST_P(FileFaults, DirectoryEntriesAreNotLost) {
  std::set<std::string> names;
  for (int i = 0; i < 300; i++) {
    const std::string name = "a_file_with_a_name_" + std::to_string(i);
    test::write_file(path(name), "");
    names.insert(name);
  }
  const Area area;
  const Fd fd(open(dir.path().c_str(), O_RDONLY | O_DIRECTORY));
  std::set<std::string> seen;
  const auto take = [&](const char* at, long n) {
    for (long done = 0; done < n;) {
      uint16_t length;
      memcpy(&length, at + done + 16, sizeof length);
      ASSERT_LE(done + length, n);
      const std::string name = at + done + 19;
      if (name[0] != '.') EXPECT_TRUE(seen.insert(name).second) << name;
      done += length;
    }
  };
  EXPECT_ERRNO(syscall(SYS_getdents64, fd.get(), area.end(), 32768), EFAULT);
  EXPECT_ERRNO(syscall(SYS_getdents64, fd.get(), area.end() - 5, 32768), EFAULT);
  EXPECT_ERRNO(syscall(SYS_getdents64, fd.get(), area.begin(), 5), EINVAL);
  long n = syscall(SYS_getdents64, fd.get(), area.end() - 5000, 32768);
  EXPECT_GT(n, 4000);
  EXPECT_LE(n, 5000);
  take(area.end() - 5000, n);
  while ((n = syscall(SYS_getdents64, fd.get(), area.begin(), 4096)) > 0) take(area.begin(), n);
  EXPECT_EQ(n, 0);
  EXPECT_EQ(seen, names);
}

// ---- What is whole or not at all

TEST(Faults, EventfdIsWhole) {
  const Area area;
  const Fd fd(eventfd(5, EFD_NONBLOCK));
  EXPECT_ERRNO(read(fd, area.end() - 4, 8), EFAULT);
  EXPECT_ERRNO(read(fd, area.begin(), 8), EAGAIN);  // it is gone
  uint64_t one = 1;
  auto* half = reinterpret_cast<char*>(&one);
  iovec parts[2] = {{half, 4}, {half + 4, 4}};
  EXPECT_ERRNO(writev(fd, parts, 2), EINVAL);
  EXPECT_EQ(write(fd, &one, sizeof one), 8);
  one = 0;
  EXPECT_EQ(readv(fd, parts, 2), 8);
  EXPECT_EQ(one, 1u);
  EXPECT_ERRNO(write(fd, area.end() - 4, 8), EFAULT);
}

TEST(Faults, ResultsAreWhole) {
  const Area area;
  char* const end = area.end();
  EXPECT_ERRNO(readlink("/proc/self/exe", end - 3, 100), EFAULT);
  EXPECT_ERRNO(syscall(SYS_getcwd, end - 1, 100), EFAULT);
  EXPECT_ERRNO(syscall(SYS_sched_getaffinity, 0, 128, end - 4), EFAULT);
  EXPECT_ERRNO(syscall(SYS_uname, end - 100), EFAULT);
  struct stat st;
  EXPECT_ERRNO(stat("/", reinterpret_cast<struct stat*>(end - 100)), EFAULT);
  EXPECT_EQ(stat("/", &st), 0);
}

TEST(Faults, StatusOfAChildThatCannotBeToldIsEfault) {
  const Area area;
  const pid_t first = test::spawn([] { return 0; });
  EXPECT_ERRNO(wait4(first, reinterpret_cast<int*>(area.end()), 0, nullptr), EFAULT);
  const pid_t second = test::spawn([] { return 0; });
  EXPECT_ERRNO(wait4(second, reinterpret_cast<int*>(area.end() - 2), 0, nullptr), EFAULT);
  // Reaped all the same.
  EXPECT_ERRNO(wait4(-1, nullptr, 0, nullptr), ECHILD);
}

TEST(Faults, AcceptWithReadOnlyLengthIsEfault) {
  const Fd listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof a;
  ASSERT_OK(bind(listener, reinterpret_cast<sockaddr*>(&a), sizeof a));
  ASSERT_OK(listen(listener, 1));
  ASSERT_OK(getsockname(listener, reinterpret_cast<sockaddr*>(&a), &length));
  const Fd client(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_OK(connect(client, reinterpret_cast<sockaddr*>(&a), sizeof a));
  const Guarded fixed(PROT_READ);
  char name[128];
  EXPECT_ERRNO(accept(listener, reinterpret_cast<sockaddr*>(name),
                      reinterpret_cast<socklen_t*>(fixed.begin())),
               EFAULT);
}

TEST(Faults, NoDescriptorsAreMadeThatCannotBeTold) {
  const Area area;
  const auto next = [] {
    const Fd fd(dup(0));
    return fd.get();
  };
  const int before = next();
  for (char* at : {area.end(), area.end() - 4}) {
    EXPECT_ERRNO(syscall(SYS_pipe2, at, 0), EFAULT);
    EXPECT_ERRNO(syscall(SYS_pipe, at), EFAULT);
    EXPECT_ERRNO(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, at), EFAULT);
  }
  EXPECT_EQ(next(), before);
}

TEST(Faults, EventsThatCannotBeToldStay) {
  const Area area;
  const Fd epoll(epoll_create1(0));
  std::vector<Fd> fds;
  for (int i = 0; i < 4; i++) {
    fds.emplace_back(eventfd(1, 0));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    ASSERT_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds.back(), &event));
  }
  auto* const end = reinterpret_cast<epoll_event*>(area.end());
  auto* const begin = reinterpret_cast<epoll_event*>(area.begin());
  EXPECT_ERRNO(epoll_wait(epoll, end, 4, 0), EFAULT);
  EXPECT_EQ(epoll_wait(epoll, end - 2, 4, 0), 2);
  EXPECT_EQ(epoll_wait(epoll, begin, 4, 0), 2);
  EXPECT_EQ(epoll_wait(epoll, end, 4, 0), 0);
}

TEST(Faults, RandomBytesUpToTheEnd) {
  const Area area;
  EXPECT_EQ(getrandom(area.end() - 70000, 80000, 0), 70000);
  EXPECT_EQ(getrandom(area.end() - 10, 20, 0), 10);
  EXPECT_ERRNO(getrandom(area.end(), 20, 0), EFAULT);
  EXPECT_ERRNO(getrandom(area.end(), 100000, 0), EFAULT);
  EXPECT_EQ(getrandom(area.begin(), 0, 0), 0);
}

TEST(Faults, TerminalGetsNoPartOfAWrite) {
  const Area area;
  int master, slave;
  ASSERT_OK(openpty(&master, &slave, nullptr, nullptr, nullptr));
  const Fd m(master), s(slave);
  ASSERT_OK(fcntl(m, F_SETFL, O_NONBLOCK));
  EXPECT_ERRNO(write(s, area.end() - 2, 5), EFAULT);
  char c;
  EXPECT_ERRNO(read(m, &c, 1), EAGAIN);
}

// ---- Protection

TEST(Faults, MemoryThatCannotBeRead) {
  const Guarded none(PROT_NONE);
  const Ends p = make_pipe();
  EXPECT_ERRNO(write(p.writer, none.begin(), 1), EFAULT);
  EXPECT_ERRNO(write(p.writer, none.begin(), 2 * kPage), EFAULT);
  EXPECT_ERRNO(write(p.writer, none.begin(), 100000), EFAULT);
  iovec part{none.begin(), 10};
  EXPECT_ERRNO(writev(p.writer, &part, 1), EFAULT);
  EXPECT_ERRNO(writev(p.writer, reinterpret_cast<iovec*>(none.begin()), 1), EFAULT);
  EXPECT_EQ(drain(p.reader), "");
  EXPECT_ERRNO(open(none.begin(), O_RDONLY), EFAULT);
  EXPECT_ERRNO(poll(reinterpret_cast<pollfd*>(none.begin()), 1, 0), EFAULT);
  const Ends s = make_pair(SOCK_DGRAM);
  EXPECT_ERRNO(send(s.writer, none.begin(), 10, 0), EFAULT);
  EXPECT_ERRNO(send(s.writer, none.begin(), 50000, 0), EFAULT);
  const timespec soon{0, 1000};
  EXPECT_ERRNO(syscall(SYS_futex, none.begin(), FUTEX_WAIT_PRIVATE, 0, &soon, 0, 0), EFAULT);
}

TEST(Faults, MemoryThatCannotBeWritten) {
  const Guarded fixed(PROT_READ);
  const Fd zero(open("/dev/urandom", O_RDONLY));
  EXPECT_ERRNO(read(zero, fixed.begin(), 1), EFAULT);
  EXPECT_ERRNO(read(zero, fixed.begin(), 100000), EFAULT);
  EXPECT_ERRNO(getrandom(fixed.begin(), 100000, 0), EFAULT);
  const Ends s = make_pair(SOCK_DGRAM);
  const std::string data = pattern(90000);
  ASSERT_EQ(send(s.writer, data.data(), data.size(), 0), 90000);
  EXPECT_ERRNO(recv(s.reader, fixed.begin(), 90000, 0), EFAULT);
  const Ends p = make_pipe();
  fill(p.writer, data);
  EXPECT_ERRNO(read(p.reader, fixed.begin(), 90000), EFAULT);
  EXPECT_EQ(drain(p.reader), data);
  EXPECT_ERRNO(syscall(SYS_futex, fixed.begin(), FUTEX_WAKE_OP_PRIVATE, 1, 1, fixed.begin(),
                       FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0)),
               EFAULT);
  EXPECT_TRUE(fixed.unchanged());
}

TEST(Faults, PollAnswersVeryMany) {
  constexpr size_t kMany = 1000;
  const Fd ready(eventfd(1, 0));
  const Fd idle(eventfd(0, 0));
  std::vector<pollfd> fds(kMany);
  for (size_t i = 0; i < kMany; i++) fds[i] = {i % 3 ? ready.get() : idle.get(), POLLIN, -1};
  EXPECT_EQ(poll(fds.data(), kMany, 0), 666);
  for (size_t i = 0; i < kMany; i++) {
    EXPECT_EQ(fds[i].revents, i % 3 ? POLLIN : 0) << i;
    EXPECT_EQ(fds[i].fd, i % 3 ? ready.get() : idle.get());
    EXPECT_EQ(fds[i].events, POLLIN);
    fds[i].revents = -1;
  }
  // Nothing is ready: that is told as well.
  for (pollfd& p : fds) p.fd = idle;
  EXPECT_EQ(poll(fds.data(), kMany, 1), 0);
  for (const pollfd& p : fds) EXPECT_EQ(p.revents, 0);
  const Area area;
  auto* at = reinterpret_cast<pollfd*>(area.end()) - 3;
  for (int i = 0; i < 3; i++) at[i] = {ready, POLLIN, 0};
  EXPECT_EQ(poll(at, 3, 0), 3);
  EXPECT_ERRNO(poll(at, 4, 0), EFAULT);
}

TEST(Faults, PollWritesItsAnswerAlways) {
  const Guarded fixed(PROT_READ);
  EXPECT_ERRNO(poll(reinterpret_cast<pollfd*>(fixed.begin()), 1, 0), EFAULT);
}

TEST(Faults, LengthsBeyondUserSpace) {
  const Area area;
  const Ends p = make_pipe();
  const size_t too_long = size_t{1} << 47;
  EXPECT_ERRNO(write(p.writer, area.begin(), too_long), EFAULT);
  EXPECT_ERRNO(read(p.reader, area.begin(), too_long), EFAULT);
  EXPECT_EQ(drain(p.reader), "");
}

// Of the mapping that begins at `at`, from /proc/self/smaps.
long resident_kilobytes(const char* at) {
  char start[32];
  snprintf(start, sizeof start, "\n%lx-", reinterpret_cast<unsigned long>(at));
  const std::string text = test::read_file("/proc/self/smaps");
  const size_t line = text.find(start);
  const size_t rss = line == std::string::npos ? line : text.find("\nRss:", line);
  return rss == std::string::npos ? -1 : strtol(text.c_str() + rss + 5, nullptr, 10);
}

// A large buffer costs few more pages than what is put in.
TEST(Faults, LargeBufferIsNotTouchedAsAWhole) {
  constexpr size_t kSize = 1 << 20;
  const Guarded around(PROT_NONE, kSize + 2 * kPage);
  char* const buffer = around.begin() + kPage;
  ASSERT_OK(mprotect(buffer, kSize, PROT_READ | PROT_WRITE));
  const Ends p = make_pipe();
  fill(p.writer, "0123456789");
  EXPECT_EQ(read(p.reader, buffer, kSize), 10);
  const long resident = resident_kilobytes(buffer);
  EXPECT_GE(resident, 4);
  EXPECT_LE(resident, 64);
}

}  // namespace
