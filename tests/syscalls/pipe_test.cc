// pipe and pipe2: data, ends, limits, atomic writes.
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

class Pipe : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_OK(pipe(fds));
    r = test::Fd(fds[0]);
    w = test::Fd(fds[1]);
  }
  test::Fd r, w;
};

TEST_F(Pipe, BytesComeOutInOrder) {
  EXPECT_EQ(write(w, "hello", 5), 5);
  EXPECT_EQ(write(w, " you", 4), 4);
  char buffer[20] = {};
  EXPECT_EQ(read(r, buffer, sizeof buffer), 9);
  EXPECT_STREQ(buffer, "hello you");
}

TEST_F(Pipe, ShortReadsLeaveTheRest) {
  ASSERT_EQ(write(w, "abcdef", 6), 6);
  char buffer[4] = {};
  EXPECT_EQ(read(r, buffer, 3), 3);
  EXPECT_STREQ(buffer, "abc");
  EXPECT_EQ(read(r, buffer, 3), 3);
  EXPECT_STREQ(buffer, "def");
}

TEST_F(Pipe, EndOfFileAfterTheLastWriter) {
  ASSERT_EQ(write(w, "x", 1), 1);
  w.reset();
  char c;
  EXPECT_EQ(read(r, &c, 1), 1);
  EXPECT_EQ(read(r, &c, 1), 0);
  EXPECT_EQ(read(r, &c, 1), 0);
}

TEST_F(Pipe, EpipeAndSigpipe) {
  r.reset();
  signal(SIGPIPE, SIG_IGN);
  EXPECT_ERRNO(write(w, "x", 1), EPIPE);
  EXPECT_EQ(write(w, "x", 0), 0);
  signal(SIGPIPE, SIG_DFL);
  int status = test::run_child([&] {
    (void)!write(w, "x", 1);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

TEST_F(Pipe, WrongEndIsEbadf) {
  char c = 0;
  EXPECT_ERRNO(read(w, &c, 1), EBADF);
  EXPECT_ERRNO(write(r, &c, 1), EBADF);
}

TEST_F(Pipe, NoSeeking) {
  EXPECT_ERRNO(lseek(r, 0, SEEK_CUR), ESPIPE);
  char c = 0;
  EXPECT_ERRNO(pread(r, &c, 1, 0), ESPIPE);
  EXPECT_ERRNO(pwrite(w, &c, 1, 0), ESPIPE);
  EXPECT_ERRNO(ftruncate(w, 0), EINVAL);
}

TEST_F(Pipe, NonblockingIsEagain) {
  ASSERT_OK(fcntl(r, F_SETFL, O_NONBLOCK));
  ASSERT_OK(fcntl(w, F_SETFL, O_NONBLOCK));
  char c = 0;
  EXPECT_ERRNO(read(r, &c, 1), EAGAIN);
  std::string block(65536, 'x');
  EXPECT_EQ(write(w, block.data(), block.size()), 65536);
  EXPECT_ERRNO(write(w, &c, 1), EAGAIN);
  // Space for one byte is not space for an atomic write: nothing is taken.
  EXPECT_EQ(read(r, block.data(), 1), 1);
  EXPECT_ERRNO(write(w, block.data(), 4096), EAGAIN);
}

TEST_F(Pipe, WriterBlocksUntilThereIsSpace) {
  std::string block(200'000, 'y');
  pid_t pid = test::spawn([&] {
    r.reset();
    return write(w, block.data(), block.size()) == static_cast<ssize_t>(block.size()) ? 0 : 1;
  });
  w.reset();
  std::string got;
  char buffer[5000];
  ssize_t n;
  while ((n = read(r, buffer, sizeof buffer)) > 0) got.append(buffer, n);
  EXPECT_EQ(got, block);
  EXPECT_EQ(test::wait_for(pid), 0);
}

TEST_F(Pipe, ReaderWakesForEachByte) {
  int back[2];
  ASSERT_OK(pipe(back));
  pid_t pid = test::spawn([&] {
    for (int i = 0; i < 2000; i++) {
      unsigned char c;
      CHILD_CHECK(read(r, &c, 1) == 1);
      CHILD_CHECK(c == static_cast<unsigned char>(i));
      CHILD_CHECK(write(back[1], &c, 1) == 1);
    }
    return 0;
  });
  for (int i = 0; i < 2000; i++) {
    unsigned char c = static_cast<unsigned char>(i), d = 0;
    ASSERT_EQ(write(w, &c, 1), 1);
    ASSERT_EQ(read(back[0], &d, 1), 1);
    ASSERT_EQ(c, d);
  }
  EXPECT_EQ(test::wait_for(pid), 0);
  close(back[0]);
  close(back[1]);
}

TEST_F(Pipe, SmallWritesAreAtomic) {
  constexpr int kWriters = 4, kRecords = 200, kSize = 1000;
  std::vector<pid_t> pids;
  for (int i = 0; i < kWriters; i++) {
    pids.push_back(test::spawn([&, i] {
      std::string record(kSize, static_cast<char>('a' + i));
      for (int k = 0; k < kRecords; k++) CHILD_CHECK(write(w, record.data(), kSize) == kSize);
      return 0;
    }));
  }
  w.reset();
  std::string all;
  char buffer[8192];
  ssize_t n;
  while ((n = read(r, buffer, sizeof buffer)) > 0) all.append(buffer, n);
  ASSERT_EQ(all.size(), size_t{kWriters} * kRecords * kSize);
  for (size_t i = 0; i < all.size(); i += kSize) {
    ASSERT_EQ(all.find_first_not_of(all[i], i) - i >= kSize || i + kSize == all.size(), true);
  }
  for (pid_t pid : pids) EXPECT_EQ(test::wait_for(pid), 0);
}

TEST_F(Pipe, FionreadCounts) {
  int n = -1;
  ASSERT_OK(ioctl(r, FIONREAD, &n));
  EXPECT_EQ(n, 0);
  ASSERT_EQ(write(w, "12345", 5), 5);
  ASSERT_OK(ioctl(r, FIONREAD, &n));
  EXPECT_EQ(n, 5);
}

TEST_F(Pipe, SizeCanBeChanged) {
  EXPECT_EQ(fcntl(r, F_GETPIPE_SZ), 65536);
  EXPECT_EQ(fcntl(w, F_SETPIPE_SZ, 4096), 4096);
  EXPECT_EQ(fcntl(r, F_GETPIPE_SZ), 4096);
  EXPECT_EQ(fcntl(w, F_SETPIPE_SZ, 5000), 8192);
  test::Fd null(open("/dev/null", O_RDWR));
  EXPECT_ERRNO(fcntl(null, F_GETPIPE_SZ), EBADF);
}

TEST_F(Pipe, FstatSaysFifo) {
  struct stat st;
  ASSERT_OK(fstat(r, &st));
  EXPECT_TRUE(S_ISFIFO(st.st_mode));
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  struct stat other;
  ASSERT_OK(fstat(w, &other));
  EXPECT_EQ(st.st_ino, other.st_ino);
}

TEST_F(Pipe, VectorsGatherAndScatter) {
  iovec out[] = {{const_cast<char*>("ab"), 2}, {nullptr, 0}, {const_cast<char*>("cde"), 3}};
  EXPECT_EQ(writev(w, out, 3), 5);
  char a[1], b[10] = {};
  iovec in[] = {{a, 1}, {b, 10}};
  EXPECT_EQ(readv(r, in, 2), 5);
  EXPECT_EQ(a[0], 'a');
  EXPECT_STREQ(b, "bcde");
}

TEST_F(Pipe, BadBuffersAreEfaultAndLoseNothing) {
  ASSERT_EQ(write(w, "keep", 4), 4);
  EXPECT_ERRNO(read(r, test::bad_pointer<char>(), 4), EFAULT);
  char buffer[5] = {};
  EXPECT_EQ(read(r, buffer, 4), 4);
  EXPECT_STREQ(buffer, "keep");
  EXPECT_ERRNO(write(w, test::bad_pointer<char>(), 4), EFAULT);
  EXPECT_EQ(read(r, buffer, 0), 0);
}

TEST_F(Pipe, LargeReadIntoNowhereKeepsTheData) {
  std::string data(65536, '\0');
  for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<char>(i * 2654435761u >> 24);
  ASSERT_EQ(write(w, data.data(), data.size()), static_cast<ssize_t>(data.size()));
  void* gone = mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(munmap(gone, 1 << 20), 0);
  EXPECT_ERRNO(read(r, gone, 1 << 20), EFAULT);
  std::string back(data.size(), 'x');
  ASSERT_EQ(read(r, back.data(), back.size()), static_cast<ssize_t>(data.size()));
  EXPECT_TRUE(back == data);
}

TEST_F(Pipe, ReopenedThroughProc) {
  const std::string path = "/proc/self/fd/" + std::to_string(w.get());
  test::Fd again(open(path.c_str(), O_WRONLY));
  ASSERT_GE(again.get(), 0);
  EXPECT_EQ(write(again, "z", 1), 1);
  char c = 0;
  EXPECT_EQ(read(r, &c, 1), 1);
  EXPECT_EQ(c, 'z');
}

TEST(Pipe2, Flags) {
  int fds[2];
  ASSERT_OK(pipe2(fds, O_CLOEXEC | O_NONBLOCK));
  EXPECT_EQ(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(fds[0], F_GETFL), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(fcntl(fds[1], F_GETFL), O_WRONLY | O_NONBLOCK);
  close(fds[0]);
  close(fds[1]);
  ASSERT_OK(pipe2(fds, O_DIRECT));
  // Packets: each read takes one write and drops the rest of it.
  ASSERT_EQ(write(fds[1], "abc", 3), 3);
  ASSERT_EQ(write(fds[1], "de", 2), 2);
  char buffer[10];
  EXPECT_EQ(read(fds[0], buffer, 2), 2);
  EXPECT_EQ(read(fds[0], buffer, 10), 2);
  EXPECT_EQ(buffer[0], 'd');
  close(fds[0]);
  close(fds[1]);
  EXPECT_ERRNO(pipe2(fds, O_APPEND), EINVAL);
  EXPECT_ERRNO(syscall(SYS_pipe, test::bad_pointer<int>()), EFAULT);
}

class Fifo : public test::FileTest {};
ALL_FILE_SYSTEMS(Fifo);

TEST_P(Fifo, OpenWaitsForTheOtherEnd) {
  ASSERT_OK(mkfifo(path("fifo").c_str(), 0600));
  pid_t pid = test::spawn([&] {
    test::sleep_ms(30);
    test::Fd w(open(path("fifo").c_str(), O_WRONLY));
    return write(w, "ok", 2) == 2 ? 0 : 1;
  });
  const int64_t start = test::now_ns();
  test::Fd r(open(path("fifo").c_str(), O_RDONLY));
  ASSERT_GE(r.get(), 0);
  EXPECT_GE(test::now_ns() - start, 20 * test::kMs);
  char buffer[3] = {};
  EXPECT_EQ(read(r, buffer, 2), 2);
  EXPECT_STREQ(buffer, "ok");
  EXPECT_EQ(test::wait_for(pid), 0);
}

TEST_P(Fifo, NonblockingOpen) {
  ASSERT_OK(mkfifo(path("fifo").c_str(), 0600));
  EXPECT_ERRNO(open(path("fifo").c_str(), O_WRONLY | O_NONBLOCK), ENXIO);
  test::Fd r(open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_GE(r.get(), 0);
  char c;
  EXPECT_EQ(read(r, &c, 1), 0);  // no writer yet: end of file
  test::Fd w(open(path("fifo").c_str(), O_WRONLY | O_NONBLOCK));
  ASSERT_GE(w.get(), 0);
  EXPECT_ERRNO(read(r, &c, 1), EAGAIN);
}

TEST_P(Fifo, ReadWriteNeedsNobody) {
  ASSERT_OK(mkfifo(path("fifo").c_str(), 0600));
  test::Fd fd(open(path("fifo").c_str(), O_RDWR));
  ASSERT_GE(fd.get(), 0);
  EXPECT_EQ(write(fd, "q", 1), 1);
  char c = 0;
  EXPECT_EQ(read(fd, &c, 1), 1);
  EXPECT_EQ(c, 'q');
}

// More than is copied in one go.
TEST(PipeTransfer, ArrivesWhole) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  (void)fcntl(fds[0], F_SETPIPE_SZ, 8 << 20);  // for those who may
  const size_t size = size_t{20} << 20;
  std::vector<char> sent(size);
  for (size_t i = 0; i < size; i++) sent[i] = static_cast<char>(i * 7 + i / 4096);
  const pid_t writer = test::spawn(
      [&] { return write(fds[1], sent.data(), size) == static_cast<ssize_t>(size) ? 0 : 1; });
  close(fds[1]);
  std::vector<char> got(size + 1);
  size_t at = 0;
  for (;;) {
    const ssize_t n = read(fds[0], got.data() + at, got.size() - at);
    ASSERT_GE(n, 0);
    if (n == 0) break;
    at += static_cast<size_t>(n);
  }
  close(fds[0]);
  EXPECT_EQ(test::wait_for(writer), 0);
  ASSERT_EQ(at, size);
  EXPECT_EQ(memcmp(sent.data(), got.data(), size), 0);
}

}  // namespace
