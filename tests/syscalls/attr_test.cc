// chmod, chown, umask, utimensat and the older time calls.
#include <sys/time.h>
#include <utime.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Attr : public test::FileTest {
 protected:
  void SetUp() override { test::write_file(path("f"), "x", 0644); }
  struct stat get(std::string_view name = "f") {
    struct stat st{};
    EXPECT_OK(lstat(path(name).c_str(), &st));
    return st;
  }
  const char* f() { return file_.c_str(); }
  std::string file_ = path("f");
};
ALL_FILE_SYSTEMS(Attr);

TEST_P(Attr, Chmod) {
  EXPECT_OK(chmod(f(), 0751));
  EXPECT_EQ(get().st_mode & 07777, 0751u);
  Fd fd(open(f(), O_RDONLY));
  EXPECT_OK(fchmod(fd, 0640));
  EXPECT_EQ(get().st_mode & 07777, 0640u);
  Fd d(open(dir.path().c_str(), O_PATH));
  EXPECT_OK(fchmodat(d, "f", 0600, 0));
  EXPECT_EQ(get().st_mode & 07777, 0600u);
  EXPECT_ERRNO(chmod(path("missing").c_str(), 0600), ENOENT);
  EXPECT_ERRNO(fchmod(999, 0600), EBADF);
  EXPECT_ERRNO(chmod(path("f/x").c_str(), 0600), ENOTDIR);
  ASSERT_OK(symlink("f", path("l").c_str()));
  EXPECT_OK(chmod(path("l").c_str(), 0644));  // follows
  EXPECT_EQ(get().st_mode & 07777, 0644u);
  ASSERT_OK(mkdir(path("d").c_str(), 0755));
  EXPECT_OK(chmod(path("d").c_str(), 01777));
  EXPECT_EQ(get("d").st_mode & 07777, 01777u);
}

TEST_P(Attr, Fchmodat2) {
  ASSERT_OK(symlink("f", path("l").c_str()));
  long r = syscall(452 /* fchmodat2 */, AT_FDCWD, f(), 0600, 0);
  if (r == -1 && errno == ENOSYS) return;  // older than Linux 6.6
  EXPECT_EQ(r, 0);
  EXPECT_EQ(get().st_mode & 07777, 0600u);
  EXPECT_ERRNO(syscall(452, AT_FDCWD, f(), 0600, 0x1), EINVAL);
}

TEST_P(Attr, ChangingTheModeMovesOnlyCtime) {
  struct stat a = get();
  test::sleep_ms(20);
  ASSERT_OK(chmod(f(), 0600));
  struct stat b = get();
  EXPECT_EQ(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
  EXPECT_NE(a.st_ctim.tv_nsec, b.st_ctim.tv_nsec);
}

TEST_P(Attr, ModeOfAnOpenFileDoesNotCloseIt) {
  Fd fd(open(f(), O_RDWR));
  ASSERT_OK(chmod(f(), 0));
  EXPECT_EQ(pwrite(fd, "y", 1, 0), 1);
  char c = 0;
  EXPECT_EQ(pread(fd, &c, 1, 0), 1);
  EXPECT_EQ(c, 'y');
  EXPECT_OK(fchmod(fd, 0644));
}

TEST_P(Attr, ChownToOneself) {
  EXPECT_OK(chown(f(), geteuid(), getegid()));
  EXPECT_OK(chown(f(), -1, -1));
  EXPECT_OK(lchown(f(), -1, getegid()));
  Fd fd(open(f(), O_RDONLY));
  EXPECT_OK(fchown(fd, geteuid(), -1));
  EXPECT_OK(fchownat(AT_FDCWD, f(), -1, -1, AT_SYMLINK_NOFOLLOW));
  EXPECT_OK(fchownat(fd, "", -1, -1, AT_EMPTY_PATH));
  EXPECT_ERRNO(fchownat(AT_FDCWD, f(), -1, -1, 0x8), EINVAL);
  EXPECT_ERRNO(chown(path("missing").c_str(), -1, -1), ENOENT);
  if (geteuid() != 0) {
    EXPECT_ERRNO(chown(f(), geteuid() + 1, -1), EPERM);
  }
}

TEST_P(Attr, UmaskReturnsTheOld) {
  const mode_t old = umask(0123);
  EXPECT_EQ(umask(07777), 0123u);
  EXPECT_EQ(umask(old), 0777u);
}

TEST_P(Attr, Utimensat) {
  timespec times[2] = {{1'000'000'000, 123'456'789}, {1'500'000'000, 987'654'321}};
  ASSERT_OK(utimensat(AT_FDCWD, f(), times, 0));
  struct stat st = get();
  EXPECT_EQ(st.st_atim.tv_sec, 1'000'000'000);
  EXPECT_EQ(st.st_atim.tv_nsec, 123'456'789);
  EXPECT_EQ(st.st_mtim.tv_sec, 1'500'000'000);
  EXPECT_EQ(st.st_mtim.tv_nsec, 987'654'321);
  times[0].tv_nsec = UTIME_OMIT;
  times[1].tv_nsec = UTIME_NOW;
  ASSERT_OK(utimensat(AT_FDCWD, f(), times, 0));
  st = get();
  EXPECT_EQ(st.st_atim.tv_sec, 1'000'000'000);
  EXPECT_NEAR(static_cast<double>(st.st_mtim.tv_sec), static_cast<double>(time(nullptr)), 3);
  ASSERT_OK(symlink("f", path("l").c_str()));
  timespec old[2] = {{5, 0}, {6, 0}};
  ASSERT_OK(utimensat(AT_FDCWD, path("l").c_str(), old, AT_SYMLINK_NOFOLLOW));
  EXPECT_EQ(get("l").st_mtim.tv_sec, 6);
  EXPECT_NE(get().st_mtim.tv_sec, 6);
  Fd fd(open(f(), O_RDONLY));
  ASSERT_OK(futimens(fd, old));
  EXPECT_EQ(get().st_mtim.tv_sec, 6);
  old[0].tv_nsec = 1'000'000'000;
  EXPECT_ERRNO(utimensat(AT_FDCWD, f(), old, 0), EINVAL);
  EXPECT_ERRNO(utimensat(AT_FDCWD, path("missing").c_str(), nullptr, 0), ENOENT);
  EXPECT_ERRNO(utimensat(AT_FDCWD, f(), nullptr, 0x8), EINVAL);
}

TEST_P(Attr, OlderTimeCalls) {
  utimbuf buf{10, 20};
  ASSERT_OK(syscall(SYS_utime, f(), &buf));
  EXPECT_EQ(get().st_mtim.tv_sec, 20);
  EXPECT_EQ(get().st_atim.tv_sec, 10);
  timeval tv[2] = {{30, 500'000}, {40, 250'000}};
  ASSERT_OK(syscall(SYS_utimes, f(), tv));
  EXPECT_EQ(get().st_mtim.tv_nsec, 250'000'000);
  ASSERT_OK(syscall(SYS_futimesat, AT_FDCWD, f(), tv));
  tv[0].tv_usec = 1'000'000;
  EXPECT_ERRNO(syscall(SYS_utimes, f(), tv), EINVAL);
  ASSERT_OK(syscall(SYS_utime, f(), nullptr));
  EXPECT_GT(get().st_mtim.tv_sec, 1'600'000'000);
}

}  // namespace
