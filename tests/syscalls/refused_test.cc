// What Linux or a sandbox refuses: foreign entries, and calls that must fail cleanly. Each names
// the errnos with which a host may refuse it too (containers and kernels differ).
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "tests/syscalls/test_util.h"

namespace {

// A refused call fails with one of the two errnos by which programs know to fall back.
#define EXPECT_REFUSED_OR_OK(call)                                         \
  do {                                                                     \
    errno = 0;                                                             \
    const long result_ = static_cast<long>(call);                          \
    EXPECT_TRUE(result_ >= 0 || errno == ENOSYS || errno == EPERM)         \
        << #call << " gave " << result_ << " (" << strerror(errno) << ")"; \
    if (result_ > 2) close(static_cast<int>(result_));                     \
  } while (0)

// The errnos: calls that a kernel was built without are ENOSYS (COND_SYSCALL in kernel/sys_ni.c:
// bpf, userfaultfd, io_uring_*, perf_event_open); where they exist and are refused they are EPERM,
// for bpf by kernel.unprivileged_bpf_disabled (kernel/bpf/syscall.c, __sys_bpf), for io_uring_setup
// by kernel.io_uring_disabled (io_uring/io_uring.c, io_uring_allowed), for userfaultfd by
// vm.unprivileged_userfaultfd (fs/userfaultfd.c, userfaultfd_syscall_allowed), for perf_event_open,
// EACCES too, by kernel.perf_event_paranoid (kernel/events/core.c). Programs take both for "not
// here".

TEST(Refused, Int80) {
  // Either i386 emulation answers (its getpid is 20), or the vector has no user gate
  // (arch/x86/kernel/idt.c, ia32_emulation=off): a fault. Docker's filter and the like: ENOSYS or
  // SIGSYS.
  int status = test::run_child([] {
    long result = 20;
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    CHILD_CHECK(result == getpid() || result == -ENOSYS);
    return 0;
  });
  EXPECT_TRUE(status == 0 ||
              (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGSYS)))
      << status;
}

TEST(Refused, X32Bit) {
  // do_syscall_x32() in arch/x86/entry/common.c without CONFIG_X86_X32_ABI: sys_ni_syscall.
  EXPECT_EQ(syscall(SYS_getpid | 0x40000000), -1);
  EXPECT_EQ(errno, ENOSYS);
  EXPECT_ERRNO(syscall(0x40000000 | 512), ENOSYS);
}

TEST(Refused, NumbersBeyondTheTable) {
  for (long nr : {500L, 1000L, 4096L, 100000L, -5L, 0x7fffffffL}) EXPECT_ERRNO(syscall(nr), ENOSYS);
  // Holes and calls that have no implementation on any kernel.
  for (long nr :
       {174L, 177L, 178L, 180L, 181L, 182L, 183L, 184L, 185L, 214L, 215L, 236L, 340L, 400L}) {
    EXPECT_ERRNO(syscall(nr, 0, 0, 0), ENOSYS);
  }
}

TEST(Refused, UpperHalfOfTheNumberIsIgnored) {
  // Only eax counts, as Linux truncates.
  long result = 0x7'0000'0000L + SYS_getpid;
  asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  EXPECT_EQ(result, getpid());
}

TEST(Refused, IoUring) {
  char params[120] = {};
  EXPECT_REFUSED_OR_OK(syscall(SYS_io_uring_setup, 4, params));
  errno = 0;
  EXPECT_EQ(syscall(SYS_io_uring_enter, 12345, 0, 0, 0, 0, 0), -1);
  EXPECT_TRUE(errno == ENOSYS || errno == EPERM || errno == EBADF || errno == EOPNOTSUPP) << errno;
}

TEST(Refused, Bpf) {
  bpf_attr attr{};
  attr.map_type = BPF_MAP_TYPE_ARRAY;
  attr.key_size = 4;
  attr.value_size = 4;
  attr.max_entries = 1;
  EXPECT_REFUSED_OR_OK(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

TEST(Refused, Userfaultfd) { EXPECT_REFUSED_OR_OK(syscall(SYS_userfaultfd, 0)); }

TEST(Refused, KernelControl) {
  if (geteuid() == 0) return;  // natively these would succeed
  EXPECT_REFUSED_OR_OK(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0));
  EXPECT_REFUSED_OR_OK(syscall(SYS_init_module, nullptr, 0, ""));
  EXPECT_REFUSED_OR_OK(syscall(SYS_swapoff, "/"));
  EXPECT_REFUSED_OR_OK(syscall(SYS_acct, nullptr));
  EXPECT_REFUSED_OR_OK(syscall(SYS_iopl, 3));
}

TEST(Refused, PerfEvents) {
  perf_event_attr attr{};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof attr;
  attr.config = PERF_COUNT_HW_INSTRUCTIONS;
  errno = 0;
  const long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
  // ENOENT, EOPNOTSUPP: no such counter here.
  EXPECT_TRUE(fd >= 0 || errno == ENOSYS || errno == EPERM || errno == EACCES || errno == ENOENT ||
              errno == EOPNOTSUPP)
      << errno;
  if (fd >= 0) close(static_cast<int>(fd));
}

TEST(Refused, PtraceOfNobody) {
  // find_get_task_by_vpid() in kernel/ptrace.c comes before everything but PTRACE_TRACEME.
  for (const long request :
       {long{PTRACE_ATTACH}, long{PTRACE_SEIZE}, long{PTRACE_PEEKDATA}, long{PTRACE_CONT}, 9999L})
    EXPECT_ERRNO(syscall(SYS_ptrace, request, 4'000'000, 0, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_ATTACH, 0, 0, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_ATTACH, -1, 0, 0), ESRCH);
}

TEST(Refused, PtraceOfWhomOneDoesNotTrace) {
  // ptrace_check_attach(): ESRCH, whoever it is.
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_PEEKDATA, getppid(), 0, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_CONT, getpid(), 0, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_DETACH, 1, 0, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_ptrace, 9999, getpid(), 0, 0), ESRCH);
}

TEST(Refused, PtraceOfOneself) {
  // same_thread_group() in ptrace_attach().
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_ATTACH, getpid(), 0, 0), EPERM);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_SEIZE, getpid(), 0, 0), EPERM);
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_SEIZE, getpid(), 1, 0), EIO);
}

TEST(Refused, PtraceOfAChildOrOfInit) {
  // Granted natively; inside as with kernel.yama.ptrace_scope = 3 (security/yama/yama_lsm.c):
  // EPERM.
  const int status = test::run_child([] {
    errno = 0;
    const long r = syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
    CHILD_CHECK(r == 0 || (r == -1 && errno == EPERM));
    return 0;
  });
  EXPECT_EQ(status, 0);
  if (geteuid() == 0) return;  // root may trace the real init
  EXPECT_ERRNO(syscall(SYS_ptrace, PTRACE_SEIZE, 1, 0, 0), EPERM);
}

TEST(Refused, MemoryOfOutsiders) {
  char buffer[8];
  iovec local{buffer, 8}, remote{reinterpret_cast<void*>(0x1000), 8};
  errno = 0;
  EXPECT_EQ(syscall(SYS_process_vm_readv, 4'000'000, &local, 1, &remote, 1, 0), -1);
  EXPECT_TRUE(errno == ESRCH || errno == ENOSYS || errno == EPERM) << errno;
}

TEST(Refused, SetIdBitsDoNotRaise) {
  // no_new_privs: executing a set-id program changes no id.
  if (geteuid() == 0) return;
  test::TempDir dir("/tmp");  // the sandbox's own: set-id bits never reach the host
  test::write_file(dir / "id", test::read_file("/usr/bin/id"), 0755);
  EXPECT_OK(chmod((dir / "id").c_str(), 04755));
  EXPECT_CHILD_OK([&] {
    execl((dir / "id").c_str(), "id", "-u", nullptr);
    return 126;
  });
}

TEST(Refused, VsyscallPageIsGettimeofdayOrAFault) {
  int status = test::run_child([] {
    auto* gettimeofday_entry = reinterpret_cast<int (*)(timeval*, void*)>(0xffffffffff600000);
    timeval tv{};
    CHILD_CHECK(gettimeofday_entry(&tv, nullptr) == 0);
    CHILD_CHECK(tv.tv_sec > 1'600'000'000);
    return 0;
  });
  EXPECT_TRUE(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)) << status;
}

TEST(Refused, SyscallFromAnyAddressIsCaught) {
  // From the stack of data made executable, with flags set.
  auto* page = static_cast<unsigned char*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  const unsigned char code[] = {0xfd, 0x0f, 0x05, 0xfc, 0xc3};  // std; syscall; cld; ret
  memcpy(page, code, sizeof code);
  long result = SYS_getppid;
  asm volatile("call *%1" : "+a"(result) : "r"(page) : "rcx", "r11", "memory", "cc");
  EXPECT_EQ(result, getppid());
  munmap(page, 4096);
}

}  // namespace
