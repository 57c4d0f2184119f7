// timerfd(2): a timer whose expiries are read as a count.
#pragma once
#include <time.h>

#include "sentry/time/timer_queue.h"
#include "sentry/vfs/file.h"

namespace uks {

class TimerFd final : public File {
 public:
  TimerFd(TimerQueue& queue, clockid_t clock, int flags, Ref<Inode> inode);
  ~TimerFd() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[timerfd]"; }
  FileKind kind() const override { return FileKind::kTimerFd; }
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<int64_t> seek(Task&, int64_t, int) override { return pos; }  // noop_llseek()
  uint32_t poll_events() override { return expiries_ > 0 ? EPOLLIN | EPOLLRDNORM : 0u; }
  WaitQueue* wait_queue() override { return &queue_; }
  std::string fdinfo() const override;

  // Nanoseconds; `value` 0 disarms. `absolute`: a time of the clock.
  void set(int64_t value, int64_t interval, bool absolute);
  // Until the next expiry; 0: disarmed.
  int64_t remaining();
  int64_t interval() const { return interval_; }

 private:
  class Alarm final : public Timer {
   public:
    Alarm(TimerQueue& queue, TimerFd& owner) : Timer(queue), owner_(owner) {}
    void on_expire() override { owner_.expired(); }

   private:
    TimerFd& owner_;
  };
  void expired();
  // Counts periods that passed since the first unread expiry and sets the next one.
  void catch_up();

  clockid_t clock_;
  Ref<Inode> inode_;
  WaitQueue queue_;
  Alarm alarm_;
  MonotonicNs due_ = 0;  // 0: disarmed
  int64_t interval_ = 0;
  uint64_t expiries_ = 0;
};

}  // namespace uks
