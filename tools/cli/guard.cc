#include "tools/cli/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/base/close_descriptors.h"
#include "platform/host/bpf_dsl.h"

namespace uks::cli {
namespace {

constexpr int kPipe = 0;

// Waiting, and one kill of one group.
bool confine(pid_t sentry) {
  using namespace bpf;
  Policy policy(kill_process());
  policy.on(SYS_read, when(arg32(0).equals(kPipe), allow()));
  policy.on(
      SYS_kill,
      when(arg32(0).equals(static_cast<uint32_t>(-sentry)) && arg32(1).equals(SIGKILL), allow()));
  policy.on(SYS_exit_group, allow());
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && install(policy.compile());
}

[[noreturn]] void guard(int pipe, pid_t sentry) {
  ::setsid();  // a kill of the keeper's group spares it
  ::prctl(PR_SET_NAME, "uks-guard");
  ::prctl(PR_SET_DUMPABLE, 0);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (::chdir("/") != 0 || ::dup2(pipe, kPipe) < 0) ::_exit(1);
  close_descriptors(1);
  if (!confine(sentry)) ::_exit(1);
  char byte;
  while (::read(kPipe, &byte, 1) < 0) {
  }
  ::kill(-sentry, SIGKILL);
  for (;;) ::syscall(SYS_exit_group, 0);
}

}  // namespace

Result<Guard> start_guard(pid_t sentry) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return HostErr();
  UniqueFd waiting(ends[0]);
  Guard result;
  result.alive.reset(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return HostErr();
  if (pid == 0) {
    result.alive.reset();  // or it would keep its own pipe open
    guard(waiting.get(), sentry);
  }
  result.child.pid = pid;
  return result;
}

void dismiss(Guard& guard) {
  if (guard.child.pid <= 0) return;
  ::kill(guard.child.pid, SIGKILL);
}

void reap(Guard& guard) {
  if (guard.child.pid <= 0) return;
  ::waitpid(guard.child.pid, nullptr, 0);
  guard.child.pid = -1;
  guard.alive.reset();
}

}  // namespace uks::cli
