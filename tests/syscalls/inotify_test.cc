// inotify_init, inotify_init1, inotify_add_watch, inotify_rm_watch.
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <climits>
#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

using Lines = std::vector<std::string>;

struct Bit {
  uint32_t bit;
  const char* name;
};
constexpr Bit kBits[] = {
    {IN_ACCESS, "ACCESS"},
    {IN_MODIFY, "MODIFY"},
    {IN_ATTRIB, "ATTRIB"},
    {IN_CLOSE_WRITE, "CLOSE_WRITE"},
    {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"},
    {IN_OPEN, "OPEN"},
    {IN_MOVED_FROM, "MOVED_FROM"},
    {IN_MOVED_TO, "MOVED_TO"},
    {IN_CREATE, "CREATE"},
    {IN_DELETE, "DELETE"},
    {IN_DELETE_SELF, "DELETE_SELF"},
    {IN_MOVE_SELF, "MOVE_SELF"},
    {IN_UNMOUNT, "UNMOUNT"},
    {IN_Q_OVERFLOW, "Q_OVERFLOW"},
    {IN_IGNORED, "IGNORED"},
    {IN_ISDIR, "ISDIR"},
};

std::string text_of(const inotify_event& e) {
  std::string line = std::to_string(e.wd);
  for (const auto& [bit, name] : kBits) {
    if (e.mask & bit) line += std::string(" ") + name;
  }
  if (e.len > 0) line += std::string(" ") + e.name;
  return line;
}

class Inotify : public test::FileTest {
 protected:
  void SetUp() override { ASSERT_GE(fd.get(), 0); }

  int watch(const std::string& path, uint32_t mask = IN_ALL_EVENTS) {
    const int wd = inotify_add_watch(fd, path.c_str(), mask);
    EXPECT_GT(wd, 0) << path << ": " << strerror(errno);
    return wd;
  }
  // All that waits to be read: "WD EVENTS NAME".
  Lines events() {
    Lines lines;
    cookies.clear();
    alignas(inotify_event) char buffer[65536];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
      for (ssize_t at = 0; at < n;) {
        const auto* e = reinterpret_cast<const inotify_event*>(buffer + at);
        lines.push_back(text_of(*e));
        cookies.push_back(e->cookie);
        at += static_cast<ssize_t>(sizeof *e + e->len);
      }
    }
    EXPECT_EQ(errno, EAGAIN);
    return lines;
  }

  test::Fd fd{inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
  std::vector<uint32_t> cookies;
};
ALL_FILE_SYSTEMS(Inotify);

TEST_P(Inotify, Flags) {
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(fd, F_GETFL), O_RDONLY | O_NONBLOCK);
  test::Fd plain(inotify_init());
  EXPECT_EQ(fcntl(plain, F_GETFD), 0);
  EXPECT_EQ(fcntl(plain, F_GETFL), O_RDONLY);
  EXPECT_ERRNO(inotify_init1(1), EINVAL);
  EXPECT_ERRNO(write(fd, "x", 1), EBADF);
  EXPECT_EQ(lseek(fd, 5, SEEK_SET), 0);  // does nothing
}

TEST_P(Inotify, Arguments) {
  test::write_file(path("f"), "");
  const std::string f = path("f");
  EXPECT_ERRNO(inotify_add_watch(fd, f.c_str(), 0), EINVAL);
  EXPECT_ERRNO(inotify_add_watch(-1, f.c_str(), IN_OPEN), EBADF);
  EXPECT_ERRNO(inotify_add_watch(0, f.c_str(), IN_OPEN), EINVAL);
  EXPECT_ERRNO(inotify_add_watch(fd, path("none").c_str(), IN_OPEN), ENOENT);
  EXPECT_ERRNO(inotify_add_watch(fd, "", IN_OPEN), ENOENT);
  EXPECT_ERRNO(inotify_add_watch(fd, test::bad_pointer<char>(), IN_OPEN), EFAULT);
  EXPECT_ERRNO(inotify_add_watch(fd, f.c_str(), IN_OPEN | IN_ONLYDIR), ENOTDIR);
  EXPECT_ERRNO(inotify_add_watch(fd, f.c_str(), IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE), EINVAL);
  EXPECT_ERRNO(inotify_rm_watch(fd, 1), EINVAL);
  EXPECT_ERRNO(inotify_rm_watch(-1, 1), EBADF);
  EXPECT_ERRNO(inotify_rm_watch(0, 1), EINVAL);
}

TEST_P(Inotify, AFileIsMade) {
  watch(dir.path());
  test::write_file(path("f"), "abc");
  EXPECT_EQ(events(), (Lines{"1 CREATE f", "1 OPEN f", "1 MODIFY f", "1 CLOSE_WRITE f"}));
  EXPECT_EQ(test::read_file(path("f")), "abc");
  EXPECT_EQ(events(), (Lines{"1 OPEN f", "1 ACCESS f", "1 CLOSE_NOWRITE f"}));
  test::write_file(path("f"), "");  // O_TRUNC
  EXPECT_EQ(events(), (Lines{"1 OPEN f", "1 MODIFY f", "1 CLOSE_WRITE f"}));
}

TEST_P(Inotify, EverySortOfNode) {
  watch(dir.path());
  EXPECT_OK(mkdir(path("d").c_str(), 0700));
  EXPECT_OK(symlink("d", path("l").c_str()));
  EXPECT_OK(mkfifo(path("p").c_str(), 0600));
  EXPECT_EQ(events(), (Lines{"1 CREATE ISDIR d", "1 CREATE l", "1 CREATE p"}));
  test::Fd s(socket(AF_UNIX, SOCK_STREAM, 0));
  const int here = open(".", O_DIRECTORY | O_CLOEXEC);
  ASSERT_OK(chdir(dir.path().c_str()));
  sockaddr_un name{AF_UNIX, "s"};
  EXPECT_OK(bind(s, reinterpret_cast<sockaddr*>(&name), sizeof name));
  ASSERT_OK(fchdir(here));
  close(here);
  EXPECT_EQ(events(), (Lines{"1 CREATE s"}));
  EXPECT_OK(rmdir(path("d").c_str()));
  EXPECT_OK(unlink(path("l").c_str()));
  EXPECT_OK(unlink(path("p").c_str()));
  EXPECT_EQ(events(), (Lines{"1 DELETE ISDIR d", "1 DELETE l", "1 DELETE p"}));
}

TEST_P(Inotify, TheFileItself) {
  test::write_file(path("f"), "abc");
  watch(path("f"));
  EXPECT_EQ(test::read_file(path("f")), "abc");
  EXPECT_EQ(events(), (Lines{"1 OPEN", "1 ACCESS", "1 CLOSE_NOWRITE"}));
  EXPECT_OK(chmod(path("f").c_str(), 0600));
  EXPECT_OK(chown(path("f").c_str(), getuid(), getgid()));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB"}));  // two of a kind are one
  EXPECT_OK(truncate(path("f").c_str(), 1));
  EXPECT_EQ(events(), (Lines{"1 MODIFY"}));
  EXPECT_OK(rename(path("f").c_str(), path("g").c_str()));
  EXPECT_EQ(events(), (Lines{"1 MOVE_SELF"}));
  EXPECT_OK(unlink(path("g").c_str()));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB", "1 DELETE_SELF", "1 IGNORED"}));
  EXPECT_ERRNO(inotify_rm_watch(fd, 1), EINVAL);
}

TEST_P(Inotify, ADirectoryItself) {
  EXPECT_OK(mkdir(path("d").c_str(), 0700));
  watch(path("d"));
  EXPECT_OK(chmod(path("d").c_str(), 0755));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB ISDIR"}));
  EXPECT_OK(rename(path("d").c_str(), path("e").c_str()));
  EXPECT_EQ(events(), (Lines{"1 MOVE_SELF"}));
  EXPECT_FALSE(test::exists(path("e/none")));
  EXPECT_OK(rmdir(path("e").c_str()));
  EXPECT_EQ(events(), (Lines{"1 DELETE_SELF", "1 IGNORED"}));
}

TEST_P(Inotify, BothTheFileAndItsDirectory) {
  test::write_file(path("f"), "abc");
  watch(dir.path());
  watch(path("f"));
  EXPECT_EQ(test::read_file(path("f")), "abc");
  EXPECT_EQ(events(), (Lines{"1 OPEN f", "2 OPEN", "1 ACCESS f", "2 ACCESS", "1 CLOSE_NOWRITE f",
                             "2 CLOSE_NOWRITE"}));
  EXPECT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(events(), (Lines{"2 ATTRIB", "2 DELETE_SELF", "2 IGNORED", "1 DELETE f"}));
}

TEST_P(Inotify, RemovedWhileOpen) {
  test::write_file(path("f"), "abc");
  test::Fd open_file(open(path("f").c_str(), O_RDWR));
  watch(dir.path());
  watch(path("f"));
  EXPECT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(events(), (Lines{"2 ATTRIB", "1 DELETE f"}));
  char c;
  EXPECT_EQ(read(open_file, &c, 1), 1);
  EXPECT_EQ(events(), (Lines{"1 ACCESS f", "2 ACCESS"}));
  open_file.reset();
  EXPECT_EQ(events(), (Lines{"1 CLOSE_WRITE f", "2 CLOSE_WRITE", "2 DELETE_SELF", "2 IGNORED"}));
}

TEST_P(Inotify, ExcludeUnlinked) {
  test::write_file(path("f"), "abc");
  test::Fd open_file(open(path("f").c_str(), O_RDWR));
  watch(dir.path(), IN_ALL_EVENTS | IN_EXCL_UNLINK);
  EXPECT_EQ(pwrite(open_file, "x", 1, 0), 1);
  EXPECT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(pwrite(open_file, "y", 1, 0), 1);
  open_file.reset();
  EXPECT_EQ(events(), (Lines{"1 MODIFY f", "1 DELETE f"}));
}

TEST_P(Inotify, HardLinks) {
  test::write_file(path("f"), "abc");
  watch(dir.path());
  watch(path("f"));
  EXPECT_OK(link(path("f").c_str(), path("g").c_str()));
  EXPECT_EQ(events(), (Lines{"2 ATTRIB", "1 CREATE g"}));
  EXPECT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(events(), (Lines{"2 ATTRIB", "1 DELETE f"}));
  EXPECT_EQ(test::read_file(path("g")), "abc");
  EXPECT_EQ(events(), (Lines{"1 OPEN g", "2 OPEN", "1 ACCESS g", "2 ACCESS", "1 CLOSE_NOWRITE g",
                             "2 CLOSE_NOWRITE"}));
  EXPECT_OK(unlink(path("g").c_str()));
  EXPECT_EQ(events(), (Lines{"2 ATTRIB", "2 DELETE_SELF", "2 IGNORED", "1 DELETE g"}));
}

TEST_P(Inotify, Renames) {
  EXPECT_OK(mkdir(path("a").c_str(), 0700));
  EXPECT_OK(mkdir(path("b").c_str(), 0700));
  test::write_file(path("a/f"), "");
  watch(path("a"));
  watch(path("b"));
  watch(path("a/f"));
  EXPECT_OK(rename(path("a/f").c_str(), path("b/g").c_str()));
  EXPECT_EQ(events(), (Lines{"1 MOVED_FROM f", "2 MOVED_TO g", "3 MOVE_SELF"}));
  EXPECT_NE(cookies[0], 0u);
  EXPECT_EQ(cookies[0], cookies[1]);
  EXPECT_EQ(cookies[2], 0u);
  const uint32_t first = cookies[0];
  EXPECT_OK(rename(path("b/g").c_str(), path("b/h").c_str()));
  EXPECT_EQ(events(), (Lines{"2 MOVED_FROM g", "2 MOVED_TO h", "3 MOVE_SELF"}));
  EXPECT_NE(cookies[0], first);
  EXPECT_OK(mkdir(path("a/d").c_str(), 0700));
  events();
  EXPECT_OK(rename(path("a/d").c_str(), path("b/d").c_str()));
  EXPECT_EQ(events(), (Lines{"1 MOVED_FROM ISDIR d", "2 MOVED_TO ISDIR d"}));
}

TEST_P(Inotify, RenameOverAFile) {
  test::write_file(path("f"), "");
  test::write_file(path("g"), "");
  watch(dir.path());
  watch(path("f"));
  watch(path("g"));
  EXPECT_OK(rename(path("f").c_str(), path("g").c_str()));
  EXPECT_EQ(events(), (Lines{"1 MOVED_FROM f", "1 MOVED_TO g", "3 ATTRIB", "2 MOVE_SELF",
                             "3 DELETE_SELF", "3 IGNORED"}));
  test::write_file(path("g"), "");
  EXPECT_EQ(events().front(), "1 OPEN g");  // nothing to truncate
}

TEST_P(Inotify, Exchange) {
  test::write_file(path("f"), "");
  EXPECT_OK(mkdir(path("d").c_str(), 0700));
  watch(dir.path());
  watch(path("f"));
  watch(path("d"));
  ASSERT_OK(renameat2(AT_FDCWD, path("f").c_str(), AT_FDCWD, path("d").c_str(), RENAME_EXCHANGE));
  EXPECT_EQ(events(), (Lines{"1 MOVED_FROM f", "1 MOVED_TO d", "2 MOVE_SELF",
                             "1 MOVED_FROM ISDIR d", "1 MOVED_TO ISDIR f", "3 MOVE_SELF"}));
  EXPECT_EQ(cookies[0], cookies[1]);
  EXPECT_EQ(cookies[3], cookies[4]);
  EXPECT_NE(cookies[0], cookies[3]);
}

TEST_P(Inotify, Times) {
  test::write_file(path("f"), "");
  watch(dir.path());
  const timespec both[2] = {{1, 0}, {2, 0}};
  const timespec access[2] = {{3, 0}, {0, UTIME_OMIT}};
  const timespec modify[2] = {{0, UTIME_OMIT}, {4, 0}};
  EXPECT_OK(utimensat(AT_FDCWD, path("f").c_str(), both, 0));
  EXPECT_OK(utimensat(AT_FDCWD, path("f").c_str(), access, 0));
  EXPECT_OK(utimensat(AT_FDCWD, path("f").c_str(), modify, 0));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB f", "1 ACCESS f", "1 MODIFY f"}));
}

TEST_P(Inotify, WhateverElseWrites) {
  test::write_file(path("in"), "abcd");
  test::write_file(path("out"), "");
  test::Fd in(open(path("in").c_str(), O_RDWR)), out(open(path("out").c_str(), O_RDWR));
  watch(dir.path(), IN_ACCESS | IN_MODIFY | IN_ATTRIB);
  EXPECT_EQ(copy_file_range(in, nullptr, out, nullptr, 4, 0), 4);
  EXPECT_EQ(events(), (Lines{"1 ACCESS in", "1 MODIFY out"}));
  EXPECT_EQ(lseek(in, 0, SEEK_SET), 0);
  EXPECT_EQ(sendfile(out, in, nullptr, 2), 2);
  EXPECT_EQ(events(), (Lines{"1 ACCESS in", "1 MODIFY out"}));
  EXPECT_OK(ftruncate(out, 3));
  EXPECT_EQ(events(), (Lines{"1 MODIFY out"}));
  EXPECT_EQ(posix_fallocate(out, 0, 100), 0);
  EXPECT_EQ(events(), (Lines{"1 MODIFY out"}));
  EXPECT_OK(fchmod(out, 0600));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB out"}));
  if (fsetxattr(out, "user.a", "b", 1, 0) == 0) {
    EXPECT_OK(fremovexattr(out, "user.a"));
    EXPECT_EQ(events(), (Lines{"1 ATTRIB out"}));
  }
  char c[8];
  EXPECT_EQ(pread(in, c, sizeof c, 100), 0);  // nothing was read
  EXPECT_EQ(write(out, c, 0), 0);
  EXPECT_EQ(events(), (Lines{}));
}

TEST_P(Inotify, Listing) {
  EXPECT_OK(mkdir(path("d").c_str(), 0700));
  watch(dir.path());
  watch(path("d"));
  test::Fd d(open(path("d").c_str(), O_RDONLY | O_DIRECTORY));
  char buffer[1024];
  EXPECT_GT(syscall(SYS_getdents64, d.get(), buffer, sizeof buffer), 0);
  d.reset();
  EXPECT_EQ(events(), (Lines{"1 OPEN ISDIR d", "2 OPEN ISDIR", "1 ACCESS ISDIR d", "2 ACCESS ISDIR",
                             "1 CLOSE_NOWRITE ISDIR d", "2 CLOSE_NOWRITE ISDIR"}));
}

TEST_P(Inotify, Masks) {
  test::write_file(path("f"), "");
  const int wd = watch(path("f"), IN_OPEN);
  EXPECT_EQ(watch(path("f"), IN_ATTRIB), wd);  // in place of the old one
  test::read_file(path("f"));
  EXPECT_OK(chmod(path("f").c_str(), 0600));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB"}));
  EXPECT_EQ(watch(path("f"), IN_OPEN | IN_MASK_ADD), wd);
  test::read_file(path("f"));
  EXPECT_OK(chmod(path("f").c_str(), 0644));
  EXPECT_EQ(events(), (Lines{"1 OPEN", "1 ATTRIB"}));
  EXPECT_ERRNO(inotify_add_watch(fd, path("f").c_str(), IN_OPEN | IN_MASK_CREATE), EEXIST);
  // Another name is the same file.
  EXPECT_OK(link(path("f").c_str(), path("g").c_str()));
  EXPECT_EQ(watch(path("g"), IN_OPEN), wd);
}

TEST_P(Inotify, OneShot) {
  test::write_file(path("f"), "");
  watch(path("f"), IN_ALL_EVENTS | IN_ONESHOT);
  test::read_file(path("f"));
  EXPECT_EQ(events(), (Lines{"1 OPEN", "1 IGNORED"}));
  EXPECT_EQ(watch(path("f"), IN_OPEN), 2);  // numbers are not used again
}

TEST_P(Inotify, RemovedWatch) {
  test::write_file(path("f"), "");
  EXPECT_EQ(watch(path("f")), 1);
  EXPECT_OK(inotify_rm_watch(fd, 1));
  test::read_file(path("f"));
  EXPECT_EQ(events(), (Lines{"1 IGNORED"}));
}

TEST_P(Inotify, LinksAreFollowedOrNot) {
  test::write_file(path("f"), "");
  EXPECT_OK(symlink("f", path("l").c_str()));
  watch(path("l"), IN_ALL_EVENTS | IN_DONT_FOLLOW);
  test::read_file(path("l"));
  EXPECT_EQ(events(), (Lines{}));
  watch(path("l"));
  test::read_file(path("l"));
  EXPECT_EQ(events(), (Lines{"2 OPEN", "2 CLOSE_NOWRITE"}));
  EXPECT_OK(unlink(path("l").c_str()));
  EXPECT_EQ(events(), (Lines{"1 ATTRIB", "1 DELETE_SELF", "1 IGNORED"}));
}

TEST_P(Inotify, Execution) {
  EXPECT_OK(link("/bin/true", path("x").c_str()) == 0 || errno == EXDEV || errno == EPERM);
  test::write_file(path("s"), "#!/bin/sh\nexit 0\n", 0755);
  watch(path("s"), IN_OPEN | IN_CLOSE);
  EXPECT_CHILD_OK([&] {
    execl(path("s").c_str(), "s", nullptr);
    return 1;
  });
  const Lines seen = events();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front(), "1 OPEN");
  EXPECT_EQ(seen.back(), "1 CLOSE_NOWRITE");
}

TEST_P(Inotify, OPathIsNoOpening) {
  test::write_file(path("f"), "");
  watch(dir.path());
  test::Fd p(open(path("f").c_str(), O_PATH));
  EXPECT_GE(p.get(), 0);
  p.reset();
  EXPECT_EQ(events(), (Lines{}));
}

TEST_P(Inotify, UnnamedFiles) {
  watch(dir.path());
  test::Fd f(open(dir.path().c_str(), O_TMPFILE | O_RDWR, 0600));
  ASSERT_GE(f.get(), 0);
  EXPECT_EQ(write(f, "x", 1), 1);
  EXPECT_EQ(events().size(), 2u);  // OPEN and MODIFY of #INODE
  EXPECT_OK(linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(f)).c_str(), AT_FDCWD,
                   path("f").c_str(), AT_SYMLINK_FOLLOW));
  test::sleep_ms(20);  // what might come late
  EXPECT_EQ(events(), (Lines{"1 CREATE f"}));
}

TEST_P(Inotify, ShortBuffers) {
  watch(dir.path());
  test::write_file(path("f"), "");
  char buffer[64];
  EXPECT_ERRNO(read(fd, buffer, 16), EINVAL);
  int waiting = 0;
  EXPECT_OK(ioctl(fd, FIONREAD, &waiting));
  EXPECT_EQ(waiting, 3 * 32);
  EXPECT_EQ(read(fd, buffer, 63), 32);
  EXPECT_EQ(read(fd, buffer, 64), 64);
  EXPECT_ERRNO(read(fd, buffer, 64), EAGAIN);
  EXPECT_ERRNO(read(fd, buffer, 0), EAGAIN);
  const std::string name(16, 'n');  // with its zero byte one more than a unit
  test::write_file(path(name), "");
  EXPECT_OK(ioctl(fd, FIONREAD, &waiting));
  EXPECT_EQ(waiting, 3 * (16 + 32));
}

TEST_P(Inotify, Polling) {
  watch(dir.path());
  pollfd p{fd, POLLIN | POLLOUT, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  std::thread writer([&] {
    test::sleep_ms(20);
    test::write_file(path("f"), "");
  });
  EXPECT_EQ(poll(&p, 1, 10'000), 1);
  EXPECT_EQ(p.revents, POLLIN);
  writer.join();
}

TEST_P(Inotify, BlockingRead) {
  ASSERT_OK(fcntl(fd, F_SETFL, 0));
  watch(dir.path(), IN_CREATE);
  std::thread writer([&] {
    test::sleep_ms(20);
    test::write_file(path("f"), "");
  });
  alignas(inotify_event) char buffer[256];
  EXPECT_EQ(read(fd, buffer, sizeof buffer), 32);
  EXPECT_EQ(text_of(*reinterpret_cast<inotify_event*>(buffer)), "1 CREATE f");
  writer.join();
}

TEST_P(Inotify, TwoInstances) {
  test::Fd other(inotify_init1(IN_NONBLOCK));
  watch(dir.path(), IN_CREATE);
  EXPECT_EQ(inotify_add_watch(other, dir.path().c_str(), IN_DELETE), 1);
  test::write_file(path("f"), "");
  EXPECT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(events(), (Lines{"1 CREATE f"}));
  std::swap(fd, other);
  EXPECT_EQ(events(), (Lines{"1 DELETE f"}));
}

TEST_P(Inotify, AnotherProcessChanges) {
  watch(dir.path(), IN_CREATE | IN_CLOSE_WRITE);
  EXPECT_CHILD_OK([&] {
    test::write_file(path("f"), "abc");
    return 0;
  });
  EXPECT_EQ(events(), (Lines{"1 CREATE f", "1 CLOSE_WRITE f"}));
}

TEST_P(Inotify, MadeAnewUnderTheSameName) {
  watch(dir.path(), IN_CREATE | IN_DELETE);
  for (int i = 0; i < 3; i++) {
    test::write_file(path("f"), "");
    EXPECT_OK(unlink(path("f").c_str()));
  }
  EXPECT_EQ(events(), (Lines{"1 CREATE f", "1 DELETE f", "1 CREATE f", "1 DELETE f", "1 CREATE f",
                             "1 DELETE f"}));
}

TEST_P(Inotify, Overflow) {
  watch(dir.path(), IN_CREATE | IN_DELETE);
  const size_t limit = std::stoul(test::read_file("/proc/sys/fs/inotify/max_queued_events"));
  ASSERT_LE(limit, 100'000u);
  for (size_t i = 0; i < limit / 2 + 10; i++) {
    ASSERT_OK(mkfifo(path("f").c_str(), 0600));
    ASSERT_OK(unlink(path("f").c_str()));
  }
  const Lines seen = events();
  ASSERT_EQ(seen.size(), limit + 1);
  EXPECT_EQ(seen[0], "1 CREATE f");
  EXPECT_EQ(seen[limit - 1], "1 DELETE f");
  EXPECT_EQ(seen[limit], "-1 Q_OVERFLOW");
}

TEST_P(Inotify, Limits) {
  EXPECT_FALSE(test::read_file("/proc/sys/fs/inotify/max_user_instances").empty());
  EXPECT_FALSE(test::read_file("/proc/sys/fs/inotify/max_user_watches").empty());
  std::vector<test::Fd> many;
  for (int i = 0; i < 10'000; i++) {
    many.emplace_back(inotify_init1(0));
    if (many.back().get() < 0) break;
  }
  EXPECT_EQ(errno, EMFILE);
  EXPECT_GT(many.size(), 20u);
}

TEST_P(Inotify, WhatProcShows) {
  watch(dir.path(), IN_OPEN);
  char link[64] = {};
  EXPECT_GT(readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), link, sizeof link - 1), 0);
  EXPECT_EQ(std::string(link), "anon_inode:inotify");
  const std::string info = test::read_file("/proc/self/fdinfo/" + std::to_string(fd));
  EXPECT_NE(info.find("inotify wd:1 ino:"), std::string::npos) << info;
  EXPECT_NE(info.find("mask:20 ignored_mask:0"), std::string::npos) << info;
}

TEST_P(Inotify, Unreadable) {
  test::write_file(path("f"), "", 0200);
  EXPECT_OK(chmod(dir.path().c_str(), 0755));
  EXPECT_CHILD_OK([&] {
    if (getuid() == 0) CHILD_CHECK(setresuid(1, 1, 1) == 0);
    errno = 0;
    CHILD_CHECK(inotify_add_watch(fd, path("f").c_str(), IN_OPEN) == -1);
    CHILD_CHECK(errno == EACCES);
    return 0;
  });
}

}  // namespace
