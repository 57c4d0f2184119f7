// Process ids, groups, sessions, exit.
#include <poll.h>
#include <sys/personality.h>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {
using test::spawn;
using test::wait_for;

TEST(Process, IdsAgree) {
  EXPECT_EQ(syscall(SYS_getpid), getpid());
  EXPECT_EQ(syscall(SYS_gettid), getpid());
  EXPECT_EQ(getpgid(0), getpgrp());
  EXPECT_EQ(getpgid(getpid()), getpgrp());
  EXPECT_EQ(getsid(0), getsid(getpid()));
  EXPECT_GT(getppid(), 0);
  EXPECT_ERRNO(getpgid(4'000'000), ESRCH);
  EXPECT_ERRNO(getsid(4'000'000), ESRCH);
}

TEST(Process, Setpgid) {
  EXPECT_CHILD_OK([] {
    const pid_t group = getpgrp();
    CHILD_CHECK(group != getpid());
    CHILD_CHECK(setpgid(0, 0) == 0);
    CHILD_CHECK(getpgrp() == getpid());
    pid_t child = spawn([] {
      for (;;) pause();
      return 0;
    });
    CHILD_CHECK(getpgid(child) == getpid());
    CHILD_CHECK(setpgid(child, child) == 0);
    CHILD_CHECK(getpgid(child) == child);
    CHILD_CHECK(setpgid(child, getpgrp()) == 0);
    CHILD_CHECK(setpgid(child, 4'000'000) == -1 && errno == EPERM);
    CHILD_CHECK(setpgid(4'000'000, 0) == -1 && errno == ESRCH);
    CHILD_CHECK(setpgid(0, -1) == -1 && errno == EINVAL);
    kill(child, SIGKILL);
    wait_for(child);
    return 0;
  });
}

TEST(Process, SetpgidAfterExecIsRefused) {
  pid_t pid = spawn([] {
    execl("/bin/sleep", "sleep", "20", nullptr);
    return 126;
  });
  EXPECT_TRUE(test::eventually(
      [&] { return test::read_file("/proc/" + std::to_string(pid) + "/comm") == "sleep\n"; }));
  EXPECT_ERRNO(setpgid(pid, pid), EACCES);
  kill(pid, SIGKILL);
  wait_for(pid);
}

TEST(Process, Setsid) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(setsid() == getpid());
    CHILD_CHECK(getsid(0) == getpid() && getpgrp() == getpid());
    CHILD_CHECK(setsid() == -1 && errno == EPERM);
    CHILD_CHECK(setpgid(0, 0) == -1 && errno == EPERM);
    CHILD_CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    return 0;
  });
}

TEST(Process, ExitCodesAreEightBits) {
  for (int code : {0, 77, 255, 256, -1}) {
    pid_t pid = spawn([=] {
      syscall(SYS_exit_group, code);
      return 1;
    });
    EXPECT_EQ(WEXITSTATUS(wait_for(pid)), code & 255);
  }
}

TEST(Process, ExitOfOneThreadOnly) {
  EXPECT_CHILD_OK([] {
    std::thread([] { syscall(SYS_exit, 5); }).detach();
    test::sleep_ms(20);
    return 0;
  });
}

TEST(Process, OrphansGoToInit) {
  EXPECT_CHILD_OK([] {
    int fds[2];
    CHILD_CHECK(pipe(fds) == 0);
    const pid_t me = getpid();
    pid_t middle = spawn([&] {
      spawn([&] {
        const pid_t parent = getppid();
        // The middle process ends; somebody else becomes the parent.
        for (int i = 0; i < 5000 && getppid() == parent; i++) test::sleep_ms(1);
        pid_t now = getppid();
        (void)!write(fds[1], &now, sizeof now);
        return 0;
      });
      test::sleep_ms(20);
      return 0;
    });
    wait_for(middle);
    pid_t now = 0;
    CHILD_CHECK(read(fds[0], &now, sizeof now) == sizeof now);
    CHILD_CHECK(now != middle && now != me && now > 0);
    return 0;
  });
}

TEST(Process, PersonalityReadsBack) {
  EXPECT_CHILD_OK([] {
    const int old = personality(0xffffffff);
    CHILD_CHECK(old >= 0);
    CHILD_CHECK(personality(ADDR_NO_RANDOMIZE) == old);
    CHILD_CHECK(personality(0xffffffff) == ADDR_NO_RANDOMIZE);
    return 0;
  });
}

TEST(Process, PidsAreNotReusedAtOnce) {
  pid_t last = 0;
  for (int i = 0; i < 50; i++) {
    pid_t pid = spawn([] { return 0; });
    ASSERT_NE(pid, last);
    last = pid;
    wait_for(pid);
    EXPECT_ERRNO(kill(pid, 0), ESRCH);
  }
}

TEST(Process, ZombieIsStillThere) {
  pid_t pid = spawn([] { return 0; });
  siginfo_t info{};
  ASSERT_OK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
  EXPECT_OK(kill(pid, 0));
  EXPECT_EQ(getpgid(pid), getpgrp());
  EXPECT_NE(test::read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z "),
            std::string::npos);
  wait_for(pid);
}

TEST(Process, SetTidAddressReturnsTheTid) {
  EXPECT_CHILD_OK([] {
    int word = 0;
    CHILD_CHECK(syscall(SYS_set_tid_address, &word) == syscall(SYS_gettid));
    return 0;
  });
}

// A process group that loses its last tie to the session while a member is stopped gets SIGHUP and
// SIGCONT.
TEST(Process, OrphanedStoppedGroupIsHungUp) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  const pid_t leader = spawn([&] {
    CHILD_CHECK(setpgid(0, 0) == 0);
    const pid_t member = spawn([&] {
      close(fds[0]);
      signal(SIGHUP, [](int) {});
      sigset_t hup;
      sigemptyset(&hup);
      sigaddset(&hup, SIGHUP);
      sigprocmask(SIG_BLOCK, &hup, nullptr);
      raise(SIGSTOP);
      int taken = 0;
      sigwait(&hup, &taken);
      return write(fds[1], taken == SIGHUP ? "h" : "?", 1) == 1 ? 0 : 1;
    });
    int status;
    CHILD_CHECK(waitpid(member, &status, WUNTRACED) == member && WIFSTOPPED(status));
    return 0;
  });
  close(fds[1]);
  EXPECT_EQ(wait_for(leader), 0);
  pollfd readable{fds[0], POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 10'000), 1);
  char c = 0;
  EXPECT_EQ(read(fds[0], &c, 1), 1);
  EXPECT_EQ(c, 'h');
  close(fds[0]);
}

}  // namespace
