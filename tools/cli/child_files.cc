// Process checks that pid reuse cannot fool: a pidfd is taken first, and whatever was opened by
// number counts only if the pidfd's process is still there afterwards, for its number was then not
// free meanwhile.
#include "tools/cli/child_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "platform/host/features.h"
#include "platform/host/identity.h"

namespace uks::cli {
namespace {

Result<UniqueFd> open_pidfd(pid_t pid) {
  if (pid <= 0) return Err(ESRCH);
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return HostErr();
  return fd;
}

// The process of thread `tid`, by the Tgid line of its status.
std::optional<pid_t> process_of(pid_t tid) {
  const std::string path = "/proc/" + std::to_string(tid) + "/status";
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[1024];
  const ssize_t n = fd ? ::read(fd.get(), buffer, sizeof buffer) : 0;
  if (n <= 0) return std::nullopt;
  const std::string_view text(buffer, static_cast<size_t>(n));
  constexpr std::string_view kLine = "\nTgid:\t";
  const size_t at = text.find(kLine);
  if (at == std::string_view::npos) return std::nullopt;
  pid_t pid = 0;
  const auto [end, error] =
      std::from_chars(text.data() + at + kLine.size(), text.data() + text.size(), pid);
  if (error != std::errc() || pid <= 0) return std::nullopt;
  return pid;
}

Result<void> check_parent(pid_t pid, pid_t parent) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Err(ESRCH);
  char buffer[1024];
  const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
  if (n <= 0) return Err(ESRCH);
  const auto found = parse_stat_parent({buffer, static_cast<size_t>(n)});
  if (!found || *found != parent) return Err(ESRCH);  // the number is another's by now
  return {};
}

Result<UniqueFd> open_checked(pid_t pid, pid_t parent, const std::string& name, int flags) {
  const UniqueFd pidfd = TRY(open_pidfd(pid));
  TRY(check_parent(pid, parent));
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && (errno == EACCES || errno == EPERM) && ::geteuid() == 0) {
    // Root without CAP_SYS_PTRACE (a container): ptrace access is granted by equal ids (ptrace(2)),
    // and for /proc/PID/mem the file system ids are those that count.
    const SentryIdentity id = sentry_identity_for(parent);
    const int old_gid = ::setfsgid(id.gid);
    const int old_uid = ::setfsuid(id.uid);
    fd.reset(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
    const int error = errno;
    ::setfsuid(static_cast<uid_t>(old_uid));
    ::setfsgid(static_cast<gid_t>(old_gid));
    errno = error;
  }
  if (!fd) return HostErr();
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), 0, nullptr, 0) != 0) return Err(ESRCH);
  TRY(check_parent(pid, parent));
  return fd;
}

// A stop that is sent to a process waits for one thread that the kernel chooses, mostly the first;
// if that waits for the sentry's answer, where only SIGKILL reaches it, the others run on. So each
// is sent its own: whichever takes it stops them all.
void stop_threads(pid_t pid) {
  DIR* dir = ::opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    pid_t tid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), tid).ec == std::errc()) {
      ::syscall(SYS_tgkill, pid, tid, SIGSTOP);  // a number of another process's thread is ESRCH
    }
  }
  ::closedir(dir);
}

}  // namespace

std::optional<pid_t> parse_stat_parent(std::string_view stat) {
  const size_t bracket = stat.rfind(')');
  // ") S 123 …"
  if (bracket == std::string_view::npos || stat.size() < bracket + 5 || stat[bracket + 1] != ' ')
    return std::nullopt;
  const std::string_view rest = stat.substr(bracket + 4);
  pid_t parent = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parent);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != ' ') return std::nullopt;
  return parent;
}

Result<void> signal_child(pid_t pid, pid_t parent, int signo) {
  if (signo != SIGKILL && signo != SIGSTOP && signo != SIGCONT) return Err(EINVAL);
  // The sentry may know no more than the number of a thread, for which there is no pidfd.
  if (pid > 0) pid = process_of(pid).value_or(pid);
  const UniqueFd pidfd = TRY(open_pidfd(pid));
  TRY(check_parent(pid, parent));
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signo, nullptr, 0) != 0) return HostErr();
  if (signo == SIGSTOP) stop_threads(pid);
  return {};
}

Result<UniqueFd> open_child_mem(pid_t pid, pid_t parent) {
  if (is_masked(Feature::kProcMem)) return Err(EPERM);
  return open_checked(pid, parent, "mem", O_RDWR);
}

Result<UniqueFd> open_child_text(pid_t pid, pid_t parent, std::string_view name) {
  if (name == "children" && pid == parent) {
    // The sentry's own, which is our child and not waited for: the number is its.
    const std::string number = std::to_string(pid);
    UniqueFd fd(::open(("/proc/" + number + "/task/" + number + "/children").c_str(),
                       O_RDONLY | O_CLOEXEC));
    if (!fd) return HostErr();
    return fd;
  }
  constexpr std::array<std::string_view, 5> kNames = {"maps", "smaps", "status", "stat", "statm"};
  if (std::ranges::find(kNames, name) == kNames.end()) return Err(EINVAL);
  return open_checked(pid, parent, std::string(name), O_RDONLY);
}

Result<UniqueFd> reopen_memfd(int fd) {
  if (fd < 0 || ::fcntl(fd, F_GET_SEALS) < 0) return Err(EINVAL);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  UniqueFd twin(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!twin) return HostErr();
  return twin;
}

}  // namespace uks::cli
