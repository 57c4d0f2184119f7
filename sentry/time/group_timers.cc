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
  standing_ = false;
  target_ = 0;
  interval_ = interval;
  if (value > 0) arm_at(saturating_add(now(), value));
}

int64_t IntervalTimer::next_target(int64_t at) const {
  if (at < target_) return target_;
  const int64_t step = std::max(interval_, kShortestPeriod);
  return saturating_add(target_, ((at - target_) / step + 1) * step);
}

int64_t IntervalTimer::remaining() {
  // An armed timer never shows 0 (itimer_get_remtime()).
  if (target_ == 0) return 0;
  const int64_t at = now();
  return std::max<int64_t>((standing_ ? next_target(at) : target_) - at, 1000);
}

void IntervalTimer::go_on() {
  if (!std::exchange(standing_, false)) return;
  arm_at(next_target(now()));
}

void IntervalTimer::on_expire() {
  const int64_t at = now();
  if (at < target_) {
    arm_at(target_);
    return;
  }
  if (interval_ == 0) {
    target_ = 0;
  } else if (which_ == ITIMER_REAL) {
    standing_ = true;
  } else {
    arm_at(next_target(at));
  }
  SignalInfo info;
  info.signo = kIntervalSignals[static_cast<size_t>(which_)];
  info.code = SI_KERNEL;
  group_.kernel.send_signal(group_, info);  // may be the end of this timer
}

PosixTimer::PosixTimer(ThreadGroup& group, int id, clockid_t clock,
                       const std::optional<CpuClock>& cpu, Event event,
                       std::optional<uid_t> charged)
    : Timer(group.kernel.timers),
      group_(group),
      charged_(charged),
      id_(id),
      clock_(clock),
      event_(event) {
  if (!cpu) return;
  cpu_kind_ = cpu->kind;
  if (cpu->group != &group_) other_group_ = Ref<ThreadGroup>(cpu->group);
}

PosixTimer::~PosixTimer() {
  if (charged_) uncharge_signal(*charged_);
  if (!queued_) return;
  group_.pending.remove_of_timer(event_.signo, id_);
  for (Task* task : group_.threads) task->pending.remove_of_timer(event_.signo, id_);
}

int64_t PosixTimer::now() const {
  return on_cpu_clock() ? static_cast<int64_t>(group_cpu_ns(cpu_group(), *cpu_kind_))
                        : monotonic_now();
}

void PosixTimer::arm_due() {
  if (on_cpu_clock()) {
    // A clock that stands still for ever.
    if (cpu_group().zombie && due_ > now()) return;
    arm(cpu_sample_time(cpu_group(), due_ - now()));
  } else {
    arm(std::max(due_, monotonic_now() + (interval_ > 0 ? kShortestPeriod : 0)));
  }
}

void PosixTimer::set(int64_t value, int64_t interval, bool absolute) {
  disarm();
  due_ = 0;
  interval_ = interval;
  overrun_ = 0;
  ignored_ = false;
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
  const int64_t at = now();
  if (due_ > at) return due_ - at;
  // It stands still until its signal is taken: when the next period would be over.
  if ((queued_ || ignored_) && interval_ > 0) return interval_ - (at - due_) % interval_;
  // Due but not run yet: 1 ns, as common_timer_get() shows it; 0 for SIGEV_NONE.
  return event_.notify == SIGEV_NONE ? 0 : 1;
}

int64_t PosixTimer::skip_periods(int64_t at) {
  if (due_ == 0 || interval_ == 0 || at < due_) return 0;
  const int64_t periods = (at - due_) / interval_ + 1;
  due_ = saturating_add(due_, periods * interval_);
  return periods;
}

void PosixTimer::on_expire() {
  const int64_t at = now();
  if (at < due_) {
    arm_due();
    return;
  }
  if (event_.notify == SIGEV_NONE) {
    (void)skip_periods(at);
    if (interval_ == 0) due_ = 0;
    if (due_ != 0) arm_due();
    return;
  }
  due_ = interval_ > 0 ? saturating_add(due_, interval_) : 0;
  // The signal of before was not taken: then the timer was set anew meanwhile, and one tells of
  // both.
  if (!queued_) send();
}

void PosixTimer::send() {
  Task* thread = event_.notify & SIGEV_THREAD_ID ? group_.kernel.find_task(event_.tid) : nullptr;
  if ((event_.notify & SIGEV_THREAD_ID) && (!thread || thread->dead)) return;
  SignalInfo info;
  info.signo = event_.signo;
  info.code = SI_TIMER;
  info.timer.timer_id = id_;
  info.timer.value = event_.value;
  queued_ = true;
  const Ref<RefCounted> keep(group_.timers);  // the signal may be the end of the process
  const bool sent = thread ? group_.kernel.send_timer_signal(*thread, info)
                           : group_.kernel.send_timer_signal(group_, info);
  if (sent) return;
  queued_ = false;
  ignored_ = true;
}

int PosixTimer::on_taken() {
  if (!std::exchange(queued_, false)) return 0;
  overrun_ = static_cast<int>(std::min<int64_t>(skip_periods(now()), INT32_MAX));  // DELAYTIMER_MAX
  if (due_ != 0 && !armed()) arm_due();
  return overrun_;
}

void PosixTimer::on_heeded() {
  // What was queued went when the signal became ignored.
  if (!std::exchange(ignored_, false) && !std::exchange(queued_, false)) return;
  queued_ = false;
  (void)skip_periods(now());
  if (due_ != 0 && !armed()) arm_due();
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

void GroupTimers::on_taken(SignalInfo& info) {
  if (info.code == SI_TIMER) {
    const auto it = posix_.find(info.timer.timer_id);
    if (it != posix_.end()) info.timer.overrun = it->second->on_taken();
    return;
  }
  interval_[ITIMER_REAL]->go_on();
}

void GroupTimers::on_heeded(int signo) {
  SignalMask pending = group_.pending.pending();
  for (const Task* task : group_.threads) pending |= task->pending.pending();
  if (pending & signal_bit(signo)) return;
  if (signo == SIGALRM) interval_[ITIMER_REAL]->go_on();
  for (const auto& [id, timer] : posix_) {
    if (timer->signo() == signo) timer->on_heeded();
  }
}

Result<int> GroupTimers::create(Task& task, clockid_t clock, const std::optional<CpuClock>& cpu,
                                std::optional<PosixTimer::Event> event) {
  if (posix_.size() >= kMaxPosixTimers) return Err(EAGAIN);
  const uid_t user = task.creds().ruid;
  if (!charge_signal({user, group_.limits[RLIMIT_SIGPENDING].rlim_cur})) return Err(EAGAIN);
  while (posix_.contains(next_id_)) next_id_ = (next_id_ + 1) & INT32_MAX;
  const int id = next_id_;
  next_id_ = (next_id_ + 1) & INT32_MAX;
  if (!event)
    event = {
        .notify = SIGEV_SIGNAL, .signo = SIGALRM, .value = static_cast<uint64_t>(id), .tid = 0};
  posix_.emplace(id, std::make_unique<PosixTimer>(group_, id, clock, cpu, *event, user));
  return id;
}

Result<PosixTimer*> GroupTimers::find(int id) {
  auto it = posix_.find(id);
  if (it == posix_.end()) return Err(EINVAL);
  return it->second.get();
}

Result<void> GroupTimers::remove(int id) { return posix_.erase(id) ? Result<void>() : Err(EINVAL); }

}  // namespace uks
