// Process creation. The keeper has one thread, so the child may run ordinary code before it execs.
#include "tools/cli/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "platform/base/close_descriptors.h"
#include "platform/host/identity.h"
#include "tools/cli/args.h"

namespace uks::cli {
namespace {

// The guest's limits are virtual and come from the configuration; what limits us here is only in
// the way of serving it (a write beyond RLIMIT_FSIZE would kill the gofer, not the guest).
void set_limits() {
  for (const int resource :
       {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK}) {
    rlimit limit;
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  }
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // a core of ours would hold the guest's data, and more
}

// Until setsid(2) the terminal's keys are for this process too, and wait: ignoring discards them.
// Files that grow beyond RLIMIT_FSIZE are an error (EFBIG), not the end.
void reset_signals() {
  struct sigaction action = {};
  for (const auto handler : {SIG_IGN, SIG_DFL}) {
    action.sa_handler = handler;
    for (int signo = 1; signo < NSIG; ++signo) ::sigaction(signo, &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &action, nullptr);
  sigset_t empty;
  ::sigemptyset(&empty);
  ::sigprocmask(SIG_SETMASK, &empty, nullptr);
}

// Puts each descriptor at its place. Via numbers above all places, since the places may be taken by
// descriptors that are still to be moved.
bool place_descriptors(const std::vector<HandedFd>& fds) {
  constexpr int kAboveAll = 64;
  std::vector<HandedFd> moved;
  for (const HandedFd& fd : fds) {
    const int high = ::fcntl(fd.from, F_DUPFD, kAboveAll);
    if (high < 0) return false;
    moved.push_back({high, fd.to});
  }
  close_descriptors(0, kAboveAll - 1);
  int top = 2;
  for (const HandedFd& fd : moved) {
    if (::dup2(fd.from, fd.to) < 0) return false;
    top = std::max(top, fd.to);
  }
  close_descriptors(static_cast<unsigned>(top) + 1);
  return true;
}

[[noreturn]] void become(const Role& role, pid_t parent) {
  if (!die_with_parent(parent)) ::_exit(kExitFailure);
  ::setsid();
  set_limits();
  reset_signals();
  if (!place_descriptors(role.fds)) ::_exit(kExitFailure);
  std::string role_flag = std::string("--role=") + role.name;
  std::string name = "uks";
  char* argv[] = {name.data(), role_flag.data(), nullptr};
  std::string features;
  char* env[] = {nullptr, nullptr};
  if (const char* value = std::getenv("UKS_FEATURES")) {
    features = std::string("UKS_FEATURES=") + value;
    env[0] = features.data();
  }
  ::execve("/proc/self/exe", argv, env);
  ::_exit(kExitFailure);
}

}  // namespace

Result<UniqueFd> make_config_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return HostErr();
  return fd;
}

Result<void> fill_config_file(int fd, const std::string& content) {
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

Result<Child> start_role(const Role& role) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return HostErr();
  if (pid == 0) become(role, parent);
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
