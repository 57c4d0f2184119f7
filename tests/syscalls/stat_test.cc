// stat, lstat, fstat, newfstatat, statx, access, faccessat2.
#include <sys/sysmacros.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Stat : public test::FileTest {};
ALL_FILE_SYSTEMS(Stat);

TEST_P(Stat, RegularFile) {
  const time_t before = time(nullptr);
  test::write_file(path("f"), "hello", 0640);
  struct stat st;
  ASSERT_OK(stat(path("f").c_str(), &st));
  EXPECT_EQ(st.st_mode, S_IFREG | 0640u);
  EXPECT_EQ(st.st_size, 5);
  EXPECT_EQ(st.st_nlink, 1u);
  EXPECT_EQ(st.st_uid, geteuid());
  EXPECT_EQ(st.st_gid, getegid());
  EXPECT_GT(st.st_ino, 0u);
  EXPECT_GT(st.st_blksize, 0);
  EXPECT_GE(st.st_mtime, before - 1);
  EXPECT_LE(st.st_mtime, time(nullptr) + 1);
}

TEST_P(Stat, SameFileByEveryWay) {
  test::write_file(path("f"), "x");
  Fd fd(open(path("f").c_str(), O_RDONLY)), d(open(dir.path().c_str(), O_PATH));
  struct stat a, b, c, e, l;
  ASSERT_OK(syscall(SYS_stat, path("f").c_str(), &a));
  ASSERT_OK(syscall(SYS_fstat, fd.get(), &b));
  ASSERT_OK(syscall(SYS_newfstatat, d.get(), "f", &c, 0));
  ASSERT_OK(syscall(SYS_newfstatat, fd.get(), "", &e, AT_EMPTY_PATH));
  ASSERT_OK(syscall(SYS_lstat, path("f").c_str(), &l));
  for (const struct stat* s : {&b, &c, &e, &l}) {
    EXPECT_EQ(s->st_ino, a.st_ino);
    EXPECT_EQ(s->st_dev, a.st_dev);
    EXPECT_EQ(s->st_size, 1);
  }
}

TEST_P(Stat, LinksAndTheirTargets) {
  test::write_file(path("f"), "x");
  ASSERT_OK(symlink("f", path("l").c_str()));
  struct stat st;
  ASSERT_OK(lstat(path("l").c_str(), &st));
  EXPECT_TRUE(S_ISLNK(st.st_mode));
  EXPECT_EQ(st.st_size, 1);
  ASSERT_OK(stat(path("l").c_str(), &st));
  EXPECT_TRUE(S_ISREG(st.st_mode));
  ASSERT_OK(fstatat(AT_FDCWD, path("l").c_str(), &st, AT_SYMLINK_NOFOLLOW));
  EXPECT_TRUE(S_ISLNK(st.st_mode));
}

TEST_P(Stat, Directory) {
  ASSERT_OK(mkdir(path("d").c_str(), 0750));
  struct stat st, dot, parent;
  ASSERT_OK(stat(path("d").c_str(), &st));
  EXPECT_EQ(st.st_mode, S_IFDIR | 0750u);
  ASSERT_OK(stat(path("d/.").c_str(), &dot));
  EXPECT_EQ(st.st_ino, dot.st_ino);
  ASSERT_OK(stat(path("d/..").c_str(), &parent));
  ASSERT_OK(stat(dir.path().c_str(), &st));
  EXPECT_EQ(st.st_ino, parent.st_ino);
}

TEST_P(Stat, TimesMove) {
  test::write_file(path("f"), "x");
  struct stat a, b;
  ASSERT_OK(stat(path("f").c_str(), &a));
  test::sleep_ms(20);
  {
    Fd fd(open(path("f").c_str(), O_WRONLY));
    ASSERT_EQ(write(fd, "yy", 2), 2);
  }
  ASSERT_OK(stat(path("f").c_str(), &b));
  auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; };
  EXPECT_GT(ns(b.st_mtim), ns(a.st_mtim));
  EXPECT_GT(ns(b.st_ctim), ns(a.st_ctim));
  test::sleep_ms(20);
  ASSERT_OK(chmod(path("f").c_str(), 0600));
  ASSERT_OK(stat(path("f").c_str(), &a));
  EXPECT_GT(ns(a.st_ctim), ns(b.st_ctim));
  EXPECT_EQ(ns(a.st_mtim), ns(b.st_mtim));
}

TEST_P(Stat, DirectoryTimesMoveWithItsEntries) {
  struct stat a, b;
  ASSERT_OK(stat(dir.path().c_str(), &a));
  test::sleep_ms(20);
  test::write_file(path("f"), "");
  ASSERT_OK(stat(dir.path().c_str(), &b));
  auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; };
  EXPECT_GT(ns(b.st_mtim), ns(a.st_mtim));
}

TEST_P(Stat, Errors) {
  struct stat st;
  test::write_file(path("f"), "");
  EXPECT_ERRNO(stat(path("missing").c_str(), &st), ENOENT);
  EXPECT_ERRNO(stat(path("f/").c_str(), &st), ENOTDIR);
  EXPECT_ERRNO(stat(path("f/x").c_str(), &st), ENOTDIR);
  EXPECT_ERRNO(stat("", &st), ENOENT);
  EXPECT_ERRNO(fstat(999, &st), EBADF);
  EXPECT_ERRNO(fstatat(999, "x", &st, 0), EBADF);
  EXPECT_OK(fstatat(999, path("f").c_str(), &st, 0));  // absolute: the descriptor is not looked at
  EXPECT_ERRNO(fstatat(AT_FDCWD, path("f").c_str(), &st, 0x8), EINVAL);
  EXPECT_ERRNO(fstatat(AT_FDCWD, "", &st, 0), ENOENT);
  EXPECT_ERRNO(syscall(SYS_stat, path("f").c_str(), 8), EFAULT);
  EXPECT_ERRNO(stat(path(std::string(256, 'x')).c_str(), &st), ENAMETOOLONG);
}

TEST_P(Stat, Statx) {
  test::write_file(path("f"), "hello");
  struct statx x;
  struct stat st;
  ASSERT_OK(statx(AT_FDCWD, path("f").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &x));
  ASSERT_OK(stat(path("f").c_str(), &st));
  EXPECT_EQ(x.stx_mask & STATX_BASIC_STATS, unsigned{STATX_BASIC_STATS});
  EXPECT_EQ(x.stx_ino, st.st_ino);
  EXPECT_EQ(x.stx_size, 5u);
  EXPECT_EQ(x.stx_mode, st.st_mode);
  EXPECT_EQ(x.stx_nlink, 1u);
  EXPECT_EQ(makedev(x.stx_dev_major, x.stx_dev_minor), st.st_dev);
  EXPECT_EQ(x.stx_mtime.tv_sec, st.st_mtim.tv_sec);
  EXPECT_EQ(x.stx_mtime.tv_nsec, st.st_mtim.tv_nsec);
  Fd fd(open(path("f").c_str(), O_PATH));
  EXPECT_OK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x));
  EXPECT_EQ(x.stx_size, 5u);
  EXPECT_ERRNO(statx(AT_FDCWD, path("f").c_str(), 0, 0x80000000u, &x), EINVAL);
  EXPECT_ERRNO(statx(AT_FDCWD, path("missing").c_str(), 0, STATX_SIZE, &x), ENOENT);
  EXPECT_ERRNO(statx(AT_FDCWD, path("f").c_str(), 0x6000, STATX_SIZE, &x), EINVAL);
}

TEST_P(Stat, Access) {
  test::write_file(path("f"), "", 0600);
  EXPECT_OK(access(path("f").c_str(), F_OK));
  EXPECT_OK(access(path("f").c_str(), R_OK | W_OK));
  EXPECT_ERRNO(access(path("f").c_str(), X_OK), EACCES);  // root too: no x bit at all
  EXPECT_ERRNO(access(path("missing").c_str(), F_OK), ENOENT);
  EXPECT_ERRNO(access(path("f").c_str(), 8), EINVAL);
  Fd d(open(dir.path().c_str(), O_PATH));
  EXPECT_OK(syscall(SYS_faccessat, d.get(), "f", R_OK));
  ASSERT_OK(symlink("missing", path("l").c_str()));
  EXPECT_ERRNO(syscall(SYS_faccessat2, d.get(), "l", F_OK, 0), ENOENT);
  EXPECT_OK(syscall(SYS_faccessat2, d.get(), "l", F_OK, AT_SYMLINK_NOFOLLOW));
  EXPECT_OK(syscall(SYS_faccessat2, d.get(), "f", W_OK, AT_EACCESS));
  EXPECT_ERRNO(syscall(SYS_faccessat2, d.get(), "f", W_OK, 0x1), EINVAL);
  ASSERT_OK(chmod(path("f").c_str(), 0755));
  EXPECT_OK(access(path("f").c_str(), X_OK));
}

TEST_P(Stat, TouchIsSeenByEveryone) {
  // A name known to be absent must appear as soon as somebody creates it.
  struct stat st;
  for (int i = 0; i < 50; i++) {
    const std::string name = path("n" + std::to_string(i));
    EXPECT_ERRNO(stat(name.c_str(), &st), ENOENT);
    EXPECT_CHILD_OK([&] {
      int fd = open(name.c_str(), O_CREAT | O_WRONLY, 0600);
      CHILD_CHECK(fd >= 0);
      return 0;
    });
    EXPECT_OK(stat(name.c_str(), &st));
    EXPECT_CHILD_OK([&] { return unlink(name.c_str()) == 0 ? 0 : 1; });
    EXPECT_ERRNO(stat(name.c_str(), &st), ENOENT);
  }
}

TEST(StatSystem, WellKnownFiles) {
  struct stat st;
  ASSERT_OK(stat("/", &st));
  EXPECT_TRUE(S_ISDIR(st.st_mode));
  ASSERT_OK(stat("/dev/null", &st));
  EXPECT_EQ(st.st_rdev, makedev(1, 3));
  ASSERT_OK(stat("/tmp", &st));
  EXPECT_EQ(st.st_mode & 07777, 01777u);
  ASSERT_OK(stat("/proc/self/stat", &st));
  EXPECT_TRUE(S_ISREG(st.st_mode));
}

}  // namespace
