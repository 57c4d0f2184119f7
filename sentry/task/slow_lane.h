// SlowLane: calls of processes whose memory keeps the sentry waiting under the kernel lock.
#pragma once
#include <deque>
#include <functional>
#include <map>

#include "platform/base/ref.h"
#include "sentry/time/timer_queue.h"

namespace uks {

class Task;

// Guest memory is accessed under the kernel lock, and such an access waits while other threads of the guest
// change mappings (mmap_lock) or for the file behind a page. No guest can be kept from it, but whoever did it
// queues up, all of them together, for a quarter of the lock's time at most: the others keep theirs. One worker
// of the platform serves the queue; it sleeps without the lock.
class SlowLane {
 public:
  static constexpr int64_t kPause = 3;                     // times what the last one took
  static constexpr MonotonicNs kMaxPause = 1'000'000'000;  // ns
  static constexpr MonotonicNs kMemory = 1'000'000'000;    // ns that a process counts as slow

  // Says that this thread may sleep: a worker of the platform.
  static void enter_worker();

  // True: the task's call is not to be run now. It will be by the worker that calls serve(), which this thread
  // must do if `serve` is set.
  bool defer(Task& task, bool* serve);
  // Runs what is queued, each in its turn, with `run`. Drops the kernel lock.
  void serve(const std::function<void(Task&)>& run);
  // A handler of this task has just run on this thread.
  void account(Task& task);

 private:
  bool is_slow(pid_t group, MonotonicNs now);

  std::map<pid_t, MonotonicNs> slow_;  // groups, until when
  std::deque<Ref<Task>> queue_;
  MonotonicNs free_at_ = 0;
  bool served_ = false;
};

}  // namespace uks
