// Clocks, sleeping and interval timers.
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <time.h>

#include <algorithm>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/time/group_timers.h"

namespace uks {
namespace {

constexpr int64_t kTickNs = kNsPerSecond / 100;  // USER_HZ

Result<int64_t> from_timeval(const timeval& tv) {
  if (tv.tv_sec < 0 || tv.tv_usec < 0 || tv.tv_usec >= 1'000'000) return Err(EINVAL);
  return to_ns({.tv_sec = tv.tv_sec, .tv_nsec = tv.tv_usec * 1000});
}

timeval to_timeval(int64_t ns) {
  return {.tv_sec = ns / kNsPerSecond, .tv_usec = ns % kNsPerSecond / 1000};
}

// Sleeps until call().deadline, which is set.
Result<int64_t> sleep_until_deadline(Task& task, bool absolute, UserAddr rem) {
  CallState& call = task.call();
  if (call.timed_out || monotonic_now() >= *call.deadline) return 0;
  const Errno e =
      task.block(std::vector<WaitOn>{}, call.deadline, absolute ? kRestartNoHand : kRestartBlock);
  if (!(e == kBlocked) && !absolute && rem) {
    TRY(task.copy_out(rem, to_timespec(std::max<int64_t>(*call.deadline - monotonic_now(), 0))));
  }
  return Err(e);
}

// Sleeps on a CPU clock by looking again whenever the time could have passed.
Result<int64_t> sleep_on_cpu_clock(Task& task, clockid_t clock, const timespec& request,
                                   bool absolute) {
  CallState& call = task.call();
  // Nobody waits for time that only he could use (posix_cpu_nsleep()).
  const auto whose = TRY(find_cpu_clock(task, clock));
  if (whose.thread == &task) return Err(EINVAL);
  const int64_t now = TRY(guest_clock_now(task, clock));
  if (!call.woken) {
    const int64_t ns = to_ns(request);
    call.progress =
        static_cast<uint64_t>(absolute ? ns : (ns > INT64_MAX - now ? INT64_MAX : now + ns));
  }
  const int64_t left = static_cast<int64_t>(call.progress) - now;
  if (left <= 0) return 0;
  constexpr int64_t kSample = 1'000'000;
  return Err(task.block(std::vector<WaitOn>{},
                        deadline_from_relative_ns(std::max(left / 4, kSample)), EINTR));
}

struct GuestItimerval {
  timeval interval;
  timeval value;
};

}  // namespace

Result<int64_t> sys_clock_gettime(Task& task, int clockid, UserOut tp) {
  TRY(task.copy_out(tp, to_timespec(TRY(guest_clock_now(task, clockid)))));
  return 0;
}

Result<int64_t> sys_clock_getres(Task& task, int clockid, UserOut res) {
  const int64_t ns = TRY(guest_clock_resolution(task, clockid));
  if (res) TRY(task.copy_out(res, to_timespec(ns)));
  return 0;
}

Result<int64_t> sys_clock_settime(Task& task, int clockid, UserIn tp) {
  if (clockid != CLOCK_REALTIME && clockid >= 0) return Err(EINVAL);
  const auto wanted = TRY(task.copy_in<timespec>(tp));
  if (clockid < 0) {
    TRY(find_cpu_clock(task, clockid));
  } else if (!is_valid(wanted)) {
    return Err(EINVAL);
  }
  return Err(EPERM);
}

Result<int64_t> sys_settimeofday(Task& task, UserIn tv, UserIn) {
  if (tv) TRY(from_timeval(TRY(task.copy_in<timeval>(tv))));
  return Err(EPERM);
}

// Only reading is allowed. What it shows is a clock about whose discipline nothing is known: the
// host's is not the sandbox's business (do_adjtimex() of a kernel that ntpd never spoke to).
Result<int64_t> sys_adjtimex(Task& task, UserInOut buf) {
  const auto asked = TRY(task.copy_in<timex>(buf));
  constexpr unsigned kReadOnlyOffset = 0xa001;  // ADJ_OFFSET_SS_READ
  if (asked.modes != 0 && asked.modes != kReadOnlyOffset) return Err(EPERM);
  timex t{};
  t.modes = asked.modes;
  t.maxerror = t.esterror = 16'000'000;  // NTP_PHASE_LIMIT in microseconds
  t.status = STA_UNSYNC;
  t.constant = 2;
  t.precision = 1;
  t.tolerance = 32'768'000;  // MAXFREQ_SCALED
  t.tick = 10'000;
  t.time = to_timeval(realtime_now());
  TRY(task.copy_out(buf, t));
  return TIME_ERROR;
}

Result<int64_t> sys_clock_adjtime(Task& task, int clockid, UserInOut buf) {
  if (clockid == CLOCK_REALTIME) return sys_adjtimex(task, buf);
  TRY(task.copy_in<timex>(buf));
  return Err(is_known_clock(clockid) && !is_file_clock(clockid) ? EOPNOTSUPP : EINVAL);
}

Result<int64_t> sys_gettimeofday(Task& task, UserOut tv, UserOut tz) {
  if (tv) TRY(task.copy_out(tv, to_timeval(realtime_now())));
  if (tz) {
    const int32_t zone[2] = {0, 0};
    TRY(task.copy_out(tz, zone, sizeof zone));
  }
  return 0;
}

Result<int64_t> sys_time(Task& task, UserOut tloc) {
  const int64_t now = realtime_now() / kNsPerSecond;
  if (tloc) TRY(task.copy_out(tloc, now));
  return now;
}

Result<int64_t> sys_times(Task& task, UserOut buf) {
  if (buf) {
    const CpuTimes own = task.kernel().cpu_times(task.group());
    const tms t{.tms_utime = static_cast<int64_t>(own.user_ns) / kTickNs,
                .tms_stime = static_cast<int64_t>(own.system_ns) / kTickNs,
                .tms_cutime = static_cast<int64_t>(task.group().children_user_ns) / kTickNs,
                .tms_cstime = static_cast<int64_t>(task.group().children_system_ns) / kTickNs};
    TRY(task.copy_out(buf, t));
  }
  return monotonic_now() / kTickNs;
}

Result<int64_t> sys_nanosleep(Task& task, UserIn req, UserOut rem) {
  if (!task.call().deadline)
    task.call().deadline = deadline_from_relative(TRY(copy_in_timespec(task, req)));
  return sleep_until_deadline(task, false, rem);
}

Result<int64_t> sys_clock_nanosleep(Task& task, int clockid, int flags, UserIn req, UserOut rem) {
  if (!is_known_clock(clockid)) return Err(EINVAL);
  const bool absolute = flags & TIMER_ABSTIME;
  if (is_cpu_clock(clockid) && clockid != CLOCK_THREAD_CPUTIME_ID)  // clock_thread has no nsleep
    return sleep_on_cpu_clock(task, clockid, TRY(copy_in_timespec(task, req)), absolute);
  if (!is_wall_clock(clockid)) return Err(EOPNOTSUPP);
  if (clockid == CLOCK_REALTIME_ALARM || clockid == CLOCK_BOOTTIME_ALARM) return Err(EPERM);
  if (!task.call().deadline) {
    const auto request = TRY(copy_in_timespec(task, req));
    task.call().deadline =
        absolute ? deadline_from_absolute(clockid, request) : deadline_from_relative(request);
  }
  return sleep_until_deadline(task, absolute, rem);
}

// ---- Interval timers

Result<int64_t> sys_getitimer(Task& task, int which, UserOut value) {
  if (which < 0 || which > 2) return Err(EINVAL);
  auto& timer = GroupTimers::of(task.group()).interval_timer(which);
  TRY(task.copy_out(value,
                    GuestItimerval{to_timeval(timer.interval()), to_timeval(timer.remaining())}));
  return 0;
}

Result<int64_t> sys_setitimer(Task& task, int which, UserIn value, UserOut old_value) {
  if (which < 0 || which > 2) return Err(EINVAL);
  GuestItimerval wanted{};  // a null value disarms, as Linux still does
  if (value) wanted = TRY(task.copy_in<GuestItimerval>(value));
  const int64_t first = TRY(from_timeval(wanted.value));
  const int64_t interval = TRY(from_timeval(wanted.interval));
  auto& timer = GroupTimers::of(task.group()).interval_timer(which);
  const GuestItimerval old{to_timeval(timer.interval()), to_timeval(timer.remaining())};
  timer.set(first, interval);
  if (old_value) TRY(task.copy_out(old_value, old));
  return 0;
}

Result<int64_t> sys_alarm(Task& task, uint32_t seconds) {
  auto& timer = GroupTimers::of(task.group()).interval_timer(ITIMER_REAL);
  const int64_t left = timer.remaining();
  timer.set(int64_t{seconds} * kNsPerSecond, 0);
  // Rounded to the nearest second, but never to 0 while armed (alarm_setitimer()).
  const int64_t whole = left / kNsPerSecond;
  const bool up = left % kNsPerSecond >= kNsPerSecond / 2 || (whole == 0 && left > 0);
  return whole + (up ? 1 : 0);
}

}  // namespace uks
