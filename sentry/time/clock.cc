// Guest clocks. Wall clocks are the host's; CPU clocks come from the platform.
#include "sentry/time/clock.h"

#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

// A CPU clock's id: ~pid << 3 | per-thread bit | kind (include/linux/posix-timers_types.h).
constexpr int kPerThread = 4;
constexpr int kKindMask = 3;

// EINVAL when the host cannot tell.
Result<int64_t> cpu_now(const CpuClock& clock) {
  if (clock.thread && !clock.group->kernel.task_cpu_ns(*clock.thread)) return Err(EINVAL);
  return static_cast<int64_t>(group_cpu_ns(*clock.group, clock.kind));
}

int64_t host_now(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return to_ns(ts);
}

}  // namespace

uint64_t group_cpu_ns(ThreadGroup& group) { return group.kernel.cpu_times(group).total_ns(); }

uint64_t group_cpu_ns(ThreadGroup& group, CpuClockKind kind) {
  const CpuTimes times = group.kernel.cpu_times(group);
  return kind == CpuClockKind::kVirt ? times.user_ns : times.total_ns();
}

// pid_for_clock()
Result<CpuClock> find_cpu_clock(Task& task, clockid_t clock) {
  if (clock == CLOCK_PROCESS_CPUTIME_ID)
    return CpuClock{&task.group(), nullptr, CpuClockKind::kSched};
  if (clock == CLOCK_THREAD_CPUTIME_ID) return CpuClock{&task.group(), &task, CpuClockKind::kSched};
  if (!is_cpu_clock(clock) || (clock & kKindMask) == kKindMask) return Err(EINVAL);
  const auto kind = static_cast<CpuClockKind>(clock & kKindMask);
  const pid_t pid = ~(clock >> 3);
  if (clock & kPerThread) {
    Task* thread = pid == 0 ? &task : task.kernel().find_task(pid);
    if (!thread || thread->tgid() != task.tgid()) return Err(EINVAL);
    return CpuClock{&task.group(), thread, kind};
  }
  ThreadGroup* group = pid == 0 ? &task.group() : task.kernel().find_group(pid);
  if (!group) return Err(EINVAL);
  return CpuClock{group, nullptr, kind};
}

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
    default:
      break;
  }
  // A process's clock may be asked for by the number of the thread that asks.
  if (clock < 0 && !(clock & kPerThread) && ~(clock >> 3) == task.tid())
    clock = static_cast<clockid_t>(~static_cast<unsigned>(task.tgid()) << 3) | (clock & kKindMask);
  return cpu_now(TRY(find_cpu_clock(task, clock)));
}

bool is_known_clock(clockid_t clock) {
  return clock < 0 || (clock <= CLOCK_TAI && clock != CLOCK_TAI - 1);  // 10 is no more
}

Result<int64_t> guest_clock_resolution(Task& task, clockid_t clock) {
  bool is_coarse = clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE;
  if (is_cpu_clock(clock)) {
    is_coarse = TRY(find_cpu_clock(task, clock)).kind != CpuClockKind::kSched;
  } else if (!is_known_clock(clock) || is_file_clock(clock)) {
    return Err(EINVAL);
  }
  if (!is_coarse) return 1;
  timespec tick{};
  clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
  return to_ns(tick);
}

}  // namespace uks
