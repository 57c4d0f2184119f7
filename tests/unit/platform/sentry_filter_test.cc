// The sentry's own filter, interpreted: its list, and that what could reach the host is not on it.
#include "platform/host/sentry_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <random>
#include <set>

namespace uks {
namespace {

using Args = std::array<uint64_t, 6>;

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kTrap = SECCOMP_RET_TRAP,
                   kKill = SECCOMP_RET_KILL_PROCESS;

uint32_t verdict(int32_t nr, const Args& args = {}, uint32_t arch = AUDIT_ARCH_X86_64) {
  static const bpf::Program program = sentry_filter();
  seccomp_data data{};
  data.nr = nr;
  data.arch = arch;
  data.instruction_pointer = 0x401000;
  for (size_t i = 0; i < args.size(); i++) data.args[i] = args[i];
  return bpf::evaluate(program, data);
}

// Whether any arguments at all get the call through.
bool ever_allowed(int32_t nr) {
  static std::mt19937_64 random(1);
  const Args zero{};
  if (verdict(nr, zero) == kAllow) return true;
  for (int i = 0; i < 500; i++) {
    Args args;
    for (auto& a : args) a = random() % 4 ? random() % 128 : random();
    if (verdict(nr, args) == kAllow) return true;
  }
  return false;
}

TEST(SentryFilter, ThreadsButNoProcesses) {
  constexpr uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                               CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                               CLONE_CHILD_CLEARTID;
  EXPECT_EQ(verdict(SYS_clone, {kThread}), kAllow);
  for (int bit = 0; bit < 64; bit++)
    EXPECT_EQ(verdict(SYS_clone, {kThread ^ uint64_t{1} << bit}), kTrap) << bit;
  for (const uint64_t flags : {uint64_t{0}, uint64_t{SIGCHLD}, uint64_t{CLONE_VM | CLONE_VFORK}})
    EXPECT_EQ(verdict(SYS_clone, {flags}), kTrap);
  EXPECT_EQ(verdict(SYS_clone3, {}), uint32_t{SECCOMP_RET_ERRNO | ENOSYS});
}

TEST(SentryFilter, NothingThatReachesTheHost) {
  const int32_t never[] = {SYS_open,
                           SYS_openat,
                           SYS_openat2,
                           SYS_creat,
                           SYS_open_by_handle_at,
                           SYS_name_to_handle_at,
                           SYS_execve,
                           SYS_execveat,
                           SYS_fork,
                           SYS_vfork,
                           SYS_clone3,
                           SYS_unshare,
                           SYS_setns,
                           SYS_socket,
                           SYS_socketpair,
                           SYS_connect,
                           SYS_bind,
                           SYS_listen,
                           SYS_accept,
                           SYS_accept4,
                           SYS_process_vm_readv,
                           SYS_process_vm_writev,
                           SYS_kill,
                           SYS_tkill,
                           SYS_rt_sigqueueinfo,
                           SYS_rt_tgsigqueueinfo,
                           SYS_pidfd_open,
                           SYS_pidfd_getfd,
                           SYS_pidfd_send_signal,
                           SYS_ptrace,
                           SYS_seccomp,
                           SYS_bpf,
                           SYS_perf_event_open,
                           SYS_userfaultfd,
                           SYS_io_uring_setup,
                           SYS_io_uring_enter,
                           SYS_io_uring_register,
                           SYS_mount,
                           SYS_umount2,
                           SYS_pivot_root,
                           SYS_chroot,
                           SYS_chdir,
                           SYS_fchdir,
                           SYS_stat,
                           SYS_lstat,
                           SYS_newfstatat,
                           SYS_statx,
                           SYS_access,
                           SYS_faccessat,
                           SYS_faccessat2,
                           SYS_readlink,
                           SYS_readlinkat,
                           SYS_getdents,
                           SYS_getdents64,
                           SYS_unlink,
                           SYS_unlinkat,
                           SYS_rename,
                           SYS_renameat,
                           SYS_renameat2,
                           SYS_link,
                           SYS_linkat,
                           SYS_symlink,
                           SYS_symlinkat,
                           SYS_mkdir,
                           SYS_mkdirat,
                           SYS_mknod,
                           SYS_mknodat,
                           SYS_chmod,
                           SYS_fchmod,
                           SYS_fchmodat,
                           SYS_chown,
                           SYS_fchown,
                           SYS_lchown,
                           SYS_fchownat,
                           SYS_truncate,
                           SYS_setxattr,
                           SYS_fsetxattr,
                           SYS_setuid,
                           SYS_setgid,
                           SYS_setresuid,
                           SYS_setresgid,
                           SYS_setgroups,
                           SYS_capset,
                           SYS_prctl,
                           SYS_arch_prctl,
                           SYS_setrlimit,
                           SYS_prlimit64,
                           SYS_dup,
                           SYS_dup2,
                           SYS_dup3,
                           SYS_inotify_init1,
                           SYS_fanotify_init,
                           SYS_keyctl,
                           SYS_add_key,
                           SYS_request_key,
                           SYS_init_module,
                           SYS_finit_module,
                           SYS_delete_module,
                           SYS_kexec_load,
                           SYS_reboot,
                           SYS_swapon,
                           SYS_sethostname,
                           SYS_settimeofday,
                           SYS_clock_settime,
                           SYS_adjtimex,
                           SYS_iopl,
                           SYS_ioperm,
                           SYS_modify_ldt,
                           SYS_personality,
                           SYS_acct,
                           SYS_quotactl,
                           SYS_shmget,
                           SYS_msgget,
                           SYS_semget,
                           SYS_mq_open,
                           SYS_vmsplice,
                           SYS_splice,
                           SYS_tee,
                           SYS_process_madvise,
                           SYS_kcmp,
                           SYS_setsid,
                           SYS_setpgid,
                           SYS_setpriority,
                           SYS_sched_setaffinity,
                           SYS_sched_setscheduler,
                           SYS_memfd_secret,
                           SYS_pkey_mprotect,
                           SYS_remap_file_pages,
                           SYS_rt_sigaction};
  for (int32_t nr : never) EXPECT_FALSE(ever_allowed(nr)) << nr;
}

// The list by name: a new entry is a decision that this test shows.
TEST(SentryFilter, TheListIsThis) {
  const std::set<int32_t> listed = {SYS_read,
                                    SYS_write,
                                    SYS_readv,
                                    SYS_writev,
                                    SYS_pread64,
                                    SYS_pwrite64,
                                    SYS_preadv,
                                    SYS_pwritev,
                                    SYS_preadv2,
                                    SYS_pwritev2,
                                    SYS_lseek,
                                    SYS_fstat,
                                    SYS_ftruncate,
                                    SYS_fallocate,
                                    SYS_fsync,
                                    SYS_fdatasync,
                                    SYS_close,
                                    SYS_memfd_create,
                                    SYS_fcntl,
                                    SYS_epoll_wait,
                                    SYS_epoll_ctl,
                                    SYS_poll,
                                    SYS_timerfd_settime,
                                    SYS_recvmsg,
                                    SYS_sendmsg,
                                    SYS_recvfrom,
                                    SYS_shutdown,
                                    SYS_waitid,
                                    SYS_sendto,
                                    SYS_ioctl,
                                    SYS_mmap,
                                    SYS_mprotect,
                                    SYS_munmap,
                                    SYS_mremap,
                                    SYS_brk,
                                    SYS_madvise,
                                    SYS_rseq,
                                    SYS_set_robust_list,
                                    SYS_futex,
                                    SYS_sched_yield,
                                    SYS_rt_sigreturn,
                                    SYS_rt_sigprocmask,
                                    SYS_exit,
                                    SYS_exit_group,
                                    SYS_getpid,
                                    SYS_gettid,
                                    SYS_restart_syscall,
                                    SYS_sigaltstack,
                                    SYS_tgkill,
                                    SYS_clock_gettime,
                                    SYS_clock_getres,
                                    SYS_clock_nanosleep,
                                    SYS_nanosleep,
                                    SYS_gettimeofday,
                                    SYS_getrandom,
                                    SYS_sched_getaffinity,
                                    SYS_uname,
                                    SYS_sysinfo};
  for (int32_t nr = 0; nr <= 500; nr++) {
    EXPECT_TRUE(listed.contains(nr) || !ever_allowed(nr)) << nr;
  }
}

TEST(SentryFilter, KicksAreHarmlessSignals) {
  for (uint64_t signo = 0; signo < 65; signo++) {
    EXPECT_EQ(verdict(SYS_tgkill, {1, 1, signo}), signo == SIGURG ? kAllow : kTrap) << signo;
    // An int for the kernel: the upper half does not hide another signal.
    EXPECT_EQ(verdict(SYS_tgkill, {1, 1, signo | 1ull << 32}), signo == SIGURG ? kAllow : kTrap)
        << signo;
  }
}

TEST(SentryFilter, MemoryIsNeverExecutable) {
  for (int32_t nr : {SYS_mmap, SYS_mprotect}) {
    for (uint64_t prot = 0; prot < 64; prot++) {
      const bool harmless = (prot & ~uint64_t{PROT_READ | PROT_WRITE}) == 0;
      EXPECT_EQ(verdict(nr, {0x1000, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS}),
                harmless ? kAllow : kTrap)
          << prot;
    }
    EXPECT_EQ(verdict(nr, {0x1000, 4096, PROT_GROWSDOWN}), kTrap);
    EXPECT_EQ(verdict(nr, {0x1000, 4096, PROT_EXEC | 1ull << 32}), kTrap);
  }
}

TEST(SentryFilter, TerminalCallsThatCouldHarmAreMissing) {
  const uint64_t never[] = {TIOCSTI,  TIOCLINUX,   TIOCSETD,   TIOCSCTTY,   TIOCNOTTY,   TIOCSPGRP,
                            TIOCCONS, TIOCVHANGUP, TIOCSPTLCK, TIOCGPTPEER, TIOCSSERIAL, TIOCMSET,
                            TIOCEXCL, TIOCPKT,     FIOASYNC,   FIONBIO};
  for (uint64_t request : never) {
    EXPECT_EQ(verdict(SYS_ioctl, {0, request}), kTrap) << std::hex << request;
    // The kernel's request is an unsigned int: the known TIOCSTI trick of a set upper half.
    EXPECT_EQ(verdict(SYS_ioctl, {0, request | 1ull << 32}), kTrap) << std::hex << request;
  }
  for (uint64_t request : {TCGETS, TCSETSW, TIOCGWINSZ, FIONREAD}) {
    EXPECT_EQ(verdict(SYS_ioctl, {0, request}), kAllow) << std::hex << request;
  }
  EXPECT_EQ(verdict(SYS_ioctl, {0, 0xc0686611}), kAllow);  // PROCMAP_QUERY
  // All 16-bit requests of the terminal and file groups: the count is the list.
  std::set<uint64_t> passed;
  for (uint64_t request = 0; request < 0x10000; request++) {
    if (verdict(SYS_ioctl, {0, request}) == kAllow) passed.insert(request);
  }
  const std::set<uint64_t> want = {TCGETS,   TCSETS,   TCSETSW, TCSETSF, TIOCGWINSZ, TIOCSWINSZ,
                                   FIONREAD, TIOCOUTQ, TCFLSH,  TCSBRK,  TCSBRKP,    TCXONC};
  EXPECT_EQ(passed, want);
}

TEST(SentryFilter, DescriptorCallsAreLimited) {
  const std::set<uint64_t> commands = {F_GETFL,     F_GETFD,     F_SETFD,     F_DUPFD_CLOEXEC,
                                       F_ADD_SEALS, F_GET_SEALS, F_GETPIPE_SZ};
  for (uint64_t command = 0; command < 2048; command++) {
    EXPECT_EQ(verdict(SYS_fcntl, {0, command}), commands.contains(command) ? kAllow : kTrap)
        << command;
  }
  // Sending needs no address: one would reach any abstract socket of the host.
  EXPECT_EQ(verdict(SYS_sendto, {3, 0x1000, 8, 0, 0, 0}), kAllow);
  EXPECT_EQ(verdict(SYS_sendto, {3, 0x1000, 8, 0, 0x2000, 16}), kTrap);
  EXPECT_EQ(verdict(SYS_sendto, {3, 0x1000, 8, 0, 1ull << 32, 16}), kTrap);
}

TEST(SentryFilter, OtherArchitecturesEndTheProcess) {
  for (int32_t nr = 0; nr <= 500; nr++) {
    ASSERT_EQ(verdict(nr, {}, AUDIT_ARCH_I386), kKill) << nr;
    ASSERT_EQ(verdict(0x40000000 | nr), kTrap) << nr;
  }
}

}  // namespace
}  // namespace uks
