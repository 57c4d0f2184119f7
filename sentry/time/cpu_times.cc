// CPU time of guests: the host accounts for it, since every guest process is a host process.
#include <time.h>

#include <algorithm>

#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

// CPUCLOCK_PROF (user + system, in ticks where the host counts these), CPUCLOCK_VIRT (user,
// likewise) and CPUCLOCK_SCHED (exact) of a host process; any process may read them
// (include/linux/posix-timers.h, pid_for_clock()).
constexpr int kProf = 0;
constexpr int kVirt = 1;
constexpr int kSched = 2;

std::optional<uint64_t> host_cpu_ns(pid_t pid, int kind) {
  timespec ts{};
  if (clock_gettime(
          static_cast<clockid_t>(~static_cast<unsigned>(pid) << 3 | static_cast<unsigned>(kind)),
          &ts) < 0) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(to_ns(ts));
}

// The address space that belongs to this process alone; a vfork child's time counts for its parent.
AddressSpace* own_space(ThreadGroup& group) {
  if (group.threads.empty()) return nullptr;
  AddressSpace* mm = group.threads.front()->mm.get();
  return mm && !mm->gone && mm->host_pid > 0 && mm->users <= 1 ? mm : nullptr;
}

}  // namespace

CpuTimes Kernel::cpu_times(ThreadGroup& group) {
  CpuTimes times = group.settled_cpu;
  AddressSpace* mm = own_space(group);
  CpuTimes& shown = group.shown_cpu;
  const CpuTimes known = times.total_ns() > shown.total_ns() ? times : shown;
  if (!mm) return known;
  const auto user = host_cpu_ns(mm->host_pid, kVirt);
  const auto both = host_cpu_ns(mm->host_pid, kProf);
  const auto exact = host_cpu_ns(mm->host_pid, kSched);
  if (!user || !both || !exact) return known;
  const uint64_t all_ns = times.total_ns() + *exact;
  uint64_t user_ns = times.user_ns + *exact;
  if (*both > *user) {
    user_ns = times.user_ns +
              static_cast<uint64_t>(static_cast<double>(*exact) * static_cast<double>(*user) /
                                    static_cast<double>(*both));
  }
  // Neither part ever goes back (cputime_adjust()).
  if (all_ns <= shown.total_ns()) return shown;
  user_ns = std::clamp(user_ns, shown.user_ns, all_ns - shown.system_ns);
  shown = {user_ns, all_ns - user_ns};
  return shown;
}

std::optional<uint64_t> Kernel::task_cpu_ns(Task& task) {
  if (task.group().threads.size() > 1) return std::nullopt;
  return cpu_times(task.group()).total_ns();
}

void Kernel::settle_cpu_times(ThreadGroup& group) { group.settled_cpu = cpu_times(group); }

}  // namespace uks
