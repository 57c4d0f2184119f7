// CPU time of guests: the host accounts for it, since every guest process is a host process.
#include <time.h>

#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

// CPUCLOCK_PROF (user + system) and CPUCLOCK_VIRT (user) of a host process; any process may read
// them (include/linux/posix-timers.h, pid_for_clock()).
constexpr int kProf = 0;
constexpr int kVirt = 1;

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
  if (!mm) return times;
  const auto user = host_cpu_ns(mm->host_pid, kVirt);
  const auto both = host_cpu_ns(mm->host_pid, kProf);
  if (!user || !both) return times;
  times.user_ns += *user;
  times.system_ns += *both > *user ? *both - *user : 0;
  return times;
}

std::optional<uint64_t> Kernel::task_cpu_ns(Task& task) {
  if (task.group().threads.size() > 1) return std::nullopt;
  return cpu_times(task.group()).total_ns();
}

void Kernel::settle_cpu_times(ThreadGroup& group) { group.settled_cpu = cpu_times(group); }

}  // namespace uks
