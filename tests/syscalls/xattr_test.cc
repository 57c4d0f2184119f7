// Extended attributes in the user namespace.
#include <sys/xattr.h>

#include <set>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Xattr : public test::FileTest {
 protected:
  // A file system may have none: then EOPNOTSUPP and nothing else.
  bool supported() {
    test::write_file(path("f"), "x");
    return setxattr(path("f").c_str(), "user.probe", "1", 1, 0) == 0;
  }
};
ALL_FILE_SYSTEMS(Xattr);

TEST_P(Xattr, SetGetListRemove) {
  if (!supported()) {
    EXPECT_EQ(errno, EOPNOTSUPP);
    return;
  }
  const std::string f = path("f");
  char buffer[100] = {};
  EXPECT_OK(setxattr(f.c_str(), "user.a", "value", 5, 0));
  EXPECT_EQ(getxattr(f.c_str(), "user.a", buffer, sizeof buffer), 5);
  EXPECT_STREQ(buffer, "value");
  EXPECT_EQ(getxattr(f.c_str(), "user.a", nullptr, 0), 5);
  EXPECT_ERRNO(getxattr(f.c_str(), "user.a", buffer, 3), ERANGE);
  EXPECT_ERRNO(getxattr(f.c_str(), "user.none", buffer, 10), ENODATA);
  EXPECT_ERRNO(setxattr(f.c_str(), "user.a", "v", 1, XATTR_CREATE), EEXIST);
  EXPECT_ERRNO(setxattr(f.c_str(), "user.none", "v", 1, XATTR_REPLACE), ENODATA);
  EXPECT_ERRNO(setxattr(f.c_str(), "user.a", "v", 1, 77), EINVAL);
  Fd fd(open(f.c_str(), O_RDWR));
  EXPECT_OK(fsetxattr(fd, "user.b", "", 0, 0));
  EXPECT_EQ(fgetxattr(fd, "user.b", buffer, sizeof buffer), 0);
  ssize_t n = listxattr(f.c_str(), buffer, sizeof buffer);
  ASSERT_GT(n, 0);
  std::set<std::string> names;
  for (ssize_t i = 0; i < n; i += static_cast<ssize_t>(strlen(buffer + i)) + 1)
    names.insert(buffer + i);
  EXPECT_TRUE(names.contains("user.a") && names.contains("user.b"));
  EXPECT_EQ(flistxattr(fd, nullptr, 0), n);
  EXPECT_OK(removexattr(f.c_str(), "user.a"));
  EXPECT_ERRNO(removexattr(f.c_str(), "user.a"), ENODATA);
  EXPECT_OK(fremovexattr(fd, "user.b"));
}

TEST_P(Xattr, Errors) {
  test::write_file(path("f"), "x");
  char buffer[10];
  EXPECT_ERRNO(getxattr(path("missing").c_str(), "user.a", buffer, 10), ENOENT);
  EXPECT_ERRNO(fgetxattr(999, "user.a", buffer, 10), EBADF);
  EXPECT_ERRNO(setxattr(path("f").c_str(), "nonamespace", "v", 1, 0), EOPNOTSUPP);
  ASSERT_OK(symlink("f", path("l").c_str()));
  int r = lsetxattr(path("l").c_str(), "user.a", "v", 1, 0);
  EXPECT_TRUE(r == -1 && (errno == EPERM || errno == EOPNOTSUPP)) << errno;
}

}  // namespace
