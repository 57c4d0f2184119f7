// Feature probes. What changes a process for good (filters, namespaces) is tried in a child.
#include "tools/cli/host_probe.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "platform/base/unique_fd.h"
#include "tools/cli/host.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

namespace uks::cli {
namespace {

// Runs `body` in a child and returns the number below 256 that it returns; -1 if the child died.
template <typename Body>
int in_child(Body&& body) {
  const pid_t pid = ::fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Makes a listener for a filter that lets everything pass. The result, or -errno.
long make_listener(unsigned long flags) {
  sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program{1, allow};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  const long fd = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                            SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, &program);
  return fd < 0 ? -errno : fd;
}

void probe_seccomp(HostProbe& probe) {
  const uint32_t action = SECCOMP_RET_TRACE;
  probe.filters = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  const int error = in_child([] { return static_cast<int>(-std::min(make_listener(0), 0L)); });
  probe.seccomp_error = error < 0 ? ENOSYS : error;
  probe.has[static_cast<size_t>(Feature::kNotify)] = error == 0;
  constexpr int kKillable = 1, kSyncWake = 2;
  const int found = in_child([] {
    const long fd = make_listener(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if (fd < 0) return 0;
    const int rc = ::ioctl(static_cast<int>(fd), SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                           SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    return kKillable | (rc == 0 ? kSyncWake : 0);
  });
  probe.has[static_cast<size_t>(Feature::kWaitKillable)] = found > 0;
  probe.has[static_cast<size_t>(Feature::kSyncWake)] = found > 0 && (found & kSyncWake);
}

bool probe_mseal() {
  return in_child([] {
           void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
           return page != MAP_FAILED && ::syscall(SYS_mseal, page, 4096, 0) == 0 ? 1 : 0;
         }) == 1;
}

bool probe_pidfd_thread() {
  constexpr unsigned kPidfdThread = O_EXCL;  // PIDFD_THREAD, Linux 6.9
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::gettid(), kPidfdThread)));
  return fd.get() >= 0;
}

std::optional<int> number_in(const char* path) {
  const auto text = RealHost().read_text(path, 64);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// As enter_namespaces (platform/host/layers.cc) does for an ordinary user. Where AppArmor restricts
// user namespaces (Ubuntu 24.04), making one works and its capabilities do not.
void probe_userns(HostProbe& probe) {
  const uint32_t action = SECCOMP_RET_TRACE;
  probe.filters = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  const int error = in_child([] {
    if (::unshare(CLONE_NEWUSER) != 0) return errno;
    return ::unshare(CLONE_NEWIPC | CLONE_NEWUTS) == 0 ? 0 : errno;
  });
  probe.userns_error = error < 0 ? EPERM : error;
  probe.has[static_cast<size_t>(Feature::kUserns)] = error == 0;
  if (error == 0) return;
  if (number_in("/proc/sys/user/max_user_namespaces").value_or(1) == 0) {
    probe.userns_reason = "user.max_user_namespaces is 0";
  } else if (number_in("/proc/sys/kernel/unprivileged_userns_clone").value_or(1) == 0) {
    probe.userns_reason = "kernel.unprivileged_userns_clone is 0";
  } else if (number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").value_or(0) != 0) {
    probe.userns_reason = "kernel.apparmor_restrict_unprivileged_userns is set";
  } else {
    probe.userns_reason = std::strerror(probe.userns_error);
  }
}

// A child that waits; how far its memory is open to us.
void probe_child_memory(HostProbe& probe) {
  static volatile int64_t word = 0x756b73;
  const pid_t pid = ::fork();
  if (pid < 0) return;
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  int64_t copy = 0;
  const iovec local{&copy, sizeof copy};
  const iovec remote{const_cast<int64_t*>(&word), sizeof word};
  probe.process_vm =
      ::process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof copy && copy == word;
  probe.ptrace = ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0;
  const UniqueFd mem(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  probe.has[static_cast<size_t>(Feature::kProcMem)] = mem.get() >= 0;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

void probe_file_systems(HostProbe& probe) {
  struct statfs fs;
  probe.proc_mounted = ::statfs("/proc", &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
                       ::access("/proc/self/exe", F_OK) == 0;
  const std::string self = std::to_string(::getpid());
  probe.children_list =
      ::access(("/proc/" + self + "/task/" + self + "/children").c_str(), R_OK) == 0;
  if (::statfs("/sys/fs/cgroup", &fs) == 0) {
    if (fs.f_type == CGROUP2_SUPER_MAGIC) probe.cgroup_version = 2;
    // Version 1 mounts a tmpfs with a directory for each controller there.
    if (fs.f_type == TMPFS_MAGIC) probe.cgroup_version = 1;
  }
}

}  // namespace

HostProbe probe_host() {
  HostProbe probe;
  utsname name;
  if (::uname(&name) == 0) probe.kernel = name.release;
  probe_seccomp(probe);
  probe.has[static_cast<size_t>(Feature::kMseal)] = probe_mseal();
  probe.has[static_cast<size_t>(Feature::kPidfdThread)] = probe_pidfd_thread();
  constexpr unsigned long kHwcap2Fsgsbase = 2;
  probe.has[static_cast<size_t>(Feature::kFsgsbase)] = ::getauxval(AT_HWCAP2) & kHwcap2Fsgsbase;
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  probe.landlock_abi = abi > 0 ? static_cast<int>(abi) : 0;
  probe.has[static_cast<size_t>(Feature::kLandlock)] = abi > 0;
  probe_userns(probe);
  probe_child_memory(probe);
  probe_file_systems(probe);
  probe.yama_scope = number_in("/proc/sys/kernel/yama/ptrace_scope").value_or(-1);
  const auto status = RealHost().read_text("/proc/self/status", 1 << 16).value_or("");
  constexpr std::string_view kLine = "\nSeccomp_filters:\t";
  if (const size_t at = status.find(kLine); at != std::string::npos)
    std::from_chars(status.data() + at + kLine.size(), status.data() + status.size(),
                    probe.outer_filters);
  return probe;
}

}  // namespace uks::cli
