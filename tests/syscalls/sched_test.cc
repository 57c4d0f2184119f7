// Scheduling parameters, affinity, priorities.
#include <sched.h>
#include <sys/resource.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Sched, PolicyAndParameters) {
  sched_param param{};
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_OK(sched_getparam(0, &param));
  EXPECT_EQ(param.sched_priority, 0);
  EXPECT_OK(sched_setscheduler(0, SCHED_OTHER, &param));
  param.sched_priority = 5;
  EXPECT_ERRNO(sched_setscheduler(0, SCHED_OTHER, &param), EINVAL);
  EXPECT_ERRNO(sched_setscheduler(0, 99, &param), EINVAL);
  EXPECT_ERRNO(sched_getscheduler(4'000'000), ESRCH);
  EXPECT_ERRNO(sched_getparam(-1, &param), EINVAL);
  EXPECT_EQ(sched_get_priority_max(SCHED_FIFO), 99);
  EXPECT_EQ(sched_get_priority_min(SCHED_FIFO), 1);
  EXPECT_EQ(sched_get_priority_max(SCHED_OTHER), 0);
  EXPECT_ERRNO(sched_get_priority_max(99), EINVAL);
  timespec interval;
  EXPECT_OK(sched_rr_get_interval(0, &interval));
  EXPECT_OK(sched_yield());
}

TEST(Sched, Affinity) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_OK(sched_getaffinity(0, sizeof set, &set));
  const int n = CPU_COUNT(&set);
  EXPECT_GE(n, 1);
  EXPECT_EQ(sysconf(_SC_NPROCESSORS_ONLN) >= n, true);
  EXPECT_ERRNO(syscall(SYS_sched_getaffinity, 0, 1, &set), EINVAL);
  EXPECT_CHILD_OK([&] {
    int first = 0;
    while (!CPU_ISSET(first, &set)) first++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHILD_CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    cpu_set_t now;
    CPU_ZERO(&now);
    CHILD_CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
    CHILD_CHECK(CPU_EQUAL(&one, &now));
    CPU_ZERO(&one);
    CHILD_CHECK(sched_setaffinity(0, sizeof one, &one) == -1 && errno == EINVAL);
    return 0;
  });
}

TEST(Sched, Getcpu) {
  unsigned cpu = 9999, node = 9999;
  EXPECT_OK(syscall(SYS_getcpu, &cpu, &node, nullptr));
  EXPECT_LT(cpu, 9999u);
  EXPECT_LT(node, 9999u);
}

TEST(Sched, Nice) {
  EXPECT_CHILD_OK([] {
    const int old = getpriority(PRIO_PROCESS, 0);
    CHILD_CHECK(setpriority(PRIO_PROCESS, 0, old + 3) == 0);
    CHILD_CHECK(getpriority(PRIO_PROCESS, 0) == old + 3);
    CHILD_CHECK(syscall(SYS_getpriority, PRIO_PROCESS, 0) == 20 - (old + 3));
    CHILD_CHECK(setpriority(7, 0, 0) == -1 && errno == EINVAL);
    CHILD_CHECK(setpriority(PRIO_PROCESS, 4'000'000, 0) == -1 && errno == ESRCH);
    CHILD_CHECK(setpriority(PRIO_PROCESS, 0, 100) == 0);
    CHILD_CHECK(getpriority(PRIO_PROCESS, 0) == 19);
    if (geteuid() != 0) {
      CHILD_CHECK(setpriority(PRIO_PROCESS, 0, 0) == -1 && (errno == EACCES || errno == EPERM));
    }
    return 0;
  });
}

}  // namespace
