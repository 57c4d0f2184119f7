// Path walks, names and permissions over a tmpfs.
#include "tests/unit/vfs/fixture.h"

namespace uks {
namespace {

TEST_F(VfsTest, WalksFollowLinksAndDots) {
  ASSERT_EQ(mkdir("/a"), 0);
  ASSERT_EQ(mkdir("/a/b/"), 0);
  ASSERT_EQ(write("/a/b/f", "text"), 0);
  ASSERT_EQ(link("/a/b", "/l"), 0);
  ASSERT_EQ(link("../a/./b/f", "/a/m"), 0);
  EXPECT_EQ(read("/l/f"), "text");
  EXPECT_EQ(read("/l/../m"), "text");
  EXPECT_EQ(read("//a///b/../b/f"), "text");
  EXPECT_EQ(find("/../../a"), 0);
  EXPECT_EQ(find("/a/b/f/"), ENOTDIR);
  EXPECT_EQ(find("/a/b/f/x"), ENOTDIR);
  EXPECT_EQ(find("/a/none/x"), ENOENT);
  EXPECT_EQ(find(""), ENOENT);
  EXPECT_EQ(find("/" + std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(find(std::string(4096, '/')), ENAMETOOLONG);
}

TEST_F(VfsTest, LinksEndAtForty) {
  ASSERT_EQ(link("loop", "/loop"), 0);
  EXPECT_EQ(find("/loop"), ELOOP);
  EXPECT_EQ(find("/loop", 0), 0);
  ASSERT_EQ(write("/l0", "x"), 0);
  for (int i = 1; i <= 41; ++i)
    ASSERT_EQ(link("l" + std::to_string(i - 1), "/l" + std::to_string(i)), 0);
  EXPECT_EQ(find("/l40"), 0);
  EXPECT_EQ(find("/l41"), ELOOP);
}

TEST_F(VfsTest, OpenFlags) {
  ASSERT_EQ(mkdir("/d"), 0);
  ASSERT_EQ(link("/d/new", "/dangling"), 0);
  EXPECT_EQ(code(open("/dangling", O_RDONLY)), ENOENT);
  EXPECT_EQ(code(open("/dangling", O_CREAT | O_EXCL | O_WRONLY)), EEXIST);
  EXPECT_EQ(code(open("/dangling", O_CREAT | O_WRONLY)), 0);
  EXPECT_EQ(find("/d/new"), 0);
  EXPECT_EQ(code(open("/dangling", O_RDONLY | O_NOFOLLOW)), ELOOP);
  EXPECT_EQ(code(open("/dangling", O_PATH | O_NOFOLLOW)), 0);
  EXPECT_EQ(code(open("/d", O_WRONLY)), EISDIR);
  EXPECT_EQ(code(open("/d/new", O_RDONLY | O_DIRECTORY)), ENOTDIR);
  EXPECT_EQ(code(open("/d/x/", O_CREAT | O_WRONLY)), EISDIR);
  EXPECT_EQ(code(open("/d", O_CREAT | O_RDONLY)), EISDIR);
  EXPECT_EQ(code(open("/d", O_TMPFILE | O_RDWR)), 0);
}

TEST_F(VfsTest, BeneathAndRooted) {
  ASSERT_EQ(mkdir("/jail"), 0);
  ASSERT_EQ(write("/out", "secret"), 0);
  ASSERT_EQ(write("/jail/out", "mine"), 0);
  ASSERT_EQ(link("/out", "/jail/abs"), 0);
  ASSERT_EQ(link("../out", "/jail/up"), 0);
  Path jail = *resolve(task, root(), "/jail", 0);
  auto look = [&](std::string_view p, uint64_t flags) {
    return code(resolve(task, jail, p, kFollowLast | flags));
  };
  EXPECT_EQ(look("../out", RESOLVE_BENEATH), EXDEV);
  EXPECT_EQ(look("abs", RESOLVE_BENEATH), EXDEV);
  EXPECT_EQ(look("up", RESOLVE_BENEATH), EXDEV);
  EXPECT_EQ(look("out", RESOLVE_BENEATH), 0);
  EXPECT_EQ(look("abs", RESOLVE_NO_SYMLINKS), ELOOP);
  auto rooted = resolve(task, jail, "abs", kFollowLast | RESOLVE_IN_ROOT);
  ASSERT_TRUE(rooted);
  EXPECT_EQ(path_string(*rooted, root()), "/jail/out");
}

TEST_F(VfsTest, RenameRules) {
  ASSERT_EQ(mkdir("/a"), 0);
  ASSERT_EQ(mkdir("/a/b"), 0);
  ASSERT_EQ(write("/f", "f"), 0);
  ASSERT_EQ(write("/g", "g"), 0);
  EXPECT_EQ(rename("/a", "/a/b/c"), EINVAL);
  EXPECT_EQ(rename("/a/b", "/a"), ENOTEMPTY);
  EXPECT_EQ(rename("/f", "/a"), EISDIR);
  EXPECT_EQ(rename("/a", "/f"), ENOTDIR);
  EXPECT_EQ(rename("/f", "/g", 1 /* NOREPLACE */), EEXIST);
  EXPECT_EQ(rename("/f", "/g", 2 /* EXCHANGE */), 0);
  EXPECT_EQ(read("/f") + read("/g"), "gf");
  EXPECT_EQ(rename("/f", "/g"), 0);
  EXPECT_EQ(find("/f"), ENOENT);
  EXPECT_EQ(read("/g"), "g");
  EXPECT_EQ(stat("/").nlink, 3u);
  EXPECT_EQ(rename("/a/b", "/b"), 0);
  EXPECT_EQ(stat("/").nlink, 4u);
  EXPECT_EQ(stat("/a").nlink, 2u);
}

TEST_F(VfsTest, PermissionsAndSticky) {
  ASSERT_EQ(mkdir("/closed", 0700), 0);
  ASSERT_EQ(write("/closed/f", "x"), 0);
  task.fs().umask = 0;
  ASSERT_EQ(mkdir("/tmp", 01777), 0);
  ASSERT_EQ(write("/tmp/mine", "x"), 0);
  Credentials other = task.copy_creds();
  other.fsuid = other.euid = 2000;
  other.fsgid = other.egid = 2000;
  task.set_creds(other);
  EXPECT_EQ(find("/closed/f"), EACCES);
  EXPECT_EQ(unlink("/tmp/mine"), EPERM);
  EXPECT_EQ(code(open("/tmp/mine", O_WRONLY)), EACCES);
  EXPECT_EQ(code(open("/tmp/theirs", O_CREAT | O_WRONLY)), 0);
  EXPECT_EQ(stat("/tmp/theirs").uid, 2000u);
  other.cap_effective = ~0ull;
  task.set_creds(other);
  EXPECT_EQ(find("/closed/f"), 0);
  EXPECT_EQ(unlink("/tmp/mine"), 0);
}

TEST_F(VfsTest, DeletedFilesStayUsable) {
  ASSERT_EQ(write("/f", "data"), 0);
  auto f = open("/f", O_RDONLY);
  ASSERT_TRUE(f);
  ASSERT_EQ(unlink("/f"), 0);
  EXPECT_EQ(read(**f), "data");
  EXPECT_EQ(path_string((*f)->path(), root()), "/f (deleted)");
  EXPECT_EQ((*f)->inode()->getattr()->nlink, 0u);
  ASSERT_EQ(write("/f", "new"), 0);
  EXPECT_EQ(read(**f), "data");
}

TEST_F(VfsTest, CreatingWithASlashBehind) {
  ASSERT_EQ(write("/f", ""), 0);
  ASSERT_EQ(mkdir("/d"), 0);
  EXPECT_EQ(code(open("/f/", O_CREAT | O_EXCL | O_WRONLY)), EISDIR);
  EXPECT_EQ(code(open("/d/", O_CREAT | O_EXCL | O_RDONLY)), EISDIR);
  EXPECT_EQ(code(open("/new/", O_CREAT | O_WRONLY)), EISDIR);
  EXPECT_EQ(code(open("/d/..", O_CREAT | O_EXCL | O_RDONLY)), EEXIST);
  EXPECT_EQ(code(open("/d/.", O_CREAT | O_RDONLY)), EISDIR);
  EXPECT_EQ(code(open("/new", O_CREAT | O_DIRECTORY | O_RDONLY)), EINVAL);
  EXPECT_EQ(find("/new"), ENOENT);
}

// A chain of directories as deep as a guest likes must not overflow the kernel's stack when it
// goes.
TEST_F(VfsTest, DeepChainsDoNotRecurse) {
  mount_root(make_ref<Tmpfs>(1 << 30)->make_root(0755, 1000, 1000));
  Path at = root();
  for (int i = 0; i < 60'000; ++i) {
    ASSERT_TRUE(make_directory(task, at, "d", 0755));
    at = *resolve(task, at, "d", 0);
  }
  drop_dentry_cache();
  at = {};
  SUCCEED();
}

}  // namespace
}  // namespace uks
