// Sending signals: queueing them and making somebody look.
#include <algorithm>

#include "platform/platform.h"
#include "sentry/signal/defaults.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/time/group_timers.h"

namespace uks {
namespace {

bool is_ignored(const ThreadGroup& group, int signo) {
  const uint64_t handler = (*group.actions)[signo].handler;
  return handler == 1 || (handler == 0 && default_action(signo) == DefaultAction::kIgnore);
}

// The part of prepare_signal() in the kernel: stop and continue signals cancel each other.
void cancel_opposites(ThreadGroup& group, int signo) {
  const auto drop = [&](SignalMask signals) {
    group.pending.remove(signals);
    for (Task* task : group.threads) task->pending.remove(signals);
  };
  if (signo == SIGCONT) drop(kStopSignals);
  if (signal_bit(signo) & kStopSignals) drop(signal_bit(SIGCONT));
}

// __sigqueue_alloc() in the kernel.
SignalCharge charge_of(Task& receiver) {
  return {receiver.creds().ruid, receiver.group().limits[RLIMIT_SIGPENDING].rlim_cur};
}

// Wakes or kicks a task so that it delivers what is pending.
void nudge(Kernel& kernel, Task& task) {
  if (task.is_blocked()) {
    task.wake();
  } else if (task.thread && !task.thread->in_sentry) {
    kernel.platform->kick(*task.thread);
  }
}

}  // namespace

bool Kernel::send_signal(Task& task, const SignalInfo& info) {
  return send_to_task(task, info, false);
}
bool Kernel::send_signal(ThreadGroup& group, const SignalInfo& info) {
  return send_to_group(group, info, false);
}
bool Kernel::send_timer_signal(Task& task, const SignalInfo& info) {
  return send_to_task(task, info, true);
}
bool Kernel::send_timer_signal(ThreadGroup& group, const SignalInfo& info) {
  return send_to_group(group, info, true);
}

bool Kernel::take_signal(Task& task, SignalMask blocked, SignalInfo& info) {
  ThreadGroup& group = task.group();
  bool of_timer = false;
  if (task.pending.pop(blocked, info, of_timer)) {
    if (of_timer) GroupTimers::of(group).on_taken(info);
    return true;
  }
  if (!group.pending.pop(blocked, info, of_timer)) return false;
  if (of_timer || info.signo == SIGALRM) GroupTimers::of(group).on_taken(info);
  return true;
}

bool Kernel::send_to_task(Task& task, const SignalInfo& info, bool of_timer) {
  ThreadGroup& group = task.group();
  if (task.dead || group.zombie || group.exiting) return true;
  if (info.signo == SIGKILL) {
    exit_group(group, SIGKILL);
    return true;
  }
  cancel_opposites(group, info.signo);
  if (info.signo == SIGCONT) dispatcher->continue_group(group);
  const bool blocked = task.blocked_signals & signal_bit(info.signo);
  const bool awaited = task.awaited_signals & signal_bit(info.signo);
  if (!blocked && !awaited && is_ignored(group, info.signo)) return !of_timer;
  if (of_timer) {
    task.pending.push_of_timer(info);
  } else if (!task.pending.push(info, charge_of(task)) && info.signo >= 32) {
    return false;
  }
  group.signal_events.wake(kSignalEvents);
  if (!blocked) nudge(*this, task);
  if (dispatcher && (signal_bit(info.signo) & kStopSignals)) dispatcher->deaf_stops.watch(group);
  return true;
}

bool Kernel::send_to_group(ThreadGroup& group, const SignalInfo& info, bool of_timer) {
  if (group.zombie || group.exiting || group.threads.empty()) return true;
  if (info.signo == SIGKILL) {
    exit_group(group, SIGKILL);
    return true;
  }
  cancel_opposites(group, info.signo);
  if (info.signo == SIGCONT) dispatcher->continue_group(group);
  const SignalMask bit = signal_bit(info.signo);
  const bool all_block =
      std::all_of(group.threads.begin(), group.threads.end(),
                  [&](const Task* t) { return (t->blocked_signals | t->awaited_signals) & bit; });
  if (!all_block && is_ignored(group, info.signo)) return !of_timer;
  if (of_timer) {
    group.pending.push_of_timer(info);
  } else if (!group.pending.push(info, charge_of(*group.threads.front())) && info.signo >= 32) {
    return false;
  }
  group.signal_events.wake(kSignalEvents);
  if (dispatcher && (bit & kStopSignals)) dispatcher->deaf_stops.watch(group);
  // The main thread first, as complete_signal() prefers it; else any that does not block it.
  for (Task* task : group.threads) {
    if (task->is_leader() && !(task->blocked_signals & bit)) {
      nudge(*this, *task);
      return true;
    }
  }
  for (Task* task : group.threads) {
    if (!(task->blocked_signals & bit)) {
      nudge(*this, *task);
      return true;
    }
  }
  return true;
}

void Kernel::retarget_signals(ThreadGroup& group, SignalMask signals) {
  // retarget_shared_pending() in kernel/signal.c.
  signals &= group.pending.pending();
  for (Task* task : group.threads) {
    if (!signals) return;
    if (!(signals & ~task->blocked_signals)) continue;
    signals &= task->blocked_signals;
    nudge(*this, *task);
  }
}

void Kernel::set_blocked(Task& task, SignalMask blocked) {
  const SignalMask fresh = blocked & ~task.blocked_signals;
  task.blocked_signals = blocked;
  if (fresh) retarget_signals(task.group(), fresh);
}

int Kernel::send_signal_to_pgrp(pid_t pgid, const SignalInfo& info) {
  std::vector<Ref<ThreadGroup>> members;
  for (const auto& [pid, group] : groups_) {
    if (group->pgid == pgid && !group->zombie && !group->threads.empty()) members.push_back(group);
  }
  for (const auto& group : members) (void)send_signal(*group, info);
  return static_cast<int>(members.size());
}

}  // namespace uks
