// SlowLane: processes whose memory keeps the sentry waiting.
#pragma once
#include <deque>
#include <vector>

#include "platform/base/ref.h"
#include "sentry/time/timer_queue.h"

namespace uks {

class Kernel;
class Task;
class ThreadGroup;

// An access to guest memory waits while other threads of the guest change mappings, and for the
// file behind a page, for ever if that hangs. It keeps a worker of the platform, of which there are
// few: while one of a process waits, the other calls of that process are queued; and for the calls
// of one that made the sentry wait lately the receiver's role is given away first. All under the
// kernel lock.
class SlowLane {
 public:
  static constexpr int64_t kSlow = 5'000'000;  // ns; a page takes 1 us, one from a disk some 100 us
  static constexpr MonotonicNs kMemory = 1'000'000'000;  // ns that a process counts as slow

  explicit SlowLane(Kernel& kernel) : kernel_(kernel) {}

  // False: the task's call is not to be run now; next() gives it out when it is.
  bool admit(Task& task);
  // Null: none.
  Ref<Task> next();
  bool has_ready() const { return !ready_.empty(); }
  // Around an access. Returns its beginning.
  MonotonicNs begin(ThreadGroup& group);
  void end(ThreadGroup& group, MonotonicNs start);

 private:
  struct Access {
    const ThreadGroup* group;
    MonotonicNs start;
  };
  // Sets `since` and returns whether it is long ago.
  bool is_overdue(ThreadGroup& group, MonotonicNs now) const;

  Kernel& kernel_;
  std::vector<Access> in_progress_;  // as many as there are threads at most
  std::deque<Ref<Task>> ready_;
};

}  // namespace uks
