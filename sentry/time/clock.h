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
