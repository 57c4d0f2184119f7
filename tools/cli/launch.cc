// Process creation. The child runs on our memory until it execs, beside us: a copy of it would cost
// both of them a page fault for each page that either touches. So from spawn_main() on there are
// only system calls without the C library, which would set our errno, on what the parent prepared.
#include "tools/cli/launch.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "platform/base/close_descriptors.h"
#include "platform/host/sanitizer_calls.h"
#include "tools/cli/args.h"

namespace uks::cli {
namespace {

// -errno on failure.
long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}
long address(const void* p) { return reinterpret_cast<long>(p); }

struct KernelSigaction {
  uint64_t handler, flags, restorer, mask;
};

void set_disposition(int signo, bool ignored) {
  const KernelSigaction action{ignored ? uint64_t{1} : 0, 0, 0, 0};
  raw_syscall(SYS_rt_sigaction, signo, address(&action), 0, sizeof action.mask);
}

// Default dispositions, except that files which grow beyond RLIMIT_FSIZE are an error (EFBIG), not
// the end. Signals that wait are not for this process: the terminal's keys before setsid(2).
void reset_signals(const Role::Spawn& spawn) {
  for (int signo = 1; signo < NSIG; ++signo) {
    if (spawn.ignored & uint64_t{1} << (signo - 1)) set_disposition(signo, false);
  }
  set_disposition(SIGXFSZ, true);
  const uint64_t all = ~uint64_t{0}, none = 0;
  const timespec at_once{};
  for (int i = 0; i < 1000; ++i) {  // of real-time signals any number may wait
    if (raw_syscall(SYS_rt_sigtimedwait, address(&all), 0, address(&at_once), sizeof all) < 0)
      break;
  }
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, address(&none), 0, sizeof none);
}

// Puts each descriptor at its place. Via numbers above all places, since the places may be taken by
// descriptors that are still to be moved.
bool place_descriptors(Role& role) {
  constexpr int kAboveAll = 64;
  for (HandedFd& fd : role.fds) {
    fd.from = static_cast<int>(raw_syscall(SYS_fcntl, fd.from, F_DUPFD, kAboveAll));
    if (fd.from < 0) return false;
  }
  const auto close_range = [&](unsigned first, unsigned last) {
    if (raw_syscall(SYS_close_range, first, last, 0) == 0) return;
    if (!role.spawn.shares_memory) close_descriptors(first, last);
  };
  close_range(0, kAboveAll - 1);
  int top = 2;
  for (const HandedFd& fd : role.fds) {
    if (raw_syscall(SYS_dup2, fd.from, fd.to) < 0) return false;
    top = std::max(top, fd.to);
  }
  close_range(static_cast<unsigned>(top) + 1, ~0U);
  return true;
}

void become(Role& role) {
  const Role::Spawn& spawn = role.spawn;
  if (raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (raw_syscall(SYS_getppid) != spawn.parent) return;
  raw_syscall(SYS_setsid);
  for (const auto& [resource, limit] : spawn.limits)
    raw_syscall(SYS_prlimit64, 0, resource, address(&limit), 0);
  reset_signals(spawn);
  if (!place_descriptors(role)) return;
  raw_syscall(SYS_execve, address("/proc/self/exe"), address(spawn.argv), address(spawn.env));
}

int spawn_main(void* role) {
  become(*static_cast<Role*>(role));
  for (;;) raw_syscall(SYS_exit_group, kExitFailure);
}

// The guest's limits are virtual and come from the configuration; what limits us here is only in
// the way of serving it (a write beyond RLIMIT_FSIZE would kill the gofer, not the guest).
void choose_limits(Role::Spawn& spawn) {
  for (const int resource :
       {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK}) {
    rlimit limit;
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;
    if (limit.rlim_cur == limit.rlim_max) continue;
    limit.rlim_cur = limit.rlim_max;
    spawn.limits.emplace_back(resource, limit);
  }
  // A core of ours would hold the guest's data, and more.
  spawn.limits.emplace_back(RLIMIT_CORE, rlimit{0, 0});
}

uint64_t ignored_signals() {
  uint64_t ignored = 0;
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction action;
    if (::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      ignored |= uint64_t{1} << (signo - 1);
  }
  return ignored;
}

void prepare(Role& role) {
  Role::Spawn& spawn = role.spawn;
  spawn.parent = ::getpid();
  spawn.ignored = ignored_signals();
  choose_limits(spawn);
  spawn.role_flag = std::string("--role=") + role.name;
  spawn.argv[0] = spawn.program.data();
  spawn.argv[1] = spawn.role_flag.data();
  if (const char* value = std::getenv("UKS_FEATURES")) {
    spawn.features = std::string("UKS_FEATURES=") + value;
    spawn.env[0] = spawn.features.data();
  }
  // Without close_range(2) there is more to do than can be done there. The sanitizers' libraries do
  // not know of processes that share memory.
  spawn.shares_memory = !kSanitized && ::syscall(SYS_close_range, ~0U, ~0U, 0) == 0;
}

// The caller's soft limit of file sizes is meant for the command, not for how it is told what to
// do.
class FileSizeRaised {
 public:
  FileSizeRaised() {
    if (::getrlimit(RLIMIT_FSIZE, &before_) != 0) before_.rlim_cur = before_.rlim_max;
    const rlimit raised{before_.rlim_max, before_.rlim_max};
    if (before_.rlim_cur != before_.rlim_max) ::setrlimit(RLIMIT_FSIZE, &raised);
  }
  ~FileSizeRaised() {
    if (before_.rlim_cur != before_.rlim_max) ::setrlimit(RLIMIT_FSIZE, &before_);
  }
  FileSizeRaised(const FileSizeRaised&) = delete;
  FileSizeRaised& operator=(const FileSizeRaised&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

std::string too_low_limit() {
  struct Need {
    int resource;
    rlim_t minimum;
    const char* what;
    rlim_t unit;
    const char* option;
  };
  // Two windows of 128 MiB, a memfd each, and the stub's region; stacks of 8 MiB for the threads of
  // the start.
  for (const Need& need : {Need{RLIMIT_NOFILE, 128, "open files", 1, "n"},
                           Need{RLIMIT_AS, 1 << 30, "address space in KiB", 1024, "v"},
                           Need{RLIMIT_DATA, 128 << 20, "data memory in KiB", 1024, "d"},
                           Need{RLIMIT_FSIZE, 128 << 20, "file size in KiB", 1024, "f"}}) {
    rlimit limit;
    if (::getrlimit(static_cast<__rlimit_resource_t>(need.resource), &limit) != 0) continue;
    if (limit.rlim_max >= need.minimum) continue;
    return fmt::format("the limit of {} is {} here (ulimit -H{}); a sandbox needs {}", need.what,
                       limit.rlim_max / need.unit, need.option, need.minimum / need.unit);
  }
  return "";
}

Result<UniqueFd> make_config_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return HostErr();
  return fd;
}

Result<void> fill_config_file(int fd, const std::string& content) {
  const FileSizeRaised raised;
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n =
        ::pwrite(fd, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return HostErr();
    done += static_cast<size_t>(n);
  }
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return HostErr();
  return {};
}

Result<Child> start_role(Role& role) {
  prepare(role);
  Role::Spawn& spawn = role.spawn;
  pid_t pid;
  if (spawn.shares_memory) {
    pid = ::clone(spawn_main, spawn.stack.data() + spawn.stack.size(), CLONE_VM | SIGCHLD, &role);
  } else {
    pid = ::fork();
    if (pid == 0) spawn_main(&role);
  }
  if (pid < 0) return HostErr();
  Child child;
  child.pid = pid;
  // Ours until we wait for it, so the number cannot have been reused.
  child.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!child.pidfd) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return Err(error);
  }
  return child;
}

}  // namespace uks::cli
