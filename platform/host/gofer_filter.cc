// The gofer's allow-list: files through directory descriptors, its connections, memory, locks. No
// exec, no processes or threads, no sockets of its own, no ioctl, no reading or writing of file
// contents.
#include "platform/host/gofer_filter.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "platform/host/sanitizer_calls.h"

namespace uks {

using namespace bpf;  // NOLINT(google-build-using-namespace): the DSL's words

namespace {

uint64_t fd_value(int fd) { return static_cast<uint32_t>(fd); }

}  // namespace

Program gofer_filter(const GoferDescriptors& descriptors, const Rule& violation, bool sanitized) {
  Cond on_connection = Cond::constant(false);
  for (int fd : descriptors.connections)
    on_connection = on_connection || arg32(0).equals(fd_value(fd));
  Cond from_proc = arg32(0).equals(fd_value(descriptors.proc_fd));
  constexpr uint64_t kSetId = S_ISUID | S_ISGID;

  Policy policy(violation);
  policy.on({SYS_recvmsg, SYS_sendmsg}, when(on_connection, allow()));
  policy.on(SYS_openat2, when(arg(3).equals(sizeof(open_how)), allow()));
  Cond opens_inode = from_proc && arg32(2).only(O_ACCMODE | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                                O_DIRECTORY | O_LARGEFILE);
  policy.on(SYS_openat, when(opens_inode, allow()));
  policy.on(
      {SYS_close, SYS_statx, SYS_fstat, SYS_newfstatat, SYS_fstatfs, SYS_getdents64, SYS_readlinkat,
       SYS_fchownat, SYS_utimensat, SYS_ftruncate, SYS_fsync, SYS_fdatasync, SYS_pread64,
       SYS_pwrite64, SYS_getxattr, SYS_setxattr, SYS_listxattr, SYS_removexattr, SYS_symlinkat},
      allow());
  policy.on(SYS_mkdirat, when(arg32(2).masked(kSetId).equals(0), allow()));
  Value type = arg32(2).masked(S_IFMT);
  policy.on(
      SYS_mknodat,
      when(type.in({S_IFREG, S_IFIFO, S_IFSOCK}) && arg32(2).masked(kSetId).equals(0), allow()));
  policy.on(SYS_fchmodat, when(from_proc, allow()));
  policy.on(SYS_linkat, when(from_proc && arg32(4).equals(AT_SYMLINK_FOLLOW), allow()));
  policy.on(SYS_unlinkat, when(arg32(2).only(AT_REMOVEDIR), allow()));
  policy.on(SYS_renameat2, when(arg32(4).only(RENAME_NOREPLACE | RENAME_EXCHANGE), allow()));

  // The sentry hears of what others change in the host's trees (and reads the events itself). Paths
  // are /proc/self/fd/N; a gofer that was taken over could watch other files for being changed.
  Cond is_inotify = arg32(0).equals(fd_value(descriptors.inotify_fd));
  policy.on({SYS_inotify_add_watch, SYS_inotify_rm_watch}, when(is_inotify, allow()));
  policy.on(SYS_inotify_init1, when(arg32(0).equals(IN_CLOEXEC | IN_NONBLOCK), allow()));
  policy.on(SYS_dup3,
            when(arg32(1).equals(fd_value(descriptors.inotify_fd)) && arg32(2).equals(O_CLOEXEC),
                 allow()));

  // A file without a name is kept by a second descriptor.
  policy.on(SYS_fcntl, when(arg32(1).equals(F_DUPFD_CLOEXEC), allow()));

  // The C library: memory, locks, clocks, the end.
  policy.on(SYS_mmap, when(arg32(2).only(PROT_READ | PROT_WRITE) &&
                               arg32(3).masked(MAP_ANONYMOUS).equals(MAP_ANONYMOUS),
                           allow()));
  policy.on(SYS_mprotect, when(arg32(2).only(PROT_READ | PROT_WRITE), allow()));
  policy.on(
      {SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_futex, SYS_sched_yield, SYS_clock_gettime,
       SYS_clock_nanosleep, SYS_gettimeofday, SYS_getpid, SYS_gettid, SYS_getrandom,
       SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit, SYS_exit_group},
      allow());
  policy.on(SYS_tgkill, when(arg32(2).equals(SIGABRT), allow()));
  policy.on({SYS_write, SYS_writev},
            when(arg32(0).equals(2) || arg32(0).equals(fd_value(descriptors.log_fd)), allow()));
  if (sanitized) {
    allow_sanitizer_calls(policy);
    policy.on(SYS_openat, when(opens_inode || report_reads_file(), allow()));
  }
  return policy.compile();
}

}  // namespace uks
