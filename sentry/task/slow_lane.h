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
  static constexpr int64_t kPause = 3;                   // times what an access under the lock took
  static constexpr MonotonicNs kMaxPause = 1'000'000'000;  // ns

  explicit SlowLane(Kernel& kernel) : kernel_(kernel) {}

  // False: the task's call is not to be run now; next() gives it out when it is.
  bool admit(Task& task);
  // Null: none.
  Ref<Task> next();
  // A call that could not be run for another reason now can.
  void add(Task& task) { ready_.emplace_back(&task); }
  bool has_ready() const { return !ready_.empty(); }
  // Around an access. Returns its beginning.
  MonotonicNs begin(ThreadGroup& group);
  // `locked`: it was made with the kernel lock held.
  void end(ThreadGroup& group, MonotonicNs start, bool locked);

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
  MonotonicNs free_at_ =
      0;  // when the next access under the lock may begin: they get a quarter of its time
};

}  // namespace uks
