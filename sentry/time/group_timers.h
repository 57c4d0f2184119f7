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
#include "sentry/time/clock.h"
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
  // Its signal was taken, or is no longer ignored: the next period begins, if it stood still for
  // that.
  void go_on();

 private:
  int64_t now();
  void arm_at(int64_t target);
  int64_t next_target(int64_t at) const;
  ThreadGroup& group_;
  int which_;
  int64_t target_ = 0;  // on its own clock; 0: disarmed
  int64_t interval_ = 0;
  // ITIMER_REAL has expired and its signal waits to be taken; until then it need not run
  // (it_real_fn()).
  bool standing_ = false;
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
  // `cpu`: the CPU clock it runs on, if that is one. `charged`: the user whose place in the signal
  // queues it holds.
  PosixTimer(ThreadGroup& group, int id, clockid_t clock, const std::optional<CpuClock>& cpu,
             Event event, std::optional<uid_t> charged);
  ~PosixTimer() override;
  void on_expire() override;
  // `value` relative, or a time of its clock. 0 disarms. Nanoseconds.
  void set(int64_t value, int64_t interval, bool absolute);
  int64_t remaining() const;
  int64_t interval() const { return interval_; }
  int overrun() const { return overrun_; }
  int signo() const { return event_.signo; }
  // Its signal is being taken: how many periods it stands for besides the first
  // (posixtimer_rearm()).
  int on_taken();
  // Its signal was ignored, and no longer is.
  void on_heeded();

 private:
  // `due_` and now() are on CLOCK_MONOTONIC, or on a process's CPU clock, which is looked at again
  // and again. A thread's is that of its process, in which it was alone when the timer was made.
  bool on_cpu_clock() const { return cpu_kind_.has_value(); }
  ThreadGroup& cpu_group() const { return other_group_ ? *other_group_ : group_; }
  int64_t now() const;
  void arm_due();
  void send();
  // Leaves out the periods that are over at `at`; how many those are.
  int64_t skip_periods(int64_t at);
  ThreadGroup& group_;
  std::optional<uid_t> charged_;
  int id_;
  clockid_t clock_;
  std::optional<CpuClockKind> cpu_kind_;
  Ref<ThreadGroup> other_group_;  // whose CPU clock it is, if not its own process's
  Event event_;
  int64_t interval_ = 0;
  int64_t due_ = 0;       // 0: disarmed
  int overrun_ = 0;       // of the last signal taken
  bool queued_ = false;   // its signal waits to be taken; until then a periodic one does not run
  bool ignored_ = false;  // likewise until its signal is heeded
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
  // EAGAIN above kMaxPosixTimers, or when the user's queued signals are used up (RLIMIT_SIGPENDING
  // counts timers, too). Returns the id.
  Result<int> create(Task& task, clockid_t clock, const std::optional<CpuClock>& cpu,
                     std::optional<PosixTimer::Event> event);
  // A signal of a timer, or SIGALRM, is being taken off a queue: completes its overrun count.
  void on_taken(SignalInfo& info);
  // A signal has got an action that does not ignore it.
  void on_heeded(int signo);
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
