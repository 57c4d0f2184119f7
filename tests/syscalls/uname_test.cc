// uname, sysinfo, sethostname.
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Uname, IsALinux) {
  utsname u;
  ASSERT_OK(uname(&u));
  EXPECT_STREQ(u.sysname, "Linux");
  EXPECT_STREQ(u.machine, "x86_64");
  int major = 0, minor = 0;
  EXPECT_EQ(sscanf(u.release, "%d.%d", &major, &minor), 2);
  EXPECT_GE(major, 4);
  char host[65] = {};
  ASSERT_OK(gethostname(host, sizeof host));
  EXPECT_STREQ(host, u.nodename);
  EXPECT_ERRNO(uname(test::bad_pointer<utsname>()), EFAULT);
  // /proc says the same.
  EXPECT_EQ(test::read_file("/proc/sys/kernel/hostname"), std::string(u.nodename) + "\n");
  EXPECT_EQ(test::read_file("/proc/sys/kernel/osrelease"), std::string(u.release) + "\n");
}

TEST(Uname, HostNameNeedsAPrivilege) {
  if (geteuid() == 0) return;
  EXPECT_ERRNO(sethostname("x", 1), EPERM);
  EXPECT_ERRNO(setdomainname("x", 1), EPERM);
}

TEST(Sysinfo, IsPlausible) {
  struct sysinfo info;
  ASSERT_OK(sysinfo(&info));
  EXPECT_GT(info.totalram, 0u);
  EXPECT_LE(info.freeram, info.totalram);
  EXPECT_GE(info.mem_unit, 1u);
  EXPECT_GE(info.uptime, 0);
  EXPECT_GE(info.procs, 1u);
  EXPECT_ERRNO(sysinfo(test::bad_pointer<struct sysinfo>()), EFAULT);
}

}  // namespace
