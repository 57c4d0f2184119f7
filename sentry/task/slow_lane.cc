// Who keeps the sentry waiting waits.
#include "sentry/task/slow_lane.h"

#include <sys/syscall.h>

#include <algorithm>

#include "platform/base/log.h"
#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {

bool SlowLane::is_overdue(ThreadGroup& group, MonotonicNs now) const {
  if (group.memory_waits.count == 0) return false;
  MonotonicNs& since = group.memory_waits.since = now;
  for (const Access& access : in_progress_) {
    if (access.group == &group) since = std::min(since, access.start);
  }
  return now - since > kSlow;
}

bool SlowLane::admit(Task& task) {
  ThreadGroup& group = task.group();
  MemoryWaits& waits = group.memory_waits;
  // A child is as slow as its parent, which is as slow as its children: a fresh one for each call
  // gains nothing.
  const MonotonicNs slow_until =
      std::max(waits.slow_until, group.parent ? group.parent->memory_waits.slow_until : 0);
  if (waits.count == 0 && slow_until == 0) return true;
  const MonotonicNs now = monotonic_now();
  // The end of a process waits for nothing.
  if (task.syscall_nr != SYS_exit_group && is_overdue(group, now)) {
    waits.queue.emplace_back(&task);
    return false;
  }
  if (slow_until <= now) return true;
  kernel_.platform->let_another_receive();
  return true;
}

Ref<Task> SlowLane::next() {
  while (!ready_.empty()) {
    Ref<Task> task = std::move(ready_.front());
    ready_.pop_front();
    if (!task->dead && task->thread && task->thread->in_sentry) return task;
  }
  return nullptr;
}

MonotonicNs SlowLane::begin(ThreadGroup& group) {
  const MonotonicNs now = monotonic_now();
  group.memory_waits.count++;
  in_progress_.push_back({&group, now});
  return now;
}

void SlowLane::end(ThreadGroup& group, MonotonicNs start) {
  MemoryWaits& waits = group.memory_waits;
  const MonotonicNs now = monotonic_now();
  waits.count--;
  const auto own = std::find_if(
      in_progress_.begin(), in_progress_.end(),
      [&](const Access& access) { return access.group == &group && access.start == start; });
  in_progress_.erase(own);
  if (!waits.queue.empty() && !is_overdue(group, now)) {
    for (Ref<Task>& task : waits.queue) ready_.push_back(std::move(task));
    waits.queue.clear();
  }
  const MonotonicNs took = now - start;
  if (took <= kSlow) return;
  LOG_DEBUG("process {}: its memory kept the sentry waiting for {} us", group.pid, took / 1000);
  waits.slow_until = now + kMemory;
  if (group.parent && group.parent->parent) group.parent->memory_waits.slow_until = now + kMemory;
}

}  // namespace uks
