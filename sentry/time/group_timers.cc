// Interval timers and POSIX timers.
#include "sentry/time/group_timers.h"

#include <signal.h>

#include <algorithm>

#include "sentry/task/kernel.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

// No timer fires more often: a guest must not keep the event thread busy.
constexpr int64_t kShortestPeriod = 50'000;
// CPU-time timers are looked at no more often than this.
constexpr int64_t kCpuSample = 1'000'000;

constexpr std::array<int, 3> kIntervalSignals = {SIGALRM, SIGVTALRM, SIGPROF};

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// When a process could have used `left` more CPU time: all its threads may run at once.
MonotonicNs cpu_sample_time(ThreadGroup& group, int64_t left) {
  const int64_t threads = std::max<int64_t>(1, static_cast<int64_t>(group.threads.size()));
  return deadline_from_relative_ns(std::max(kCpuSample, left / threads));
}

}  // namespace

IntervalTimer::IntervalTimer(ThreadGroup& group, int which)
    : Timer(group.kernel.timers), group_(group), which_(which) {}

int64_t IntervalTimer::now() {
  return which_ == ITIMER_REAL ? monotonic_now() : static_cast<int64_t>(group_cpu_ns(group_));
}

void IntervalTimer::arm_at(int64_t target) {
  target_ = target;
  if (which_ == ITIMER_REAL) {
    arm(target);
    return;
  }
  arm(cpu_sample_time(group_, target - now()));
}

void IntervalTimer::set(int64_t value, int64_t interval) {
  disarm();
  target_ = 0;
  interval_ = interval;
  if (value > 0) arm_at(saturating_add(now(), value));
}

int64_t IntervalTimer::remaining() {
  // An armed timer never shows 0 (itimer_get_remtime()).
  return target_ == 0 ? 0 : std::max<int64_t>(target_ - now(), 1000);
}

void IntervalTimer::on_expire() {
  const int64_t at = now();
  if (at < target_) {
    arm_at(target_);
    return;
  }
  if (interval_ > 0) {
    const int64_t step = std::max(interval_, kShortestPeriod);
    arm_at(target_ + ((at - target_) / step + 1) * step);
  } else {
    target_ = 0;
  }
  SignalInfo info;
  info.signo = kIntervalSignals[static_cast<size_t>(which_)];
  info.code = SI_KERNEL;
  group_.kernel.send_signal(group_, info);
}

PosixTimer::PosixTimer(ThreadGroup& group, int id, clockid_t clock, Event event)
    : Timer(group.kernel.timers), group_(group), id_(id), clock_(clock), event_(event) {}

int64_t PosixTimer::now() const {
  return on_cpu_clock() ? static_cast<int64_t>(group_cpu_ns(group_)) : monotonic_now();
}

void PosixTimer::arm_due() {
  if (on_cpu_clock()) {
    arm(cpu_sample_time(group_, due_ - now()));
  } else {
    arm(std::max(due_, monotonic_now() + (interval_ > 0 ? kShortestPeriod : 0)));
  }
}

void PosixTimer::set(int64_t value, int64_t interval, bool absolute) {
  disarm();
  due_ = 0;
  interval_ = interval;
  overrun_ = 0;
  missed_ = 0;
  if (value == 0) return;
  if (on_cpu_clock()) {
    due_ = std::max<int64_t>(1, absolute ? value : saturating_add(now(), value));
  } else {
    due_ = std::max<int64_t>(1, absolute ? deadline_from_absolute(clock_, to_timespec(value))
                                         : deadline_from_relative_ns(value));
  }
  arm_due();
}

int64_t PosixTimer::remaining() const {
  if (due_ == 0) return 0;
  const int64_t left = due_ - now();
  if (left > 0) return left;
  // Due but not run yet: 1 ns, as common_timer_get() shows it; 0 for SIGEV_NONE.
  return event_.notify == SIGEV_NONE ? 0 : 1;
}

void PosixTimer::on_expire() {
  int64_t extra = 0;
  const int64_t at = now();
  if (at < due_) {
    arm_due();
    return;
  }
  if (interval_ > 0) {
    const int64_t step = interval_;
    extra = std::max<int64_t>(0, (at - due_) / step);
    due_ = saturating_add(due_, (extra + 1) * step);
    arm_due();
  } else {
    due_ = 0;
  }
  if (event_.notify == SIGEV_NONE) return;
  // A signal that is still pending is not sent again: the expiry counts as an overrun of the next.
  Task* thread = event_.notify == SIGEV_THREAD_ID ? group_.kernel.find_task(event_.tid) : nullptr;
  if (event_.notify == SIGEV_THREAD_ID && (!thread || thread->dead)) return;
  const SignalMask pending = thread ? thread->pending.pending() : group_.pending.pending();
  missed_ += extra;
  if (pending & signal_bit(event_.signo)) {
    missed_++;
    return;
  }
  overrun_ = static_cast<int>(std::min<int64_t>(missed_, INT32_MAX));  // DELAYTIMER_MAX
  missed_ = 0;
  SignalInfo info;
  info.signo = event_.signo;
  info.code = SI_TIMER;
  info.timer.timer_id = id_;
  info.timer.overrun = overrun_;
  info.timer.value = event_.value;
  if (thread) {
    group_.kernel.send_signal(*thread, info);
  } else {
    group_.kernel.send_signal(group_, info);
  }
}

CpuLimitTimer::CpuLimitTimer(ThreadGroup& group) : Timer(group.kernel.timers), group_(group) {}

void CpuLimitTimer::watch() {
  disarm();
  const rlimit64& limit = group_.limits[RLIMIT_CPU];
  const uint64_t seconds = std::min(limit.rlim_cur, limit.rlim_max);
  if (seconds > INT64_MAX / kNsPerSecond - 1) return;
  const int64_t left =
      static_cast<int64_t>(seconds) * kNsPerSecond - static_cast<int64_t>(group_cpu_ns(group_));
  arm(cpu_sample_time(group_, left));
}

// check_process_timers() in kernel/time/posix-cpu-timers.c.
void CpuLimitTimer::on_expire() {
  rlimit64& limit = group_.limits[RLIMIT_CPU];
  const uint64_t used = group_cpu_ns(group_) / static_cast<uint64_t>(kNsPerSecond);
  SignalInfo info;
  info.code = SI_KERNEL;
  if (used >= limit.rlim_max) {
    info.signo = SIGKILL;
    group_.kernel.send_signal(group_, info);  // may be the end of this timer
    return;
  }
  const bool over = used >= limit.rlim_cur;
  if (over) limit.rlim_cur++;
  watch();
  if (!over) return;
  info.signo = SIGXCPU;
  group_.kernel.send_signal(group_, info);
}

GroupTimers::GroupTimers(ThreadGroup& group) : group_(group), cpu_limit_(group) {
  for (int which = 0; which < 3; which++) {
    interval_[static_cast<size_t>(which)] = std::make_unique<IntervalTimer>(group, which);
  }
}

GroupTimers& GroupTimers::of(ThreadGroup& group) {
  if (!group.timers) group.timers = make_ref<GroupTimers>(group);
  return static_cast<GroupTimers&>(*group.timers);
}

Result<int> GroupTimers::create(clockid_t clock, std::optional<PosixTimer::Event> event) {
  if (posix_.size() >= kMaxPosixTimers) return Err(EAGAIN);
  while (posix_.contains(next_id_)) next_id_ = (next_id_ + 1) & INT32_MAX;
  const int id = next_id_;
  next_id_ = (next_id_ + 1) & INT32_MAX;
  if (!event)
    event = {
        .notify = SIGEV_SIGNAL, .signo = SIGALRM, .value = static_cast<uint64_t>(id), .tid = 0};
  posix_.emplace(id, std::make_unique<PosixTimer>(group_, id, clock, *event));
  return id;
}

Result<PosixTimer*> GroupTimers::find(int id) {
  auto it = posix_.find(id);
  if (it == posix_.end()) return Err(EINVAL);
  return it->second.get();
}

Result<void> GroupTimers::remove(int id) {
  return posix_.erase(id) ? Result<void>() : Err(EINVAL);
}

}  // namespace uks
