// Makes of the real `uks` one whose sentry does what the guest wants: a handler for one more call,
// which attacks. Everything else is the shipped code, started by `exec` as ever: namespaces,
// identity, Landlock, zygotes, threads, descriptors, filter. Linked in by --wrap
// (tests/CMakeLists.txt); no shipped binary has it.
#include <signal.h>

#include <cstring>

#include "platform/keeper/channel.h"
#include "platform/keeper/fds.h"
#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "tests/posture/attacks.h"

using posture::Report;
using posture::Target;

namespace {

// The sentry's own handler for what its filter refuses.
struct sigaction real_handler;

void on_sigsys(int signo, siginfo_t* info, void* context) {
  if (posture::attacking) return posture::on_refused(context);
  real_handler.sa_sigaction(signo, info, context);
}

void say(Report& report, const char* name, const uks::Result<uks::UniqueFd>& result) {
  char verdict[32];
  snprintf(verdict, sizeof verdict, "%d", result ? result->get() : -result.error().value);
  report.add(name, verdict);
}

// Requests to the keeper, which may do what the sentry may not.
void ask_keeper(uks::keeper::Channel& keeper, const Target& t, Report& report) {
  using uks::keeper::Op;
  char name[200];
  struct Victim {
    const char* name;
    pid_t pid;
  };
  const Victim victims[] = {
      {"bystander", t.pid}, {"keeper", t.keeper}, {"gofer", t.gofer}, {"self", getpid()},
      {"init", 1},          {"zero", 0},          {"all", -1},        {"minus_bystander", -t.pid}};
  for (const Victim& victim : victims) {
    snprintf(name, sizeof name, "keeper_mem_%s", victim.name);
    say(report, name, keeper.open(Op::kOpenMem, victim.pid));
    char escape[64];
    snprintf(escape, sizeof escape, "../%d/mem", t.pid);
    for (const char* file : {"maps", "smaps", "status", "environ", "mem", "fd/0", "root/etc/passwd",
                             "task", ".", "", "..", static_cast<const char*>(escape)}) {
      snprintf(name, sizeof name, "keeper_maps_%s_%s", victim.name, *file ? file : "nothing");
      say(report, name, keeper.open(Op::kOpenMaps, victim.pid, file));
    }
  }
  for (const int fd : {0, 1, uks::keeper::kKeeperFd, uks::keeper::kFirstGoferFd}) {
    snprintf(name, sizeof name, "keeper_reopen_%d", fd);
    say(report, name, keeper.reopen_read_only(fd));
  }
  for (const Victim& victim : victims) {
    for (const int signo : {SIGSTOP, SIGTERM, SIGUSR1, 0, SIGKILL})
      keeper.send(Op::kKill, victim.pid, signo);
  }
  // In order: all that has been looked at when this is answered.
  say(report, "keeper_afterwards", keeper.open(Op::kOpenMem, t.pid));
}

}  // namespace

// What the linker calls instead of uks::dispatch_call(Task&) and sigaction(2).
uks::Result<int64_t> real_dispatch_call(uks::Task& task) __asm__(
    "__real__ZN3uks13dispatch_callERNS_4TaskE");
uks::Result<int64_t> wrap_dispatch_call(uks::Task& task) __asm__(
    "__wrap__ZN3uks13dispatch_callERNS_4TaskE");
uks::Result<int64_t> wrap_dispatch_call(uks::Task& task) {
  if (task.syscall_nr != posture::kAttackCall) return real_dispatch_call(task);
  if (task.syscall_args[1] == posture::kAttackInt80) {
    long result = 20;  // getpid of i386
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result;
  }
  const auto target = task.copy_in<Target>(uks::UserAddr{task.syscall_args[0]});
  if (!target) return uks::Err(target.error());
  static Report report;
  ask_keeper(task.kernel().platform->keeper(), *target, report);
  posture::run_attacks(*target, true, report);
  const auto size = std::min<size_t>(static_cast<size_t>(report.used), target->report_size);
  if (const auto r = task.write_now(uks::UserAddr{target->report}, report.text, size); !r)
    return uks::Err(r.error());
  return static_cast<int64_t>(size);
}

extern "C" {
int __real_sigaction(int signo, const struct sigaction* action, struct sigaction* old);
int __wrap_sigaction(int signo, const struct sigaction* action, struct sigaction* old) {
  if (signo != SIGSYS || !action || !(action->sa_flags & SA_SIGINFO))
    return __real_sigaction(signo, action, old);
  real_handler = *action;
  struct sigaction ours = *action;
  ours.sa_sigaction = on_sigsys;
  return __real_sigaction(signo, &ours, old);
}
}
