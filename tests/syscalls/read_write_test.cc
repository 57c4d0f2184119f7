// read, write, pread64, pwrite64, vectors, lseek.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class ReadWrite : public test::FileTest {
 protected:
  Fd create(std::string_view content = "") {
    test::write_file(path("f"), content);
    return Fd(open(path("f").c_str(), O_RDWR));
  }
};
ALL_FILE_SYSTEMS(ReadWrite);

TEST_P(ReadWrite, RoundTrip) {
  Fd fd = create();
  EXPECT_EQ(write(fd, "hello", 5), 5);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 5);
  EXPECT_EQ(lseek(fd, 1, SEEK_SET), 1);
  char buffer[10] = {};
  EXPECT_EQ(read(fd, buffer, 10), 4);
  EXPECT_STREQ(buffer, "ello");
  EXPECT_EQ(read(fd, buffer, 10), 0);
}

TEST_P(ReadWrite, BigTransfersOfOddSizes) {
  Fd fd = create();
  std::string data(3'000'001, '\0');
  for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<char>(i * 2654435761u >> 24);
  ASSERT_EQ(write(fd, data.data(), data.size()), static_cast<ssize_t>(data.size()));
  std::string back(data.size() + 100, 'x');
  ASSERT_EQ(pread(fd, back.data(), back.size(), 0), static_cast<ssize_t>(data.size()));
  back.resize(data.size());
  EXPECT_TRUE(back == data);
  ASSERT_EQ(pread(fd, back.data(), 70'000, 1'234'567), 70'000);
  EXPECT_EQ(memcmp(back.data(), data.data() + 1'234'567, 70'000), 0);
}

TEST_P(ReadWrite, SmallPiecesAddUp) {
  Fd fd = create();
  std::string all;
  for (int i = 0; i < 500; i++) {
    std::string piece = std::to_string(i) + ",";
    ASSERT_EQ(write(fd, piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    all += piece;
  }
  EXPECT_EQ(test::read_file(path("f")), all);
}

TEST_P(ReadWrite, PositionalCallsLeaveTheOffset) {
  Fd fd = create("0123456789");
  char buffer[4] = {};
  EXPECT_EQ(pread(fd, buffer, 3, 4), 3);
  EXPECT_STREQ(buffer, "456");
  EXPECT_EQ(pwrite(fd, "xyz", 3, 2), 3);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0);
  EXPECT_EQ(test::read_file(path("f")), "01xyz56789");
  EXPECT_EQ(pread(fd, buffer, 3, 100), 0);
  EXPECT_ERRNO(pread(fd, buffer, 3, -1), EINVAL);
  EXPECT_ERRNO(pwrite(fd, buffer, 3, -1), EINVAL);
}

TEST_P(ReadWrite, Seeking) {
  Fd fd = create("0123456789");
  EXPECT_EQ(lseek(fd, -3, SEEK_END), 7);
  EXPECT_EQ(lseek(fd, 2, SEEK_CUR), 9);
  EXPECT_EQ(lseek(fd, 100, SEEK_SET), 100);
  EXPECT_ERRNO(lseek(fd, -1, SEEK_SET), EINVAL);
  EXPECT_ERRNO(lseek(fd, -11, SEEK_END), EINVAL);
  EXPECT_ERRNO(lseek(fd, 0, 99), EINVAL);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 100);
  EXPECT_ERRNO(lseek(999, 0, SEEK_SET), EBADF);
}

TEST_P(ReadWrite, WritingBeyondTheEndLeavesZeros) {
  Fd fd = create("ab");
  EXPECT_EQ(pwrite(fd, "z", 1, 10'000), 1);
  EXPECT_EQ(test::size_of(path("f")), 10'001);
  std::string data = test::read_file(path("f"));
  EXPECT_EQ(data, "ab" + std::string(9'998, '\0') + "z");
}

TEST_P(ReadWrite, HolesAndData) {
  Fd fd = create();
  ASSERT_EQ(pwrite(fd, "x", 1, 1 << 20), 1);
  // A file system without holes calls everything data.
  EXPECT_EQ(lseek(fd, 1 << 20, SEEK_DATA), 1 << 20);
  off_t data = lseek(fd, 0, SEEK_DATA);
  EXPECT_TRUE(data == 0 || (data > 0 && data <= 1 << 20)) << data;
  EXPECT_EQ(lseek(fd, 1 << 20, SEEK_HOLE), (1 << 20) + 1);
  EXPECT_ERRNO(lseek(fd, (1 << 20) + 1, SEEK_DATA), ENXIO);
  EXPECT_ERRNO(lseek(fd, (1 << 20) + 1, SEEK_HOLE), ENXIO);
}

TEST_P(ReadWrite, TwoDescriptionsHaveTwoOffsets) {
  Fd a = create("0123456789");
  Fd b(open(path("f").c_str(), O_RDWR));
  char c;
  ASSERT_EQ(read(a, &c, 1), 1);
  EXPECT_EQ(lseek(b, 0, SEEK_CUR), 0);
  ASSERT_EQ(pwrite(a, "X", 1, 0), 1);
  ASSERT_EQ(read(b, &c, 1), 1);
  EXPECT_EQ(c, 'X');  // coherent at once
}

TEST_P(ReadWrite, Vectors) {
  Fd fd = create();
  iovec out[] = {{const_cast<char*>("one"), 3}, {nullptr, 0}, {const_cast<char*>("two!"), 4}};
  EXPECT_EQ(writev(fd, out, 3), 7);
  EXPECT_EQ(pwritev(fd, out, 1, 4), 3);
  char a[2], b[100] = {};
  iovec in[] = {{a, 2}, {b, 100}};
  EXPECT_EQ(preadv(fd, in, 2, 0), 7);
  EXPECT_EQ(std::string(a, 2) + b, "onetone");
  lseek(fd, 0, SEEK_SET);
  EXPECT_EQ(readv(fd, in, 1), 2);
  EXPECT_EQ(preadv2(fd, in, 1, -1, 0), 2);  // offset -1: the file's own
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 4);
  EXPECT_EQ(pwritev2(fd, out, 1, 0, RWF_APPEND), 3);
  EXPECT_EQ(test::size_of(path("f")), 10);
  EXPECT_ERRNO(readv(fd, in, -1), EINVAL);
  EXPECT_ERRNO(readv(fd, in, 1025), EINVAL);
  EXPECT_EQ(readv(fd, in, 0), 0);
  iovec bad[] = {{a, static_cast<size_t>(-1)}};
  EXPECT_ERRNO(readv(fd, bad, 1), EINVAL);
  EXPECT_ERRNO(writev(fd, test::bad_pointer<iovec>(), 1), EFAULT);
}

TEST_P(ReadWrite, BadBuffers) {
  Fd fd = create("abc");
  EXPECT_ERRNO(read(fd, test::bad_pointer<char>(), 3), EFAULT);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0);
  EXPECT_ERRNO(write(fd, test::bad_pointer<char>(), 3), EFAULT);
  EXPECT_EQ(write(fd, "x", 0), 0);
  EXPECT_EQ(read(fd, nullptr, 0), 0);
}

TEST_P(ReadWrite, PartOfTheBufferIsBad) {
  // The bytes before an unmapped page are transferred.
  Fd fd = create(std::string(8192, 'q'));
  auto* two = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(two + 4096, 4096);
  EXPECT_EQ(pread(fd, two + 4000, 4096, 0), 96);
  ssize_t n = pwrite(fd, two + 4000, 4096, 0);
  EXPECT_TRUE(n == 96 || (n == -1 && errno == EFAULT)) << n;  // depends on the file system
  munmap(two, 4096);
}

TEST_P(ReadWrite, DirectoriesAreEisdir) {
  Fd fd(open(dir.path().c_str(), O_RDONLY));
  char c;
  EXPECT_ERRNO(read(fd, &c, 1), EISDIR);
  EXPECT_ERRNO(write(fd, &c, 1), EBADF);
}

TEST_P(ReadWrite, FileSizeLimit) {
  Fd fd = create();
  int status = test::run_child([&] {
    struct {
      uint64_t soft, hard;
    } limit{1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    CHILD_CHECK(syscall(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, &limit, nullptr) == 0);
    std::string data(2000, 'x');
    CHILD_CHECK(write(fd, data.data(), 2000) == 1000);
    CHILD_CHECK(write(fd, data.data(), 1) == -1 && errno == EFBIG);
    signal(SIGXFSZ, SIG_DFL);
    (void)!write(fd, data.data(), 1);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGXFSZ);
}

TEST(ReadWriteErrors, BadDescriptors) {
  char c = 0;
  EXPECT_ERRNO(read(-1, &c, 1), EBADF);
  EXPECT_ERRNO(write(-1, &c, 1), EBADF);
  EXPECT_ERRNO(read(12345, &c, 1), EBADF);
  EXPECT_ERRNO(syscall(SYS_read, 0x1'0000'0000 + 12345, &c, 1), EBADF);
}

TEST(DevNull, SwallowsAndGivesNothing) {
  Fd fd(open("/dev/null", O_RDWR));
  char c;
  EXPECT_EQ(read(fd, &c, 1), 0);
  EXPECT_EQ(write(fd, "abc", 3), 3);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(st.st_rdev, 0x103u);
}

TEST(DevZero, GivesZeros) {
  Fd fd(open("/dev/zero", O_RDWR));
  char buffer[1000];
  memset(buffer, 1, sizeof buffer);
  EXPECT_EQ(read(fd, buffer, sizeof buffer), 1000);
  for (char c : buffer) ASSERT_EQ(c, 0);
}

TEST(DevFull, IsFull) {
  Fd fd(open("/dev/full", O_RDWR));
  EXPECT_ERRNO(write(fd, "x", 1), ENOSPC);
  char c = 1;
  EXPECT_EQ(read(fd, &c, 1), 1);
  EXPECT_EQ(c, 0);
}

TEST(DevUrandom, GivesBytes) {
  for (const char* name : {"/dev/urandom", "/dev/random"}) {
    Fd fd(open(name, O_RDONLY));
    unsigned char a[32] = {}, b[32] = {};
    EXPECT_EQ(read(fd, a, 32), 32);
    EXPECT_EQ(read(fd, b, 32), 32);
    EXPECT_NE(memcmp(a, b, 32), 0);
  }
}

void expect_no_positioned_io(int fd, const char* what) {
  SCOPED_TRACE(what);
  char c = 0;
  iovec v{&c, 1};
  EXPECT_ERRNO(pread(fd, &c, 1, 0), ESPIPE);
  EXPECT_ERRNO(pread(fd, &c, 0, 0), ESPIPE);
  EXPECT_ERRNO(pread(fd, &c, 1, -1), EINVAL);
  EXPECT_ERRNO(preadv(fd, &v, 1, 0), ESPIPE);
  EXPECT_ERRNO(preadv2(fd, &v, 1, 0, 0), ESPIPE);
  EXPECT_ERRNO(pwrite(fd, &c, 1, 0), ESPIPE);
  EXPECT_ERRNO(pwrite(fd, &c, 0, 0), ESPIPE);
  EXPECT_ERRNO(pwritev(fd, &v, 1, 0), ESPIPE);
  EXPECT_ERRNO(pwritev2(fd, &v, 1, 0, 0), ESPIPE);
}

// noop_llseek(): any offset is taken and changes nothing.
TEST(Lseek, OfAnonymousObjectsIsTakenAndIgnored) {
  sigset_t none;
  sigemptyset(&none);
  const struct {
    const char* what;
    int fd;
  } kinds[] = {{"eventfd", eventfd(0, EFD_NONBLOCK)},
               {"timerfd", timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)},
               {"epoll", epoll_create1(0)},
               {"signalfd", signalfd(-1, &none, SFD_NONBLOCK)},
               {"inotify", inotify_init1(IN_NONBLOCK)}};
  for (const auto& [what, number] : kinds) {
    SCOPED_TRACE(what);
    Fd fd(number);
    ASSERT_OK(number);
    for (const int whence : {SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE}) {
      EXPECT_EQ(lseek(fd, 5, whence), 0);
      EXPECT_EQ(lseek(fd, -1, whence), 0);
    }
    EXPECT_ERRNO(lseek(fd, 0, 99), EINVAL);
    expect_no_positioned_io(fd, what);
  }
}

// Also at the end that cannot be read, or written, at all: the position is looked at first.
TEST(Lseek, OfStreamsIsEspipe) {
  int p[2], s[2];
  ASSERT_OK(pipe(p));
  ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  Fd r(p[0]), w(p[1]), a(s[0]), b(s[1]);
  Fd ptmx(open("/dev/ptmx", O_RDWR | O_NOCTTY));
  ASSERT_OK(static_cast<int>(ptmx));
  for (const int fd : {p[0], p[1], s[0], static_cast<int>(ptmx)}) {
    for (const int whence : {SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE})
      EXPECT_ERRNO(lseek(fd, 0, whence), ESPIPE);
    EXPECT_ERRNO(lseek(fd, 0, 99), EINVAL);
    expect_no_positioned_io(fd, "stream");
  }
}

// A pidfd is a file of pidfs since Linux 6.9, an anonymous object before.
TEST(Lseek, OfPidfdIsEspipe) {
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  ASSERT_OK(static_cast<int>(fd));
  EXPECT_ERRNO(lseek(fd, 0, SEEK_CUR), ESPIPE);
  char c = 0;
  EXPECT_EQ(pread(fd, &c, 1, 0), -1);
  EXPECT_TRUE(errno == EINVAL || errno == ESPIPE) << errno;
  EXPECT_EQ(pwrite(fd, &c, 1, 0), -1);
  EXPECT_TRUE(errno == EINVAL || errno == ESPIPE) << errno;
  EXPECT_ERRNO(read(fd, &c, 1), EINVAL);
}

}  // namespace
