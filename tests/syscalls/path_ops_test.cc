// mkdir, rmdir, link, unlink, rename, symlink, readlink, mknod.
#include <linux/fs.h>
#include <sys/sysmacros.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class PathOps : public test::FileTest {
 protected:
  const char* p(std::string_view name) { return names_.emplace_back(path(name)).c_str(); }

 private:
  std::vector<std::string> names_ = [] {
    std::vector<std::string> v;
    v.reserve(1000);  // the pointers stay valid
    return v;
  }();
};
ALL_FILE_SYSTEMS(PathOps);

ino_t inode(const char* path) {
  struct stat st;
  return lstat(path, &st) == 0 ? st.st_ino : 0;
}
nlink_t links(const char* path) {
  struct stat st;
  return lstat(path, &st) == 0 ? st.st_nlink : 0;
}

TEST_P(PathOps, Mkdir) {
  const mode_t old = umask(022);
  EXPECT_OK(mkdir(p("d"), 0777));
  umask(old);
  struct stat st;
  ASSERT_OK(stat(p("d"), &st));
  EXPECT_EQ(st.st_mode, S_IFDIR | 0755u);
  EXPECT_ERRNO(mkdir(p("d"), 0777), EEXIST);
  EXPECT_ERRNO(mkdir(p("d/"), 0777), EEXIST);
  EXPECT_OK(mkdir(p("e/"), 0777));  // a trailing slash is fine for a directory
  EXPECT_ERRNO(mkdir(p("x/y"), 0777), ENOENT);
  test::write_file(path("f"), "");
  EXPECT_ERRNO(mkdir(p("f/y"), 0777), ENOTDIR);
  EXPECT_ERRNO(mkdir("/", 0777), EEXIST);
  EXPECT_ERRNO(mkdir(p("d/."), 0777), EEXIST);
  ASSERT_OK(symlink("nowhere", p("dangling")));
  EXPECT_ERRNO(mkdir(p("dangling"), 0777), EEXIST);
  Fd d(open(p("d"), O_PATH));
  EXPECT_OK(mkdirat(d, "sub", 0700));
  EXPECT_TRUE(test::exists(path("d/sub")));
}

TEST_P(PathOps, Rmdir) {
  ASSERT_OK(mkdir(p("d"), 0755));
  test::write_file(path("d/f"), "");
  EXPECT_ERRNO(rmdir(p("d")), ENOTEMPTY);
  EXPECT_ERRNO(rmdir(p("d/f")), ENOTDIR);
  EXPECT_ERRNO(rmdir(p("d/.")), EINVAL);
  EXPECT_ERRNO(rmdir(p("d/..")), ENOTEMPTY);
  EXPECT_ERRNO(rmdir(p("missing")), ENOENT);
  EXPECT_ERRNO(unlink(p("d")), EISDIR);
  ASSERT_OK(unlink(p("d/f")));
  EXPECT_ERRNO(unlinkat(AT_FDCWD, p("d"), 0), EISDIR);
  EXPECT_OK(unlinkat(AT_FDCWD, p("d"), AT_REMOVEDIR));
  EXPECT_ERRNO(unlinkat(AT_FDCWD, p("d"), 0x1), EINVAL);
}

TEST_P(PathOps, Unlink) {
  test::write_file(path("f"), "");
  EXPECT_OK(unlink(p("f")));
  EXPECT_ERRNO(unlink(p("f")), ENOENT);
  EXPECT_ERRNO(unlink(p("f/x")), ENOENT);
  ASSERT_OK(symlink("target", p("l")));
  test::write_file(path("target"), "");
  EXPECT_OK(unlink(p("l")));  // the link, not its target
  EXPECT_TRUE(test::exists(path("target")));
  EXPECT_ERRNO(unlink(p("target/")), ENOTDIR);
}

TEST_P(PathOps, HardLinks) {
  test::write_file(path("a"), "one");
  EXPECT_OK(link(p("a"), p("b")));
  EXPECT_EQ(inode(p("a")), inode(p("b")));
  EXPECT_EQ(links(p("a")), 2u);
  {
    Fd fd(open(p("b"), O_WRONLY | O_APPEND));
    ASSERT_EQ(write(fd, "two", 3), 3);
  }
  EXPECT_EQ(test::read_file(path("a")), "onetwo");
  ASSERT_OK(chmod(p("b"), 0600));
  struct stat st;
  ASSERT_OK(stat(p("a"), &st));
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_ERRNO(link(p("a"), p("b")), EEXIST);
  EXPECT_ERRNO(link(p("missing"), p("c")), ENOENT);
  ASSERT_OK(mkdir(p("d"), 0755));
  EXPECT_ERRNO(link(p("d"), p("e")), EPERM);
  ASSERT_OK(unlink(p("a")));
  EXPECT_EQ(links(p("b")), 1u);
  EXPECT_EQ(test::read_file(path("b")), "onetwo");
}

TEST_P(PathOps, LinkatFollowsOnlyIfAsked) {
  test::write_file(path("f"), "x");
  ASSERT_OK(symlink("f", p("l")));
  EXPECT_OK(linkat(AT_FDCWD, p("l"), AT_FDCWD, p("copy"), 0));
  struct stat st;
  ASSERT_OK(lstat(p("copy"), &st));
  EXPECT_TRUE(S_ISLNK(st.st_mode));
  EXPECT_OK(linkat(AT_FDCWD, p("l"), AT_FDCWD, p("hard"), AT_SYMLINK_FOLLOW));
  EXPECT_EQ(inode(p("hard")), inode(p("f")));
  EXPECT_ERRNO(linkat(AT_FDCWD, p("l"), AT_FDCWD, p("z"), 0x1), EINVAL);
}

TEST_P(PathOps, Symlinks) {
  EXPECT_OK(symlink("some/where", p("l")));
  char buffer[100] = {};
  EXPECT_EQ(readlink(p("l"), buffer, sizeof buffer), 10);
  EXPECT_STREQ(buffer, "some/where");
  memset(buffer, 'x', sizeof buffer);
  EXPECT_EQ(readlink(p("l"), buffer, 4), 4);  // cut, without a NUL
  EXPECT_EQ(std::string(buffer, 5), "somex");
  EXPECT_ERRNO(readlink(p("l"), buffer, 0), EINVAL);
  EXPECT_ERRNO(symlink("x", p("l")), EEXIST);
  EXPECT_ERRNO(symlink("", p("empty")), ENOENT);
  test::write_file(path("f"), "");
  EXPECT_ERRNO(readlink(p("f"), buffer, sizeof buffer), EINVAL);
  EXPECT_ERRNO(readlink(p("missing"), buffer, sizeof buffer), ENOENT);
  Fd d(open(dir.path().c_str(), O_PATH));
  EXPECT_OK(symlinkat("t", d, "l2"));
  EXPECT_EQ(readlinkat(d, "l2", buffer, sizeof buffer), 1);
  Fd l(open(p("l2"), O_PATH | O_NOFOLLOW));
  EXPECT_EQ(readlinkat(l, "", buffer, sizeof buffer), 1);
}

TEST_P(PathOps, SymlinksInTheMiddle) {
  ASSERT_OK(mkdir(p("d"), 0755));
  test::write_file(path("d/f"), "found");
  ASSERT_OK(symlink("d", p("l")));
  EXPECT_EQ(test::read_file(path("l/f")), "found");
  ASSERT_OK(symlink("../l/../d/f", p("d/l2")));
  EXPECT_EQ(test::read_file(path("l/l2")), "found");
  ASSERT_OK(symlink(path("d").c_str(), p("absolute")));
  EXPECT_EQ(test::read_file(path("absolute/f")), "found");
  struct stat st;
  ASSERT_OK(lstat(p("l/"), &st));  // a trailing slash follows
  EXPECT_TRUE(S_ISDIR(st.st_mode));
}

TEST_P(PathOps, RenameFiles) {
  test::write_file(path("a"), "A");
  test::write_file(path("b"), "B");
  const ino_t ino = inode(p("a"));
  EXPECT_OK(rename(p("a"), p("b")));
  EXPECT_FALSE(test::exists(path("a")));
  EXPECT_EQ(test::read_file(path("b")), "A");
  EXPECT_EQ(inode(p("b")), ino);
  EXPECT_ERRNO(rename(p("missing"), p("c")), ENOENT);
  EXPECT_ERRNO(rename(p("b"), p("x/y")), ENOENT);
  EXPECT_OK(rename(p("b"), p("b")));
  // Two names of one file: nothing happens, both stay.
  ASSERT_OK(link(p("b"), p("c")));
  EXPECT_OK(rename(p("b"), p("c")));
  EXPECT_TRUE(test::exists(path("b")));
  EXPECT_TRUE(test::exists(path("c")));
}

TEST_P(PathOps, RenameDirectories) {
  ASSERT_OK(mkdir(p("a"), 0755));
  test::write_file(path("a/f"), "x");
  EXPECT_OK(rename(p("a"), p("b")));
  EXPECT_EQ(test::read_file(path("b/f")), "x");
  ASSERT_OK(mkdir(p("empty"), 0755));
  EXPECT_OK(rename(p("b"), p("empty")));  // over an empty directory
  EXPECT_TRUE(test::exists(path("empty/f")));
  ASSERT_OK(mkdir(p("full"), 0755));
  test::write_file(path("full/g"), "");
  int r = rename(p("empty"), p("full"));
  EXPECT_TRUE(r == -1 && (errno == ENOTEMPTY || errno == EEXIST));
  test::write_file(path("file"), "");
  EXPECT_ERRNO(rename(p("empty"), p("file")), ENOTDIR);
  EXPECT_ERRNO(rename(p("file"), p("empty")), EISDIR);
  EXPECT_ERRNO(rename(p("empty"), p("empty/inside")), EINVAL);
  EXPECT_OK(rename(p("empty"), p("moved/")));
  EXPECT_ERRNO(rename(p("file"), p("file2/")), ENOTDIR);
}

TEST_P(PathOps, OpenFilesFollowARename) {
  test::write_file(path("a"), "x");
  Fd fd(open(p("a"), O_RDWR | O_APPEND));
  ASSERT_OK(mkdir(p("d"), 0755));
  ASSERT_OK(rename(p("a"), p("d/b")));
  ASSERT_EQ(write(fd, "y", 1), 1);
  EXPECT_EQ(test::read_file(path("d/b")), "xy");
  char link[4096] = {};
  const std::string proc = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_OK(readlink(proc.c_str(), link, sizeof link - 1));
  EXPECT_EQ(link, path("d/b"));
}

TEST_P(PathOps, Renameat2) {
  test::write_file(path("a"), "A");
  test::write_file(path("b"), "B");
  EXPECT_ERRNO(renameat2(AT_FDCWD, p("a"), AT_FDCWD, p("b"), RENAME_NOREPLACE), EEXIST);
  EXPECT_OK(renameat2(AT_FDCWD, p("a"), AT_FDCWD, p("b"), RENAME_EXCHANGE));
  EXPECT_EQ(test::read_file(path("a")), "B");
  EXPECT_EQ(test::read_file(path("b")), "A");
  EXPECT_OK(renameat2(AT_FDCWD, p("a"), AT_FDCWD, p("c"), RENAME_NOREPLACE));
  EXPECT_ERRNO(renameat2(AT_FDCWD, p("a"), AT_FDCWD, p("c"), RENAME_EXCHANGE), ENOENT);
  EXPECT_ERRNO(renameat2(AT_FDCWD, p("c"), AT_FDCWD, p("b"), RENAME_NOREPLACE | RENAME_EXCHANGE),
               EINVAL);
  EXPECT_ERRNO(renameat2(AT_FDCWD, p("c"), AT_FDCWD, p("b"), 0x80), EINVAL);
}

TEST_P(PathOps, RenameAcrossDirectoriesByDescriptor) {
  ASSERT_OK(mkdir(p("d"), 0755));
  ASSERT_OK(mkdir(p("e"), 0755));
  test::write_file(path("d/f"), "x");
  Fd d(open(p("d"), O_PATH)), e(open(p("e"), O_PATH));
  EXPECT_OK(renameat(d, "f", e, "g"));
  EXPECT_EQ(test::read_file(path("e/g")), "x");
}

TEST_P(PathOps, StickyDirectoriesAndParents) {
  // ".." in the new name, "." as a last component.
  ASSERT_OK(mkdir(p("d"), 0755));
  test::write_file(path("f"), "x");
  EXPECT_OK(rename(p("f"), p("d/../g")));
  EXPECT_TRUE(test::exists(path("g")));
  int r = rename(p("d/."), p("x"));
  EXPECT_TRUE(r == -1 && (errno == EBUSY || errno == EINVAL)) << errno;
}

TEST_P(PathOps, Mknod) {
  EXPECT_OK(mknod(p("regular"), S_IFREG | 0644, 0));
  EXPECT_OK(mknod(p("fifo"), S_IFIFO | 0644, 0));
  EXPECT_OK(mknod(p("socket"), S_IFSOCK | 0644, 0));
  struct stat st;
  ASSERT_OK(stat(p("fifo"), &st));
  EXPECT_TRUE(S_ISFIFO(st.st_mode));
  ASSERT_OK(stat(p("socket"), &st));
  EXPECT_TRUE(S_ISSOCK(st.st_mode));
  EXPECT_ERRNO(mknod(p("fifo"), S_IFIFO | 0644, 0), EEXIST);
  EXPECT_ERRNO(mknod(p("bad"), S_IFDIR | 0644, 0), EPERM);
  EXPECT_ERRNO(mknod(p("bad"), 0170000, 0), EINVAL);
  EXPECT_ERRNO(open(p("socket"), O_RDONLY), ENXIO);
  EXPECT_OK(mknodat(AT_FDCWD, p("zero"), 0644, 0));  // type 0 is a regular file
  ASSERT_OK(stat(p("zero"), &st));
  EXPECT_TRUE(S_ISREG(st.st_mode));
}

TEST_P(PathOps, DeepTrees) {
  std::string name = dir.path();
  for (int i = 0; i < 100; i++) {
    name += "/directory" + std::to_string(i);
    ASSERT_OK(mkdir(name.c_str(), 0755));
  }
  test::write_file(name + "/f", "deep");
  EXPECT_EQ(test::read_file(name + "/f"), "deep");
}

TEST_P(PathOps, OddNames) {
  for (const char* name :
       {"with space", "new\nline", "\xff\xfe not utf8", "-dash", "ünï", "...", "a:b"}) {
    test::write_file(path(name), name);
    EXPECT_EQ(test::read_file(path(name)), name);
    EXPECT_OK(rename(p(name), p("other")));
    EXPECT_OK(unlink(p("other")));
  }
}

TEST_P(PathOps, CreateManyAndRemove) {
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 300; i++) test::write_file(path("n" + std::to_string(i)), "x");
    for (int i = 0; i < 300; i++) ASSERT_OK(unlink(path("n" + std::to_string(i)).c_str()));
  }
  EXPECT_OK(mkdir(p("d"), 0755));
}

}  // namespace
