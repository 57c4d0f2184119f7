// Stops of threads that are deaf to kicks.
#include "sentry/task/deaf_stops.h"

#include <signal.h>

#include <algorithm>
#include <bit>

#include "platform/base/log.h"
#include "platform/platform.h"
#include "sentry/signal/defaults.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"

namespace uks {
namespace {

// A thread that has not said hello yet counts, but for a new process's (Platform::sweep).
bool is_running(const Task& task) {
  const GuestThread* thread = task.thread.get();
  return thread && !thread->gone && !thread->in_sentry && thread->mm().host_pid != 0 &&
         !thread->mm().gone;
}
bool is_deaf(const Task& task) {
  return is_running(task) && (task.thread->kicked || task.thread->host_tid == 0);
}

}  // namespace

DeafStops::Watch::Watch(DeafStops& o) : Timer(o.kernel_.timers), owner(o) {}
DeafStops::DeafStops(Kernel& kernel) : kernel_(kernel), timer_(*this) {}

void DeafStops::watch(ThreadGroup& group) {
  if (std::none_of(group.threads.begin(), group.threads.end(),
                   [](const Task* t) { return is_running(*t); }))
    return;
  const auto is_it = [&](const Watched& watched) { return watched.group.get() == &group; };
  if (std::none_of(watched_.begin(), watched_.end(), is_it)) {
    watched_.push_back({Ref<ThreadGroup>(&group), monotonic_now() + kPatience});
  }
  if (!timer_.armed()) timer_.arm(watched_.front().until);
}

void DeafStops::look() {
  const MonotonicNs now = monotonic_now();
  while (!watched_.empty() && watched_.front().until <= now) {
    const Ref<ThreadGroup> group = std::move(watched_.front().group);
    watched_.pop_front();
    look_at(*group);
  }
  if (!watched_.empty() && !timer_.armed()) timer_.arm(watched_.front().until);
}

void DeafStops::look_at(ThreadGroup& group) {
  if (group.zombie || group.exiting) return;
  const std::vector<Task*> threads = group.threads;
  for (Task* task : threads) {
    if (group.stopped) break;
    if (!is_deaf(*task)) continue;
    SignalMask stops =
        (task->pending.pending() | group.pending.pending()) & ~task->blocked_signals & kStopSignals;
    for (; stops; stops &= stops - 1) {
      const int signo = std::countr_zero(stops) + 1;
      if ((*group.actions)[signo].handler != 0) continue;
      if (signo != SIGSTOP && kernel_.is_orphaned_pgrp(group)) continue;
      task->pending.remove(signal_bit(signo));
      group.pending.remove(signal_bit(signo));
      kernel_.dispatcher->stop_group(group, signo);
      break;
    }
  }
  if (!group.stopped || frozen_.contains(group.pid)) return;
  for (Task* task : threads) {
    // A group that shares its memory with another (vfork) would stop that as well.
    if (!is_deaf(*task) || task->mm->users > 1) continue;
    LOG_DEBUG("task {}: deaf to kicks, its host process is stopped", task->tid());
    frozen_[group.pid] = task->mm;
    kernel_.platform->freeze(*task->mm);
    return;
  }
}

void DeafStops::thaw(ThreadGroup& group) {
  const auto it = frozen_.find(group.pid);
  if (it == frozen_.end()) return;
  kernel_.platform->thaw(*it->second);
  frozen_.erase(it);
}

}  // namespace uks
