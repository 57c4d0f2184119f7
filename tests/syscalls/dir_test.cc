// Directories: getdents, working directory, chdir.
#include <dirent.h>
#include <limits.h>

#include <algorithm>
#include <set>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Dir : public test::FileTest {
 protected:
  std::set<std::string> list(const std::string& where) {
    std::set<std::string> names;
    DIR* d = opendir(where.c_str());
    EXPECT_NE(d, nullptr) << where;
    if (d == nullptr) return names;
    while (dirent* e = readdir(d)) EXPECT_TRUE(names.insert(e->d_name).second) << e->d_name;
    closedir(d);
    return names;
  }
};
ALL_FILE_SYSTEMS(Dir);

TEST_P(Dir, ListsEveryEntryOnceWithItsType) {
  test::write_file(path("file"), "");
  ASSERT_OK(mkdir(path("dir").c_str(), 0755));
  ASSERT_OK(symlink("x", path("link").c_str()));
  ASSERT_OK(mkfifo(path("fifo").c_str(), 0600));
  DIR* d = opendir(dir.path().c_str());
  ASSERT_NE(d, nullptr);
  std::set<std::string> seen;
  while (dirent* e = readdir(d)) {
    const std::string name = e->d_name;
    seen.insert(name);
    struct stat st;
    ASSERT_OK(lstat(path(name).c_str(), &st));
    if (name != "..") {
      EXPECT_EQ(e->d_ino, st.st_ino) << name;
    }
    if (e->d_type != DT_UNKNOWN) {
      EXPECT_EQ(DTTOIF(e->d_type), st.st_mode & S_IFMT) << name;
    }
  }
  closedir(d);
  EXPECT_EQ(seen, (std::set<std::string>{".", "..", "dir", "fifo", "file", "link"}));
}

TEST_P(Dir, ThousandsOfEntries) {
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 3000; i++) {
    std::string name = "entry-number-" + std::to_string(i);
    test::write_file(path(name), "");
    expected.insert(name);
  }
  EXPECT_EQ(list(dir.path()), expected);
}

TEST_P(Dir, DeletingWhileReading) {
  for (int i = 0; i < 500; i++) test::write_file(path("n" + std::to_string(i)), "");
  DIR* d = opendir(dir.path().c_str());
  int removed = 0;
  while (dirent* e = readdir(d)) {
    if (e->d_name[0] == '.') continue;
    ASSERT_OK(unlink(path(e->d_name).c_str())) << e->d_name;
    removed++;
  }
  closedir(d);
  EXPECT_EQ(removed, 500);
  EXPECT_EQ(list(dir.path()).size(), 2u);
}

TEST_P(Dir, RewindSeesNewEntries) {
  DIR* d = opendir(dir.path().c_str());
  int n = 0;
  while (readdir(d)) n++;
  EXPECT_EQ(n, 2);
  test::write_file(path("new"), "");
  rewinddir(d);
  n = 0;
  while (readdir(d)) n++;
  EXPECT_EQ(n, 3);
  closedir(d);
}

TEST_P(Dir, SeekdirReturnsToAPlace) {
  for (int i = 0; i < 100; i++) test::write_file(path("n" + std::to_string(i)), "");
  DIR* d = opendir(dir.path().c_str());
  for (int i = 0; i < 50; i++) readdir(d);
  const long place = telldir(d);
  const std::string next = readdir(d)->d_name;
  while (readdir(d)) {
  }
  seekdir(d, place);
  EXPECT_EQ(readdir(d)->d_name, next);
  closedir(d);
}

TEST_P(Dir, GetdentsErrors) {
  char buffer[1024];
  Fd fd(open(dir.path().c_str(), O_RDONLY));
  EXPECT_ERRNO(syscall(SYS_getdents64, fd.get(), buffer, 8), EINVAL);  // no room for one entry
  test::write_file(path("f"), "");
  Fd file(open(path("f").c_str(), O_RDONLY));
  EXPECT_ERRNO(syscall(SYS_getdents64, file.get(), buffer, sizeof buffer), ENOTDIR);
  EXPECT_ERRNO(syscall(SYS_getdents64, 999, buffer, sizeof buffer), EBADF);
  EXPECT_ERRNO(syscall(SYS_getdents64, fd.get(), 8, sizeof buffer), EFAULT);
}

TEST_P(Dir, GetdentsHasTheOldForm) {
  struct OldDirent {
    unsigned long ino, off;
    unsigned short reclen;
    char name[];
  };
  test::write_file(path("f"), "");
  Fd fd(open(dir.path().c_str(), O_RDONLY));
  char buffer[1024];
  long n = syscall(SYS_getdents, fd.get(), buffer, sizeof buffer);
  ASSERT_GT(n, 0);
  std::set<std::string> names;
  for (long at = 0; at < n;) {
    auto* e = reinterpret_cast<OldDirent*>(buffer + at);
    names.insert(e->name);
    const char type = buffer[at + e->reclen - 1];
    if (std::string(e->name) == "f" && type != DT_UNKNOWN) {
      EXPECT_EQ(type, DT_REG);
    }
    at += e->reclen;
  }
  EXPECT_EQ(names, (std::set<std::string>{".", "..", "f"}));
  EXPECT_EQ(syscall(SYS_getdents, fd.get(), buffer, sizeof buffer), 0);
}

TEST_P(Dir, RemovedDirectoryIsEmpty) {
  ASSERT_OK(mkdir(path("d").c_str(), 0755));
  Fd fd(open(path("d").c_str(), O_RDONLY));
  ASSERT_OK(rmdir(path("d").c_str()));
  char buffer[1024];
  long n = syscall(SYS_getdents64, fd.get(), buffer, sizeof buffer);
  EXPECT_TRUE(n == 0 || (n == -1 && errno == ENOENT)) << n << errno;
  EXPECT_ERRNO(openat(fd, "x", O_CREAT | O_WRONLY, 0600), ENOENT);
}

TEST_P(Dir, ChdirAndGetcwd) {
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(mkdir(path("d").c_str(), 0755) == 0);
    CHILD_CHECK(chdir(path("d").c_str()) == 0);
    char cwd[PATH_MAX];
    CHILD_CHECK(getcwd(cwd, sizeof cwd) != nullptr);
    CHILD_CHECK(path("d") == cwd);
    CHILD_CHECK(syscall(SYS_getcwd, cwd, 3) == -1 && errno == ERANGE);
    CHILD_CHECK(syscall(SYS_getcwd, cwd, sizeof cwd) == static_cast<long>(path("d").size() + 1));
    CHILD_CHECK(chdir("..") == 0);
    CHILD_CHECK(getcwd(cwd, sizeof cwd) != nullptr && dir.path() == cwd);
    CHILD_CHECK(chdir("missing") == -1 && errno == ENOENT);
    int fd = open("d", O_RDONLY);
    CHILD_CHECK(fchdir(fd) == 0);
    CHILD_CHECK(getcwd(cwd, sizeof cwd) != nullptr && path("d") == cwd);
    int file = open("f", O_CREAT | O_WRONLY, 0600);
    CHILD_CHECK(fchdir(file) == -1 && errno == ENOTDIR);
    CHILD_CHECK(chdir("f") == -1 && errno == ENOTDIR);
    CHILD_CHECK(fchdir(999) == -1 && errno == EBADF);
    return 0;
  });
}

TEST_P(Dir, WorkingDirectoryFollowsARename) {
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(mkdir(path("a").c_str(), 0755) == 0);
    CHILD_CHECK(chdir(path("a").c_str()) == 0);
    CHILD_CHECK(rename(path("a").c_str(), path("b").c_str()) == 0);
    char cwd[PATH_MAX];
    CHILD_CHECK(getcwd(cwd, sizeof cwd) != nullptr);
    CHILD_CHECK(path("b") == cwd);
    return 0;
  });
}

TEST_P(Dir, WorkingDirectoryMayBeRemoved) {
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(mkdir(path("a").c_str(), 0755) == 0);
    CHILD_CHECK(chdir(path("a").c_str()) == 0);
    CHILD_CHECK(rmdir(path("a").c_str()) == 0);
    char cwd[PATH_MAX];
    CHILD_CHECK(getcwd(cwd, sizeof cwd) == nullptr && errno == ENOENT);
    CHILD_CHECK(open("f", O_CREAT | O_WRONLY, 0600) == -1 && errno == ENOENT);
    CHILD_CHECK(chdir("..") == 0);
    return 0;
  });
}

}  // namespace
