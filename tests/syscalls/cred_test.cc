// User and group ids, groups, capabilities.
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Ids, AgreeWithEachOther) {
  uid_t r, e, s;
  gid_t rg, eg, sg;
  ASSERT_OK(getresuid(&r, &e, &s));
  ASSERT_OK(getresgid(&rg, &eg, &sg));
  EXPECT_EQ(r, getuid());
  EXPECT_EQ(e, geteuid());
  EXPECT_EQ(rg, getgid());
  EXPECT_EQ(eg, getegid());
  EXPECT_EQ(syscall(SYS_setfsuid, -1), static_cast<long>(e));
  EXPECT_EQ(syscall(SYS_setfsgid, -1), static_cast<long>(eg));
  EXPECT_ERRNO(syscall(SYS_getresuid, 8, &e, &s), EFAULT);
}

TEST(Ids, SettingToWhatOneHas) {
  EXPECT_CHILD_OK([] {
    const uid_t u = getuid();
    const gid_t g = getgid();
    CHILD_CHECK(setuid(u) == 0 && setgid(g) == 0);
    CHILD_CHECK(setreuid(-1, u) == 0 && setregid(-1, g) == 0);
    CHILD_CHECK(setresuid(-1, -1, -1) == 0 && setresgid(-1, -1, -1) == 0);
    return 0;
  });
}

TEST(Ids, DroppingIsForever) {
  EXPECT_CHILD_OK([] {
    if (geteuid() != 0) {
      CHILD_CHECK(setuid(geteuid() + 1) == -1 && errno == EPERM);
      CHILD_CHECK(setgid(getegid() + 1) == -1 && errno == EPERM);
      CHILD_CHECK(setresuid(0, 0, 0) == -1 && errno == EPERM);
      return 0;
    }
    CHILD_CHECK(setgroups(0, nullptr) == 0);
    CHILD_CHECK(setresgid(1000, 1000, 1000) == 0);
    CHILD_CHECK(setresuid(1000, 1000, 1000) == 0);
    CHILD_CHECK(getuid() == 1000 && geteuid() == 1000 && getgid() == 1000);
    CHILD_CHECK(setuid(0) == -1 && errno == EPERM);
    CHILD_CHECK(setgid(0) == -1 && errno == EPERM);
    CHILD_CHECK(setgroups(0, nullptr) == -1 && errno == EPERM);
    CHILD_CHECK(chown("/", 0, 0) == -1);
    return 0;
  });
}

TEST(Ids, EffectiveMayGoAndReturn) {
  if (geteuid() != 0) return;  // needs two ids
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(seteuid(1000) == 0);
    CHILD_CHECK(geteuid() == 1000 && getuid() == 0);
    CHILD_CHECK(seteuid(1001) == -1 && errno == EPERM);
    CHILD_CHECK(seteuid(0) == 0);
    CHILD_CHECK(setreuid(1000, 1001) == 0);
    uid_t r, e, s;
    getresuid(&r, &e, &s);
    CHILD_CHECK(r == 1000 && e == 1001 && s == 1001);
    return 0;
  });
}

TEST(Groups, GetAndSet) {
  const int n = getgroups(0, nullptr);
  ASSERT_GE(n, 0);
  std::vector<gid_t> groups(n + 1);
  EXPECT_EQ(getgroups(n, groups.data()), n);
  if (n > 1) EXPECT_ERRNO(getgroups(n - 1, groups.data()), EINVAL);
  EXPECT_ERRNO(getgroups(-1, groups.data()), EINVAL);
  if (geteuid() == 0) {
    EXPECT_CHILD_OK([] {
      gid_t set[] = {5, 3, 9};
      CHILD_CHECK(setgroups(3, set) == 0);
      gid_t got[3];
      CHILD_CHECK(getgroups(3, got) == 3);
      CHILD_CHECK(got[0] + got[1] + got[2] == 17);
      return 0;
    });
  } else {
    EXPECT_ERRNO(setgroups(0, nullptr), EPERM);
  }
}

TEST(Capabilities, AreReadable) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_OK(syscall(SYS_capget, &header, data));
  if (geteuid() != 0) EXPECT_EQ(data[0].effective & (1u << CAP_SYS_ADMIN), 0u);
  header = {0x12345678, 0};
  EXPECT_ERRNO(syscall(SYS_capget, &header, data), EINVAL);
  EXPECT_EQ(header.version, unsigned{_LINUX_CAPABILITY_VERSION_3});
  header = {_LINUX_CAPABILITY_VERSION_3, 4'000'000};
  EXPECT_ERRNO(syscall(SYS_capget, &header, data), ESRCH);
}

TEST(Capabilities, MayBeDroppedButNotRaised) {
  EXPECT_CHILD_OK([] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {}, some[2] = {};
    CHILD_CHECK(syscall(SYS_capset, &header, none) == 0);
    some[0].effective = some[0].permitted = 1u << CAP_SYS_ADMIN;
    CHILD_CHECK(syscall(SYS_capset, &header, some) == -1 && errno == EPERM);
    return 0;
  });
}

}  // namespace
