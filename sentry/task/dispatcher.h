// The run loop: what a hand-off means, running handlers, resuming guests, delivering signals.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "platform/platform.h"
#include "sentry/task/deaf_stops.h"
#include "sentry/task/farewell.h"
#include "sentry/task/kernel.h"
#include "sentry/task/slow_lane.h"

namespace uks {

class StraceSink;

// All under the kernel lock.
class Dispatcher final : public PlatformClient {
 public:
  // `call`: runs the handler of task.syscall_nr (syscalls/dispatch.h).
  using CallFunction = Result<int64_t> (*)(Task& task);
  Dispatcher(Kernel& kernel, CallFunction call)
      : deaf_stops(kernel), slow_lane(kernel), kernel_(kernel), call_(call), sweep_timer_(kernel) {}

  // ---- PlatformClient
  void on_handoff(GuestThread& thread) override;
  void on_started(GuestThread& thread) override;
  void on_gone(GuestThread& thread) override;
  void on_pool_refilled() override;
  bool awaits_stub() const override { return !kernel_.stub_waiters.empty(); }
  void run_pending() override;
  void sweep_later(int64_t milliseconds) override;
  void on_fatal(const char* reason) override;

  // Runs the handler of the task's call (again) and completes it unless it blocks. Later, if its
  // process's memory keeps another call of it waiting.
  void run_call(Task& task);
  // The call in progress has its result: resumes the guest with it, signals first.
  void complete(Task& task, Result<int64_t> result);
  // Back to the guest: `ret` goes to rax unless empty; `restart` is 0 or a kRestart* code. Delivers
  // signals, stops, or ends the process as they say.
  void resume(Task& task, std::optional<int64_t> ret, int restart);
  // A signal that the guest cannot refuse (faults): unblocks it, resets an ignored or blocked
  // action.
  void force_signal(Task& task, SignalInfo info);
  // SIGCONT: un-parks everybody.
  void continue_group(ThreadGroup& group);
  void stop_group(ThreadGroup& group, int signo);
  // The task's stub has more to do; then the continuation runs.
  void order_and_continue(Task& task, std::unique_ptr<StubContinuation> continuation,
                          UniqueFd donated = {});

  // How often the platform got fresh stubs.
  uint64_t refills() const { return refills_; }
  // For a thread without the kernel lock: waits until refills() is no longer `seen`. False: not
  // within the time.
  bool wait_for_refill(uint64_t seen, int seconds);

  DeafStops deaf_stops;
  SlowLane slow_lane;
  // Ends of processes that wait for run_pending() (sentry/task/exit.cc).
  std::deque<Ref<Farewell>> farewells;

  // Where --strace lines go; null: off.
  StraceSink* strace = nullptr;

 private:
  bool has_pending() const;
  void run_next();
  // Delivers the next signal, or says how to go on without one. True: the task is resumed (or
  // gone).
  bool deliver_signals(Task& task, std::optional<int64_t> ret, int restart);
  void build_frame(Task& task, const SignalInfo& info, std::optional<int64_t> ret, int restart);
  void send_resume(Task& task, std::optional<int64_t> ret, int restart, uint32_t flags);
  void on_fault(Task& task, GuestThread& thread);
  void on_sigreturn(Task& task, GuestThread& thread);

  struct SweepTimer final : Timer {
    explicit SweepTimer(Kernel& kernel);
    void on_expire() override;
    Kernel& kernel;
  };

  Kernel& kernel_;
  CallFunction call_;
  SweepTimer sweep_timer_;
  uint64_t refills_ = 0;  // changed with both locks held
  std::mutex refill_mutex_;
  std::condition_variable refilled_;
};

// Writes one line for each finished call, as strace(1) does.
class StraceSink {
 public:
  virtual ~StraceSink() = default;
  virtual void on_call(Task& task, const Result<int64_t>& result) = 0;
};

}  // namespace uks
