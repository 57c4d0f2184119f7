#include "sentry/time/timer_queue.h"

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>

namespace uks {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

MonotonicNs (*monotonic_clock)() = [] { return clock_ns(CLOCK_MONOTONIC); };
MonotonicNs monotonic_now() { return monotonic_clock(); }
int64_t realtime_now() { return clock_ns(CLOCK_REALTIME); }

void Timer::arm(MonotonicNs deadline) {
  disarm();
  deadline_ = deadline;
  armed_ = true;
  position_ = queue_.timers_.emplace(deadline, this);
  queue_.reprogram();
}

void Timer::disarm() {
  if (!armed_) return;
  armed_ = false;
  queue_.timers_.erase(position_);
}

void TimerQueue::run(MonotonicNs now) {
  programmed_ = 0;  // the host timer has fired, or is about to be set anew
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Timer* timer = timers_.begin()->second;
    timer->disarm();
    timer->on_expire();
  }
  reprogram();
}

void TimerQueue::reprogram() {
  if (timer_fd_ < 0 || timers_.empty()) return;
  // A timer that was disarmed leaves the host timer as it is: one early wake-up costs less than a
  // system call at every disarm.
  const MonotonicNs first = std::max<MonotonicNs>(timers_.begin()->first, 1);
  if (programmed_ != 0 && programmed_ <= first) return;
  programmed_ = first;
  itimerspec spec{};
  spec.it_value.tv_sec = first / 1'000'000'000;
  spec.it_value.tv_nsec = first % 1'000'000'000;
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace uks
