// Descriptor tables: dup, fcntl, close_range, record locks, flock.
#include <sys/file.h>
#include <sys/resource.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

TEST(Dup, SharesTheDescription) {
  test::TempDir dir;
  test::write_file(dir / "f", "abc");
  Fd a(open((dir / "f").c_str(), O_RDONLY));
  Fd b(dup(a));
  char c;
  ASSERT_EQ(read(a, &c, 1), 1);
  EXPECT_EQ(lseek(b, 0, SEEK_CUR), 1);
  ASSERT_OK(fcntl(a, F_SETFL, O_NONBLOCK));
  EXPECT_TRUE(fcntl(b, F_GETFL) & O_NONBLOCK);
  ASSERT_OK(fcntl(a, F_SETFD, FD_CLOEXEC));
  EXPECT_EQ(fcntl(b, F_GETFD), 0);
}

TEST(Dup, Dup2ReplacesAndDup3Refuses) {
  Fd null(open("/dev/null", O_RDWR)), zero(open("/dev/zero", O_RDONLY));
  EXPECT_EQ(dup2(zero, null), null.get());
  char c = 1;
  EXPECT_EQ(read(null, &c, 1), 1);
  EXPECT_EQ(dup2(zero, zero), zero.get());
  EXPECT_ERRNO(dup3(zero, zero, 0), EINVAL);
  EXPECT_EQ(dup3(zero, null, O_CLOEXEC), null.get());
  EXPECT_EQ(fcntl(null, F_GETFD), FD_CLOEXEC);
  EXPECT_ERRNO(dup3(zero, null, O_NONBLOCK), EINVAL);
  EXPECT_ERRNO(dup(999), EBADF);
  EXPECT_ERRNO(dup2(999, 3), EBADF);
  EXPECT_ERRNO(dup2(999, 999), EBADF);
  EXPECT_ERRNO(dup2(zero, -1), EBADF);
}

TEST(Fcntl, DupfdTakesTheLowestFrom) {
  Fd null(open("/dev/null", O_RDWR));
  Fd a(fcntl(null, F_DUPFD, 100));
  EXPECT_EQ(a.get(), 100);
  Fd b(fcntl(null, F_DUPFD_CLOEXEC, 100));
  EXPECT_EQ(b.get(), 101);
  EXPECT_EQ(fcntl(b, F_GETFD), FD_CLOEXEC);
  EXPECT_ERRNO(fcntl(null, F_DUPFD, -1), EINVAL);
  EXPECT_ERRNO(fcntl(null, F_DUPFD, 1 << 30), EINVAL);
}

TEST(Fcntl, StatusFlags) {
  test::TempDir dir;
  Fd fd(open((dir / "f").c_str(), O_RDWR | O_CREAT | O_EXCL | O_TRUNC, 0600));
  EXPECT_EQ(fcntl(fd, F_GETFL) & ~0100000 /* O_LARGEFILE */, O_RDWR);
  ASSERT_OK(fcntl(fd, F_SETFL, O_APPEND | O_WRONLY | O_CREAT));  // only the settable ones count
  EXPECT_EQ(fcntl(fd, F_GETFL) & ~0100000, O_RDWR | O_APPEND);
  EXPECT_ERRNO(fcntl(fd, 9999, 0), EINVAL);
  EXPECT_ERRNO(fcntl(999, F_GETFD), EBADF);
}

TEST(Close, Twice) {
  int fd = open("/dev/null", O_RDONLY);
  EXPECT_OK(close(fd));
  EXPECT_ERRNO(close(fd), EBADF);
  EXPECT_ERRNO(close(-1), EBADF);
}

TEST(CloseRange, ClosesAndMarks) {
  EXPECT_CHILD_OK([] {
    int base = fcntl(0, F_DUPFD, 200);
    for (int i = 0; i < 5; i++) CHILD_CHECK(fcntl(0, F_DUPFD, 200) == base + 1 + i);
    CHILD_CHECK(syscall(SYS_close_range, base + 1, base + 2, 0) == 0);
    CHILD_CHECK(fcntl(base, F_GETFD) == 0);
    CHILD_CHECK(fcntl(base + 1, F_GETFD) == -1);
    CHILD_CHECK(fcntl(base + 2, F_GETFD) == -1);
    CHILD_CHECK(fcntl(base + 3, F_GETFD) == 0);
    CHILD_CHECK(syscall(SYS_close_range, base + 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) == 0);
    CHILD_CHECK(fcntl(base + 3, F_GETFD) == FD_CLOEXEC);
    CHILD_CHECK(fcntl(base, F_GETFD) == 0);
    CHILD_CHECK(syscall(SYS_close_range, 5, 4, 0) == -1 && errno == EINVAL);
    CHILD_CHECK(syscall(SYS_close_range, 5, 6, 0x80) == -1 && errno == EINVAL);
    return 0;
  });
}

class Locks : public test::FileTest {
 protected:
  static struct flock range(short type, off_t start, off_t length) {
    struct flock l{};
    l.l_type = type;
    l.l_whence = SEEK_SET;
    l.l_start = start;
    l.l_len = length;
    return l;
  }
  Fd open_file() { return Fd(open(path("f").c_str(), O_RDWR | O_CREAT, 0600)); }
};
ALL_FILE_SYSTEMS(Locks);

TEST_P(Locks, PosixLocksExcludeOtherProcesses) {
  Fd fd = open_file();
  struct flock l = range(F_WRLCK, 10, 10);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  const pid_t parent = getpid();
  EXPECT_CHILD_OK([&] {
    Fd mine = open_file();
    struct flock q = range(F_WRLCK, 15, 1);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == -1 && (errno == EAGAIN || errno == EACCES));
    CHILD_CHECK(fcntl(mine, F_GETLK, &q) == 0);
    CHILD_CHECK(q.l_type == F_WRLCK && q.l_start == 10 && q.l_len == 10 && q.l_pid == parent);
    q = range(F_WRLCK, 0, 10);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    q = range(F_RDLCK, 20, 0);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    return 0;
  });
  // The child's locks went with it.
  l = range(F_WRLCK, 0, 0);
  EXPECT_OK(fcntl(fd, F_GETLK, &l));
  EXPECT_EQ(l.l_type, F_UNLCK);
}

TEST_P(Locks, PosixLocksSplitAndUpgrade) {
  Fd fd = open_file();
  struct flock l = range(F_WRLCK, 0, 30);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  l = range(F_UNLCK, 10, 10);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  l = range(F_RDLCK, 20, 10);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  EXPECT_CHILD_OK([&] {
    Fd mine = open_file();
    struct flock q = range(F_WRLCK, 10, 10);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    q = range(F_RDLCK, 20, 5);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    q = range(F_RDLCK, 5, 1);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == -1);
    return 0;
  });
}

TEST_P(Locks, AnyCloseDropsPosixLocks) {
  Fd fd = open_file();
  struct flock l = range(F_WRLCK, 0, 0);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  {
    Fd other = open_file();
  }
  EXPECT_CHILD_OK([&] {
    Fd mine = open_file();
    struct flock q = range(F_WRLCK, 0, 0);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    return 0;
  });
}

TEST_P(Locks, SetlkwWaits) {
  Fd fd = open_file();
  struct flock l = range(F_WRLCK, 0, 0);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  int started[2];
  ASSERT_OK(pipe(started));
  pid_t pid = test::spawn([&] {
    Fd mine = open_file();
    struct flock q = range(F_WRLCK, 0, 0);
    const int64_t start = test::now_ns();
    CHILD_CHECK(write(started[1], "", 1) == 1);
    CHILD_CHECK(fcntl(mine, F_SETLKW, &q) == 0);
    CHILD_CHECK(test::now_ns() - start >= 20 * test::kMs);
    return 0;
  });
  char byte;
  ASSERT_EQ(read(started[0], &byte, 1), 1);
  test::sleep_ms(30);
  l = range(F_UNLCK, 0, 0);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  EXPECT_EQ(test::wait_for(pid), 0);
  close(started[0]);
  close(started[1]);
}

// Whoever comes second is told.
TEST_P(Locks, DeadlockIsSeen) {
  Fd fd = open_file();
  struct flock l = range(F_WRLCK, 0, 1);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  constexpr int kDeadlock = 7;
  pid_t pid = test::spawn([&] {
    Fd mine = open_file();
    struct flock q = range(F_WRLCK, 1, 1);
    CHILD_CHECK(fcntl(mine, F_SETLK, &q) == 0);
    q = range(F_WRLCK, 0, 1);
    if (fcntl(mine, F_SETLKW, &q) == 0) return 0;
    CHILD_CHECK(errno == EDEADLK);
    return kDeadlock;
  });
  ASSERT_TRUE(test::eventually([&] {
    l = range(F_WRLCK, 1, 1);
    return fcntl(fd, F_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_pid == pid;
  }));
  test::sleep_ms(20);
  l = range(F_WRLCK, 1, 1);
  const bool first = fcntl(fd, F_SETLKW, &l) == 0;
  if (!first) EXPECT_EQ(errno, EDEADLK);
  l = range(F_UNLCK, 0, 0);
  ASSERT_OK(fcntl(fd, F_SETLK, &l));
  EXPECT_EQ(test::wait_for(pid), first ? kDeadlock << 8 : 0);
}

TEST_P(Locks, OpenFileDescriptionLocks) {
  Fd a = open_file(), b = open_file();
  struct flock l = range(F_WRLCK, 0, 0);
  ASSERT_OK(fcntl(a, F_OFD_SETLK, &l));
  l = range(F_WRLCK, 0, 0);
  EXPECT_ERRNO(fcntl(b, F_OFD_SETLK, &l), EAGAIN);
  l = range(F_RDLCK, 0, 0);
  ASSERT_OK(fcntl(b, F_OFD_GETLK, &l));
  EXPECT_EQ(l.l_type, F_WRLCK);
  EXPECT_EQ(l.l_pid, -1);
  Fd copy(dup(a));
  a.reset();
  l = range(F_WRLCK, 0, 0);
  EXPECT_ERRNO(fcntl(b, F_OFD_SETLK, &l), EAGAIN);  // the description still lives
  copy.reset();
  EXPECT_OK(fcntl(b, F_OFD_SETLK, &l));
  l.l_pid = 1;
  EXPECT_ERRNO(fcntl(b, F_OFD_SETLK, &l), EINVAL);
}

TEST_P(Locks, Flock) {
  Fd a = open_file(), b = open_file();
  ASSERT_OK(flock(a, LOCK_SH));
  ASSERT_OK(flock(b, LOCK_SH | LOCK_NB));
  EXPECT_ERRNO(flock(a, LOCK_EX | LOCK_NB), EWOULDBLOCK);
  ASSERT_OK(flock(b, LOCK_UN));
  ASSERT_OK(flock(a, LOCK_EX | LOCK_NB));
  EXPECT_ERRNO(flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
  pid_t pid = test::spawn([&] {
    Fd c = open_file();
    return flock(c, LOCK_EX) == 0 ? 0 : 1;
  });
  test::sleep_ms(30);
  a.reset();  // inherited by the child: its copy keeps the lock until it ends, unless unlocked
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) == 0) {
    test::sleep_ms(50);
    if (waitpid(pid, &status, WNOHANG) == 0) kill(pid, SIGKILL), test::wait_for(pid);
  }
  EXPECT_OK(flock(b, LOCK_EX | LOCK_NB));
  EXPECT_ERRNO(flock(b, 77), EINVAL);
  EXPECT_ERRNO(flock(999, LOCK_SH), EBADF);
}

TEST(Dup, LowestFreeNumberAmongHighOnes) {
  rlimit limit;
  ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
  if (limit.rlim_max < 6000) return;
  EXPECT_CHILD_OK([limit] {
    const rlimit more{6000, limit.rlim_max};
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &more) == 0);
    for (int fd = 5000; fd < 5010; fd++) CHILD_CHECK(fcntl(0, F_DUPFD, 5000) == fd);
    CHILD_CHECK(close(5003) == 0 && close(5007) == 0 && close(5000) == 0);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5001) == 5003);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5001) == 5007);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5001) == 5010);
    CHILD_CHECK(fcntl(0, F_DUPFD, 4000) == 4000);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5000) == 5000);
    CHILD_CHECK(dup2(0, 5012) == 5012);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5000) == 5011);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5000) == 5013);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5999) == 5999);
    CHILD_CHECK(fcntl(0, F_DUPFD, 5999) == -1 && errno == EMFILE);
    return test::run_child([] {  // a copy of the table
      CHILD_CHECK(fcntl(0, F_DUPFD, 5000) == 5014);
      return 0;
    });
  });
}

}  // namespace
