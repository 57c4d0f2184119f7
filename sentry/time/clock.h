// Guest clocks and the time structures of the ABI.
#pragma once
#include <time.h>

#include <cstdint>

#include "platform/base/result.h"
#include "sentry/time/timer_queue.h"
#include "sentry/usermem/user_types.h"

namespace uks {

class Task;
class ThreadGroup;

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// Saturating nanoseconds of a valid timespec.
constexpr int64_t to_ns(const timespec& ts) {
  constexpr int64_t kMaxSeconds = INT64_MAX / kNsPerSecond - 1;
  if (ts.tv_sec > kMaxSeconds) return INT64_MAX;
  return ts.tv_sec * kNsPerSecond + ts.tv_nsec;
}
constexpr timespec to_timespec(int64_t ns) {
  return {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
}
// tv_nsec in range and tv_sec not negative, as the kernel's timespec64_valid().
constexpr bool is_valid(const timespec& ts) {
  return ts.tv_sec >= 0 && ts.tv_nsec >= 0 && ts.tv_nsec < kNsPerSecond;
}

// EFAULT; EINVAL for an invalid one.
Result<timespec> copy_in_timespec(Task& task, UserAddr addr);

// Deadlines on CLOCK_MONOTONIC, saturating.
MonotonicNs deadline_from_relative(const timespec& relative);
MonotonicNs deadline_from_relative_ns(int64_t ns);
// For an absolute time of `clock` (CLOCK_REALTIME family, MONOTONIC, BOOTTIME).
MonotonicNs deadline_from_absolute(clockid_t clock, const timespec& absolute);

// CPU time of all threads of a process, also those that ended, in nanoseconds.
uint64_t group_cpu_ns(ThreadGroup& group);

// What a CPU clock counts: user and system time, user time, or the same as the first but exactly
// (CPUCLOCK_PROF, CPUCLOCK_VIRT, CPUCLOCK_SCHED).
enum class CpuClockKind : uint8_t { kProf, kVirt, kSched };
uint64_t group_cpu_ns(ThreadGroup& group, CpuClockKind kind);

// Ids of CPU clocks, also of other processes and threads, and those of files (clock devices, of
// which there are none here): clockid_to_kclock() in kernel/time/posix-timers.c.
constexpr bool is_file_clock(clockid_t clock) { return clock < 0 && (clock & 7) == 3; }
constexpr bool is_cpu_clock(clockid_t clock) {
  return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID ||
         (clock < 0 && !is_file_clock(clock));
}
struct CpuClock {
  ThreadGroup* group;
  Task* thread;  // null: of the whole process
  CpuClockKind kind;
};
// EINVAL: no CPU clock, or nobody whose clock `task` may read.
Result<CpuClock> find_cpu_clock(Task& task, clockid_t clock);

// Whether Linux has that clock at all; a CPU clock need not be anybody's.
bool is_known_clock(clockid_t clock);
// Now, of any clock a guest may name, CPU clocks of its own processes included. EINVAL.
Result<int64_t> guest_clock_now(Task& task, clockid_t clock);
// Nanoseconds. EINVAL.
Result<int64_t> guest_clock_resolution(Task& task, clockid_t clock);

// The clocks that time in the sandbox can be waited for on (not the CPU clocks).
constexpr bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
         clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM;
}

}  // namespace uks
