// prctl and arch_prctl.
#include <asm/prctl.h>
#include <sys/prctl.h>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Prctl, Name) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(prctl(PR_SET_NAME, "a-name-that-is-too-long") == 0);
    char name[17] = {};
    CHILD_CHECK(prctl(PR_GET_NAME, name) == 0);
    CHILD_CHECK(strcmp(name, "a-name-that-is-") == 0);
    CHILD_CHECK(test::read_file("/proc/self/comm") == "a-name-that-is-\n");
    std::thread([] { prctl(PR_SET_NAME, "thread"); }).join();
    CHILD_CHECK(prctl(PR_GET_NAME, name) == 0);
    CHILD_CHECK(strcmp(name, "a-name-that-is-") == 0);
    return 0;
  });
}

TEST(Prctl, ParentDeathSignal) {
  EXPECT_CHILD_OK([] {
    int sig = -1;
    CHILD_CHECK(prctl(PR_GET_PDEATHSIG, &sig) == 0 && sig == 0);
    CHILD_CHECK(prctl(PR_SET_PDEATHSIG, 65) == -1 && errno == EINVAL);
    int fds[2];
    CHILD_CHECK(pipe(fds) == 0);
    pid_t middle = test::spawn([&] {
      test::spawn([&] {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGTERM, [](int) { _exit(0); });
        close(fds[0]);
        (void)!write(fds[1], "r", 1);
        for (;;) pause();
        return 0;
      });
      char c;
      (void)!read(fds[0], &c, 1);
      return 0;
    });
    test::wait_for(middle);
    close(fds[1]);
    char c;
    CHILD_CHECK(read(fds[0], &c, 1) == 0);  // the orphan is dead
    return 0;
  });
}

TEST(Prctl, NoNewPrivsIsOneWay) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHILD_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 && errno == EINVAL);
    return 0;
  });
}

TEST(Prctl, DumpableAndSubreaper) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    CHILD_CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1);
    CHILD_CHECK(prctl(PR_SET_DUMPABLE, 2) == -1 && errno == EINVAL);
    int value = -1;
    CHILD_CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 0);
    CHILD_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHILD_CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 1);
    return 0;
  });
}

TEST(Prctl, Others) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(prctl(PR_GET_TIMERSLACK) > 0);
    CHILD_CHECK(prctl(PR_SET_TIMERSLACK, 1000) == 0 && prctl(PR_GET_TIMERSLACK) == 1000);
    CHILD_CHECK(prctl(PR_CAPBSET_READ, 0) >= 0);
    CHILD_CHECK(prctl(PR_CAPBSET_READ, 1000) == -1 && errno == EINVAL);
    CHILD_CHECK(prctl(PR_GET_KEEPCAPS) == 0);
    CHILD_CHECK(prctl(12345) == -1 && errno == EINVAL);
    return 0;
  });
}

TEST(ArchPrctl, FsAndGs) {
  EXPECT_CHILD_OK([] {
    unsigned long fs = 0, gs = 1;
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0);
    unsigned long self;
    asm("mov %%fs:0, %0" : "=r"(self));
    CHILD_CHECK(fs == self);  // the thread pointer points to itself
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0);
    static unsigned long value = 0x1234;
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, &value) == 0);
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0);
    CHILD_CHECK(gs == reinterpret_cast<unsigned long>(&value));
    unsigned long read;
    asm volatile("mov %%gs:0, %0" : "=r"(read));
    CHILD_CHECK(read == 0x1234);
    CHILD_CHECK(syscall(SYS_getppid) > 0);
    asm volatile("mov %%gs:0, %0" : "=r"(read));
    CHILD_CHECK(read == 0x1234);
    CHILD_CHECK(syscall(SYS_arch_prctl, 0x9999, 0) == -1 && errno == EINVAL);
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, UINT64_MAX) == -1 && errno == EPERM);
    return 0;
  });
}

}  // namespace
