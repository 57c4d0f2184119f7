// The timers of a process: setitimer(2) and timer_create(2). Kept in ThreadGroup::timers.
#pragma once
#include <sys/time.h>

#include <array>
#include <map>
#include <memory>
#include <optional>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/time/timer_queue.h"

namespace uks {

// One interval timer. ITIMER_REAL runs on CLOCK_MONOTONIC; VIRTUAL and PROF look at the process's
// CPU time whenever it could have reached the target (the platform does not tell user from system
// time of a running thread cheaply, so VIRTUAL counts both).
class IntervalTimer final : public Timer {
 public:
  IntervalTimer(ThreadGroup& group, int which);
  void on_expire() override;
  // Nanoseconds; 0 disarms.
  void set(int64_t value, int64_t interval);
  int64_t remaining();
  int64_t interval() const { return interval_; }

 private:
  int64_t now();
  void arm_at(int64_t target);
  ThreadGroup& group_;
  int which_;
  int64_t target_ = 0;  // on its own clock; 0: disarmed
  int64_t interval_ = 0;
};

// One timer of timer_create(2).
class PosixTimer final : public Timer {
 public:
  struct Event {
    int notify = 0;  // SIGEV_*
    int signo = 0;
    uint64_t value = 0;
    pid_t tid = 0;
  };
  PosixTimer(ThreadGroup& group, int id, clockid_t clock, Event event);
  void on_expire() override;
  // `value` relative, or a time of its clock. 0 disarms. Nanoseconds.
  void set(int64_t value, int64_t interval, bool absolute);
  int64_t remaining() const;
  int64_t interval() const { return interval_; }
  int overrun() const { return overrun_; }

 private:
  // `due_` and now() are on CLOCK_MONOTONIC, or on the process's CPU clock, which is looked at
  // again and again.
  bool on_cpu_clock() const { return clock_ == CLOCK_PROCESS_CPUTIME_ID; }
  int64_t now() const;
  void arm_due();
  ThreadGroup& group_;
  int id_;
  clockid_t clock_;
  Event event_;
  int64_t interval_ = 0;
  int64_t due_ = 0;     // 0: disarmed
  int overrun_ = 0;     // of the last signal sent
  int64_t missed_ = 0;  // since then
};

// RLIMIT_CPU: SIGXCPU at the soft limit and every second after it, SIGKILL at the hard one.
class CpuLimitTimer final : public Timer {
 public:
  explicit CpuLimitTimer(ThreadGroup& group);
  void on_expire() override;
  // Looks at the limits anew.
  void watch();

 private:
  ThreadGroup& group_;
};

class GroupTimers final : public RefCounted {
 public:
  static constexpr size_t kMaxPosixTimers = 4096;
  explicit GroupTimers(ThreadGroup& group);
  // The group's timers, made at first use.
  static GroupTimers& of(ThreadGroup& group);

  IntervalTimer& interval_timer(int which) { return *interval_[static_cast<size_t>(which)]; }
  // To be called when RLIMIT_CPU is set or inherited.
  void watch_cpu_limit() { cpu_limit_.watch(); }
  // EAGAIN above kMaxPosixTimers. Returns the id.
  Result<int> create(clockid_t clock, std::optional<PosixTimer::Event> event);
  // EINVAL.
  Result<PosixTimer*> find(int id);
  Result<void> remove(int id);
  // execve(2) keeps interval timers and deletes the others.
  void remove_posix_timers() { posix_.clear(); }

 private:
  ThreadGroup& group_;
  std::array<std::unique_ptr<IntervalTimer>, 3> interval_;
  std::map<int, std::unique_ptr<PosixTimer>> posix_;
  CpuLimitTimer cpu_limit_;
  int next_id_ = 0;
};

}  // namespace uks
