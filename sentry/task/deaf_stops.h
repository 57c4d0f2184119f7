// DeafStops: job-control stops of threads that do not come in when they are kicked.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "platform/platform.h"
#include "sentry/time/timer_queue.h"

namespace uks {

class Kernel;
class ThreadGroup;

// A stop signal is carried out by the thread that it reaches, and a stopped group's other threads
// park when they come in. One that blocks the host's signals by a forged frame never does, nor one
// that has never said hello. After kPatience the stop is carried out without it, and the keeper
// stops its whole host process. A thread that is only slow loses nothing: the kick waits for it.
class DeafStops {
 public:
  static constexpr MonotonicNs kPatience = 100'000'000;  // ns

  explicit DeafStops(Kernel& kernel);
  // A stop signal was sent to the group, or it was stopped while threads run.
  void watch(ThreadGroup& group);
  // The group goes on, or ends: so does its host process.
  void thaw(ThreadGroup& group);

 private:
  struct Watch final : Timer {
    explicit Watch(DeafStops& o);
    void on_expire() override { owner.look(); }
    DeafStops& owner;
  };
  void look();
  void look_at(ThreadGroup& group);

  Kernel& kernel_;
  Watch timer_;
  struct Watched {
    Ref<ThreadGroup> group;
    MonotonicNs until;
  };
  std::deque<Watched> watched_;                // the oldest first
  std::map<pid_t, Ref<AddressSpace>> frozen_;  // by group
};

}  // namespace uks
