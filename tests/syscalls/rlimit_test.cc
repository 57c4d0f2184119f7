// getrlimit, setrlimit, prlimit64, getrusage.
#include <sys/resource.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Rlimit, GetAndSet) {
  EXPECT_CHILD_OK([] {
    rlimit a, b;
    CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &a) == 0);
    b = {64, a.rlim_max};
    CHILD_CHECK(syscall(SYS_setrlimit, RLIMIT_NOFILE, &b) == 0);
    CHILD_CHECK(syscall(SYS_getrlimit, RLIMIT_NOFILE, &a) == 0);
    CHILD_CHECK(a.rlim_cur == 64);
    CHILD_CHECK(prlimit(0, RLIMIT_NOFILE, nullptr, &a) == 0 && a.rlim_cur == 64);
    CHILD_CHECK(prlimit(getpid(), RLIMIT_NOFILE, &b, &a) == 0);
    b = {10, 5};
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &b) == -1 && errno == EINVAL);
    CHILD_CHECK(syscall(SYS_getrlimit, 99, &a) == -1 && errno == EINVAL);
    CHILD_CHECK(prlimit(4'000'000, RLIMIT_NOFILE, nullptr, &a) == -1 && errno == ESRCH);
    b = {32, 32};
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &b) == 0);
    if (geteuid() != 0) {
      b = {32, 64};
      CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &b) == -1 && errno == EPERM);
    }
    return 0;
  });
}

TEST(Rlimit, IsInherited) {
  EXPECT_CHILD_OK([] {
    rlimit limit{7, 7};
    CHILD_CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    return test::run_child([] {
      rlimit mine;
      getrlimit(RLIMIT_CORE, &mine);
      CHILD_CHECK(mine.rlim_cur == 7);
      return 0;
    }) == 0 ? 0 : 1;
  });
}

TEST(Rlimit, CpuTimeSignals) {
  int status = test::run_child([] {
    rlimit limit{1, 2};
    setrlimit(RLIMIT_CPU, &limit);
    for (;;) asm volatile("pause");
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
}

TEST(Rusage, CountsTime) {
  rusage a, b;
  ASSERT_OK(getrusage(RUSAGE_SELF, &a));
  const int64_t end = test::now_ns(CLOCK_PROCESS_CPUTIME_ID) + 40 * test::kMs;
  while (test::now_ns(CLOCK_PROCESS_CPUTIME_ID) < end) {
  }
  ASSERT_OK(getrusage(RUSAGE_SELF, &b));
  auto us = [](const rusage& r) {
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
  };
  EXPECT_GE(us(b) - us(a), 20'000);
  EXPECT_GT(b.ru_maxrss, 500);
  EXPECT_OK(getrusage(RUSAGE_CHILDREN, &a));
  EXPECT_OK(getrusage(RUSAGE_THREAD, &a));
  EXPECT_ERRNO(getrusage(static_cast<__rusage_who>(7), &a), EINVAL);
}

}  // namespace
