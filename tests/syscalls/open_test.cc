// open, openat, openat2, creat: flags and errors.
#include <linux/openat2.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Open : public test::FileTest {};
ALL_FILE_SYSTEMS(Open);

TEST_P(Open, CreatesWithModeAndUmask) {
  const mode_t old = umask(027);
  Fd fd(open(path("f").c_str(), O_RDWR | O_CREAT, 0666));
  umask(old);
  ASSERT_GE(fd.get(), 0);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_mode, S_IFREG | 0640u);
  EXPECT_EQ(st.st_size, 0);
  EXPECT_EQ(st.st_nlink, 1u);
  EXPECT_EQ(st.st_uid, geteuid());
}

TEST_P(Open, CreatIsWriteOnlyAndTruncates) {
  test::write_file(path("f"), "content");
  Fd fd(creat(path("f").c_str(), 0600));
  ASSERT_GE(fd.get(), 0);
  EXPECT_EQ(test::size_of(path("f")), 0);
  char c;
  EXPECT_ERRNO(read(fd, &c, 1), EBADF);
}

TEST_P(Open, ExclIsEexist) {
  test::write_file(path("f"), "");
  EXPECT_ERRNO(open(path("f").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
  ASSERT_OK(symlink("nowhere", path("dangling").c_str()));
  EXPECT_ERRNO(open(path("dangling").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
  Fd fd(open(path("new").c_str(), O_RDWR | O_CREAT | O_EXCL, 0400));
  EXPECT_GE(fd.get(), 0);  // writable through this descriptor although its mode is 0400
  EXPECT_EQ(write(fd, "x", 1), 1);
}

TEST_P(Open, CreatesThroughADanglingLink) {
  ASSERT_OK(symlink("target", path("link").c_str()));
  Fd fd(open(path("link").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_GE(fd.get(), 0);
  EXPECT_TRUE(test::exists(path("target")));
}

TEST_P(Open, AccessModes) {
  test::write_file(path("f"), "abc");
  char c = 'z';
  Fd r(open(path("f").c_str(), O_RDONLY)), w(open(path("f").c_str(), O_WRONLY));
  EXPECT_ERRNO(write(r, &c, 1), EBADF);
  EXPECT_ERRNO(read(w, &c, 1), EBADF);
  EXPECT_EQ(fcntl(r, F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(fcntl(w, F_GETFL) & O_ACCMODE, O_WRONLY);
}

TEST_P(Open, AppendWritesAtTheEnd) {
  test::write_file(path("f"), "one");
  Fd fd(open(path("f").c_str(), O_WRONLY | O_APPEND));
  ASSERT_OK(lseek(fd, 0, SEEK_SET));
  EXPECT_EQ(write(fd, "two", 3), 3);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 6);
  EXPECT_EQ(test::read_file(path("f")), "onetwo");
  // On Linux pwrite appends too.
  EXPECT_EQ(pwrite(fd, "!", 1, 0), 1);
  EXPECT_EQ(test::read_file(path("f")), "onetwo!");
}

TEST_P(Open, AppendersDoNotOverwriteEachOther) {
  std::vector<pid_t> pids;
  for (int i = 0; i < 4; i++) {
    pids.push_back(test::spawn([&] {
      Fd fd(open(path("log").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600));
      for (int k = 0; k < 100; k++) CHILD_CHECK(write(fd, "0123456789", 10) == 10);
      return 0;
    }));
  }
  for (pid_t pid : pids) EXPECT_EQ(test::wait_for(pid), 0);
  EXPECT_EQ(test::size_of(path("log")), 4000);
}

TEST_P(Open, TruncDropsTheContent) {
  test::write_file(path("f"), "content");
  Fd fd(open(path("f").c_str(), O_RDWR | O_TRUNC));
  EXPECT_EQ(test::size_of(path("f")), 0);
}

TEST_P(Open, Errors) {
  test::write_file(path("f"), "");
  ASSERT_OK(mkdir(path("d").c_str(), 0755));
  EXPECT_ERRNO(open(path("missing").c_str(), O_RDONLY), ENOENT);
  EXPECT_ERRNO(open(path("missing/x").c_str(), O_RDWR | O_CREAT, 0600), ENOENT);
  EXPECT_ERRNO(open(path("f/x").c_str(), O_RDONLY), ENOTDIR);
  EXPECT_ERRNO(open(path("f/").c_str(), O_RDONLY), ENOTDIR);
  EXPECT_ERRNO(open(path("d").c_str(), O_RDWR), EISDIR);
  EXPECT_ERRNO(open(path("d").c_str(), O_RDONLY | O_CREAT, 0600), EISDIR);
  EXPECT_ERRNO(open(path("new/").c_str(), O_RDWR | O_CREAT, 0600), EISDIR);
  EXPECT_ERRNO(open(path("f").c_str(), O_RDONLY | O_DIRECTORY), ENOTDIR);
  EXPECT_ERRNO(open("", O_RDONLY), ENOENT);
  EXPECT_ERRNO(open(test::bad_pointer<char>(), O_RDONLY), EFAULT);
  EXPECT_ERRNO(open(path(std::string(256, 'n')).c_str(), O_RDONLY), ENAMETOOLONG);
  EXPECT_ERRNO(open(std::string(4096, '/').c_str(), O_RDONLY), ENAMETOOLONG);
  EXPECT_OK(open(path(std::string(255, 'n')).c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_ERRNO(openat(999, "x", O_RDONLY), EBADF);
  Fd file(open(path("f").c_str(), O_RDONLY));
  EXPECT_ERRNO(openat(file, "x", O_RDONLY), ENOTDIR);
}

TEST_P(Open, NofollowIsEloop) {
  test::write_file(path("f"), "x");
  ASSERT_OK(symlink("f", path("link").c_str()));
  EXPECT_ERRNO(open(path("link").c_str(), O_RDONLY | O_NOFOLLOW), ELOOP);
  Fd fd(open(path("link").c_str(), O_PATH | O_NOFOLLOW));
  ASSERT_GE(fd.get(), 0);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_TRUE(S_ISLNK(st.st_mode));
}

TEST_P(Open, LinkLoopIsEloop) {
  ASSERT_OK(symlink("b", path("a").c_str()));
  ASSERT_OK(symlink("a", path("b").c_str()));
  EXPECT_ERRNO(open(path("a").c_str(), O_RDONLY), ELOOP);
}

TEST_P(Open, FortyLinksButNotMore) {
  test::write_file(path("l0"), "end");
  for (int i = 1; i <= 41; i++) {
    ASSERT_OK(
        symlink(("l" + std::to_string(i - 1)).c_str(), path("l" + std::to_string(i)).c_str()));
  }
  Fd fd(open(path("l40").c_str(), O_RDONLY));
  EXPECT_GE(fd.get(), 0);
  EXPECT_ERRNO(open(path("l41").c_str(), O_RDONLY), ELOOP);
}

TEST_P(Open, RelativeToADirectory) {
  ASSERT_OK(mkdir(path("d").c_str(), 0755));
  Fd d(open(path("d").c_str(), O_RDONLY | O_DIRECTORY));
  Fd fd(openat(d, "f", O_WRONLY | O_CREAT, 0600));
  ASSERT_GE(fd.get(), 0);
  EXPECT_TRUE(test::exists(path("d/f")));
  // An O_PATH directory does as well.
  Fd p(open(path("d").c_str(), O_PATH));
  Fd again(openat(p, "../d/./f", O_RDONLY));
  EXPECT_GE(again.get(), 0);
}

TEST_P(Open, PathDescriptorsCannotBeUsed) {
  test::write_file(path("f"), "abc");
  Fd fd(open(path("f").c_str(), O_PATH));
  char c;
  EXPECT_ERRNO(read(fd, &c, 1), EBADF);
  EXPECT_ERRNO(write(fd, &c, 1), EBADF);
  EXPECT_ERRNO(fchmod(fd, 0600), EBADF);
  EXPECT_ERRNO(ftruncate(fd, 0), EBADF);
  struct stat st;
  EXPECT_OK(fstat(fd, &st));
  EXPECT_EQ(fcntl(fd, F_GETFL), O_PATH);
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  Fd reopened(open(proc.c_str(), O_RDONLY));
  ASSERT_GE(reopened.get(), 0);
  EXPECT_EQ(read(reopened, &c, 1), 1);
}

TEST_P(Open, UnlinkedFileLivesOn) {
  Fd fd(open(path("f").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_OK(unlink(path("f").c_str()));
  EXPECT_FALSE(test::exists(path("f")));
  EXPECT_EQ(write(fd, "data", 4), 4);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_nlink, 0u);
  EXPECT_EQ(st.st_size, 4);
  char buffer[5] = {};
  EXPECT_EQ(pread(fd, buffer, 4, 0), 4);
  EXPECT_STREQ(buffer, "data");
  // A new file of that name is another one.
  test::write_file(path("f"), "other");
  EXPECT_EQ(pread(fd, buffer, 4, 0), 4);
  EXPECT_STREQ(buffer, "data");
  char link[4096] = {};
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_OK(readlink(proc.c_str(), link, sizeof link - 1));
  EXPECT_EQ(std::string(link), path("f") + " (deleted)");
}

TEST_P(Open, TmpfileHasNoName) {
  Fd fd(open(dir.path().c_str(), O_TMPFILE | O_RDWR, 0600));
  ASSERT_GE(fd.get(), 0) << strerror(errno);
  EXPECT_EQ(write(fd, "tmp", 3), 3);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_nlink, 0u);
  EXPECT_ERRNO(open(dir.path().c_str(), O_TMPFILE | O_RDONLY, 0600), EINVAL);
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_OK(linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, path("named").c_str(), AT_SYMLINK_FOLLOW));
  EXPECT_EQ(test::read_file(path("named")), "tmp");
}

TEST_P(Open, TmpfileThatStaysNameless) {
  Fd fd(open(dir.path().c_str(), O_TMPFILE | O_RDWR | O_EXCL, 0));
  ASSERT_GE(fd.get(), 0) << strerror(errno);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFREG));
  EXPECT_EQ(st.st_uid, geteuid());
  EXPECT_EQ(write(fd, "tmp", 3), 3);
  EXPECT_OK(fchmod(fd, 0600));
  EXPECT_OK(ftruncate(fd, 10));
  ASSERT_OK(fstat(fd, &st));
  EXPECT_EQ(st.st_size, 10);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFREG | 0600));
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  Fd again(open(proc.c_str(), O_RDONLY));
  char data[4] = {};
  EXPECT_EQ(read(again, data, 3), 3);
  EXPECT_STREQ(data, "tmp");
  EXPECT_ERRNO(linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, path("n").c_str(), AT_SYMLINK_FOLLOW),
               ENOENT);
}

TEST_P(Open, ALostNameDoesNotComeBack) {
  test::write_file(path("f"), "");
  Fd fd(open(path("f").c_str(), O_RDWR));
  ASSERT_OK(unlink(path("f").c_str()));
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  EXPECT_ERRNO(linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, path("n").c_str(), AT_SYMLINK_FOLLOW),
               ENOENT);
}

TEST_P(Open, ManyTmpfiles) {
  for (int i = 0; i < 50; i++) {
    Fd fd(open(dir.path().c_str(), O_TMPFILE | O_WRONLY, 0644));
    ASSERT_GE(fd.get(), 0) << strerror(errno);
    EXPECT_EQ(write(fd, "x", 1), 1);
    const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
    const std::string name = path("n" + std::to_string(i));
    EXPECT_OK(linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW));
    EXPECT_EQ(write(fd, "y", 1), 1);
    EXPECT_EQ(test::read_file(name), "xy");
    struct stat st;
    EXPECT_OK(stat(name.c_str(), &st));
    EXPECT_EQ(st.st_nlink, 1u);
    EXPECT_EQ(st.st_mode & 0777, 0644u & ~022u);
  }
}

TEST_P(Open, CloexecAndLowestNumber) {
  test::write_file(path("f"), "");
  Fd a(open(path("f").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(fcntl(a, F_GETFD), FD_CLOEXEC);
  const int hole = dup(a);
  Fd b(dup(a));
  close(hole);
  Fd c(open(path("f").c_str(), O_RDONLY));
  EXPECT_EQ(c.get(), hole);
  EXPECT_EQ(fcntl(c, F_GETFD), 0);
}

TEST_P(Open, PermissionsAreChecked) {
  test::write_file(path("secret"), "x", 0600);
  ASSERT_OK(chmod(dir.path().c_str(), 0755));
  ASSERT_OK(mkdir(path("closed").c_str(), 0700));
  test::write_file(path("closed/f"), "x", 0644);
  ASSERT_OK(chmod(path("secret").c_str(), 0));
  if (geteuid() != 0) {
    EXPECT_ERRNO(open(path("secret").c_str(), O_RDONLY), EACCES);
    ASSERT_OK(chmod(path("closed").c_str(), 0600));
    EXPECT_ERRNO(open(path("closed/f").c_str(), O_RDONLY), EACCES);
    ASSERT_OK(chmod(path("closed").c_str(), 0700));
    return;
  }
  EXPECT_OK(access(path("secret").c_str(), R_OK));  // root may
}

// openat2(2), EAGAIN: a ".." must not follow a directory that is moved out meanwhile.
TEST_P(Open, BeneathHoldsWhileDirectoriesMove) {
  for (const char* dir : {"base", "base/a", "base/a/b", "out"})
    ASSERT_OK(mkdir(path(dir).c_str(), 0755));
  test::write_file(path("out/secret"), "x");
  const std::string inside = path("base/a"), outside = path("out/a");
  std::atomic<bool> stop = false;
  std::thread mover([&] {
    while (!stop) {
      rename(inside.c_str(), outside.c_str());
      rename(outside.c_str(), inside.c_str());
    }
  });
  Fd base(open(path("base").c_str(), O_PATH));
  open_how how{};
  how.flags = O_RDONLY;
  how.resolve = RESOLVE_BENEATH;
  int escapes = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  while (std::chrono::steady_clock::now() < end) {
    Fd fd(static_cast<int>(syscall(SYS_openat2, base.get(), "a/b/../../secret", &how, sizeof how)));
    if (fd.get() >= 0) ++escapes;
  }
  stop = true;
  mover.join();
  EXPECT_EQ(escapes, 0);
}

TEST_P(Open, Openat2Resolve) {
  auto openat2 = [](int dirfd, const std::string& name, uint64_t flags, uint64_t resolve,
                    uint64_t mode = 0) {
    open_how how{};
    how.flags = flags;
    how.resolve = resolve;
    how.mode = mode;
    return static_cast<int>(syscall(SYS_openat2, dirfd, name.c_str(), &how, sizeof how));
  };
  ASSERT_OK(mkdir(path("d").c_str(), 0755));
  test::write_file(path("outside"), "x");
  test::write_file(path("d/inside"), "x");
  ASSERT_OK(symlink("inside", path("d/link").c_str()));
  ASSERT_OK(symlink("../outside", path("d/escape").c_str()));
  ASSERT_OK(symlink("/etc", path("d/absolute").c_str()));
  Fd d(open(path("d").c_str(), O_PATH));
  EXPECT_OK(Fd(openat2(d, "inside", O_RDONLY, RESOLVE_BENEATH)).get());
  EXPECT_OK(Fd(openat2(d, "link", O_RDONLY, RESOLVE_BENEATH)).get());
  EXPECT_ERRNO(openat2(d, "escape", O_RDONLY, RESOLVE_BENEATH), EXDEV);
  EXPECT_ERRNO(openat2(d, "..", O_PATH, RESOLVE_BENEATH), EXDEV);
  EXPECT_ERRNO(openat2(d, "/etc", O_PATH, RESOLVE_BENEATH), EXDEV);
  EXPECT_ERRNO(openat2(d, "absolute", O_PATH, RESOLVE_BENEATH), EXDEV);
  EXPECT_ERRNO(openat2(d, "link", O_RDONLY, RESOLVE_NO_SYMLINKS), ELOOP);
  EXPECT_OK(Fd(openat2(d, "/inside", O_RDONLY, RESOLVE_IN_ROOT)).get());
  EXPECT_OK(Fd(openat2(d, "../../inside", O_RDONLY, RESOLVE_IN_ROOT)).get());
  EXPECT_ERRNO(openat2(d, "escape", O_RDONLY, RESOLVE_IN_ROOT), ENOENT);
  EXPECT_ERRNO(openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS), ELOOP);
  EXPECT_ERRNO(openat2(d, "inside", 1ull << 40, 0), EINVAL);
  EXPECT_ERRNO(openat2(d, "inside", O_RDONLY, 0x1000), EINVAL);
  EXPECT_ERRNO(openat2(d, "inside", O_RDONLY, 0, 0600), EINVAL);
  Fd created(openat2(d, "created", O_RDWR | O_CREAT, RESOLVE_BENEATH, 0640));
  EXPECT_GE(created.get(), 0);
  open_how how{};
  EXPECT_ERRNO(syscall(SYS_openat2, d.get(), "inside", &how, 8), EINVAL);
  struct {
    open_how how;
    uint64_t more;
  } longer{};
  longer.more = 1;
  EXPECT_ERRNO(syscall(SYS_openat2, d.get(), "inside", &longer, sizeof longer), E2BIG);
  longer.more = 0;
  Fd later(syscall(SYS_openat2, d.get(), "inside", &longer, sizeof longer));
  EXPECT_GE(later.get(), 0);
}

TEST(OpenLimits, NofileIsEmfile) {
  EXPECT_CHILD_OK([] {
    struct {
      uint64_t soft, hard;
    } limit{20, 20};
    CHILD_CHECK(syscall(SYS_prlimit64, 0, 7 /* RLIMIT_NOFILE */, &limit, nullptr) == 0);
    int last = -1;
    for (int i = 0; i < 30; i++) {
      int fd = open("/dev/null", O_RDONLY);
      if (fd < 0) {
        CHILD_CHECK(errno == EMFILE);
        break;
      }
      last = fd;
    }
    CHILD_CHECK(last == 19);
    CHILD_CHECK(dup(0) == -1 && errno == EMFILE);
    CHILD_CHECK(dup2(0, 20) == -1 && errno == EBADF);
    return 0;
  });
}

// A process is killed while its threads are in the middle of creating files: the call comes back to
// a process that is no more.
TEST(OpenDeath, KilledInTheMiddleOfCreating) {
  test::TempDir dir;
  auto* made = static_cast<std::atomic<int>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(made, MAP_FAILED);
  for (int round = 0; round < 30; round++) {
    *made = 0;
    const pid_t pid = test::spawn([&] {
      const auto create = [&](int thread) {
        for (int i = 0;; i++) {
          const std::string name = dir / (std::to_string(thread) + "-" + std::to_string(i));
          const int fd = open(name.c_str(), O_CREAT | O_RDWR, 0600);
          ++*made;
          close(fd);
          unlink(name.c_str());
        }
      };
      std::thread(create, 1).detach();
      std::thread(create, 2).detach();
      create(3);
      return 0;
    });
    EXPECT_TRUE(test::eventually([&] { return *made > 10 + round; }));
    kill(pid, SIGKILL);
    EXPECT_EQ(test::wait_for(pid), SIGKILL);
  }
  munmap(made, 4096);
}

// O_CREAT without O_EXCL never says that there is such a file, however often others make and remove
// it.
TEST_P(Open, CreateWithoutExclNeverFindsIt) {
  const std::string name = path("race");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; i++) {
        const int fd = open(name.c_str(), O_CREAT | O_RDWR, 0644);
        if (fd < 0) wrong++;
        close(fd);
        unlink(name.c_str());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
