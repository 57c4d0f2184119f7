// Finding children by /proc/self/task/TID/children, or where the kernel lacks that, by all of
// /proc.
#include "tools/cli/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "platform/base/unique_fd.h"
#include "tools/cli/child_files.h"

namespace uks::cli {
namespace {

std::string read_all(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  ssize_t n;
  while (fd && (n = ::read(fd.get(), buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

std::vector<pid_t> children_by_scan() {
  std::vector<pid_t> children;
  DIR* dir = ::opendir("/proc");
  if (!dir) return children;
  while (const dirent* entry = ::readdir(dir)) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [rest, error] = std::from_chars(entry->d_name, end, pid);
    if (error != std::errc() || rest != end) continue;
    if (parse_stat_parent(read_all("/proc/" + std::string(entry->d_name) + "/stat")) ==
        ::getpid()) {
      children.push_back(pid);
    }
  }
  ::closedir(dir);
  return children;
}

std::vector<pid_t> children() {
  const std::string pid = std::to_string(::getpid());
  const std::string path = "/proc/" + pid + "/task/" + pid + "/children";
  if (::access(path.c_str(), R_OK) != 0) return children_by_scan();
  std::vector<pid_t> result;
  const std::string text = read_all(path);
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    pid_t child = 0;
    const auto [rest, error] = std::from_chars(at, end, child);
    if (error != std::errc()) break;
    result.push_back(child);
    at = rest;
    while (at < end && *at == ' ') ++at;
  }
  return result;
}

}  // namespace

void reap_orphans(std::initializer_list<pid_t> spared) {
  // Not waitpid(-1): that would take the status of those from who asks for it.
  for (;;) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (std::ranges::find(spared, info.si_pid) != spared.end())
      return;  // first in line; the keeper looks at it
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void kill_leftovers(pid_t session, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    bool found = false, alive = false;
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;  // no children at all
    for (const pid_t child : children()) {
      if (child == session || ::getsid(child) != session) continue;
      found = true;
      ::kill(child, SIGKILL);
      alive |= ::waitpid(child, nullptr, WNOHANG) != child;
    }
    // Those that are reaped may have left children to us.
    if (!found || std::chrono::steady_clock::now() >= end) return;
    if (alive) ::usleep(100);
  }
}

void end_sandbox(const Child& sentry, const Child& gofer, Guard& guard) {
  // The sentry's group, the stubs, in the same moment: by PDEATHSIG alone they end only when it is
  // torn down. Children of ours that are not reaped: the numbers are still theirs.
  // When all in the group have their signal (fork(2) makes none without it) the guard could do no
  // more. A sentry that has not come to be its leader has no stubs either, or they are found below.
  if (sentry.pid > 0 && ::kill(-sentry.pid, SIGKILL) == 0) dismiss(guard);
  for (const Child* child : {&sentry, &gofer}) {
    if (child->pid > 0) ::kill(child->pid, SIGKILL);
  }
  // Killed, they are gone at once, or when a file system that hangs lets their threads go: that is
  // not waited for.
  for (const Child* child : {&sentry, &gofer}) {
    if (child->pid <= 0) continue;
    pollfd ended = {.fd = child->pidfd.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&ended, 1, 1000);
  }
  if (gofer.pid > 0) ::waitpid(gofer.pid, nullptr, WNOHANG);
  if (sentry.pid > 0) kill_leftovers(sentry.pid, std::chrono::milliseconds(900));
  dismiss(guard);
  reap(guard);
  if (sentry.pid > 0) ::waitpid(sentry.pid, nullptr, WNOHANG);
}

}  // namespace uks::cli
