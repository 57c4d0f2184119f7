#include "platform/host/sentry_filter.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "platform/host/procmap_query.h"
#include "platform/host/sanitizer_calls.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

namespace uks {
namespace {

using bpf::allow;
using bpf::arg;
using bpf::arg32;
using bpf::when;

// glibc's (sysdeps/unix/sysv/linux/createthread.c).
constexpr uint64_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                  CLONE_CHILD_CLEARTID;

void on_filter_hit(int, siginfo_t* info, void*) {
  char text[96];
  const int n =
      snprintf(text, sizeof text, "uks: internal: the sentry's filter refused system call %d\n",
               info->si_syscall);
  (void)!write(2, text, static_cast<size_t>(n));
  _exit(125);
}

}  // namespace

// The reasons are in platform/README.md, "Host calls".
bpf::Program sentry_filter(bool tracing, bool sanitized) {
  bpf::Policy policy(bpf::trap(), bpf::kill_process());
  // Data of descriptors that the gofer or the keeper handed over; none can be opened here.
  policy.on({SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv,
             SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_fstat, SYS_ftruncate,
             SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_close, SYS_memfd_create},
            allow());
  policy.on(SYS_fcntl, when(arg32(1).in({F_GETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, F_ADD_SEALS,
                                         F_GET_SEALS, F_GETPIPE_SZ}),
                            allow()));
  // Waiting for stubs, the keeper, the gofer, the guest's streams, deadlines.
  policy.on({SYS_epoll_wait, SYS_epoll_ctl, SYS_poll, SYS_timerfd_settime, SYS_recvmsg, SYS_sendmsg,
             SYS_recvfrom, SYS_shutdown, SYS_waitid},
            allow());
  // No address: only to the peers of our socket pairs.
  policy.on(SYS_sendto, when(arg(4).equals(0), allow()));
  policy.on(SYS_ioctl,
            when(arg32(1).in({SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
                              SECCOMP_IOCTL_NOTIF_ADDFD, SECCOMP_IOCTL_NOTIF_SET_FLAGS}) ||
                     // Terminals passed through: never TIOCSTI, TIOCLINUX, TIOCSETD, TIOCSCTTY.
                     arg32(1).in({TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCGWINSZ, TIOCSWINSZ,
                                  FIONREAD, TIOCOUTQ, TCFLSH, TCSBRK, TCSBRKP, TCXONC, 0x802c542a,
                                  0x402c542b, 0x402c542c, 0x402c542d}) ||
                     // A mapping of a stub, by the maps file that the keeper opened.
                     arg32(1).equals(kProcmapQuery),
                 allow()));
  // Our own memory, never executable.
  policy.on(SYS_mmap, when(arg32(2).only(PROT_READ | PROT_WRITE), allow()));
  policy.on(SYS_mprotect, when(arg32(2).only(PROT_READ | PROT_WRITE), allow()));
  policy.on({SYS_munmap, SYS_mremap, SYS_brk}, allow());
  policy.on(SYS_madvise,
            when(arg32(2).in({MADV_DONTNEED, MADV_FREE, MADV_NORMAL, MADV_WILLNEED, MADV_DONTDUMP}),
                 allow()));
  // Threads among themselves.
  // rseq and set_robust_list: a worker may still be starting when the filter comes over it.
  policy.on({SYS_rseq, SYS_set_robust_list, SYS_futex, SYS_sched_yield, SYS_rt_sigreturn,
             SYS_rt_sigprocmask, SYS_exit, SYS_exit_group, SYS_getpid, SYS_gettid,
             SYS_restart_syscall, SYS_sigaltstack},
            allow());
  // More workers when all are busy: threads as pthread_create(3) makes them, never processes. Where
  // clone3 is missing, glibc uses clone, whose flags a filter can see.
  policy.on(SYS_clone, when(arg(0).equals(kThreadFlags), allow()));
  policy.on(SYS_clone3, bpf::error(ENOSYS));
  // Kicks: SIGURG, which every bystander ignores.
  policy.on(SYS_tgkill, when(arg32(2).equals(SIGURG), allow()));
  // Clocks, chance, the host's name and load (what uname and sysinfo show to guests).
  policy.on({SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep,
             SYS_gettimeofday, SYS_getrandom, SYS_sched_getaffinity, SYS_uname, SYS_sysinfo},
            allow());
  if (tracing) {
    // Platform ptrace: what is done to tracees that there are already; none can be attached.
    // rt_sigtimedwait waits for their stops.
    policy.on(SYS_ptrace,
              when(arg(0).in({PTRACE_CONT, PTRACE_SYSCALL, PTRACE_LISTEN, PTRACE_GETREGS,
                              PTRACE_SETREGS, PTRACE_PEEKDATA, PTRACE_POKEDATA}),
                   allow()));
    policy.on(SYS_rt_sigtimedwait, allow());
  }
  if (sanitized) {
    allow_sanitizer_calls(policy);
    policy.on(SYS_openat, when(report_reads_file(), allow()));
    policy.on(SYS_tgkill, when(arg32(2).in({SIGURG, SIGABRT}), allow()));
  }
  return policy.compile();
}

Result<void> install_sentry_filter(bool tracing) {
  struct sigaction action{};
  action.sa_sigaction = on_filter_hit;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return HostErr();
  const bpf::Program program = sentry_filter(tracing, kSanitized);
  TRY(bpf::install(program, SECCOMP_FILTER_FLAG_TSYNC));
  return {};
}

}  // namespace uks
