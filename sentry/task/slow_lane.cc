// Who kept the sentry waiting waits.
#include "sentry/task/slow_lane.h"

#include <time.h>

#include <algorithm>

#include "platform/base/log.h"
#include "platform/trap/slow_access.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"

namespace uks {

namespace {
thread_local bool is_worker = false;
}  // namespace

void SlowLane::enter_worker() { is_worker = true; }

bool SlowLane::is_slow(pid_t group, MonotonicNs now) {
  const auto it = slow_.find(group);
  if (it == slow_.end()) return false;
  if (it->second > now) return true;
  slow_.erase(it);
  return false;
}

bool SlowLane::defer(Task& task, bool* serve) {
  *serve = false;
  if (slow_.empty()) return false;
  const MonotonicNs now = monotonic_now();
  // A child is as slow as its parent: a fresh one for each call gains nothing.
  const ThreadGroup& group = task.group();
  if (!is_slow(group.pid, now) && !(group.parent && is_slow(group.parent->pid, now))) return false;
  if (!served_) {
    // Nobody waits. The event thread cannot either: all timers are its.
    if (now >= free_at_ || !is_worker) return false;
    served_ = *serve = true;
  }
  queue_.emplace_back(&task);
  return true;
}

void SlowLane::serve(const std::function<void(Task&)>& run) {
  while (!queue_.empty()) {
    const Ref<Task> task = std::move(queue_.front());
    queue_.pop_front();
    if (const MonotonicNs wait = std::min(free_at_ - monotonic_now(), kMaxPause); wait > 0) {
      const timespec pause{wait / 1'000'000'000, wait % 1'000'000'000};
      Unlocked unlocked;
      nanosleep(&pause, nullptr);
    }
    if (!task->dead && task->thread && task->thread->in_sentry) run(*task);
  }
  served_ = false;
}

void SlowLane::account(Task& task) {
  const int64_t took = take_slow_access_ns();
  if (took == 0) return;
  const MonotonicNs now = monotonic_now();
  LOG_DEBUG("task {}: its memory kept the sentry waiting for {} us", task.tid(), took / 1000);
  if (slow_.size() > 4096) std::erase_if(slow_, [&](const auto& entry) { return entry.second <= now; });
  slow_[task.tgid()] = now + kMemory;
  free_at_ = std::max(free_at_, now) + kPause * took;
}

}  // namespace uks
