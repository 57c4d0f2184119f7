// Guest clocks. Wall clocks are the host's; CPU clocks come from the platform.
#include "sentry/time/clock.h"

#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

// A dynamic CPU clock id: ~pid << 3 | per-thread bit | kind (include/linux/posix-timers.h).
constexpr bool is_cpu_clock_id(clockid_t clock) { return clock < 0 && (clock & 7) != 3; }
constexpr int kPerThread = 4;

// EINVAL when the host cannot tell.
Result<int64_t> thread_cpu_now(Task& task) {
  const auto ns = task.kernel().task_cpu_ns(task);
  if (!ns) return Err(EINVAL);
  return static_cast<int64_t>(*ns);
}

int64_t host_now(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return to_ns(ts);
}

}  // namespace

uint64_t group_cpu_ns(ThreadGroup& group) { return group.kernel.cpu_times(group).total_ns(); }

Result<timespec> copy_in_timespec(Task& task, UserAddr addr) {
  const auto ts = TRY(task.copy_in<timespec>(addr));
  if (!is_valid(ts)) return Err(EINVAL);
  return ts;
}

MonotonicNs deadline_from_relative_ns(int64_t ns) {
  const MonotonicNs now = monotonic_now();
  return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

MonotonicNs deadline_from_relative(const timespec& relative) {
  return deadline_from_relative_ns(to_ns(relative));
}

MonotonicNs deadline_from_absolute(clockid_t clock, const timespec& absolute) {
  const int64_t target = to_ns(absolute);
  if (clock == CLOCK_MONOTONIC) return target;
  if (clock == CLOCK_REALTIME_ALARM) clock = CLOCK_REALTIME;
  if (clock == CLOCK_BOOTTIME_ALARM) clock = CLOCK_BOOTTIME;
  const int64_t now = host_now(clock);
  return target <= now ? monotonic_now() : deadline_from_relative_ns(target - now);
}

Result<int64_t> guest_clock_now(Task& task, clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI:
      return host_now(clock);
    case CLOCK_REALTIME_ALARM:
      return host_now(CLOCK_REALTIME);
    case CLOCK_BOOTTIME_ALARM:
      return host_now(CLOCK_BOOTTIME);
    case CLOCK_PROCESS_CPUTIME_ID:
      return static_cast<int64_t>(group_cpu_ns(task.group()));
    case CLOCK_THREAD_CPUTIME_ID:
      return thread_cpu_now(task);
    default:
      break;
  }
  if (!is_cpu_clock_id(clock)) return Err(EINVAL);
  const pid_t pid = ~(clock >> 3);
  if (clock & kPerThread) {
    Task* thread = pid == 0 ? &task : task.kernel().find_task(pid);
    if (!thread || thread->tgid() != task.tgid()) return Err(EINVAL);
    return thread_cpu_now(*thread);
  }
  ThreadGroup* group = pid == 0 ? &task.group() : task.kernel().find_group(pid);
  if (!group) return Err(EINVAL);
  return static_cast<int64_t>(group_cpu_ns(*group));
}

Result<int64_t> guest_clock_resolution(Task& task, clockid_t clock) {
  if (clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE) {
    timespec ts{};
    clock_getres(clock, &ts);
    return to_ns(ts);
  }
  TRY(guest_clock_now(task, clock));
  return 1;
}

}  // namespace uks
