// wait4, waitid: what they report and when.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {
using test::spawn;
using test::wait_for;

TEST(Wait4, ExitStatus) {
  for (int code : {0, 1, 127, 255}) {
    pid_t pid = spawn([=] { return code; });
    int status = 0;
    EXPECT_EQ(wait4(pid, &status, 0, nullptr), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
}

TEST(Wait4, KilledBySignal) {
  for (int sig : {SIGKILL, SIGTERM, SIGUSR1, SIGALRM}) {
    pid_t pid = spawn([] {
      for (;;) pause();
      return 0;
    });
    kill(pid, sig);
    int status = wait_for(pid);
    EXPECT_TRUE(WIFSIGNALED(status)) << sig;
    EXPECT_EQ(WTERMSIG(status), sig);
  }
}

TEST(Wait4, NoChild) {
  EXPECT_ERRNO(waitpid(-1, nullptr, 0), ECHILD);
  EXPECT_ERRNO(waitpid(getpid(), nullptr, 0), ECHILD);
  EXPECT_ERRNO(waitpid(99999, nullptr, 0), ECHILD);
  EXPECT_ERRNO(waitpid(-99999, nullptr, 0), ECHILD);
}

TEST(Wait4, BadOptions) {
  EXPECT_ERRNO(wait4(-1, nullptr, 0x100, nullptr), EINVAL);
  EXPECT_ERRNO(syscall(SYS_wait4, INT32_MIN, nullptr, 0, nullptr), ESRCH);
}

TEST(Wait4, NohangSeesALivingChild) {
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  int status = 1234;
  EXPECT_EQ(waitpid(pid, &status, WNOHANG), 0);
  EXPECT_EQ(status, 1234);
  kill(pid, SIGKILL);
  wait_for(pid);
  EXPECT_ERRNO(waitpid(pid, &status, WNOHANG), ECHILD);
}

// __WNOTHREAD: only what the calling thread has forked; what a thread leaves behind is the next
// one's.
TEST(Wait4, ChildrenOfTheThread) {
  constexpr int kNoThread = 0x20000000;
  pid_t first = 0, second = 0;
  std::thread([&] {
    first = spawn([] { return 1; });
    second = spawn([] { return 2; });
    pid_t seen = 0;
    std::thread([&] { seen = waitpid(first, nullptr, kNoThread); }).join();
    EXPECT_EQ(seen, -1);
    EXPECT_EQ(waitpid(first, nullptr, kNoThread), first);
  }).join();
  pid_t got = -1;
  // The joiner may be faster than the end of the thread.
  EXPECT_TRUE(test::eventually([&] { return (got = waitpid(-1, nullptr, kNoThread)) != -1; }));
  EXPECT_EQ(got, second);
  const pid_t own = spawn([] { return 3; });
  EXPECT_EQ(waitpid(own, nullptr, kNoThread), own);
}

TEST(Wait4, AnyChildInOrderOfDeath) {
  pid_t slow = spawn([] {
    test::sleep_ms(60);
    return 1;
  });
  pid_t fast = spawn([] { return 2; });
  int status;
  EXPECT_EQ(waitpid(-1, &status, 0), fast);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(waitpid(-1, &status, 0), slow);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST(Wait4, ByProcessGroup) {
  pid_t other = spawn([] {
    for (;;) pause();
    return 0;
  });
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  ASSERT_OK(setpgid(pid, pid));
  kill(pid, SIGTERM);
  int status;
  EXPECT_EQ(waitpid(-pid, &status, 0), pid);
  EXPECT_EQ(waitpid(0, &status, WNOHANG), 0);  // `other` lives
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(0, &status, 0), other);
}

TEST(Wait4, StoppedAndContinued) {
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  int status = 0;
  ASSERT_OK(kill(pid, SIGSTOP));
  EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
  EXPECT_EQ(waitpid(pid, &status, WUNTRACED | WNOHANG), 0);  // reported once
  ASSERT_OK(kill(pid, SIGCONT));
  EXPECT_EQ(waitpid(pid, &status, WCONTINUED), pid);
  EXPECT_TRUE(WIFCONTINUED(status));
  ASSERT_OK(kill(pid, SIGKILL));
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(Wait4, KillEndsAStoppedChild) {
  pid_t pid = spawn([] {
    raise(SIGSTOP);
    return 0;
  });
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_OK(kill(pid, SIGKILL));
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(Wait4, Rusage) {
  pid_t pid = spawn([] {
    const int64_t end = test::now_ns(CLOCK_PROCESS_CPUTIME_ID) + 30 * test::kMs;
    while (test::now_ns(CLOCK_PROCESS_CPUTIME_ID) < end) {
    }
    return 0;
  });
  rusage usage{};
  EXPECT_EQ(wait4(pid, nullptr, 0, &usage), pid);
  const int64_t us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 +
                     usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  EXPECT_GE(us, 15'000);
  EXPECT_LT(us, 5'000'000);
}

TEST(Wait4, BadPointer) {
  pid_t pid = spawn([] { return 0; });
  EXPECT_ERRNO(wait4(pid, test::bad_pointer<int>(), 0, nullptr), EFAULT);
}

TEST(Wait4, OrphanIsReparentedAndReaped) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    int fds[2];
    CHILD_CHECK(pipe(fds) == 0);
    pid_t middle = spawn([&] {
      pid_t grandchild = spawn([] {
        test::sleep_ms(50);
        return 5;
      });
      (void)!write(fds[1], &grandchild, sizeof grandchild);
      return 0;
    });
    CHILD_CHECK(wait_for(middle) == 0);
    pid_t grandchild = 0;
    CHILD_CHECK(read(fds[0], &grandchild, sizeof grandchild) == sizeof grandchild);
    int status = 0;
    CHILD_CHECK(waitpid(grandchild, &status, 0) == grandchild);
    CHILD_CHECK(WEXITSTATUS(status) == 5);
    return 0;
  });
}

TEST(Wait4, IgnoredSigchldReapsByItself) {
  EXPECT_CHILD_OK([] {
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = spawn([] { return 0; });
    CHILD_CHECK(waitpid(pid, nullptr, 0) == -1 && errno == ECHILD);
    CHILD_CHECK(kill(pid, 0) == -1 && errno == ESRCH);
    return 0;
  });
}

TEST(Wait4, SigchldCarriesTheStatus) {
  EXPECT_CHILD_OK([] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    pid_t pid = spawn([] { return 17; });
    siginfo_t info{};
    CHILD_CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
    CHILD_CHECK(info.si_code == CLD_EXITED && info.si_status == 17 && info.si_pid == pid);
    CHILD_CHECK(info.si_uid == getuid());
    wait_for(pid);
    pid = spawn([] {
      raise(SIGTERM);
      return 0;
    });
    CHILD_CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
    CHILD_CHECK(info.si_code == CLD_KILLED && info.si_status == SIGTERM && info.si_pid == pid);
    return 0;
  });
}

TEST(Wait4, InterruptedByAHandlerWithoutRestart) {
  test::ActionGuard guard(SIGALRM);
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  pid_t parent = getpid();
  pid_t killer = spawn([&] {
    test::sleep_ms(50);
    kill(parent, SIGALRM);
    return 0;
  });
  EXPECT_ERRNO(waitpid(pid, nullptr, 0), EINTR);
  kill(pid, SIGKILL);
  wait_for(pid);
  wait_for(killer);
}

TEST(Waitid, Exited) {
  pid_t pid = spawn([] { return 9; });
  siginfo_t info{};
  EXPECT_OK(waitid(P_PID, pid, &info, WEXITED));
  EXPECT_EQ(info.si_signo, SIGCHLD);
  EXPECT_EQ(info.si_code, CLD_EXITED);
  EXPECT_EQ(info.si_status, 9);
  EXPECT_EQ(info.si_pid, pid);
  EXPECT_EQ(info.si_uid, getuid());
}

TEST(Waitid, NowaitLeavesTheChild) {
  pid_t pid = spawn([] { return 9; });
  siginfo_t info{};
  EXPECT_OK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
  EXPECT_EQ(info.si_pid, pid);
  EXPECT_OK(waitid(P_ALL, 0, &info, WEXITED));
  EXPECT_ERRNO(waitid(P_PID, pid, &info, WEXITED), ECHILD);
}

TEST(Waitid, NohangClearsThePid) {
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  siginfo_t info;
  memset(&info, 0xff, sizeof info);
  EXPECT_OK(waitid(P_PID, pid, &info, WEXITED | WNOHANG));
  EXPECT_EQ(info.si_pid, 0);
  EXPECT_EQ(info.si_signo, 0);
  kill(pid, SIGKILL);
  EXPECT_OK(waitid(P_PID, pid, &info, WEXITED));
  EXPECT_EQ(info.si_code, CLD_KILLED);
  EXPECT_EQ(info.si_status, SIGKILL);
}

TEST(Waitid, BadArguments) {
  siginfo_t info;
  EXPECT_ERRNO(waitid(P_PID, 1, &info, 0), EINVAL);
  EXPECT_ERRNO(waitid(static_cast<idtype_t>(77), 1, &info, WEXITED), EINVAL);
  EXPECT_ERRNO(waitid(P_PID, 0, &info, WEXITED), EINVAL);
  EXPECT_ERRNO(waitid(P_ALL, 0, &info, WEXITED), ECHILD);
}

TEST(Waitid, ByPidfd) {
  pid_t pid = spawn([] { return 6; });
  int pidfd = syscall(SYS_pidfd_open, pid, 0);
  ASSERT_GE(pidfd, 0);
  siginfo_t info{};
  EXPECT_OK(waitid(static_cast<idtype_t>(3) /* P_PIDFD */, pidfd, &info, WEXITED));
  EXPECT_EQ(info.si_pid, pid);
  EXPECT_EQ(info.si_status, 6);
  close(pidfd);
}

TEST(Waitid, SaysWhoseChildItWas) {
  const uid_t wanted = getuid() == 0 ? 1234 : getuid();
  const pid_t pid = spawn([=] { return getuid() == 0 && setresuid(wanted, wanted, wanted) != 0; });
  siginfo_t info;
  memset(&info, 0x5a, sizeof info);
  ASSERT_OK(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED));
  EXPECT_EQ(info.si_uid, wanted);
  EXPECT_EQ(info.si_status, 0);
  // The rest of the structure is left alone.
  EXPECT_EQ(reinterpret_cast<unsigned char*>(&info)[sizeof info - 1], 0x5a);
}

TEST(Waitid, StoppedAndContinuedByProcessGroup) {
  const pid_t pid = spawn([] {
    setpgid(0, 0);
    for (;;) pause();
    return 0;
  });
  setpgid(pid, pid);
  siginfo_t info{};
  EXPECT_ERRNO(waitid(P_PGID, getpid() + 1'000'000, &info, WEXITED), ECHILD);
  ASSERT_OK(kill(pid, SIGSTOP));
  ASSERT_OK(waitid(P_PGID, pid, &info, WSTOPPED));
  EXPECT_EQ(info.si_pid, pid);
  EXPECT_EQ(info.si_code, CLD_STOPPED);
  EXPECT_EQ(info.si_status, SIGSTOP);
  info = {};
  EXPECT_OK(waitid(P_PGID, pid, &info, WSTOPPED | WNOHANG));  // told once
  EXPECT_EQ(info.si_pid, 0);
  ASSERT_OK(kill(pid, SIGCONT));
  ASSERT_OK(waitid(P_PGID, pid, &info, WCONTINUED));
  EXPECT_EQ(info.si_code, CLD_CONTINUED);
  EXPECT_EQ(info.si_status, SIGCONT);
  ASSERT_OK(kill(pid, SIGKILL));
  ASSERT_OK(waitid(P_PGID, pid, &info, WEXITED));
  EXPECT_EQ(info.si_code, CLD_KILLED);
}

}  // namespace
