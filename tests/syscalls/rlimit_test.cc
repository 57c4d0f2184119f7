// getrlimit, setrlimit, prlimit64, getrusage.
#include <sys/mman.h>
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
           }) == 0
               ? 0
               : 1;
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
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec +
           r.ru_stime.tv_usec;
  };
  EXPECT_GE(us(b) - us(a), 20'000);
  EXPECT_GT(b.ru_maxrss, 500);
  EXPECT_OK(getrusage(RUSAGE_CHILDREN, &a));
  EXPECT_OK(getrusage(RUSAGE_THREAD, &a));
  EXPECT_ERRNO(getrusage(static_cast<__rusage_who>(7), &a), EINVAL);
}

// As a user without capabilities, which root becomes for it.
void become_ordinary() {
  if (geteuid() != 0) return;
  CHILD_CHECK(setresgid(54321, 54321, 54321) == 0);
  CHILD_CHECK(setresuid(54321, 54321, 54321) == 0);
}

TEST(Rlimit, NumberOfProcesses) {
  EXPECT_CHILD_OK([] {
    become_ordinary();
    const rlimit one{1, 1};
    CHILD_CHECK(setrlimit(RLIMIT_NPROC, &one) == 0);
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHILD_CHECK(pid == -1 && errno == EAGAIN);
    return 0;
  });
}

// A change of user goes through above the limit; the next execve does not, until there is room
// again.
TEST(Rlimit, NumberOfProcessesAtExec) {
  if (geteuid() != 0) return;  // it takes a change of user
  EXPECT_CHILD_OK([] {
    const rlimit none{0, 10'000};
    CHILD_CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
    become_ordinary();
    char* const argv[] = {const_cast<char*>("true"), nullptr};
    char* const envp[] = {nullptr};
    CHILD_CHECK(execve("/bin/true", argv, envp) == -1 && errno == EAGAIN);
    CHILD_CHECK(execve("/bin/true", argv, envp) == -1 && errno == EAGAIN);
    const rlimit some{10'000, 10'000};
    CHILD_CHECK(setrlimit(RLIMIT_NPROC, &some) == 0);
    execve("/bin/true", argv, envp);
    return 1;
  });
  // Without a change of user it is no matter of execve.
  EXPECT_CHILD_OK([] {
    become_ordinary();
    const rlimit none{0, 10'000};
    CHILD_CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
    char* const argv[] = {const_cast<char*>("true"), nullptr};
    char* const envp[] = {nullptr};
    execve("/bin/true", argv, envp);
    return 1;
  });
}

TEST(Rlimit, QueuedSignals) {
  EXPECT_CHILD_OK([] {
    become_ordinary();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    CHILD_CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
    const rlimit four{4, 4};
    CHILD_CHECK(setrlimit(RLIMIT_SIGPENDING, &four) == 0);
    int sent = 0;
    while (sent < 10 && sigqueue(getpid(), SIGRTMIN, sigval{}) == 0) sent++;
    CHILD_CHECK(errno == EAGAIN);
    CHILD_CHECK(sent <= 4);  // the user's other processes may have some
    // kill(2) is never refused.
    CHILD_CHECK(kill(getpid(), SIGRTMIN) == 0);
    sigset_t pending;
    CHILD_CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGRTMIN) == 1);
    return 0;
  });
}

TEST(Rlimit, LockedMemory) {
  EXPECT_CHILD_OK([] {
    become_ordinary();
    void* p = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rlimit limit{65536, 65536};
    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHILD_CHECK(mlock(p, 1 << 20) == -1 && errno == ENOMEM);
    limit = {0, 0};
    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHILD_CHECK(mlock(p, 4096) == -1 && errno == EPERM);
    CHILD_CHECK(mlockall(MCL_CURRENT) == -1 && errno == EPERM);
    return 0;
  });
}

TEST(Rlimit, Data) {
  EXPECT_CHILD_OK([] {
    rlimit limit{64 << 20, RLIM_INFINITY};
    rlimit old;
    CHILD_CHECK(getrlimit(RLIMIT_DATA, &old) == 0);
    limit.rlim_max = old.rlim_max;
    CHILD_CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    constexpr size_t kMuch = size_t{1} << 30;
    CHILD_CHECK(mmap(nullptr, kMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                MAP_FAILED);
    CHILD_CHECK(errno == ENOMEM);
    CHILD_CHECK(mmap(nullptr, kMuch, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHILD_CHECK(sbrk(kMuch) == reinterpret_cast<void*>(-1));
    CHILD_CHECK(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0) != MAP_FAILED);
    limit.rlim_cur = old.rlim_max;
    CHILD_CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    CHILD_CHECK(mmap(nullptr, kMuch, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
    return 0;
  });
}

}  // namespace
