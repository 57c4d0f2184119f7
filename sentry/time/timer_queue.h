// Deadlines of the sentry: one queue, served by the event thread. All under the kernel lock.
#pragma once
#include <cstdint>
#include <map>

#include "platform/base/unique_fd.h"

namespace uks {

// CLOCK_MONOTONIC in nanoseconds.
using MonotonicNs = int64_t;
MonotonicNs monotonic_now();
// What it asks: the host's clock; in unit tests one that they move.
extern MonotonicNs (*monotonic_clock)();
// CLOCK_REALTIME in nanoseconds.
int64_t realtime_now();

class TimerQueue;

class Timer {
 public:
  explicit Timer(TimerQueue& queue) : queue_(queue) {}
  virtual ~Timer() { disarm(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Fires once at `deadline`; a timer already armed is moved.
  void arm(MonotonicNs deadline);
  void disarm();
  bool armed() const { return armed_; }
  MonotonicNs deadline() const { return deadline_; }

  // Called with the kernel lock held, the timer disarmed. May re-arm or destroy itself.
  virtual void on_expire() = 0;

 private:
  friend class TimerQueue;
  TimerQueue& queue_;
  bool armed_ = false;
  MonotonicNs deadline_ = 0;
  std::multimap<MonotonicNs, Timer*>::iterator position_;
};

class TimerQueue {
 public:
  // `timer_fd`: a host timerfd (CLOCK_MONOTONIC) that the event thread polls; -1 in unit tests.
  void set_timer_fd(int timer_fd) { timer_fd_ = timer_fd; }
  // Fires all that is due.
  void run(MonotonicNs now);

 private:
  friend class Timer;
  void reprogram();
  std::multimap<MonotonicNs, Timer*> timers_;
  int timer_fd_ = -1;
  MonotonicNs programmed_ = 0;
};

}  // namespace uks
