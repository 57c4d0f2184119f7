// Jumps to the stub's one system call instruction, with every number and arbitrary registers.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "tests/hostile/hostile.h"

namespace hostile {
namespace {

uint64_t word(const void* p) { return reinterpret_cast<uint64_t>(p); }

// What is not in the table traps and is then the guest's call like any other: our descriptors, our
// view.
HOSTILE_CASE(gadget_calls_are_guest_calls, kReturns) {
  CHECK_THAT(gadget(SYS_getpid) == syscall(SYS_getpid));
  CHECK_THAT(gadget(SYS_getppid) == syscall(SYS_getppid));
  CHECK_THAT(gadget(SYS_getuid) == syscall(SYS_getuid));
  const long fd = gadget(SYS_openat, static_cast<uint64_t>(AT_FDCWD), word("/dev/null"), O_RDONLY);
  CHECK_THAT(fd >= 0 && fcntl(static_cast<int>(fd), F_GETFD) == 0);
  const long copy = gadget(SYS_dup, static_cast<uint64_t>(fd));
  CHECK_THAT(copy > fd && fcntl(static_cast<int>(copy), F_GETFD) == 0);
  // close is let through, for what the stub is given: there is none of ours in the host's table.
  CHECK_THAT(gadget(SYS_close, static_cast<uint64_t>(copy)) == -EBADF &&
             fcntl(static_cast<int>(copy), F_GETFD) == 0);
  CHECK_THAT(gadget(SYS_open, word("/proc/self/exe"), O_RDONLY) >= 0);
  CHECK_THAT(gadget(SYS_open, word("/no/such/file"), O_RDONLY) == -ENOENT);
  CHECK_THAT(gadget(SYS_kill, static_cast<uint64_t>(getpid()), 0) == 0);
  CHECK_THAT(gadget(SYS_kill, 999999, SIGKILL) == -ESRCH);
  CHECK_THAT(gadget(SYS_prctl, PR_SET_PDEATHSIG, SIGUSR1) == 0);
  CHECK_THAT(gadget(SYS_prctl, PR_SET_PDEATHSIG, 0) == 0);
}

// The host's kernel has the descriptor table of the stub: nothing may come into it.
HOSTILE_CASE(gadget_makes_no_host_descriptors, kReturns) {
  for (int i = 0; i < 50; i++) {
    (void)gadget(SYS_dup, 0);
    (void)gadget(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    (void)gadget(SYS_memfd_create, word("x"), 0);
    (void)gadget(SYS_open, word("/dev/null"), O_RDWR);
    (void)gadget(SYS_dup3, 0, UKS_FIRST_FD, 0);
  }
  // A mapping through the gadget uses the host's table: every number is bad.
  for (uint64_t fd = 0; fd < 64; fd++) {
    CHECK_THAT(gadget(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0) == -EBADF);
    CHECK_THAT(gadget(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == -EBADF);
  }
  CHECK_THAT(gadget(SYS_close, UKS_FIRST_FD) == -EBADF);
}

// Every number: no call may do to the host what the guest may not, and none may hang the process.
HOSTILE_CASE(gadget_every_number, kReturns) {
  for (uint64_t nr = 0; nr <= 500; nr++) {
    switch (nr) {
      case SYS_exit:
      case SYS_exit_group:
      case SYS_clone:
      case SYS_fork:
      case SYS_vfork:
      case SYS_clone3:
      case SYS_rt_sigreturn:
      case SYS_pause:
      case SYS_rt_sigsuspend:
      case SYS_munmap:
      case SYS_close_range:
      case 335:    // uretprobe, uprobe: newer kernels pass them by every filter and answer with
                   // SIGILL, as they
      case 336:    // do natively, where no probe is set
        continue;  // other cases, or they would end this one
      default:
        // Bad pointers and descriptors, a signal number and time that mean nothing.
        (void)gadget(static_cast<long>(nr), ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull);
    }
  }
  CHECK_THAT(gadget(SYS_getpid) == syscall(SYS_getpid));
}

HOSTILE_CASE(gadget_refused_flags_are_guest_calls, kReturns) {
  CHECK_THAT(gadget(SYS_mmap, 0, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                    ~0ull, 0) < 0);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (uint64_t advice : {MADV_REMOVE, MADV_MERGEABLE, MADV_HWPOISON}) {
    CHECK_THAT(gadget(SYS_madvise, word(page), 4096, advice) < 0);
  }
  CHECK_THAT(gadget(SYS_madvise, word(page), 4096, MADV_DONTNEED) == 0);
  // Holes punched into the window would reach the sentry's side too.
  CHECK_THAT(gadget(SYS_madvise, word(stub().slot(1)), UKS_SLOT_SIZE, MADV_REMOVE) < 0);
}

HOSTILE_CASE(ptrace_and_seccomp_by_gadget, kReturns) {
  (void)gadget(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
  CHECK_THAT(gadget(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0) < 0);
  CHECK_THAT(gadget(SYS_process_vm_readv, static_cast<uint64_t>(getppid()), 0, 0, 0, 0, 0) <= 0);
  CHECK_THAT(gadget(SYS_io_uring_setup, 1, 0) < 0);
  CHECK_THAT(gadget(SYS_userfaultfd, 0) < 0);
  CHECK_THAT(gadget(SYS_bpf, 0, 0, 0) < 0);
}

// ---- Clones that nobody ordered
HOSTILE_CASE(unordered_fork, kKilled) { gadget(SYS_clone, SIGCHLD); }
HOSTILE_CASE(unordered_thread, kKilled) {
  static char stack[65536];
  gadget(SYS_clone,
         CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
         word(stack + sizeof stack - 64));
}
HOSTILE_CASE(unordered_escape_from_parent, kKilled) { gadget(SYS_clone, CLONE_PARENT | SIGCHLD); }
HOSTILE_CASE(unordered_namespaces, kKilled) {
  gadget(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD);
}
// An order counts once.
HOSTILE_CASE(ordered_clone_twice, kKilled) {
  call_by_hand(SYS_fork);
  const long child = clone_as_ordered();
  if (child == 0)
    for (;;) gadget(SYS_exit_group, 0);
  (void)clone_as_ordered();
  fail("a second clone was made");
}
// ... and exactly as it says.
HOSTILE_CASE(ordered_clone_with_other_registers, kKilled) {
  call_by_hand(SYS_fork);
  const uks_slot* slot = stub().slot(kMainSlot);
  CHECK_THAT(slot->action == UKS_ACTION_CLONE);
  gadget(SYS_clone, slot->clone_args[0], slot->clone_args[1], slot->clone_args[2],
         slot->clone_args[3], slot->clone_args[4], slot->clone_args[5] + 1);
}
HOSTILE_CASE(ordered_clone_with_files_shared, kKilled) {
  call_by_hand(SYS_fork);
  const uks_slot* slot = stub().slot(kMainSlot);
  CHECK_THAT(slot->action == UKS_ACTION_CLONE);
  gadget(SYS_clone, slot->clone_args[0] | CLONE_FILES, slot->clone_args[1], slot->clone_args[2],
         slot->clone_args[3], slot->clone_args[4], slot->clone_args[5]);
}

// ---- Exits that the sentry is not told of
HOSTILE_CASE(exit_group_by_gadget, kKilled) { gadget(SYS_exit_group, 0); }
HOSTILE_CASE(exit_by_gadget, kKilled) { gadget(SYS_exit, 0); }

// ---- Other ways in
// As on a kernel without IA32 emulation, where the vector has no user gate (arch/x86/kernel/idt.c):
// #GP.
HOSTILE_CASE(int80, kReturns) {
  static sigjmp_buf back;
  static siginfo_t seen;
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    seen = *info;
    siglongjmp(back, 1);
  };
  CHECK_THAT(sigaction(SIGSEGV, &action, nullptr) == 0);
  if (sigsetjmp(back, 1) == 0) {
    long result = 20;  // getpid of i386
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    CHECK_THAT(!"int 0x80 came back");
  }
  CHECK_THAT(seen.si_code == SI_KERNEL && seen.si_addr == nullptr);
  CHECK_THAT(getpid() == syscall(SYS_getpid));
}
HOSTILE_CASE(x32, kReturns) {
  CHECK_THAT(gadget(0x40000000 | SYS_getpid) == -ENOSYS);
  CHECK_THAT(syscall(0x40000000 | SYS_getpid) == -1 && errno == ENOSYS);
}

}  // namespace
}  // namespace hostile
