// Stops of threads that are deaf to kicks.
#include "sentry/task/deaf_stops.h"

#include <signal.h>

#include <algorithm>
#include <bit>

#include "platform/base/log.h"
#include "platform/trap/trap_platform.h"
#include "sentry/signal/defaults.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"

namespace uks {
namespace {

bool is_running(const Task& task) {
  const GuestThread* thread = task.thread.get();
  return thread && !thread->gone && !thread->in_sentry && thread->host_tid != 0 && !thread->mm().gone;
}

}  // namespace

DeafStops::Watch::Watch(DeafStops& o) : Timer(o.kernel_.timers), owner(o) {}
DeafStops::DeafStops(Kernel& kernel) : kernel_(kernel), timer_(*this) {}

void DeafStops::watch(ThreadGroup& group) {
  if (std::none_of(group.threads.begin(), group.threads.end(), [](const Task* t) { return is_running(*t); })) return;
  const Ref<ThreadGroup> ref(&group);
  if (std::find(watched_.begin(), watched_.end(), ref) == watched_.end()) watched_.push_back(ref);
  if (!timer_.armed()) timer_.arm(monotonic_now() + kPatience);
}

void DeafStops::look() {
  const std::vector<Ref<ThreadGroup>> groups = std::move(watched_);
  watched_.clear();
  for (const auto& group : groups) look_at(*group);
}

void DeafStops::look_at(ThreadGroup& group) {
  if (group.zombie || group.exiting) return;
  const std::vector<Task*> threads = group.threads;
  for (Task* task : threads) {
    if (group.stopped) break;
    if (!is_running(*task) || !task->thread->kicked) continue;
    SignalMask stops = (task->pending.pending() | group.pending.pending()) & ~task->blocked_signals & kStopSignals;
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
    if (!is_running(*task) || !task->thread->kicked || task->mm->users > 1) continue;
    LOG_DEBUG("task {}: deaf to kicks, its host process is stopped", task->tid());
    frozen_[group.pid] = task->mm;
    kernel_.platform->keeper().send(keeper::Op::kKill, task->mm->host_pid, SIGSTOP);
    return;
  }
}

void DeafStops::thaw(ThreadGroup& group) {
  const auto it = frozen_.find(group.pid);
  if (it == frozen_.end()) return;
  if (!it->second->gone) kernel_.platform->keeper().send(keeper::Op::kKill, it->second->host_pid, SIGCONT);
  frozen_.erase(it);
}

}  // namespace uks
